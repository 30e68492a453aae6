//! Contract §12, backwards inventory: what MetalLB gave to Services without a claim.

use ::metallb::Config;
use api::address::AddressPhase;
use api::wellknown::{CLAIM, driver, metallb as names};
use kube::ResourceExt;
use plan::Ref;
use serde_json::json;

use crate::world::build::{IP, Setup, address_ref, claim, pool, service, service_ref, static_address};
use crate::world::{Pace, World, crash};

const NAME: &str = "ip-192-0-2-0";

/// A Service that draws from the reserved pool by itself, and nothing of ours yet.
fn plain() -> k8s_openapi::api::core::v1::Service {
    service("plain", json!({ names::POOL: "reserved" }), json!({}))
}

fn observed(world: &World) -> bool {
    world.addresses().iter().any(|address| address.name_any() == NAME)
}

#[test]
fn c12_40_an_address_without_a_claim_is_written_down_and_goes_with_its_service() {
    let setup = Setup { contended: false, ..Setup::default() };
    crash::from(
        |pace| setup.empty(pace),
        |world| {
            world.create(plain());
            world.settle();
            let address = world.address(NAME);
            assert_eq!(address.labels().get(driver::OBSERVED).map(String::as_str), Some("true"));
            assert_eq!(address.phase(), AddressPhase::Released);
            let service = world.service("plain");
            let named = address.spec.claim_ref.clone().unwrap();
            assert_eq!((named.name.as_str(), named.uid.clone()), ("plain", service.uid()));
            assert_eq!(address.associated_to().and_then(|to| to.uid.clone()), service.uid());
            assert_eq!(world.holders(IP), ["tenant-a/plain"]);
            assert!(world.placeholders().is_empty(), "nothing is held");
            world.delete(&service_ref("plain"));
        },
        |world| {
            assert!(!observed(world), "{}", world.last_words(40));
            assert!(world.placeholders().is_empty());
        },
    );
}

#[test]
fn c12_41_off_writes_nothing_down_and_takes_the_notes_away() {
    let mut world = Setup { contended: false, ..Setup::default() }.empty(Pace::Eager);
    world.create(plain());
    world.settle();
    assert!(observed(&world));
    world.config = Config { inventory: false, ..Config::default() };
    world.restart();
    world.settle();
    assert!(!observed(&world));
    assert_eq!(world.holders(IP), ["tenant-a/plain"]);
}

/// Nobody is bound to it: not by name, not by class, not by the Service's own name.
#[test]
fn c12_42_nobody_is_bound_to_an_observed_address() {
    let mut world = Setup { contended: false, ..Setup::default() }.empty(Pace::Eager);
    world.create(plain());
    world.settle();
    world.create(claim("tenant-a", "plain", json!({})));
    world.create(claim("tenant-a", "named", json!({ "addressName": NAME })));
    world.settle();
    assert_eq!(world.claim_phase("plain"), "Pending");
    assert_eq!(world.claim_phase("named"), "Pending");
    assert_eq!(world.holders(IP), ["tenant-a/plain"]);
    // When the Service lets go, the one that draws from the class gets it.
    world.delete(&service_ref("plain"));
    world.settle();
    world.pass(60);
    assert_eq!(world.claim_phase("plain"), "Bound", "{}", world.last_words(60));
    world.assert_held(IP);
}

/// One that names a claim is no find: it waits for its claim, and an address that was noted stays noted.
#[test]
fn c12_43_a_service_that_names_a_claim_waits_for_it() {
    let mut world = Setup { contended: false, ..Setup::default() }.empty(Pace::Eager);
    world.create(service("plain", json!({ names::POOL: "reserved", CLAIM: "later" }), json!({})));
    world.settle();
    assert!(!observed(&world));
    world.annotate("plain", json!({ CLAIM: null }));
    world.settle();
    assert!(observed(&world));
    world.annotate("plain", json!({ CLAIM: "later" }));
    world.settle();
    assert!(observed(&world), "kept while the Service has it");
}

#[test]
fn c12_44_pools_and_classes_that_come_later() {
    let mut world = World::new(Config::default(), Pace::Eager);
    for name in ["tenant-a", crate::world::build::HOME, sim::metallb::NAMESPACE] {
        world.create(crate::world::build::namespace(name, json!({})));
    }
    world.create(pool("reserved", json!({ "addresses": ["192.0.2.0/32"], "autoAssign": false })));
    world.create(plain());
    world.settle();
    assert!(!observed(&world), "no class draws from this pool");
    world.create(crate::world::build::class("pub", "Retain", json!({ "pool": "reserved" })));
    world.settle();
    assert!(observed(&world));
    world.delete(&Ref::class("pub"));
    world.settle();
    assert!(!observed(&world));
}

/// The Service moves to another address, or is no load balancer any more.
#[test]
fn c12_45_the_note_follows_the_service() {
    let mut world =
        Setup { contended: false, addresses: vec!["192.0.2.0/31"], ..Setup::default() }.empty(Pace::Eager);
    world.create(plain());
    world.settle();
    world.annotate("plain", json!({ names::PIN: "192.0.2.1" }));
    world.settle();
    assert!(!observed(&world));
    assert!(world.addresses().iter().any(|address| address.spec.address == "192.0.2.1"));
    world.patch(&service_ref("plain"), json!({ "spec": { "type": "ClusterIP" } }));
    world.settle();
    assert!(world.addresses().is_empty());
}

/// An observed address in MetalLB's hands of a claim that follows: a Service gets its claim's own address and lets the
/// noted one go.
#[test]
fn c12_46_a_service_whose_claim_has_another_address_moves_there() {
    let mut world =
        Setup { contended: false, addresses: vec!["192.0.2.0/31"], ..Setup::default() }.empty(Pace::Eager);
    world.create(plain());
    world.settle();
    world.create(claim("tenant-a", "web-ip", json!({})));
    world.settle();
    world.annotate("plain", json!({ CLAIM: "web-ip", names::POOL: null }));
    world.settle();
    world.assert_associated("plain", &["192.0.2.1"]);
    assert!(!observed(&world));
}

/// What an admin writes by hand beside a note is a duplicate until the note goes.
#[test]
fn c12_47_a_static_address_beside_a_note() {
    let mut world = Setup { contended: false, ..Setup::default() }.empty(Pace::Eager);
    world.create(plain());
    world.settle();
    world.pass(2);
    world.create(static_address("by-hand", IP));
    world.settle();
    assert!(world.placeholders().is_empty(), "{}", world.last_words(30));
    world.law.gap = true;
    world.delete(&service_ref("plain"));
    world.settle();
    assert!(!observed(&world));
    assert_eq!(world.hold(IP).labels().get(driver::IP_ADDRESS).map(String::as_str), Some("by-hand"));
}

/// Adoption, as `metallb-iad adopt` writes it: the traffic is untouched and the address ends up associated.
#[test]
fn c12_48_adopted_by_claim_service_and_address() {
    crash::from(
        |pace| {
            let mut world = Setup { contended: false, ..Setup::default() }.empty(pace);
            world.create(service("plain", json!({ names::PIN: IP }), json!({})));
            world.settle();
            world
        },
        |world| {
            world.create(claim("tenant-a", "mine", json!({ "addressName": NAME })));
            world.settle();
            let mine = world.claim("mine").unwrap();
            world.annotate("plain", json!({ CLAIM: "mine", driver::PINNED: "true", names::PIN: IP }));
            world.settle();
            let body = json!({
                "metadata": { "labels": { driver::OBSERVED: null } },
                "spec": { "claimRef": { "namespace": "tenant-a", "name": "mine", "uid": mine.uid() } },
            });
            world.patch(&address_ref(NAME), body);
        },
        |world| {
            assert_eq!(world.holders(IP), ["tenant-a/plain"], "{}", world.last_words(60));
            assert_eq!(world.claim_phase("mine"), "Bound");
            assert!(world.placeholders().is_empty());
        },
    );
}
