//! Contract §12: `Conflict` and `Lost`. The scenarios free addresses from outside: `gap`.

use ::metallb::Config;
use api::ServiceKey;
use api::address::AddressPhase;
use api::wellknown::{CLAIM, driver, metallb as names};
use kube::ResourceExt;
use plan::Ref;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::build::{
    HOME, IP, Setup, address_ref, claim_ref, home_ref, pool, pool_ref, service, service_in, service_ref, web,
};
use crate::world::look::condition;
use crate::world::{Pace, World, crash};

const NAME: &str = "ip-192-0-2-0";

fn thief_ref() -> Ref {
    Ref::service(&ServiceKey::new("tenant-b", "thief"))
}

fn quiet() -> Setup {
    Setup { contended: false, ..Setup::default() }
}

fn phase(world: &World) -> AddressPhase {
    world.address_of(IP).phase()
}

/// The thief gets the address in a moment in which nobody has it.
fn robbed(mut world: World, thief: k8s_openapi::api::core::v1::Service) -> World {
    world.law.gap = true;
    let hold = world.hold(IP).name_any();
    world.create(thief);
    world.settle();
    world.delete(&home_ref(&hold));
    world.settle();
    world
}

/// A placeholder that may not be made (a quota, a policy) keeps nobody from being told who has the address instead.
#[test]
fn c12_34_a_conflict_is_told_also_where_no_placeholder_may_be_made() {
    let mut world = quiet().world(Pace::Eager);
    world.law.gap = true;
    world.server.full_namespaces.insert(HOME.to_owned());
    let thief = service_in("tenant-b", "thief", json!({ names::PIN: IP }), json!({}));
    world = robbed(world, thief);
    assert_eq!(world.holders(IP), ["tenant-b/thief"]);
    assert_eq!(phase(&world), AddressPhase::Conflict, "{}", world.last_words(40));
    world.server.full_namespaces.clear();
    world.delete(&thief_ref());
    world.pass(600);
    assert_eq!(world.holders(IP).len(), 1);
    world.assert_held(IP);
}

/// By whichever way a stranger has the address: both sides are told, nobody of ours gives up, and all is as before
/// when he lets go.
#[rstest]
#[case::c12_by_a_pin(json!({ names::PIN: IP }), json!({}), "loadBalancerIPs")]
#[case::c12_by_the_old_pin(json!({ names::PIN_OLD: IP }), json!({}), "loadBalancerIPs")]
#[case::a2_by_a_mapped_pin(json!({ names::PIN: "::ffff:192.0.2.0" }), json!({}), "loadBalancerIPs")]
#[case::c12_by_the_pool(json!({ names::POOL: "reserved" }), json!({}), "address-pool")]
#[case::c12_by_the_field(json!({}), json!({ "loadBalancerIP": IP }), "spec.loadBalancerIP")]
fn c12_20_a_thief_is_named_on_both_sides(
    #[case] annotations: Value,
    #[case] spec: Value,
    #[case] undo: &str,
) {
    let mut world = robbed(quiet().world(Pace::Eager), service_in("tenant-b", "thief", annotations, spec));
    assert_eq!(world.holders(IP), ["tenant-b/thief"]);
    assert_eq!(phase(&world), AddressPhase::Conflict, "{}", world.last_words(40));
    assert_eq!(condition(&world.address_of(IP), "Conflict"), Some(("True".into(), "HeldByOther".into())));
    assert!(world.told_once(&address_ref(NAME), "AddressConflict").contains("tenant-b/thief"));
    let note = world.told_once(&thief_ref(), "AddressConflict");
    assert!(note.contains(undo) && note.contains(IP), "{note}");
    assert!(!note.contains("web-ip") && !note.contains("tenant-a"), "leaks the owner: {note}");
    // Told once, however often it is looked at.
    world.pass(3600);
    world.told_once(&thief_ref(), "AddressConflict");
    world.delete(&thief_ref());
    world.settle();
    world.assert_held(IP);
    assert_eq!(phase(&world), AddressPhase::Bound);
    assert_eq!(condition(&world.address_of(IP), "Conflict"), None);
    world.told_once(&address_ref(NAME), "ConflictResolved");
    assert_eq!(world.claim_phase("web-ip"), "Bound");
}

#[test]
fn c12_21_in_the_claims_own_namespace_the_claim_is_named() {
    let thief = service("thief", json!({ names::PIN: IP }), json!({}));
    let world = robbed(quiet().world(Pace::Eager), thief);
    let note = world.told_once(&service_ref("thief"), "AddressConflict");
    assert!(note.contains("IPAddressClaim web-ip"), "{note}");
}

/// A Service that names the claim beside the one that has it is a thief like any other.
#[test]
fn c12_22_a_second_service_of_the_claim_is_a_thief() {
    let mut world = quiet().world(Pace::Eager);
    world.law.gap = true;
    world.create(web("web-ip"));
    world.settle();
    let beside = json!({ "ingress": [{ "ip": IP }] });
    world.create(service("loser", json!({ CLAIM: "web-ip" }), json!({ "loadBalancerClass": "other" })));
    world.patch_status(&service_ref("loser"), json!({ "loadBalancer": beside }));
    world.settle();
    assert_eq!(phase(&world), AddressPhase::Conflict);
    world.assert_associated("web", &[IP]);
    world.delete(&service_ref("loser"));
    world.settle();
    assert_eq!(phase(&world), AddressPhase::Bound);
    world.assert_associated("web", &[IP]);
}

/// `spec.externalIPs` is past MetalLB: the hold has the address and it is a conflict all the same.
#[rstest]
#[case::held(false)]
#[case::associated(true)]
fn l2_external_ips(#[case] associated: bool) {
    let setup = quiet();
    crash::everywhere(
        &setup,
        |world| {
            if associated {
                world.create(web("web-ip"));
                world.settle();
            }
            let spec = json!({ "type": "ClusterIP", "externalIPs": [IP] });
            world.create(service_in("tenant-b", "thief", json!({}), spec));
            world.settle();
            assert_eq!(phase(world), AddressPhase::Conflict);
            assert!(world.told_once(&thief_ref(), "AddressConflict").contains("spec.externalIPs"));
            world.patch(&thief_ref(), json!({ "spec": { "externalIPs": null } }));
        },
        |world| {
            assert_eq!(phase(world), AddressPhase::Bound);
            if associated { world.assert_associated("web", &[IP]) } else { world.assert_held(IP) }
        },
    );
}

/// A Service that another load balancer serves shows the address in its status.
#[test]
fn c12_23_a_service_of_another_load_balancer_class() {
    let mut world = quiet().world(Pace::Eager);
    world.create(service_in("tenant-b", "thief", json!({}), json!({ "loadBalancerClass": "other" })));
    world.patch_status(&thief_ref(), json!({ "loadBalancer": { "ingress": [{ "ip": IP }] } }));
    world.law.gap = true;
    world.settle();
    assert_eq!(phase(&world), AddressPhase::Conflict);
    assert_eq!(condition(&world.address_of(IP), "Held"), Some(("True".into(), "Held".into())));
    world.patch_status(&thief_ref(), json!({ "loadBalancer": { "ingress": null } }));
    world.settle();
    world.assert_held(IP);
    assert_eq!(phase(&world), AddressPhase::Bound);
}

/// The placeholder label exempts nobody outside the placeholders' namespace.
#[test]
fn c12_24_a_forged_placeholder_label_is_a_conflict() {
    let mut thief = service_in("tenant-b", "thief", json!({ names::PIN: IP }), json!({}));
    let labels = [(driver::PLACEHOLDER, "true"), (driver::IP_ADDRESS, NAME)];
    thief.labels_mut().extend(labels.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let world = robbed(quiet().world(Pace::Eager), thief);
    assert_eq!(phase(&world), AddressPhase::Conflict);
    world.told_once(&thief_ref(), "AddressConflict");
}

/// While somebody else has it, an address is given to no Service; the phases of the core come back as they were.
#[rstest]
#[case::available(false)]
#[case::released(true)]
fn c12_25_the_phase_goes_back_to_the_cores(#[case] released: bool) {
    let mut world = quiet().world(Pace::Eager);
    world.delete(&claim_ref("web-ip"));
    world.settle();
    if !released {
        world.patch(&address_ref(NAME), json!({ "spec": { "claimRef": null } }));
        world.settle();
    }
    let before = phase(&world);
    let thief = service_in("tenant-b", "thief", json!({ names::PIN: IP }), json!({}));
    let mut world = robbed(world, thief);
    assert_eq!(phase(&world), AddressPhase::Conflict);
    world.delete(&thief_ref());
    world.settle();
    world.assert_held(IP);
    assert_eq!(phase(&world), before);
}

/// Theft while contended, crashed after every write: the end is the same.
#[test]
fn c12_26_conflict_and_back_crashed_anywhere() {
    crash::everywhere(
        &quiet(),
        |world| {
            world.law.gap = true;
            let hold = world.hold(IP).name_any();
            world.create(service_in("tenant-b", "thief", json!({ names::PIN: IP }), json!({})));
            world.settle();
            world.delete(&home_ref(&hold));
            world.settle();
            world.create(web("web-ip"));
            world.settle();
            world.delete(&thief_ref());
        },
        |world| {
            world.assert_associated("web", &[IP]);
            assert_eq!(phase(world), AddressPhase::Bound);
        },
    );
}

/// The pool no longer has the address: `Lost`, and back by itself, held or associated.
#[rstest]
#[case::recut(json!({ "spec": { "addresses": ["192.0.2.8/32"] } }), false)]
#[case::recut_associated(json!({ "spec": { "addresses": ["192.0.2.8/32"] } }), true)]
#[case::avoid(json!({ "spec": { "avoidBuggyIPs": true } }), false)]
#[case::avoid_associated(json!({ "spec": { "avoidBuggyIPs": true } }), true)]
fn c12_30_lost_and_back(#[case] edit: Value, #[case] associated: bool) {
    crash::everywhere(
        &quiet(),
        |world| {
            world.law.gap = true;
            if associated {
                world.create(web("web-ip"));
                world.settle();
            }
            world.patch(&pool_ref("reserved"), edit.clone());
            world.settle();
            assert_eq!(phase(world), AddressPhase::Lost, "{}", world.last_words(40));
            assert_eq!(world.claim_phase("web-ip"), "Lost");
            world.told_once(&address_ref(NAME), "AddressLost");
            let back = json!({ "spec": { "addresses": ["192.0.2.0/32"], "avoidBuggyIPs": false } });
            world.patch(&pool_ref("reserved"), back);
        },
        |world| {
            assert_eq!(phase(world), AddressPhase::Bound);
            assert_eq!(world.claim_phase("web-ip"), "Bound");
            if associated { world.assert_associated("web", &[IP]) } else { world.assert_held(IP) }
        },
    );
}

#[rstest]
#[case::held(false)]
#[case::associated(true)]
fn d2_no_pool_at_all_for_a_moment(#[case] associated: bool) {
    crash::everywhere(
        &quiet(),
        |world| {
            world.law.gap = true;
            if associated {
                world.create(web("web-ip"));
                world.settle();
            }
            world.delete(&pool_ref("reserved"));
            world.settle();
            assert_eq!(phase(world), AddressPhase::Lost);
            world.create(pool("reserved", json!({ "addresses": ["192.0.2.0/32"], "autoAssign": false })));
        },
        |world| {
            assert_eq!(phase(world), AddressPhase::Bound);
            if associated { world.assert_associated("web", &[IP]) } else { world.assert_held(IP) }
        },
    );
}

/// A pool that no class names has the address after a rename: it is not lost, or not for long.
#[test]
fn c12_31_a_renamed_pool_has_it_again() {
    let mut world = quiet().world(Pace::Eager);
    world.law.gap = true;
    world.delete(&pool_ref("reserved"));
    world.settle();
    assert_eq!(phase(&world), AddressPhase::Lost);
    world.create(pool("other", json!({ "addresses": ["192.0.2.0/28"], "autoAssign": false })));
    world.settle();
    assert_eq!(phase(&world), AddressPhase::Bound);
    world.assert_held(IP);
    world.told_once(&address_ref(NAME), "AddressRecovered");
}

/// Another class's pool takes over the range: its own reservations wait until the held address is held again.
#[test]
fn c12_32_a_range_that_moves_to_another_class_keeps_its_holder() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(3), Pace::Shuffled(4)] {
        let mut world = quiet().world(pace);
        world.law.gap = true;
        world.create(pool("second", json!({ "addresses": ["192.0.2.8/32"], "autoAssign": false })));
        world.create(crate::world::build::class("other", "Retain", json!({ "pool": "second" })));
        for name in ["one", "two"] {
            world.create(crate::world::build::claim("tenant-b", name, json!({ "className": "other" })));
        }
        world.settle();
        world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.16/32"] } }));
        world.settle();
        world
            .patch(&pool_ref("second"), json!({ "spec": { "addresses": ["192.0.2.8/32", "192.0.2.0/32"] } }));
        world.settle();
        world.assert_held(IP);
        assert_eq!(world.claim_phase("web-ip"), "Bound", "{}", world.last_words(60));
    }
}

/// Whose load balancer class it is does not matter for what is ours.
#[test]
fn c12_33_with_a_load_balancer_class_too() {
    let config = Config { lb_class: Some("metallb".to_owned()), ..Config::default() };
    let mut world = Setup { config, ..quiet() }.world(Pace::Eager);
    world.law.gap = true;
    world.create(service_in("tenant-b", "thief", json!({}), json!({})));
    world.patch_status(&thief_ref(), json!({ "loadBalancer": { "ingress": [{ "ip": IP }] } }));
    world.settle();
    assert_eq!(phase(&world), AddressPhase::Conflict);
    assert_eq!(world.holders(IP).len(), 1);
    assert!(world.holders(IP)[0].starts_with(HOME));
}
