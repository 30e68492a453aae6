//! Contract §14: what the driver counts and measures for the metrics.

use std::collections::BTreeMap;

use ::metallb::Driver;
use api::wellknown::{CLAIM, metallb as names};
use kube::ResourceExt;
use plan::{Brain, Timing, Took};
use serde_json::{Value, json};

use crate::world::build::{IP, Setup, claim, class, home_ref, pool, service_in, service_ref, web};
use crate::world::{Pace, World};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// What a gauge says: its labels' values, and the number as text.
fn told(world: &World, name: &str) -> BTreeMap<String, String> {
    let gauges = world.driver.gauges();
    let gauge = gauges.iter().find(|gauge| gauge.name == name).unwrap();
    let words =
        |labels: &plan::Labels| labels.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ");
    gauge.samples.iter().map(|(labels, value)| (words(labels), value.to_string())).collect()
}

/// Attached, reserved and free of the pool `reserved`.
fn room(world: &World, family: &str) -> String {
    let all = told(world, "ipam_pool_addresses");
    ["attached", "reserved", "free"].map(|state| &*all[&format!("reserved {family} {state}")]).join(" ")
}

fn measured(world: &mut World) -> Vec<Timing> {
    world.driver.ended()
}

/// Its series is there before it: else Prometheus would miss the first.
fn is_told_of_from_the_start(timing: &Timing) -> bool {
    let labels: Vec<_> = timing.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let timer = Driver::timers().iter().find(|timer| timer.name == timing.timer);
    timer.is_some_and(|timer| timer.sorts.contains(&labels.as_slice()))
}

#[test]
fn c14_a_pool_is_told_apart_by_who_has_its_addresses() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale] {
        let mut world = Setup::roomy().world(pace);
        assert_eq!(room(&world, "IPv4"), "0 1 7", "{pace:?}: a hold");
        world.create(web("web-ip"));
        world.settle();
        assert_eq!(room(&world, "IPv4"), "1 0 7", "{pace:?}: at a Service");
        let plain = json!({ names::POOL: "reserved" });
        world.create(service_in("tenant-b", "plain", plain, json!({})));
        world.create(claim("tenant-b", "other", json!({})));
        world.settle();
        assert_eq!(room(&world, "IPv4"), "2 1 5", "{pace:?}: one without a claim counts as attached");
        assert_eq!(
            told(&world, "ipam_pool_addresses_unheld"),
            BTreeMap::from([("reserved IPv4".into(), "0".into())])
        );
        world.delete(&service_ref("web"));
        world.settle();
        assert_eq!(room(&world, "IPv4"), "1 2 5", "{pace:?}: back at its hold");
    }
}

#[test]
fn c14_a_pool_of_ipv6_is_counted_without_overflow_and_by_itself() {
    let setup = Setup { addresses: vec!["192.0.2.0/32", "2001:db8::/64"], contended: false, ..Setup::dual() };
    let world = setup.world(Pace::Eager);
    assert_eq!(room(&world, "IPv4"), "0 1 0", "its IPv4 addresses are all taken, and that is seen");
    // 2^64 - 1, as far as a number of 16 digits can say it.
    assert_eq!(room(&world, "IPv6"), "0 1 18446744073709552000");
    let mut world = world;
    world.create(pool("all", json!({ "addresses": ["::/1"], "autoAssign": false })));
    world.create(class("all", "Retain", json!({ "pool": "all" })));
    world.settle();
    assert_eq!(told(&world, "ipam_pool_addresses")["all IPv6 free"], 2_f64.powi(127).to_string());
}

#[test]
fn c14_only_pools_that_classes_of_this_driver_name_are_told_of() {
    let mut world = Setup::roomy().world(Pace::Eager);
    world.create(pool("strangers", json!({ "addresses": ["198.51.100.0/24"] })));
    world.settle();
    let pools = |world: &World| told(world, "ipam_pool_addresses").len();
    assert_eq!(pools(&world), 3);
    world.create(class("more", "Retain", json!({ "pool": "strangers" })));
    world.settle();
    assert_eq!(pools(&world), 6);
    let refused = told(&world, "ipam_class_accepted");
    assert_eq!(
        refused,
        BTreeMap::from([("pub Accepted".into(), "1".into()), ("more PoolAutoAssigns".into(), "0".into())])
    );
}

#[test]
fn c14_a_handoff_is_measured_once_each_way_and_names_its_trace() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale] {
        let mut world = Setup::default().world(pace);
        measured(&mut world);
        world.create(web("web-ip"));
        world.settle();
        let there = measured(&mut world);
        let sorts: Vec<_> =
            there.iter().map(|it| (it.timer, it.labels[0].1.as_str(), it.labels[1].1.as_str())).collect();
        assert_eq!(
            sorts,
            [
                ("ipam_handoff_seconds", "Associate", "Overlap"),
                ("ipam_handoff_unheld_seconds", "Associate", "Overlap"),
            ],
            "{pace:?}"
        );
        assert!(there.iter().all(is_told_of_from_the_start));
        assert_eq!(there[1].took, Took::Seconds(0.0));
        assert_eq!(told(&world, "ipam_handoffs_in_progress"), BTreeMap::from([(String::new(), "0".into())]));

        let name = world.address_of(IP).metadata.name.clone().unwrap();
        let address = crate::world::build::address_ref(&name);
        let traceparent = format!("00-{TRACE}-b7ad6b7169203331-01");
        let annotations = json!({ "local.sdn.cozystack.io/traceparent": traceparent });
        world.patch(&address, json!({ "metadata": { "annotations": annotations } }));
        world.annotate("web", json!({ CLAIM: Value::Null }));
        world.settle();
        let back = measured(&mut world);
        assert_eq!(back.len(), 2, "{pace:?}: {back:#?}");
        assert_eq!(back[0].labels[0].1, "Disassociate");
        assert_eq!(back[0].trace_id.as_deref(), Some(TRACE));
        world.create(claim("tenant-b", "late-2", json!({})));
        world.settle();
        assert_eq!(measured(&mut world), [], "{pace:?}: what is over is not over again");
    }
}

/// The API server takes the IP off a Service that is no load balancer any more: nobody has it until the hold does.
#[test]
fn c14_how_long_nobody_had_an_address_is_measured() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale] {
        let mut world = Setup::roomy().world(pace);
        world.create(web("web-ip"));
        world.settle();
        measured(&mut world);
        world.law.gap = true;
        world.patch(&service_ref("web"), json!({ "spec": { "type": "ClusterIP" } }));
        world.settle();
        world.assert_held(IP);
        let ended = measured(&mut world);
        let [whole, unheld] = &ended[..] else { panic!("{pace:?}: {ended:#?}") };
        assert_eq!((whole.timer, unheld.timer), ("ipam_handoff_seconds", "ipam_handoff_unheld_seconds"));
        assert_eq!(unheld.labels, [("direction", "Disassociate".to_owned()), ("mode", "Gap".to_owned())]);
        assert!(matches!(unheld.took, Took::Seconds(seconds) if seconds > 0.0), "{pace:?}: {ended:#?}");
        assert!(ended.iter().all(is_told_of_from_the_start));
    }
}

/// The alert `IPAMAddressUnheld` rests on it.
#[test]
fn c14_an_address_that_nobody_has_is_told_until_it_is_held_again() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale] {
        let mut world = Setup::roomy().world(pace);
        let unheld = |world: &World| told(world, "ipam_pool_addresses_unheld")["reserved IPv4"].clone();
        assert_eq!(unheld(&world), "0", "{pace:?}");
        world.law.gap = true;
        let hold = world.hold(IP).name_any();
        world.delete(&home_ref(&hold));
        world.hear_all();
        assert_eq!(unheld(&world), "1", "{pace:?}");
        assert_eq!(room(&world, "IPv4"), "0 1 7", "{pace:?}: it is reserved all the same");
        world.settle();
        world.assert_held(IP);
        assert_eq!(unheld(&world), "0", "{pace:?}");
    }
}

#[test]
fn c14_a_handoff_that_does_not_end_is_told_by_its_age() {
    let mut world = Setup::roomy().world(Pace::Eager);
    let name = world.address_of(IP).metadata.name.clone().unwrap();
    let address = crate::world::build::address_ref(&name);
    let begun = "2020-01-01T00:00:00.000000Z";
    let handoff = json!({ "direction": "Associate", "mode": "Overlap", "from": "a/b", "to": "c/d", "startedAt": begun });
    let mut object = world.address(&name).as_ref().clone();
    object.status.as_mut().unwrap().last_handoff = serde_json::from_value(handoff).unwrap();
    object.metadata.resource_version = Some("999999999".into());
    assert!(world.server.get(&address).is_some());
    world.driver.apply(plan::Change::Applied(object.clone().into()));
    assert_eq!(told(&world, "ipam_handoffs_in_progress")[""], "1");
    assert_eq!(told(&world, "ipam_handoff_oldest_start_timestamp_seconds")[""], "1577836800");
    let handoff = object.status.as_mut().unwrap().last_handoff.as_mut().unwrap();
    handoff.finished_at = Some(serde_json::from_value(json!("2020-01-01T00:00:02.500000Z")).unwrap());
    handoff.unheld_milliseconds = Some(1500);
    handoff.trace_id = Some(TRACE.into());
    object.metadata.resource_version = Some("9999999999".into());
    measured(&mut world);
    world.driver.apply(plan::Change::Applied(object.into()));
    assert_eq!(told(&world, "ipam_handoffs_in_progress")[""], "0");
    assert!(told(&world, "ipam_handoff_oldest_start_timestamp_seconds").is_empty());
    let ended = measured(&mut world);
    assert_eq!(ended.iter().map(|it| it.took).collect::<Vec<_>>(), [Took::Seconds(2.5), Took::Seconds(1.5)]);
    assert!(ended.iter().all(|it| it.trace_id.as_deref() == Some(TRACE)));
}

#[test]
fn c14_conflicts_are_counted_while_they_last() {
    let mut world = Setup::roomy().world(Pace::Eager);
    world.create(web("web-ip"));
    world.settle();
    let conflicts = |world: &World| told(world, "ipam_conflicts")[""].clone();
    assert_eq!(conflicts(&world), "0");
    let forged = json!({ "spec": { "externalIPs": [IP] } });
    world.create(service_in("tenant-b", "forged", json!({}), forged["spec"].clone()));
    world.settle();
    assert_eq!(conflicts(&world), "1");
    world.delete(&plan::Ref::service(&api::ServiceKey::new("tenant-b", "forged")));
    world.settle();
    assert_eq!(conflicts(&world), "0");
}
