//! What a phase took, and of whom.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context as _, Result};
use devcluster::{Cluster, Controller, Controllers, Part, RunOptions};
use serde_json::{Value, json};

use super::super::meter::{self, rounded};

/// One of our controllers.
pub(super) struct Subject {
    pub(super) pid: u32,
    metrics: String,
}

impl Subject {
    async fn start(cluster: &Cluster, controllers: &Controllers, controller: Controller) -> Result<Self> {
        let spec = cluster.controller_spec(controllers, controller, RunOptions::default()).await?;
        let flag = |arg: &String| arg.strip_prefix("--metrics-bind-address=").map(str::to_owned);
        let metrics = spec.args.iter().find_map(flag).context("a controller without metrics")?;
        let process = cluster.spawn_controller(spec).await?;
        Ok(Self { pid: process.pid().context("a controller has ended")?, metrics })
    }
}

/// Everything that is read before and after a phase.
pub(super) struct Meters {
    pub(super) driver: Subject,
    core: Subject,
    metallb: u32,
    apiserver: u32,
}

impl Meters {
    /// Starts both controllers.
    pub(super) async fn start(cluster: &Cluster, controllers: &Controllers) -> Result<Self> {
        let part = |part: Part| cluster.process(part)?.pid().with_context(|| format!("{part} has ended"));
        Ok(Self {
            core: Subject::start(cluster, controllers, Controller::Core).await?,
            driver: Subject::start(cluster, controllers, Controller::Driver).await?,
            metallb: part(Part::Metallb)?,
            apiserver: part(Part::Apiserver)?,
        })
    }

    /// A phase begins.
    pub(super) async fn lap(&self) -> Result<Lap> {
        let cpu = [self.driver.pid, self.core.pid, self.metallb, self.apiserver].map(meter::cpu_seconds);
        let [driver, core, metallb, apiserver] = cpu;
        Ok(Lap {
            begun: Instant::now(),
            seconds: 0.0,
            cpu: [driver?, core?, metallb?, apiserver?],
            driver_writes: meter::own_writes(&self.driver.metrics).await?,
            core_writes: meter::own_writes(&self.core.metrics).await?,
        })
    }

    /// The phase that began so is over: what it took.
    pub(super) async fn end(&self, begin: &Lap) -> Result<Lap> {
        let seconds = begin.begun.elapsed().as_secs_f64();
        let end = self.lap().await?;
        let mut cpu = end.cpu;
        for (now, before) in cpu.iter_mut().zip(begin.cpu) {
            *now -= before;
        }
        Ok(Lap {
            begun: begin.begun,
            seconds,
            cpu,
            driver_writes: meter::difference(&begin.driver_writes, &end.driver_writes),
            core_writes: meter::difference(&begin.core_writes, &end.core_writes),
        })
    }
}

/// A phase.
pub(super) struct Lap {
    begun: Instant,
    pub(super) seconds: f64,
    /// CPU seconds of the driver, the core, MetalLB and the API server.
    cpu: [f64; 4],
    driver_writes: BTreeMap<String, u64>,
    core_writes: BTreeMap<String, u64>,
}

impl Lap {
    /// Two phases as one.
    pub(super) fn and(&self, other: &Self) -> Self {
        let mut cpu = self.cpu;
        for (sum, more) in cpu.iter_mut().zip(other.cpu) {
            *sum += more;
        }
        Self {
            begun: self.begun,
            seconds: self.seconds + other.seconds,
            cpu,
            driver_writes: sum(&self.driver_writes, &other.driver_writes),
            core_writes: sum(&self.core_writes, &other.core_writes),
        }
    }

    /// The phase in figures, with those for one of `count` pieces of work.
    pub(super) fn told(&self, count: u32) -> Value {
        let [driver, core, metallb, apiserver] = self.cpu;
        let each = |total: f64| rounded(total / f64::from(count.max(1)));
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let writes = |writes: &BTreeMap<String, u64>| each(writes.values().sum::<u64>() as f64);
        json!({
            "seconds": rounded(self.seconds),
            "driver_cpu_s": rounded(driver),
            "driver_cpu_ms_each": each(driver * 1000.0),
            "core_cpu_s": rounded(core),
            "metallb_cpu_s": rounded(metallb),
            "apiserver_cpu_s": rounded(apiserver),
            "driver_writes_each": writes(&self.driver_writes),
            "driver_writes": self.driver_writes,
            "core_writes_each": writes(&self.core_writes),
        })
    }
}

fn sum(one: &BTreeMap<String, u64>, other: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut sum = one.clone();
    for (name, count) in other {
        *sum.entry(name.clone()).or_insert(0) += count;
    }
    sum
}
