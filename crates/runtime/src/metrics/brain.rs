//! What brains count and measure, in Prometheus' terms.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use plan::{Gauge, Labels, Timer, Timing, Took};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge;
use prometheus_client::registry::Registry;

/// What an observation points at.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Exemplar {
    trace_id: String,
}

type Histogram = HistogramWithExemplars<Exemplar>;

/// Makes the histogram of one sort.
#[derive(Clone)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// A histogram of a brain, of all sorts.
struct Measured {
    timer: Timer,
    family: Family<Labels, Histogram, Buckets>,
}

/// The histograms of a brain.
#[derive(Default)]
pub(super) struct Histograms(BTreeMap<&'static str, Measured>);

impl Histograms {
    pub(super) fn register(timers: &[Timer], registry: &mut Registry) -> Self {
        let registered = |timer: &Timer| {
            let family = Family::new_with_constructor(Buckets(timer.buckets));
            registry.register(timer.name, timer.help, family.clone());
            (timer.name, Measured { timer: *timer, family })
        };
        Self(timers.iter().map(registered).collect())
    }

    /// What is told of from the beginning is there, and is none.
    pub(super) fn begin(&self) {
        for Measured { timer, family } in self.0.values() {
            for sort in timer.sorts {
                let labels: Labels = sort.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
                drop(family.get_or_create(&labels));
            }
        }
    }

    /// Something has ended at this moment.
    pub(super) fn observe(&self, timing: Timing, now: jiff::Timestamp) {
        let Some(Measured { family, .. }) = self.0.get(timing.timer) else { return };
        let seconds = match timing.took {
            Took::Seconds(seconds) => seconds,
            // The clock of the API server may be ahead of ours.
            Took::Since(begun) => now.duration_since(begun).as_secs_f64().max(0.0),
        };
        let exemplar = timing.trace_id.map(|trace_id| Exemplar { trace_id });
        family.get_or_create(&timing.labels).observe(seconds, exemplar, Some(SystemTime::from(now)));
    }
}

/// Writes the gauges of a brain.
pub(super) fn write(gauges: Vec<Gauge>, text: &mut String) {
    let mut registry = Registry::default();
    for Gauge { name, help, samples } in gauges {
        let family: Family<Labels, gauge::Gauge<f64, AtomicU64>> = Family::default();
        for (labels, value) in samples {
            family.get_or_create(&labels).set(value);
        }
        registry.register(name, help, family);
    }
    // Writing to a String cannot fail.
    let _infallible = encode_registry(text, &registry);
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode_eof;

    use super::*;

    const TIMERS: &[Timer] =
        &[Timer { name: "lap_seconds", help: "Laps", buckets: &[0.0, 1.0], sorts: &[&[("way", "back")]] }];

    fn lap(took: Took, trace_id: Option<&str>) -> Timing {
        let labels = vec![("way", "there".to_owned())];
        Timing { timer: "lap_seconds", labels, took, trace_id: trace_id.map(str::to_owned) }
    }

    #[test]
    fn c14_an_exemplar_carries_the_trace_and_without_one_there_is_none() {
        let mut registry = Registry::default();
        let histograms = Histograms::register(TIMERS, &mut registry);
        let now = jiff::Timestamp::from_second(1_800_000_000).unwrap();
        histograms.observe(lap(Took::Seconds(0.0), None), now);
        let begun = jiff::Timestamp::from_millisecond(1_799_999_999_500).unwrap();
        histograms.observe(lap(Took::Since(begun), Some("0af7651916cd43dd8448eb211c80319c")), now);
        histograms.observe(lap(Took::Since(now), None), begun);
        let mut text = String::new();
        encode_registry(&mut text, &registry).unwrap();
        encode_eof(&mut text).unwrap();
        let expected = "\
# HELP lap_seconds Laps.
# TYPE lap_seconds histogram
lap_seconds_sum{way=\"there\"} 0.5
lap_seconds_count{way=\"there\"} 3
lap_seconds_bucket{le=\"0.0\",way=\"there\"} 2
lap_seconds_bucket{le=\"1.0\",way=\"there\"} 3 # {trace_id=\"0af7651916cd43dd8448eb211c80319c\"} 0.5 1800000000.0
lap_seconds_bucket{le=\"+Inf\",way=\"there\"} 3
# EOF
";
        assert_eq!(text, expected);
    }

    #[test]
    fn c14_the_first_of_a_sort_is_seen_to_be_more_than_none() {
        let mut registry = Registry::default();
        let histograms = Histograms::register(TIMERS, &mut registry);
        let written = || {
            let mut text = String::new();
            encode_registry(&mut text, &registry).unwrap();
            text.contains("lap_seconds_count{way=\"back\"} 0\n")
        };
        assert!(!written(), "a process that stands by tells nothing");
        histograms.begin();
        assert!(written());
    }

    #[test]
    fn a_number_of_any_size_is_written_out() {
        let labels = vec![("pool", "a\"b".to_owned())];
        let samples = vec![(labels, 18_446_744_073_709_551_616.0)];
        let mut text = String::new();
        write(vec![Gauge { name: "room", help: "Room", samples }], &mut text);
        assert_eq!(
            text,
            "# HELP room Room.\n# TYPE room gauge\nroom{pool=\"a\\\"b\"} 18446744073709553000.0\n"
        );
    }
}
