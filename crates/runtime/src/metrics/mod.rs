//! What is counted, under the names that controller-runtime uses, so that dashboards made for Go controllers
//! read ours.

mod brain;
mod process;
mod requests;

use std::time::Duration;

use plan::{Gauge as Level, Timer, Timing};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use brain::Histograms;
pub use requests::Requests;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Of {
    controller: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Work {
    name: &'static str,
    controller: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Write {
    verb: &'static str,
    resource: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Lease {
    name: String,
}

type Histogrammed<L> = Family<L, Histogram, fn() -> Histogram>;

/// All that is counted in one process.
pub(crate) struct Metrics {
    registry: Registry,
    reconciles: Family<Outcome, Counter>,
    errors: Family<Of, Counter>,
    seconds: Histogrammed<Of>,
    active: Family<Of, Gauge>,
    depth: Family<Work, Gauge>,
    adds: Family<Work, Counter>,
    retries: Family<Work, Counter>,
    waited: Histogrammed<Work>,
    worked: Histogrammed<Work>,
    workers: Family<Of, Gauge>,
    leading: Family<Lease, Gauge>,
    taken_over: Family<Lease, Gauge>,
    writes: Family<Write, Counter>,
    histograms: Histograms,
}

impl Metrics {
    /// Those of a process that decides nothing of its own.
    pub(crate) fn new() -> Self {
        Self::with(&[], &Requests::default())
    }

    /// Those of a brain that measures this, in a process whose client counts its requests there.
    pub(crate) fn with(timers: &[Timer], requests: &Requests) -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            reconciles: Family::default(),
            errors: Family::default(),
            seconds: Family::new_with_constructor(reconcile_buckets),
            active: Family::default(),
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            waited: Family::new_with_constructor(queue_buckets),
            worked: Family::new_with_constructor(reconcile_buckets),
            workers: Family::default(),
            leading: Family::default(),
            taken_over: Family::default(),
            writes: Family::default(),
            histograms: Histograms::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("controller_runtime_reconcile", "Passes by result", metrics.reconciles.clone());
        registry.register(
            "controller_runtime_reconcile_errors",
            "Passes that failed",
            metrics.errors.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "How long a pass took",
            metrics.seconds.clone(),
        );
        registry.register("controller_runtime_active_workers", "Passes under way", metrics.active.clone());
        registry.register("workqueue_depth", "Keys that wait", metrics.depth.clone());
        registry.register("workqueue_adds", "Keys added", metrics.adds.clone());
        registry.register("workqueue_retries", "Keys to be tried again", metrics.retries.clone());
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long a key waited before it was worked on",
            metrics.waited.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long a key was worked on",
            metrics.worked.clone(),
        );
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "How many passes may be under way at a time, of all kinds together",
            metrics.workers.clone(),
        );
        registry.register(
            "leader_election_master_status",
            "1 if this process leads, 0 if it stands by",
            metrics.leading.clone(),
        );
        registry.register(
            "leader_election_takeover_timestamp_seconds",
            "When this process took the lease from one that had not let go of it, in seconds since 1970",
            metrics.taken_over.clone(),
        );
        registry.register(
            "address_controller_writes",
            "Writes that the API server accepted",
            metrics.writes.clone(),
        );
        requests.register(registry);
        metrics.histograms = Histograms::register(timers, registry);
        metrics
    }

    /// A key waits that did not before.
    pub(crate) fn queued(&self, controller: &'static str) {
        let work = Work { name: controller, controller };
        self.adds.get_or_create(&work).inc();
        self.depth.get_or_create(&work).inc();
    }

    /// A key is worked on from now.
    pub(crate) fn taken(&self, controller: &'static str, waited: Duration) {
        let work = Work { name: controller, controller };
        self.depth.get_or_create(&work).dec();
        self.waited.get_or_create(&work).observe(waited.as_secs_f64());
        self.active.get_or_create(&Of { controller }).inc();
    }

    /// The work on a key ended.
    pub(crate) fn ended(&self, controller: &'static str, result: &'static str, took: Duration) {
        let of = Of { controller };
        self.active.get_or_create(&of).dec();
        self.seconds.get_or_create(&of).observe(took.as_secs_f64());
        self.worked.get_or_create(&Work { name: controller, controller }).observe(took.as_secs_f64());
        self.reconciles.get_or_create(&Outcome { controller, result }).inc();
        if result == "error" {
            self.errors.get_or_create(&of).inc();
        }
    }

    /// A key will be tried again.
    pub(crate) fn retried(&self, controller: &'static str) {
        self.retries.get_or_create(&Work { name: controller, controller }).inc();
    }

    /// The API server accepted a write.
    pub(crate) fn wrote(&self, verb: &'static str, resource: &'static str) {
        self.writes.get_or_create(&Write { verb, resource }).inc();
    }

    /// Whether this process leads.
    pub(crate) fn leads(&self, lease: &str, leads: bool) {
        self.leading.get_or_create(&Lease { name: lease.to_owned() }).set(i64::from(leads));
    }

    /// This process took the lease from one that had not let go of it.
    pub(crate) fn took_over(&self, lease: &str, at: jiff::Timestamp) {
        self.taken_over.get_or_create(&Lease { name: lease.to_owned() }).set(at.as_second());
    }

    /// How many passes may be under way at a time.
    pub(crate) fn may_work(&self, controller: &'static str, workers: usize) {
        let workers = i64::try_from(workers).unwrap_or(i64::MAX);
        self.workers.get_or_create(&Of { controller }).set(workers);
    }

    /// A brain decides from now on, so that it tells of what it measures.
    pub(crate) fn begin(&self) {
        self.histograms.begin();
    }

    /// What a brain told of has ended at this moment.
    pub(crate) fn measured(&self, timings: Vec<Timing>, now: jiff::Timestamp) {
        for timing in timings {
            self.histograms.observe(timing, now);
        }
    }

    /// Everything, with what a brain counts, in the `OpenMetrics` text format.
    pub(crate) fn text(&self, levels: Vec<Level>) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _infallible = encode_registry(&mut text, &self.registry);
        let mut process = Registry::default();
        process::register(&mut process);
        let _infallible = encode_registry(&mut text, &process);
        brain::write(levels, &mut text);
        let _infallible = encode_eof(&mut text);
        text
    }
}

fn reconcile_buckets() -> Histogram {
    Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])
}

fn queue_buckets() -> Histogram {
    Histogram::new([0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 300.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_controller_runtimes() {
        let metrics = Metrics::new();
        metrics.queued("claim");
        metrics.taken("claim", Duration::from_millis(3));
        metrics.ended("claim", "error", Duration::from_millis(3));
        metrics.retried("claim");
        metrics.leads("x", true);
        metrics.wrote("patch", "ipaddresses/status");
        metrics.took_over("x", jiff::Timestamp::from_second(7).unwrap());
        metrics.may_work("x", 4);
        let text = metrics.text(Vec::new());
        for line in [
            "controller_runtime_reconcile_total{controller=\"claim\",result=\"error\"} 1",
            "controller_runtime_reconcile_errors_total{controller=\"claim\"} 1",
            "controller_runtime_reconcile_time_seconds_count{controller=\"claim\"} 1",
            "controller_runtime_active_workers{controller=\"claim\"} 0",
            "workqueue_depth{name=\"claim\",controller=\"claim\"} 0",
            "workqueue_adds_total{name=\"claim\",controller=\"claim\"} 1",
            "workqueue_retries_total{name=\"claim\",controller=\"claim\"} 1",
            "workqueue_queue_duration_seconds_count{name=\"claim\",controller=\"claim\"} 1",
            "workqueue_work_duration_seconds_count{name=\"claim\",controller=\"claim\"} 1",
            "controller_runtime_max_concurrent_reconciles{controller=\"x\"} 4",
            "leader_election_master_status{name=\"x\"} 1",
            "process_resident_memory_bytes ",
            "process_cpu_seconds_total ",
            "process_start_time_seconds ",
            "leader_election_takeover_timestamp_seconds{name=\"x\"} 7",
            "address_controller_writes_total{verb=\"patch\",resource=\"ipaddresses/status\"} 1",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }
}
