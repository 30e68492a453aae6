//! Contract §9: when a placeholder is withdrawn that no reservation needs any more.

use std::sync::Arc;

use api::ClaimKey;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use metallb::{Driver, Key};
use plan::{Action, Brain, Change, Kind, Moment, Object, Ref};
use serde_json::json;

use crate::world::build::{IP, Setup, address_ref, claim};
use crate::world::{Pace, crash};

/// A placeholder that waits in MetalLB while the class goes would be given an IP later, and keep it for nobody.
#[test]
fn c9_19_without_its_class_nothing_of_a_claim_waits_in_metallb() {
    crash::from(
        |pace| {
            let mut world = Setup::roomy().empty(pace);
            world.metallb.down = true;
            world.create(claim("tenant-a", "web-ip", json!({})));
            world.settle();
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
    let mut late = Driver::new(world.config.clone());
    for kind in [Kind::Class, Kind::Address, Kind::Claim, Kind::Service, Kind::Namespace, Kind::Pool] {
        let list = world.server.all(kind).filter(|_| kind != Kind::Address).cloned();
        for change in Change::list(kind, list) {
            late.apply(change);
        }
    }
    let moment = Moment { now: world.server.now(), entropy: 1 };
    let plan = late.decide(&Key::Claim(ClaimKey::new("tenant-a", "web-ip")), &moment);
    let name = world.address_of(IP).name_any();
    assert!(
        matches!(&plan.actions[..], [Action::ConfirmAbsent { reference, uid: None }, Action::Delete { .. }]
            if *reference == address_ref(&name)),
        "{:#?}",
        plan.actions
    );
}

/// MetalLB's reason was heard before the version that still shows the IP, and forgotten with it.
#[test]
fn c9_21_a_reservation_that_lost_its_ip_does_not_queue() {
    let mut world = Setup::roomy().empty(Pace::Eager);
    world.metallb.down = true;
    world.create(claim("tenant-a", "web-ip", json!({})));
    world.settle();
    let mut driver = Driver::new(world.config.clone());
    for kind in [Kind::Class, Kind::Address, Kind::Claim, Kind::Service, Kind::Namespace, Kind::Pool] {
        for change in Change::list(kind, world.server.all(kind).cloned()) {
            driver.apply(change);
        }
    }
    let waiting = world.placeholders().remove(0);
    let version: u64 = waiting.resource_version().unwrap().parse().unwrap();
    for (later, ingress) in [(1, json!([{ "ip": IP }])), (2, json!([]))] {
        let mut service = Service::clone(&waiting);
        service.metadata.resource_version = Some((version + later).to_string());
        service.status = serde_json::from_value(json!({ "loadBalancer": { "ingress": ingress } })).unwrap();
        driver.apply(Change::Applied(Object::Service(Arc::new(service))));
    }
    let moment = Moment { now: world.server.now(), entropy: 1 };
    let plan = driver.decide(&Key::Claim(ClaimKey::new("tenant-a", "web-ip")), &moment);
    assert!(plan.actions.iter().any(|action| matches!(action, Action::Delete { .. })), "{:#?}", plan.actions);
}
