//! What this process takes of the machine, under the names that every Prometheus client uses. Read when it is asked for; what
//! a system does not tell is left out.

use std::fs;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Linux tells times in hundredths of a second, on every machine.
const TICKS: f64 = 100.0;

/// Makes them part of what a registry tells.
pub(super) fn register(registry: &mut Registry) {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (stat, system) = (read("/proc/self/stat"), read("/proc/stat"));
    if let Some(seconds) = cpu_seconds(&stat) {
        registry.register("process_cpu_seconds", "Time on the processor", ConstCounter::new(seconds));
    }
    let mut tell = |name: &str, help: &str, value: Option<f64>| {
        let Some(value) = value else { return };
        let gauge: Gauge<f64, AtomicU64> = Gauge::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    };
    tell("process_resident_memory_bytes", "Resident memory", resident_bytes(&read("/proc/self/status")));
    tell("process_start_time_seconds", "Start, in seconds since 1970", started(&stat, &system));
}

/// The fields of a process' `stat` after its name, which may hold anything.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut times = fields(stat).skip(11).map_while(|field| field.parse::<f64>().ok());
    Some((times.next()? + times.next()?) / TICKS)
}

fn started(stat: &str, system: &str) -> Option<f64> {
    let since_boot: f64 = fields(stat).nth(19)?.parse().ok()?;
    let boot: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + since_boot / TICKS)
}

fn resident_bytes(status: &str) -> Option<f64> {
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(kilobytes.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_tells_is_understood() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 10 0 0 0 250 50 0 0 20 0 4 0 12345 1000 200";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(started(stat, "cpu 1 2\nbtime 1800000000\n"), Some(1_800_000_123.45));
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2_097_152.0));
        assert_eq!((cpu_seconds(""), started("", ""), resident_bytes("")), (None, None, None));
    }
}
