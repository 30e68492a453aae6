//! Contract §9: when a placeholder is withdrawn that no reservation needs any more.

use std::sync::Arc;

use api::ClaimKey;
use api::claim::ClaimPhase;
use api::wellknown::{driver, metallb as metallb_names};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use metallb::{Driver, Key};
use plan::{Action, Brain, Change, Kind, Moment, Object, Ref};
use rstest::rstest;
use serde_json::json;
use sim::users::made_cluster_ip;

use crate::world::build::{IP, Setup, address_ref, claim, home_ref, static_address};
use crate::world::{Pace, World, crash};

/// A claim whose placeholder waits for MetalLB.
fn waiting(pace: Pace) -> World {
    let mut world = Setup::roomy().empty(pace);
    world.metallb.down = true;
    world.create(claim("tenant-a", "web-ip", json!({})));
    world.settle();
    world
}

/// A driver that has just heard of everything, but for one kind.
fn knowing(world: &World, but: Option<Kind>) -> Driver {
    let mut driver = Driver::new(world.config.clone());
    for kind in [Kind::Class, Kind::Address, Kind::Claim, Kind::Service, Kind::Namespace, Kind::Pool] {
        let heard = world.server.all(kind).filter(|_| but != Some(kind)).cloned();
        for change in Change::list(kind, heard) {
            driver.apply(change);
        }
    }
    driver
}

/// A placeholder that waits in MetalLB while the class goes would be given an IP later, and keep it for nobody.
#[test]
fn c9_19_without_its_class_nothing_of_a_claim_waits_in_metallb() {
    crash::from(
        |pace| {
            let world = waiting(pace);
            assert_eq!(world.placeholders().len(), 1);
            world
        },
        |world| world.delete(&Ref::class("pub")),
        |world| assert!(world.placeholders().is_empty(), "{}", world.last_words(40)),
    );
}

/// A successor whose watch of addresses is behind knows the claim as bound, and its address not at all.
#[test]
fn c9_20_a_placeholder_is_withdrawn_only_after_a_live_look_at_its_address() {
    let world = Setup { contended: false, ..Setup::default() }.world(Pace::Eager);
    let mut late = knowing(&world, Some(Kind::Address));
    let mut decide = |seconds| {
        let moment = Moment { now: world.server.now() + SignedDuration::from_secs(seconds), entropy: 1 };
        late.decide(&Key::Claim(ClaimKey::new("tenant-a", "web-ip")), &moment)
    };
    assert!(decide(0).is_empty());
    let plan = decide(80);
    let name = world.address_of(IP).name_any();
    assert!(
        matches!(&plan.actions[..], [Action::ConfirmAbsent { reference, uid: None }, Action::Delete { .. }]
            if *reference == address_ref(&name)),
        "{:#?}",
        plan.actions
    );
}

/// MetalLB's reason was heard before the version that still shows the IP, and forgotten with it.
#[rstest]
#[case::for_any(false)]
#[case::pinned_and_not_recorded(true)]
fn c9_21_a_reservation_that_lost_its_ip_does_not_queue(#[case] pinned: bool) {
    let world = waiting(Pace::Eager);
    let mut driver = knowing(&world, None);
    let waiting = world.placeholders().remove(0);
    let version: u64 = waiting.resource_version().unwrap().parse().unwrap();
    for (later, ingress) in [(1, json!([{ "ip": IP }])), (2, json!([]))] {
        let mut service = Service::clone(&waiting);
        service.metadata.resource_version = Some((version + later).to_string());
        if pinned {
            let name = api::Ip::canonical(IP).unwrap().object_name();
            service.labels_mut().insert(driver::IP_ADDRESS.to_owned(), name.to_string());
            service.annotations_mut().insert(metallb_names::PIN.to_owned(), IP.to_owned());
        }
        service.status = serde_json::from_value(json!({ "loadBalancer": { "ingress": ingress } })).unwrap();
        driver.apply(Change::Applied(Object::Service(Arc::new(service))));
    }
    let moment = Moment { now: world.server.now(), entropy: 1 };
    let plan = driver.decide(&Key::Claim(ClaimKey::new("tenant-a", "web-ip")), &moment);
    assert!(plan.actions.iter().any(|action| matches!(action, Action::Delete { .. })), "{:#?}", plan.actions);
}

/// The call that records the address went out, and nobody knows what became of it; meanwhile the claim was bound in another way.
#[test]
fn c9_25_a_placeholder_stays_while_its_address_may_still_be_recorded() {
    let world = waiting(Pace::Eager);
    let mut brain = knowing(&world, None);
    let key = Key::Claim(ClaimKey::new("tenant-a", "web-ip"));
    let mut placeholder = Service::clone(&world.placeholders().remove(0));
    placeholder.metadata.resource_version = later(placeholder.resource_version());
    let name = api::Ip::canonical(IP).unwrap().object_name();
    placeholder.labels_mut().insert(driver::IP_ADDRESS.to_owned(), name.to_string());
    placeholder.annotations_mut().insert(metallb_names::PIN.to_owned(), IP.to_owned());
    placeholder.status =
        serde_json::from_value(json!({ "loadBalancer": { "ingress": [{ "ip": IP }] } })).unwrap();
    brain.apply(Change::Applied(Object::Service(Arc::new(placeholder.clone()))));
    let at = |seconds| Moment { now: world.server.now() + SignedDuration::from_secs(seconds), entropy: 1 };
    let records = |action: &Action| matches!(action, Action::Create { object: Object::Address(_), .. });
    let plan = brain.decide(&key, &at(0));
    assert!(plan.actions.iter().any(records), "{:#?}", plan.actions);

    let mut bound = world.claim("web-ip").unwrap();
    bound.metadata.resource_version = later(bound.resource_version());
    bound.status.get_or_insert_default().phase = Some(ClaimPhase::Bound);
    brain.apply(Change::Applied(Object::Claim(Arc::new(bound.clone()))));
    let withdrawn_from = |brain: &mut Driver, first: i64, then: i64| {
        let plan = brain.decide(&key, &at(first));
        assert!(plan.is_empty() && plan.again_after.is_some(), "{plan:#?}");
        let plan = brain.decide(&key, &at(then));
        let withdrawn = matches!(&plan.actions[..], [Action::ConfirmAbsent { .. }, Action::Delete { .. }]);
        assert!(withdrawn, "{:#?}", plan.actions);
    };
    withdrawn_from(&mut brain, 30, 90);
    // Nor does one that begins know what another sent just before its end.
    let mut next = knowing(&world, None);
    next.apply(Change::Applied(Object::Service(Arc::new(placeholder))));
    next.apply(Change::Applied(Object::Claim(Arc::new(bound))));
    withdrawn_from(&mut next, 90, 170);
}

/// An admin entered an address of a class that nobody serves: nobody holds it, and MetalLB offers its IP each time.
#[test]
fn c9_26_an_ip_that_no_driver_holds_is_tried_more_and_more_seldom() {
    let mut world = Setup { contended: false, ..Setup::default() }.empty(Pace::Eager);
    let mut entered = static_address("by-hand", IP);
    entered.spec.class_name = "served-by-nobody".into();
    world.create(entered);
    world.create(claim("tenant-a", "web-ip", json!({})));
    world.settle();
    world.mark();
    for _ in 0..300 {
        world.pass(2);
    }
    assert!((1..40).contains(&world.writes), "{} writes: {}", world.writes, world.last_words(60));
    world.delete(&address_ref("by-hand"));
    for _ in 0..150 {
        world.pass(2);
    }
    assert_eq!(world.claim_phase("web-ip"), "Bound", "{}", world.last_words(60));
    world.assert_held(IP);
}

fn later(version: Option<String>) -> Option<String> {
    let version: u64 = version?.parse().unwrap();
    Some((version + 1_000).to_string())
}

/// MetalLB has nothing to say of an allocation placeholder that somebody made a `ClusterIP`: the claim does not wait for it.
#[test]
fn c9_27_an_allocation_placeholder_that_is_no_load_balancer_becomes_one() {
    let setup = Setup { contended: false, ..Setup::default() };
    for turns in 0..30 {
        let mut world = setup.empty(Pace::Eager);
        world.law.gap = true;
        world.create(claim("tenant-a", "web-ip", json!({})));
        world.turns(turns);
        if let Some(one) = world.placeholders().first().map(ResourceExt::name_any) {
            world.patch(&home_ref(&one), made_cluster_ip());
        }
        world.settle();
        world.assert_held(IP);
        assert_eq!(world.claim_phase("web-ip"), "Bound");
    }
}
