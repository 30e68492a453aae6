//! One of our controllers, measured from outside.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use devcluster::{Cluster, Controller, Controllers, Process, RunOptions};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::meter::{self, rounded};

/// How often it is asked whether it is at work.
const LOOK: Duration = Duration::from_millis(250);
/// How often its log is looked at until it decides.
const GLANCE: Duration = Duration::from_millis(10);
/// How long a controller may be at work.
const WITHIN: Duration = Duration::from_secs(3600);

/// A controller that runs.
pub(super) struct Subject {
    pub(super) pid: u32,
    /// Where its metrics are served.
    pub(super) metrics: String,
    /// Seconds from its start until it knew everything and began to decide, by its own log.
    first_decision: f64,
    /// Its CPU seconds by then.
    cpu: f64,
    process: Process,
}

impl Subject {
    /// Starts it and waits until it decides.
    pub(super) async fn start(
        cluster: &Cluster,
        controllers: &Controllers,
        controller: Controller,
    ) -> Result<Self> {
        let options = RunOptions { args: vec!["--log-format=json".to_owned()], ..RunOptions::default() };
        let mut spec = cluster.controller_spec(controllers, controller, options).await?;
        // Its log tells sooner.
        spec.ready_url = None;
        let flag = |arg: &String| arg.strip_prefix("--metrics-bind-address=").map(str::to_owned);
        let metrics = spec.args.iter().find_map(flag).context("a controller without metrics")?;
        let (started, begun) = (Timestamp::now(), Instant::now());
        let process = cluster.spawn_controller(spec).await?;
        let log = process.log_path().to_owned();
        let decided = loop {
            if let Some(at) = decided(&log, started)? {
                break at;
            }
            if begun.elapsed() > WITHIN {
                bail!(
                    "the {} did not decide within {} s: {}",
                    controller.part(),
                    WITHIN.as_secs(),
                    log.display()
                );
            }
            tokio::time::sleep(GLANCE).await;
        };
        let pid = process.pid().with_context(|| format!("the {} has ended", controller.part()))?;
        let first_decision = decided.duration_since(started).as_secs_f64();
        Ok(Self { pid, metrics, first_decision, cpu: meter::cpu_seconds(pid)?, process })
    }

    /// Waits until no key waits and none is worked on, for a second.
    pub(super) async fn rest(&self) -> Result<()> {
        let (begun, mut quiet) = (Instant::now(), 0);
        while quiet < 4 {
            if begun.elapsed() > WITHIN {
                bail!("a controller was still at work after {} s", WITHIN.as_secs());
            }
            tokio::time::sleep(LOOK).await;
            quiet = if meter::is_idle(&self.metrics).await? { quiet + 1 } else { 0 };
        }
        Ok(())
    }

    /// What its start took, when everything was looked at once and nothing is left to be done. `objects`: how many it knows.
    pub(super) async fn told(&self, objects: u32) -> Result<Value> {
        self.rest().await?;
        Ok(json!({
            "first_decision_s": rounded(self.first_decision),
            "cpu_s": rounded(self.cpu),
            "cpu_us_each": rounded(self.cpu * 1_000_000.0 / f64::from(objects.max(1))),
            "rest_cpu_s": rounded(meter::cpu_seconds(self.pid)?),
            "rss_mb": rounded(meter::peak_rss_mb(self.pid)?),
            "rest_rss_mb": rounded(meter::rss_mb(self.pid)?),
            "writes": meter::own_writes(&self.metrics).await?.values().sum::<u64>(),
        }))
    }

    pub(super) async fn stop(&self) {
        self.process.stop().await;
    }
}

/// When a controller that started then began to decide, if it did. An earlier life of it may stand in the same log.
fn decided(log: &PathBuf, started: Timestamp) -> Result<Option<Timestamp>> {
    let text = std::fs::read_to_string(log).context("reading a controller's log")?;
    let decides = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let at = line["timestamp"].as_str()?.parse::<Timestamp>().ok()?;
        (line["message"] == "deciding" && at >= started).then_some(at)
    };
    Ok(text.lines().rev().find_map(decides))
}
