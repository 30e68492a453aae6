//! What is measured: CPU and memory of a process, requests from the API server's own metrics, writes from a
//! controller's own metrics, and how measurements are summed up.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use serde_json::{Value, json};

/// CPU seconds a process has used, user and system together.
pub(super) fn cpu_seconds(pid: u32) -> Result<f64> {
    let text =
        std::fs::read_to_string(format!("/proc/{pid}/stat")).context("reading the process's CPU time")?;
    // The second field is the name in parentheses and may have spaces.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let field = |index: usize| rest.split_whitespace().nth(index).and_then(|text| text.parse::<f64>().ok());
    let ticks =
        field(11).zip(field(12)).map(|(user, system)| user + system).context("no CPU time in stat")?;
    Ok(ticks / 100.0)
}

/// The most memory a process had resident, in MB.
pub(super) fn peak_rss_mb(pid: u32) -> Result<f64> {
    status_mb(pid, "VmHWM:")
}

/// The memory a process has resident, in MB.
pub(super) fn rss_mb(pid: u32) -> Result<f64> {
    status_mb(pid, "VmRSS:")
}

fn status_mb(pid: u32, field: &str) -> Result<f64> {
    let text =
        std::fs::read_to_string(format!("/proc/{pid}/status")).context("reading the process's memory")?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let line = line.with_context(|| format!("no {field} in status"))?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().context("memory is no number")?;
    Ok(kilobytes / 1024.0)
}

/// The text of a page of metrics.
async fn page(client: &Client) -> Result<String> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    Ok(client.request_text(request).await?)
}

/// What stands in quotes behind a label's name.
fn label<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let rest = line.split_once(&format!("{name}=\""))?.1;
    rest.split_once('"').map(|(value, _)| value)
}

/// The value at the end of a line.
fn count(line: &str) -> u64 {
    let value: f64 = line.rsplit(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a counter")]
    let value = value as u64;
    value
}

/// The metrics of one of our controllers, served at a loopback address.
async fn own_page(address: &str) -> Result<String> {
    let config = kube::Config::new(format!("http://{address}").parse()?);
    page(&Client::try_from(config)?).await.context("reading a controller's metrics")
}

/// Whether one of our controllers has worked on something, works on nothing, and nothing waits.
pub(super) async fn is_idle(address: &str) -> Result<bool> {
    let text = own_page(address).await?;
    let sum = |name: &str| text.lines().filter(|line| line.starts_with(name)).map(count).sum::<u64>();
    let busy = sum("workqueue_depth{") + sum("controller_runtime_active_workers{");
    Ok(busy == 0 && sum("controller_runtime_reconcile_total{") > 0)
}

/// Writes of one of our controllers that were accepted so far, events included, by `verb resource`. From its own
/// metrics.
pub(super) async fn own_writes(address: &str) -> Result<BTreeMap<String, u64>> {
    let text = own_page(address).await?;
    let lines = text.lines().filter(|line| line.starts_with("address_controller_writes_total{"));
    let write = |line| Some((format!("{} {}", label(line, "verb")?, label(line, "resource")?), count(line)));
    Ok(lines.filter_map(write).collect())
}

/// Requests so far by `VERB resource`, those that change something only, leases apart.
pub(super) async fn writes(client: &Client) -> Result<BTreeMap<String, u64>> {
    let text = page(client).await.context("reading the API server's metrics")?;
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let (Some(verb), Some(resource)) = (label(line, "verb"), label(line, "resource")) else { continue };
        let code = label(line, "code").unwrap_or_default();
        if !matches!(verb, "POST" | "PUT" | "PATCH" | "DELETE" | "APPLY") || resource == "leases" {
            continue;
        }
        let subresource = label(line, "subresource").filter(|text| !text.is_empty());
        let subresource = subresource.map_or_else(String::new, |text| format!("/{text}"));
        let outcome = if code.starts_with('2') { String::new() } else { format!(" ({code})") };
        *counts.entry(format!("{verb} {resource}{subresource}{outcome}")).or_insert(0) += count(line);
    }
    Ok(counts)
}

/// What came in between.
pub(super) fn difference(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let grown = |(name, count): (&String, &u64)| {
        let more = count - before.get(name).copied().unwrap_or(0);
        (more > 0).then(|| (name.clone(), more))
    };
    after.iter().filter_map(grown).collect()
}

/// Two digits behind the point.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// What half of the values, 99 of 100 of them, and all do not exceed, in milliseconds.
pub(super) fn spread(mut values: Vec<Duration>) -> Value {
    values.sort();
    let of = |percent: usize| {
        let rank = (values.len() * percent).div_ceil(100).max(1);
        values.get(rank - 1).map(|value| rounded(value.as_secs_f64() * 1000.0))
    };
    json!({ "p50": of(50), "p99": of(99), "max": of(100) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_the_ranks() {
        let values: Vec<_> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(spread(values), json!({ "p50": 100.0, "p99": 198.0, "max": 200.0 }));
        assert_eq!(spread(vec![Duration::from_millis(7)]), json!({ "p50": 7.0, "p99": 7.0, "max": 7.0 }));
        assert_eq!(spread(Vec::new()), json!({ "p50": null, "p99": null, "max": null }));
    }
}
