//! Contract §11: an associated Service that MetalLB does not serve any more, one that it would not serve anew, and
//! annotations that mean nothing.

use api::wellknown::{CLAIM, metallb as names};
use plan::Object;
use rstest::rstest;
use serde_json::{Value, json};

use super::c11_reverse::associated;
use crate::world::build::{IP, Setup, claim, pool_ref, service, service_ref, static_address, web};
use crate::world::look::condition;
use crate::world::{Pace, World, crash};

fn message(world: &World, kind: &str) -> String {
    let conditions = world.address_of(IP).status.clone().unwrap().conditions;
    conditions.into_iter().find(|one| one.type_ == kind).unwrap().message
}

/// Still serviceable as far as anybody can tell: the pin stays, the ledger has MetalLB's words.
#[test]
fn c11_130_the_ledger_has_metallbs_words() {
    let setup = Setup { contended: false, ..Setup::default() };
    let mut world = associated(&setup, json!({}))(Pace::Eager);
    world.law.gap = true;
    world.pass(5);
    world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.8/32"] } }));
    world.settle();
    let said = condition(&world.address_of(IP), "Associated");
    assert_eq!(said, Some(("False".into(), "AllocationFailed".into())), "{}", world.last_words(40));
    assert!(message(&world, "Associated").contains("is not allowed in config"));
    let pin = world.service("web").metadata.annotations.unwrap().get(names::PIN).cloned();
    assert_eq!(pin.as_deref(), Some(IP));
    world.restart();
    world.settle();
    assert!(message(&world, "Associated").contains("is not allowed in config"));
    world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.0/32"] } }));
    world.settle();
    world.assert_associated("web", &[IP]);
}

/// What MetalLB says about Services of strangers is not kept.
#[test]
fn c11_131_failures_of_strangers_are_not_kept() {
    for events_first in [false, true] {
        let mut world = Setup::default().world(Pace::Eager);
        world.create(service("stranger", json!({ names::POOL: "reserved" }), json!({})));
        world.settle();
        let known = |world: &World| {
            let all = world.server.all(plan::Kind::Service).filter_map(|object| match object {
                Object::Service(service) => world.driver.index().failure(service).map(|_| object.reference()),
                _ => None,
            });
            all.collect::<Vec<_>>()
        };
        assert_eq!(known(&world), []);
        world.events_first = events_first;
        world.restart();
        world.settle();
        assert_eq!(known(&world), []);
    }
}

/// Served, although it would not be anew: it stands, and is told what to remove; removed, nothing is said any more.
#[rstest]
#[case::load_balancer_ip(json!({ "spec": { "loadBalancerIP": IP } }), json!({ "spec": { "loadBalancerIP": null } }), "spec.loadBalancerIP")]
#[case::pool(
    json!({ "metadata": { "annotations": { names::POOL: "reserved" } } }),
    json!({ "metadata": { "annotations": { names::POOL: null } } }),
    names::POOL
)]
#[case::old_pin(
    json!({ "metadata": { "annotations": { names::PIN_OLD: "192.0.2.1" } } }),
    json!({ "metadata": { "annotations": { names::PIN_OLD: null } } }),
    names::PIN_OLD
)]
fn c11_132_unserviceable_but_served_stands(#[case] edit: Value, #[case] undo: Value, #[case] words: &str) {
    crash::from(
        associated(&Setup::default(), json!({})),
        |world| {
            world.patch(&service_ref("web"), edit.clone());
            world.settle();
            assert_eq!(world.shows("web"), [IP]);
            let said = condition(&world.address_of(IP), "Associated");
            assert_eq!(said, Some(("True".into(), "AtRisk".into())), "{}", world.last_words(40));
            assert!(message(world, "Associated").contains(words));
            assert!(world.told_once(&service_ref("web"), "AssociationAtRisk").contains(words));
            world.pass(3600);
            world.told_once(&service_ref("web"), "AssociationAtRisk");
            world.patch(&service_ref("web"), undo.clone());
        },
        |world| world.assert_associated("web", &[IP]),
    );
}

/// A pool annotation that takes the IP off the Service: held again at once; taken off, the same IP by itself.
#[test]
fn c11_133_a_pool_annotation_that_takes_the_ip() {
    let setup = Setup { contended: false, ..Setup::default() };
    crash::from(
        associated(&setup, json!({})),
        |world| {
            world.law.gap = true;
            world.annotate("web", json!({ names::POOL: "other" }));
            world.settle();
            world.assert_held(IP);
            let note = world.told_once(&service_ref("web"), "AssociationRejected");
            assert!(note.contains("annotation metallb.io/address-pool: \"other\""), "{note}");
            world.annotate("web", json!({ names::POOL: null }));
        },
        |world| world.assert_associated("web", &[IP]),
    );
}

/// C3: an annotation of our prefix that nobody reads is told once, with the one that may be meant.
#[rstest]
#[case("local.sdn.cozystack.io/ip-address-clam", true)]
#[case("local.sdn.cozystack.io/ip-addres-claim", true)]
#[case("local.sdn.cozystack.io/ipaddress-claim", true)]
#[case("local.sdn.cozystack.io/colour", false)]
fn c3_an_unknown_annotation_is_told_once(#[case] name: &str, #[case] near: bool) {
    let mut world = Setup::default().world(Pace::Eager);
    world.create(service("web", json!({ name: "web-ip" }), json!({})));
    world.settle();
    let note = world.told_once(&service_ref("web"), "UnknownAnnotation");
    assert!(note.contains(name), "{note}");
    assert_eq!(note.contains(CLAIM), near, "{note}");
    for _ in 0..3 {
        world.patch(
            &service_ref("web"),
            json!({ "metadata": { "labels": { "x": world.story.len().to_string() } } }),
        );
        world.settle();
    }
    world.told_once(&service_ref("web"), "UnknownAnnotation");
    assert_eq!(world.writes, 0);
    world.annotate("web", json!({ name: null, CLAIM: "web-ip" }));
    world.settle();
    world.assert_associated("web", &[IP]);
}

#[test]
fn c3_known_annotations_are_not_told() {
    let mut world = Setup::default().world(Pace::Eager);
    let mut service = web("web-ip");
    let annotations = service.metadata.annotations.as_mut().unwrap();
    annotations.insert("local.sdn.cozystack.io/auto-claim".into(), "false".into());
    annotations.insert("local.sdn.cozystack.io/traceparent".into(), "00-0-0-00".into());
    annotations.insert("sdn.cozystack.io/other".into(), "x".into());
    world.create(service);
    world.settle();
    assert!(world.told(&service_ref("web"), "UnknownAnnotation").is_empty());
}

/// MetalLB serves a Service with one address of a family: a second one that is bound to the claim stays held.
#[rstest]
#[case::before(false)]
#[case::after(true)]
fn c11_151_a_surplus_address_is_not_handed_over(#[case] after: bool) {
    let setup = Setup { addresses: vec!["192.0.2.0/31"], contended: false, ..Setup::default() };
    let surplus = |world: &mut World| {
        let mut address = static_address("ip-192-0-2-1", "192.0.2.1");
        let claim = api::address::ClaimRef { namespace: "tenant-a".into(), name: "web-ip".into(), uid: None };
        address.spec.claim_ref = Some(claim);
        world.create(address);
        world.settle();
    };
    crash::everywhere(
        &setup,
        |world| {
            if !after {
                surplus(world);
            }
            world.create(web("web-ip"));
            world.settle();
            if after {
                surplus(world);
            }
        },
        |world| {
            world.assert_associated("web", &[IP]);
            world.assert_held("192.0.2.1");
        },
    );
}

/// A Service that has the address by a pin of its tenant's own is refused, and keeps it: the ledger says who has the address
/// all the same, and the Service gets it as its claim's when the pin goes.
#[test]
fn c11_153_who_was_refused_and_has_the_address_is_in_the_ledger() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(1), Pace::Shuffled(2)] {
        let mut world = Setup { contended: false, ..Setup::default() }.empty(pace);
        world.create(service("web", json!({ CLAIM: "web-ip", names::PIN: IP }), json!({})));
        world.settle();
        world.create(static_address("ip-192-0-2-0", IP));
        world.create(claim("tenant-a", "web-ip", json!({})));
        world.settle();
        assert_eq!(world.claim_phase("web-ip"), "Bound", "{pace:?}");
        let address = world.address_of(IP);
        assert_eq!(condition(&address, "Held"), Some(("False".into(), "HeldByOther".into())), "{pace:?}");
        assert_eq!(address.associated_to(), None, "{pace:?}");
        let told = world.told(&service_ref("web"), "AssociationRejected");
        assert!(told.iter().any(|note| note.contains("set by somebody else")), "{pace:?}: {told:?}");
        world.annotate("web", json!({ names::PIN: null }));
        world.settle();
        world.assert_associated("web", &[IP]);
    }
}
