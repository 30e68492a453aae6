//! What the core counts and measures for the metrics.

use std::collections::BTreeMap;

use binder::Binder;
use plan::{Brain, Took};
use serde_json::{Value, json};

use crate::lab::{Lab, lab};
use crate::world::{address_ref, claim_ref, class_ref, now};

const WEB: &str = "ip-192-0-2-1";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// What is counted under a name and is not zero: `pub IPv4 Bound` and how many.
fn counted(lab: &Lab, name: &str) -> BTreeMap<String, f64> {
    let gauges = lab.binder.gauges();
    let gauge = gauges.iter().find(|gauge| gauge.name == name).unwrap();
    let words =
        |labels: &plan::Labels| labels.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ");
    let some = gauge.samples.iter().filter(|(_, value)| *value > 0.0);
    some.map(|(labels, value)| (words(labels), *value)).collect()
}

fn counts<const N: usize>(expected: [(&str, f64); N]) -> BTreeMap<String, f64> {
    expected.map(|(words, value)| (words.to_owned(), value)).into()
}

#[test]
fn addresses_are_counted_by_class_family_and_phase() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).address("192.0.2.2", json!({})).address("2001:db8::1", json!({}));
    lab.address_named("wrong", "192.0.2.01", json!({}));
    lab.claim("web", json!({})).rest();
    let expected = counts([
        ("pub IPv4 Bound", 1.0),
        ("pub IPv4 Available", 1.0),
        ("pub IPv6 Available", 1.0),
        ("pub  Pending", 1.0),
    ]);
    assert_eq!(counted(&lab, "ipam_addresses"), expected);
    lab.restart().rest();
    assert_eq!(counted(&lab, "ipam_addresses"), expected);
    lab.delete(&claim_ref("web")).rest();
    lab.delete(&address_ref("ip-192-0-2-2")).delete(&address_ref("wrong")).rest();
    let left = counts([("pub IPv4 Released", 1.0), ("pub IPv6 Available", 1.0)]);
    assert_eq!(counted(&lab, "ipam_addresses"), left);
}

#[test]
fn what_a_class_has_none_of_is_zero_and_not_absent() {
    let lab = {
        let mut lab = lab();
        lab.rest();
        lab
    };
    let gauges = lab.binder.gauges();
    let samples = |name: &str| gauges.iter().find(|gauge| gauge.name == name).unwrap().samples.len();
    assert_eq!((samples("ipam_addresses"), samples("ipam_claims")), (12, 3));
}

#[test]
fn claims_of_classes_that_do_not_exist_are_one_series() {
    let mut lab = lab();
    lab.claim("web", json!({}));
    for number in 0..20 {
        lab.claim(&format!("typo-{number}"), json!({"className": format!("typo-{number}")}));
    }
    lab.rest();
    assert_eq!(counted(&lab, "ipam_claims"), counts([("pub Pending", 1.0), (" Pending", 20.0)]));
    assert_eq!(counted(&lab, "ipam_claim_oldest_pending_timestamp_seconds").len(), 2);
    lab.class("typo-7", false).rest();
    let expected = counts([("pub Pending", 1.0), (" Pending", 19.0), ("typo-7 Pending", 1.0)]);
    assert_eq!(counted(&lab, "ipam_claims"), expected);
}

#[test]
fn the_oldest_claim_that_waits_says_since_when() {
    let mut lab = lab();
    lab.claim("first", json!({})).claim("second", json!({})).rest();
    let created = |lab: &Lab, name: &str| -> f64 {
        let text = lab.get(&claim_ref(name))["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
        text.parse::<jiff::Timestamp>().unwrap().as_duration().as_secs_f64()
    };
    let name = "ipam_claim_oldest_pending_timestamp_seconds";
    assert_eq!(counted(&lab, name), counts([("pub", created(&lab, "first"))]));
    lab.address("192.0.2.1", json!({})).rest();
    assert_eq!(counted(&lab, name), counts([("pub", created(&lab, "second"))]));
    lab.delete(&claim_ref("second")).rest();
    assert_eq!(counted(&lab, name), counts([]));
}

/// A claim that was made at this time, and bound at once.
fn bound(created: &str, annotations: Value) -> Lab {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({}));
    let metadata = json!({"creationTimestamp": created, "annotations": annotations});
    lab.world.create(&claim_ref("web"), json!({"metadata": metadata, "spec": {}}));
    lab.rest();
    lab
}

#[test]
fn a_reservation_is_measured_once_and_names_its_trace() {
    let traceparent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let mut lab = bound("2020-01-01T00:00:00Z", json!({"local.sdn.cozystack.io/traceparent": traceparent}));
    let ended = lab.binder.ended();
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!(ended[0].timer, "ipam_reservation_seconds");
    assert!(Binder::timers().iter().any(|timer| timer.name == ended[0].timer));
    assert_eq!(ended[0].labels, [("class", "pub".to_owned())]);
    assert_eq!(ended[0].took, Took::Since("2020-01-01T00:00:00Z".parse().unwrap()));
    assert_eq!(ended[0].trace_id.as_deref(), Some(TRACE));
    // Neither a loss and its end, nor what was there at the start, is another.
    lab.edit(&address_ref(WEB), &json!({"status": {"phase": "Lost"}})).rest();
    assert!(lab.see_claim("web").starts_with("Lost"));
    lab.edit(&address_ref(WEB), &json!({"status": {"phase": "Bound"}})).rest();
    assert!(lab.see_claim("web").starts_with("Bound"));
    assert_eq!(lab.binder.ended(), []);
    lab.restart().rest();
    assert_eq!(lab.binder.ended(), []);
}

#[test]
fn what_was_looked_at_within_the_second_of_its_creation_began_with_the_look() {
    let mut lab = bound("2027-01-15T08:00:00Z", json!({}));
    assert_eq!(lab.binder.ended()[0].took, Took::Since(now()));
    let now: jiff::Timestamp = "2027-01-15T08:00:00Z".parse().unwrap();
    assert_eq!(now, crate::world::now(), "the clock of this world");
    assert!(lab.binder.ended().is_empty());
    lab.delete(&class_ref("pub")).rest();
}
