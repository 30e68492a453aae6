//! Contract §12: teardown, orphans, stray marks.

use api::address::AddressPhase;
use api::wellknown::{CLAIM, driver, metallb as names};
use kube::ResourceExt;
use plan::Ref;
use rstest::rstest;
use serde_json::json;

use super::c11_reverse::associated;
use crate::world::build::{
    HOME, IP, Setup, address_ref, claim, claim_ref, home_ref, service, service_in, service_ref,
    static_address, web,
};
use crate::world::{Pace, World, crash};

fn gone(world: &World) {
    let left: Vec<_> = world.addresses().iter().filter(|one| one.spec.address == IP).cloned().collect();
    assert!(left.is_empty(), "{}", world.last_words(60));
    let holds = world.placeholders();
    assert!(holds.is_empty(), "{}", world.last_words(60));
    assert!(world.holders(IP).is_empty(), "{:?}", world.holders(IP));
}

#[test]
fn c12_01_claim_deleted_delete() {
    let setup = Setup { contended: false, ..Setup::delete() };
    crash::everywhere(&setup, |world| world.delete(&claim_ref("web-ip")), gone);
}

#[test]
fn c12_02_claim_deleted_delete_with_an_association() {
    let setup = Setup { contended: false, ..Setup::delete() };
    crash::from(
        associated(&setup, json!({})),
        |world| world.delete(&claim_ref("web-ip")),
        |world| {
            gone(world);
            world.assert_bare("web");
            assert!(world.shows("web").is_empty());
        },
    );
}

#[test]
fn c12_03_claim_deleted_retain() {
    crash::everywhere(
        &Setup::default(),
        |world| world.delete(&claim_ref("web-ip")),
        |world| {
            world.assert_held(IP);
            assert_eq!(world.address_of(IP).phase(), AddressPhase::Released);
        },
    );
}

#[test]
fn c12_04_released_and_recycled() {
    crash::everywhere(
        &Setup::default(),
        |world| {
            world.delete(&claim_ref("web-ip"));
            world.settle();
            world.patch(&address_ref("ip-192-0-2-0"), json!({ "spec": { "claimRef": null } }));
        },
        |world| {
            world.assert_held(IP);
            let to = world.address_of(IP).spec.claim_ref.clone().unwrap();
            assert_eq!((to.namespace.as_str(), to.name.as_str()), ("tenant-b", "late"));
        },
    );
}

#[rstest]
#[case::retain(Setup { contended: false, ..Setup::default() })]
#[case::delete(Setup { contended: false, ..Setup::delete() })]
fn c12_05_address_deleted_while_bound_waits_for_the_claim(#[case] setup: Setup) {
    crash::everywhere(
        &setup,
        |world| {
            world.delete(&address_ref("ip-192-0-2-0"));
            world.settle();
            assert!(!world.holders(IP).is_empty(), "the claim is still served");
            world.delete(&claim_ref("web-ip"));
        },
        gone,
    );
}

#[test]
fn c12_06_address_deleted_while_associated() {
    let setup = Setup { contended: false, ..Setup::default() };
    crash::from(
        associated(&setup, json!({})),
        |world| {
            world.delete(&address_ref("ip-192-0-2-0"));
            world.settle();
            assert_eq!(world.shows("web"), [IP], "{}", world.last_words(40));
            world.delete(&claim_ref("web-ip"));
        },
        |world| {
            gone(world);
            world.assert_bare("web");
        },
    );
}

#[test]
fn c12_07_released_address_deleted() {
    let setup = Setup { contended: false, ..Setup::default() };
    crash::everywhere(
        &setup,
        |world| {
            world.delete(&claim_ref("web-ip"));
            world.settle();
            world.delete(&address_ref("ip-192-0-2-0"));
        },
        gone,
    );
}

#[test]
fn c12_08_teardown_frees_the_address_for_the_oldest_claim_that_waits() {
    let setup = Setup { contended: false, ..Setup::delete() };
    crash::from(
        |pace| {
            let mut world = associated(&setup, json!({}))(pace);
            world.create(claim("tenant-a", "next", json!({})));
            world.settle();
            world
        },
        |world| world.delete(&claim_ref("web-ip")),
        |world| {
            assert_eq!(world.claim_phase("next"), "Bound", "{}", world.last_words(60));
            world.assert_held(IP);
        },
    );
}

/// A placeholder that nothing stands behind.
fn orphan(world: &mut World) {
    let body = json!({
        driver::CLAIM_NAMESPACE: "tenant-a", driver::CLAIM_NAME: "nobody",
        names::POOL: "reserved", names::PIN: "192.0.2.4",
        names::SHARE: "iad-00000000000000000000000000000000",
    });
    let mut service = service_in(HOME, "iad-ip-192-0-2-4", body, json!({}));
    service.metadata.labels = Some(
        [(driver::PLACEHOLDER, "true"), (driver::IP_ADDRESS, "ip-192-0-2-4")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    );
    world.create(service);
}

#[test]
fn c12_09_orphan_is_swept_after_a_live_look() {
    crash::everywhere(&Setup::roomy(), orphan, |world| {
        assert_eq!(world.placeholders().len(), 1, "{}", world.last_words(40));
        world.assert_held(IP);
        assert!(world.holders("192.0.2.4").is_empty());
    });
}

#[test]
fn c12_10_no_orphan_while_the_watch_has_not_told_of_its_claim() {
    // The placeholder is seen before the claim it was made for: the live look finds the claim.
    let mut world = Setup::roomy().world(Pace::Stale);
    world.create(claim("tenant-a", "nobody", json!({ "addressName": "ip-192-0-2-4" })));
    let hidden = std::mem::take(&mut world.server.watch);
    orphan(&mut world);
    world.turns(6);
    assert_eq!(world.placeholders().len(), 2, "{}", world.last_words(40));
    world.server.watch.extend(hidden);
}

#[test]
fn c12_11_allocation_placeholder_of_an_earlier_claim_of_that_name() {
    let mut world = Setup::roomy().world(Pace::Eager);
    let body =
        json!({ driver::CLAIM_NAMESPACE: "tenant-a", driver::CLAIM_NAME: "web-ip", names::POOL: "reserved" });
    let mut stale = service_in(HOME, "iad-11111111-0000-4000-8000-000000000001-v4", body, json!({}));
    stale.metadata.labels = Some([(driver::PLACEHOLDER.to_owned(), "true".to_owned())].into());
    world.create(stale);
    world.settle();
    assert_eq!(world.placeholders().len(), 1, "{}", world.last_words(40));
}

/// The ledger's entry goes by force while no controller looks; the claim lives.
fn without_entry() -> (World, String) {
    let mut world = Setup { contended: false, ..Setup::default() }.world(Pace::Eager);
    let name = world.address_of(IP).name_any();
    world.delete(&address_ref(&name));
    world.patch(&address_ref(&name), json!({ "metadata": { "finalizers": null } }));
    assert!(world.addresses().is_empty());
    world.restart();
    world.settle();
    assert_eq!(world.claim_phase("web-ip"), "Lost");
    (world, name)
}

#[test]
fn c12_18_a_hold_outlives_its_entry_in_the_ledger() {
    let (mut world, name) = without_entry();
    let hold = world.hold(IP).name_any();
    world.pass(3600);
    assert_eq!(world.hold(IP).name_any(), hold);
    let mut entry = static_address(&name, IP);
    entry.spec.claim_ref =
        Some(serde_json::from_value(json!({ "namespace": "tenant-a", "name": "web-ip" })).unwrap());
    world.create(entry);
    world.settle();
    assert_eq!(world.claim_phase("web-ip"), "Bound");
    world.assert_held(IP);
}

#[test]
fn c12_19_a_hold_without_an_entry_goes_with_its_claim() {
    let (mut world, _) = without_entry();
    world.delete(&claim_ref("web-ip"));
    world.settle();
    gone(&world);
}

fn marked(name: &str, claim: Option<&str>) -> k8s_openapi::api::core::v1::Service {
    let annotations = json!({ CLAIM: claim, driver::PINNED: "true", names::PIN: "192.0.2.0" });
    let mut service = service(name, json!({}), json!({}));
    service.metadata.annotations = annotations
        .as_object()
        .map(|all| all.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect());
    service.metadata.labels = Some([(driver::ASSOCIATED.to_owned(), "true".to_owned())].into());
    service.metadata.finalizers = Some(vec![driver::HANDOFF.to_owned()]);
    service
}

#[test]
fn c12_12_stray_marks_are_taken_off() {
    crash::everywhere(
        &Setup::default(),
        |world| {
            world.create(marked("stray", None));
        },
        |world| {
            world.assert_bare("stray");
            world.assert_held(IP);
        },
    );
}

#[test]
fn c12_13_a_deleted_stray_is_let_go() {
    crash::everywhere(
        &Setup::default(),
        |world| {
            world.create(marked("stray", Some("typo")));
            world.settle();
            world.delete(&service_ref("stray"));
        },
        |world| assert!(world.server.get(&service_ref("stray")).is_none(), "{}", world.last_words(30)),
    );
}

#[test]
fn c12_14_a_restored_service_with_our_old_pin_is_associated() {
    crash::everywhere(
        &Setup::default(),
        |world| {
            world.create(marked("web", Some("web-ip")));
        },
        |world| world.assert_associated("web", &[IP]),
    );
}

#[test]
fn c12_15_a_loser_with_our_old_marks_can_be_deleted() {
    let mut world = Setup::default().world(Pace::Eager);
    world.create(web("web-ip"));
    world.settle();
    world.create(marked("copy", Some("web-ip")));
    world.settle();
    world.told_once(&service_ref("copy"), "AssociationRejected");
    world.delete(&service_ref("copy"));
    world.settle();
    assert!(world.server.get(&service_ref("copy")).is_none(), "{}", world.last_words(30));
    world.assert_associated("web", &[IP]);
}

#[test]
fn c12_16_placeholder_by_label_outside_its_namespace_is_nobodys() {
    let mut world = Setup::roomy().world(Pace::Eager);
    let mut fake = service("fake", json!({}), json!({ "type": "ClusterIP" }));
    fake.metadata.labels = Some(
        [(driver::PLACEHOLDER, "true"), (driver::IP_ADDRESS, "ip-192-0-2-0")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    );
    world.create(fake);
    world.settle();
    let name = world.hold(IP).name_any();
    world.law.gap = true;
    world.delete(&home_ref(&name));
    world.settle();
    world.assert_held(IP);
    assert!(world.server.get(&service_ref("fake")).is_some());
    let _ = Ref::class("pub");
}
