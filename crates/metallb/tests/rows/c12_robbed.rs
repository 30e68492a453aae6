//! Contract §10, §11, §12: what hands, admins and MetalLB do to a hold or to a Service, with the pool full and a thief who
//! waits in MetalLB for whatever becomes free. Either nothing is lost, or the thief is named on both sides, and all is as
//! before when he goes. The claim that waits for an address of ours never gets this one.

use api::address::AddressPhase;
use api::wellknown::{CLAIM, metallb as names};
use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use super::c10_hand_edits::beside_another_pool;
use super::c11_gap::gap;
use super::c11_reverse::associated;
use crate::world::build::{IP, Setup, address_ref, home_ref, key, pool_ref, service_ref, thief_ref, web};
use crate::world::look::condition;
use crate::world::{Pace, World, crash};

const NAME: &str = "ip-192-0-2-0";
const THIEF: &str = "tenant-b/a-thief";

fn patched(body: Value) -> impl Fn(&mut World) {
    move |world| world.patch(&service_ref("web"), body.clone())
}

/// Whether the thief has it; then both sides are told, and nobody of ours has let go of it for good.
fn is_robbed(world: &mut World) -> bool {
    if world.holders(IP) != [THIEF] {
        return false;
    }
    let words = world.last_words(60);
    let address = world.address_of(IP);
    assert_eq!(address.phase(), AddressPhase::Conflict, "{words}");
    assert_eq!(condition(&address, "Conflict"), Some(("True".into(), "HeldByOther".into())), "{words}");
    let about = world.told(&address_ref(NAME), "AddressConflict");
    assert!(about.iter().any(|note| note.contains(THIEF)), "{about:?}; {words}");
    let notes = world.told(&thief_ref(), "AddressConflict");
    assert!(notes.iter().any(|note| note.contains(IP)), "{notes:?}; {words}");
    assert!(!notes.iter().any(|note| note.contains("web-ip") || note.contains("tenant-a")), "{notes:?}");
    if address.associated_to().is_none() {
        let held = condition(&address, "Held");
        assert_eq!(held, Some(("False".into(), "HeldByOther".into())), "{words}");
    } else {
        // A status that flaps is no news at once.
        world.pass(6);
        let said = condition(&world.address_of(IP), "Associated").map(|one| one.0);
        assert_eq!(said.as_deref(), Some("False"), "{}", world.last_words(60));
    }
    true
}

/// The thief goes, if he was there at all: the phase is the core's again, and that is told if nobody died before telling it.
fn he_goes(world: &mut World) {
    world.settle();
    let robbed = is_robbed(world);
    let before = world.told(&address_ref(NAME), "ConflictResolved").len();
    world.delete(&thief_ref());
    world.settle();
    // MetalLB may have been told of nothing by which it would look at the hold again.
    world.pass(10);
    let address = world.address_of(IP);
    assert!(!address.phase().is_drivers(), "{}", world.last_words(60));
    assert_eq!(condition(&address, "Conflict"), None);
    let killed = world.story.iter().any(|line| line == "driver starts");
    if robbed && !killed {
        assert_eq!(world.told(&address_ref(NAME), "ConflictResolved").len(), before + 1);
    }
}

/// Nobody of ours took what was free for a moment.
fn assert_late_waits(world: &World) {
    world.assert_late_waits();
    assert_eq!(world.addresses().len(), 1);
}

/// Edits by which MetalLB takes the IP off the hold: whoever waits may be faster than the driver.
#[rstest]
#[case::c10_12_type_changed(json!({ "spec": { "type": "ClusterIP" } }))]
#[case::c10_13_pin_taken_off(json!({ "metadata": { "annotations": { names::PIN: null } } }))]
#[case::c10_14_pin_changed(json!({ "metadata": { "annotations": { names::PIN: "192.0.2.3" } } }))]
#[case::c10_15_shape_changed(json!({ "spec": { "externalTrafficPolicy": "Local", "selector": { "a": "b" } } }))]
#[case::c10_50_node_port(json!({ "spec": { "type": "NodePort" } }))]
#[case::c10_51_pool_that_has_it_not(json!({ "metadata": { "annotations": { names::POOL: "other" } } }))]
#[case::c10_52_pool_that_is_none(json!({ "metadata": { "annotations": { names::POOL: "none" } } }))]
#[case::c10_53_load_balancer_ip(json!({ "spec": { "loadBalancerIP": "192.0.2.3" } }))]
#[case::c10_54_two_families(json!({ "spec": {
    "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"],
} }))]
#[case::c10_55_everything_at_once(json!({
    "metadata": { "labels": null, "annotations": { names::PIN: "192.0.2.3", names::POOL: "other" } },
    "spec": { "externalTrafficPolicy": "Local", "selector": { "a": "b" } },
}))]
fn c10_hold_edited_by_hand_while_contended(#[case] body: Value) {
    crash::freely(
        beside_another_pool(Setup::default()),
        |world| {
            let name = world.hold(IP).name_any();
            world.patch(&home_ref(&name), body.clone());
            he_goes(world);
        },
        |world| {
            world.assert_held(IP);
            assert_late_waits(world);
        },
    );
}

/// A world in which `web` has the address, others wait for it, and the scenario frees it from outside.
fn robbable(setup: Setup, spec: Value) -> impl Fn(Pace) -> World {
    move |pace| {
        let mut world = associated(&setup, spec.clone())(pace);
        world.law.gap = true;
        world
    }
}

/// The Service loses its IP, by hand or by an admin; undone, and with the thief gone, it has the same again.
#[rstest]
#[case::c11_71_pin_edited(
    patched(json!({ "metadata": { "annotations": { names::PIN: "192.0.2.5" } } })), |_: &mut World| {}
)]
#[case::c11_74_pool_narrowed(
    |world: &mut World| world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.8/32"] } })),
    |world: &mut World| world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.0/32"] } }))
)]
#[case::c11_75_service_allocation_narrowed(
    |world: &mut World| world.patch(&pool_ref("reserved"), json!({ "spec": {
        "serviceAllocation": { "namespaces": ["metallb-iad-system"] },
    } })),
    |world: &mut World| world.patch(&pool_ref("reserved"), json!({ "spec": { "serviceAllocation": null } }))
)]
#[case::c11_85_a_family_that_the_claim_lacks(
    patched(json!({ "spec": { "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" } })),
    patched(json!({ "spec": { "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack" } }))
)]
#[case::c11_130_avoid_buggy_ips(
    |world: &mut World| world.patch(&pool_ref("reserved"), json!({ "spec": { "avoidBuggyIPs": true } })),
    |world: &mut World| world.patch(&pool_ref("reserved"), json!({ "spec": { "avoidBuggyIPs": null } }))
)]
#[case::c11_133_pool_annotation(
    patched(json!({ "metadata": { "annotations": { names::POOL: "other" } } })),
    patched(json!({ "metadata": { "annotations": { names::POOL: null } } }))
)]
fn c11_a_service_that_loses_its_ip_while_contended(
    #[case] edit: impl Fn(&mut World),
    #[case] undo: impl Fn(&mut World),
) {
    crash::freely(
        robbable(Setup::default(), json!({})),
        |world| {
            edit(world);
            world.settle();
            is_robbed(world);
            undo(world);
            he_goes(world);
        },
        |world| {
            world.assert_associated("web", &[IP]);
            assert_late_waits(world);
        },
    );
}

/// Without `--hold-on-delete` a deletion frees the address before anybody can act.
#[test]
fn c11_deleted_without_hold_on_delete_while_contended() {
    for policy in ["Cluster", "Local"] {
        for recreated in [false, true] {
            let mut setup = Setup::default();
            setup.config.hold_on_delete = false;
            crash::freely(
                robbable(setup, json!({ "externalTrafficPolicy": policy })),
                |world| {
                    world.delete(&service_ref("web"));
                    if recreated {
                        world.create(web("web-ip"));
                    }
                    he_goes(world);
                },
                |world| {
                    if recreated {
                        world.assert_associated("web", &[IP]);
                    } else {
                        world.assert_held(IP);
                    }
                    assert_late_waits(world);
                },
            );
        }
    }
}

/// The finalizer is taken off, the Service deleted and made again under its name between two events that the driver
/// hears: the new one is another Service, and gets the address by way of the ledger.
#[rstest]
#[case::c11_40_quiet(false)]
#[case::c11_40_contended(true)]
fn c11_recreated_between_two_events(#[case] contended: bool) {
    for name in ["web-ip", "typo"] {
        crash::freely(
            robbable(Setup { contended, ..Setup::default() }, json!({})),
            |world| {
                world.patch(&service_ref("web"), json!({ "metadata": { "finalizers": null } }));
                world.delete(&service_ref("web"));
                assert!(world.service_at(&key("web")).is_none());
                world.create(web(name));
                if contended {
                    he_goes(world);
                }
            },
            |world| {
                let history = world.address_of(IP).status.clone().unwrap().association_history;
                let ended = history.iter().filter(|line| line.until.is_some()).count();
                if name == "typo" {
                    world.assert_held(IP);
                    world.assert_bare("web");
                    assert_eq!((history.len(), ended), (1, 1));
                } else {
                    world.assert_associated("web", &[IP]);
                    assert_eq!((history.len(), ended), (2, 1));
                    assert_eq!(Some(history[0].uid.clone()), world.service("web").uid());
                }
                assert_eq!(world.service("web").annotations()[CLAIM], name);
            },
        );
    }
}

/// Thieves may take the address in the gap of a handoff. The pin stays, and when the thief goes the Service is served; on
/// the way back the hold waits for it.
#[test]
fn c11_114_stolen_in_the_gap_it_comes_back_by_itself() {
    let mut setup = gap(Setup::default());
    setup.contended = true;
    for delete in [false, true] {
        crash::freely(
            |pace| {
                let mut world = setup.world(pace);
                world.law.gap = true;
                world
            },
            |world| {
                world.create(web("web-ip"));
                world.settle();
                let robbed = is_robbed(world);
                assert_eq!(world.shows("web").is_empty(), robbed, "{}", world.last_words(60));
                assert!(robbed || matches!(world.pace, Pace::Shuffled(_)), "{}", world.last_words(60));
                if robbed {
                    assert_eq!(world.service("web").annotations()[names::PIN], IP);
                    let said = condition(&world.address_of(IP), "Associated").unwrap();
                    assert_eq!(said, ("False".into(), "AllocationFailed".into()), "{}", world.last_words(60));
                }
                he_goes(world);
                world.assert_associated("web", &[IP]);
                world.contend_anew();
                if delete {
                    world.delete(&service_ref("web"));
                } else {
                    world.annotate("web", json!({ CLAIM: null }));
                }
                he_goes(world);
            },
            |world| {
                world.assert_held(IP);
                assert_eq!(world.address_of(IP).phase(), AddressPhase::Bound);
                assert_late_waits(world);
            },
        );
    }
}
