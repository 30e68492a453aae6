//! Contract §9: reservation.

use api::address::ClaimRef;
use api::claim::ClaimPhase;
use api::conditions::{find, types};
use api::{ClaimKey, Family, IPAddressClaim};
use kube::ResourceExt;
use plan::{Object, Ref};
use serde_json::json;

use crate::world::build::{
    HOME, IP, IP6, Setup, address_ref, claim, claim_ref, home_ref, pool_ref, static_address,
};
use crate::world::{Pace, World, crash};

fn bound(world: &World, namespace: &str, name: &str) -> Option<IPAddressClaim> {
    match world.server.get(&Ref::claim(&ClaimKey::new(namespace, name))) {
        Some(Object::Claim(claim)) if claim.phase() == ClaimPhase::Bound => Some((**claim).clone()),
        _ => None,
    }
}

#[test]
fn c9_01_every_prefix_of_a_reservation_converges() {
    let setup = Setup { contended: false, ..Setup::default() };
    crash::from(
        |pace: Pace| setup.empty(pace),
        |world| {
            world.create(claim("tenant-a", "web-ip", json!({})));
        },
        |world| {
            assert_eq!(world.claim_phase("web-ip"), "Bound");
            world.assert_held(IP);
            let address = world.address("ip-192-0-2-0");
            let uid = world.claim("web-ip").unwrap().uid();
            assert_eq!(address.spec.claim_ref.as_ref().unwrap().uid, uid);
            assert_eq!(world.placeholders().len(), 1);
        },
    );
}

#[test]
fn c9_02_dual_reserves_both_under_one_key() {
    let setup = Setup { contended: false, ..Setup::dual() };
    crash::from(
        |pace: Pace| setup.empty(pace),
        |world| {
            world.create(claim("tenant-a", "web-ip", json!({ "family": "Dual" })));
        },
        |world| {
            world.assert_held(IP);
            world.assert_held(IP6);
            let key = |ip| world.hold(ip).annotations()["metallb.io/allow-shared-ip"].clone();
            assert_eq!(key(IP), key(IP6), "{}", world.last_words(40));
        },
    );
}

#[test]
fn c9_03_full_pool_withdraws_the_placeholder() {
    let setup = Setup { contended: false, ..Setup::default() };
    crash::from(
        |pace| setup.world(pace),
        |world| {
            world.create(claim("tenant-b", "late", json!({})));
            world.settle();
            // However often it is tried again.
            for _ in 0..5 {
                world.pass(400);
            }
        },
        |world| {
            assert_eq!(world.placeholders().len(), 1, "{}", world.last_words(40));
            let late = Ref::claim(&ClaimKey::new("tenant-b", "late"));
            let told = world.told(&late, "PoolExhausted");
            assert!(!told.is_empty() && told[0].contains("reserved"));
        },
    );
}

#[test]
fn c9_04_exhaustion_is_told_once() {
    let mut world = Setup { contended: false, ..Setup::default() }.world(Pace::Eager);
    world.create(claim("tenant-b", "late", json!({})));
    world.settle();
    for _ in 0..50 {
        world.pass(60);
    }
    world.told_once(&Ref::claim(&ClaimKey::new("tenant-b", "late")), "PoolExhausted");
}

#[test]
fn c9_05_the_oldest_claim_gets_what_becomes_free() {
    let setup = Setup { contended: false, ..Setup::delete() };
    crash::from(
        |pace| {
            let mut world = setup.world(pace);
            for name in ["z-first", "second", "a-third"] {
                world.pass(5);
                world.create(claim("tenant-b", name, json!({})));
            }
            world.settle();
            world
        },
        |world| world.delete(&claim_ref("web-ip")),
        |world| {
            assert!(bound(world, "tenant-b", "z-first").is_some(), "{}", world.last_words(60));
            assert!(bound(world, "tenant-b", "second").is_none());
        },
    );
}

/// Whoever has an address already is not counted against the room that is left.
#[test]
fn c9_18_nobody_is_told_of_a_full_pool_that_is_none() {
    for pace in crash::paces() {
        let setup = Setup { contended: false, addresses: vec!["192.0.2.0/30"], ..Setup::default() };
        let mut world = setup.empty(pace);
        for name in ["one", "two", "three", "four"] {
            world.create(claim("tenant-a", name, json!({})));
        }
        world.settle();
        for name in ["one", "two", "three", "four"] {
            assert_eq!(world.claim_phase(name), "Bound");
            assert_eq!(
                world.told(&claim_ref(name), "PoolExhausted"),
                [""; 0],
                "{pace:?}: {}",
                world.last_words(60)
            );
        }
    }
}

#[test]
fn c9_06_widened_pool_serves_all_that_wait() {
    let setup = Setup { contended: false, ..Setup::default() };
    crash::freely(
        |pace| {
            let mut world = setup.world(pace);
            for name in ["one", "two", "three"] {
                world.create(claim("tenant-b", name, json!({})));
            }
            world.settle();
            world
        },
        |world| world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.0/30"] } })),
        |world| {
            for name in ["one", "two", "three"] {
                assert!(bound(world, "tenant-b", name).is_some(), "{name}: {}", world.last_words(60));
            }
            world.assert_held(IP);
        },
    );
}

#[test]
fn c9_07_one_bad_claim_blocks_nobody() {
    // The oldest wants IPv6, of which the pool has none.
    let mut world = Setup::roomy().empty(Pace::Eager);
    world.create(claim("tenant-a", "six", json!({ "family": "IPv6" })));
    world.settle();
    world.create(claim("tenant-a", "dual", json!({ "family": "Dual" })));
    world.settle();
    world.create(claim("tenant-a", "web-ip", json!({})));
    world.settle();
    assert_eq!(world.claim_phase("web-ip"), "Bound", "{}", world.last_words(40));
    assert!(world.told(&claim_ref("six"), "PoolExhausted")[0].contains("IPv6"));
    // Dual holds the one it has and says which is missing.
    assert!(world.told(&claim_ref("dual"), "PoolExhausted")[0].contains("IPv6"));
    assert_eq!(world.placeholders().len(), 2);
}

#[test]
fn c9_08_a_placeholder_that_landed_on_a_ledger_address_is_given_back() {
    // An admin enters an address by hand in the moment in which it is being allocated.
    for turns in 0..6 {
        let mut world = Setup { contended: false, ..Setup::default() }.empty(Pace::Lazy);
        world.create(claim("tenant-a", "web-ip", json!({})));
        world.turns(turns);
        if !world.addresses().is_empty() {
            break;
        }
        world.law.gap = true;
        world.create(static_address("by-hand", IP));
        world.settle();
        world.pass(600);
        world.law.gap = false;
        let by_hand = world.address("by-hand");
        assert_eq!(world.addresses().len(), 1);
        assert_eq!(by_hand.spec.claim_ref.as_ref().map(|claim| claim.name.as_str()), Some("web-ip"));
        world.assert_held(IP);
    }
}

#[test]
fn c9_09_ledger_mismatch_is_told_and_the_rightful_hold_re_arms() {
    let mut world = Setup { contended: false, ..Setup::default() }.empty(Pace::Eager);
    world.create(claim("tenant-b", "rival", json!({ "addressName": "by-hand" })));
    world.settle();
    let mut by_hand = static_address("by-hand", IP);
    by_hand.spec.claim_ref = Some(ClaimRef { namespace: "tenant-b".into(), name: "rival".into(), uid: None });
    world.pace = Pace::Lazy;
    world.create(claim("tenant-a", "web-ip", json!({})));
    while world.holders(IP).is_empty() {
        world.turns(1);
    }
    world.law.gap = true;
    world.create(by_hand);
    world.settle();
    world.told_once(&claim_ref("web-ip"), "LedgerMismatch");
    assert!(bound(&world, "tenant-b", "rival").is_some(), "{}", world.last_words(60));
    world.assert_held(IP);
    assert_eq!(world.claim_phase("web-ip"), "Pending");
}

#[test]
fn c9_10_claim_deleted_while_allocating() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(2)] {
        for turns in 0..10 {
            let mut world = Setup { contended: false, ..Setup::delete() }.empty(pace);
            world.create(claim("tenant-a", "web-ip", json!({})));
            world.turns(turns);
            world.delete(&claim_ref("web-ip"));
            world.settle();
            assert!(world.addresses().is_empty(), "{}", world.last_words(40));
            assert!(world.placeholders().is_empty(), "{}", world.last_words(40));
            assert!(world.holders(IP).is_empty());
        }
    }
}

#[test]
fn c9_11_claim_recreated_while_allocating() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(2)] {
        for turns in 0..10 {
            let mut world = Setup { contended: false, ..Setup::delete() }.empty(pace);
            world.create(claim("tenant-a", "web-ip", json!({})));
            world.turns(turns);
            world.delete(&claim_ref("web-ip"));
            if world.claim("web-ip").is_some() {
                world.settle();
            }
            world.create(claim("tenant-a", "web-ip", json!({})));
            world.settle();
            world.pass(600);
            assert_eq!(world.claim_phase("web-ip"), "Bound", "{turns}: {}", world.last_words(60));
            world.assert_held(IP);
        }
    }
}

#[test]
fn c9_12_restored_claim_waits_for_its_released_address() {
    let mut world = Setup::roomy().world(Pace::Eager);
    world.delete(&claim_ref("web-ip"));
    world.settle();
    world.create(claim("tenant-a", "web-ip", json!({})));
    world.settle();
    world.pass(3600);
    assert_eq!(world.claim_phase("web-ip"), "Pending");
    assert_eq!(world.placeholders().len(), 1, "takes no fresh one: {}", world.last_words(30));
    // The edit that gives it back.
    let body = json!({ "spec": { "claimRef": { "uid": null } } });
    world.patch(&address_ref("ip-192-0-2-0"), body);
    world.settle();
    assert_eq!(world.claim_phase("web-ip"), "Bound");
    world.assert_held(IP);
}

#[test]
fn c9_13_a_lost_claim_is_never_provisioned_anew() {
    let mut world = Setup::roomy().world(Pace::Eager);
    world.law.gap = true;
    world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.4/30"] } }));
    world.settle();
    assert_eq!(world.claim_phase("web-ip"), "Lost");
    world.pass(3600);
    assert_eq!(world.addresses().len(), 1);
    assert_eq!(world.placeholders().len(), 1);
}

#[test]
fn c9_14_claims_of_others_and_by_name_are_left_alone() {
    let mut world = Setup::roomy().empty(Pace::Eager);
    world.create(claim("tenant-a", "named", json!({ "addressName": "ip-192-0-2-5" })));
    world.create(claim("tenant-a", "other", json!({ "className": "elsewhere" })));
    world.settle();
    world.pass(3600);
    assert!(world.placeholders().is_empty());
    world.create(static_address("ip-192-0-2-5", "192.0.2.5"));
    world.settle();
    assert_eq!(world.claim_phase("named"), "Bound");
    world.assert_held("192.0.2.5");
}

#[test]
fn c9_15_a_quota_is_said_on_the_claim_in_those_words() {
    let mut world = Setup::roomy().empty(Pace::Eager);
    world.server.full_namespaces.insert(HOME.to_owned());
    world.create(claim("tenant-a", "web-ip", json!({})));
    world.settle();
    for _ in 0..20 {
        world.pass(60);
    }
    assert!(world.told_once(&claim_ref("web-ip"), "ReservationFailed").contains("exceeded quota"));
    world.server.full_namespaces.clear();
    world.pass(600);
    assert_eq!(world.claim_phase("web-ip"), "Bound");
}

/// What cannot be reserved stands in nobody's way: the family that is there is held, and held again.
#[test]
fn f3_a_family_that_the_cluster_lacks_starves_no_hold() {
    let mut world = Setup { contended: false, ..Setup::dual() }.empty(Pace::Eager);
    world.server.without_v6 = true;
    world.create(claim("tenant-a", "web-ip", json!({ "family": "Dual" })));
    world.settle();
    world.assert_held(IP);
    let told = world.told(&claim_ref("web-ip"), "ReservationFailed");
    assert!(told.iter().any(|note| note.contains("no IPv6") && note.contains("not configured")), "{told:#?}");
    world.law.gap = true;
    let name = world.hold(IP).name_any();
    world.delete(&home_ref(&name));
    world.settle();
    world.assert_held(IP);
    assert_eq!(world.claim_phase("web-ip"), "Pending");

    // A condition of the class says it, through a restart, too, until the cluster has that family.
    let lacks = |world: &World| {
        let status = world.class("pub").status.unwrap_or_default();
        let kind = types::available(Family::IPv6);
        find(&status.conditions, kind).map(|told| (told.status.clone(), told.message.clone()))
    };
    let told = lacks(&world);
    assert!(
        told.as_ref().is_some_and(|(status, words)| status == "False" && words.contains("IPv6")),
        "{told:?}"
    );
    world.restart();
    world.settle();
    assert_eq!(lacks(&world), told);
    world.server.without_v6 = false;
    world.pass(600);
    assert_eq!(world.claim_phase("web-ip"), "Bound");
    assert_eq!(lacks(&world), None);
}

#[test]
fn c9_16_nobody_of_ours_queues_while_an_address_is_unheld() {
    // A hold deleted by hand while a claim waits and the pool has no room: MetalLB must find only the hold.
    let setup = Setup { contended: false, ..Setup::default() };
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(2), Pace::Shuffled(5)] {
        let mut world = setup.world(pace);
        world.create(claim("tenant-b", "late", json!({})));
        world.settle();
        world.law.gap = true;
        let name = world.hold(IP).name_any();
        world.delete(&home_ref(&name));
        world.settle();
        world.pass(600);
        world.law.gap = false;
        world.assert_held(IP);
        assert_eq!(world.addresses().len(), 1, "{}", world.last_words(40));
    }
}

#[test]
fn c9_17_widened_to_dual() {
    let setup = Setup { family: "IPv4", contended: false, ..Setup::dual() };
    crash::from(
        |pace| setup.world(pace),
        |world| {
            world.patch(&claim_ref("web-ip"), json!({ "spec": { "family": "Dual" } }));
        },
        |world| world.assert_held(IP),
    );
}

/// MetalLB starts with empty books, and its counters show them: what Services show is not free.
#[test]
fn j1_counters_of_a_metallb_that_starts_are_not_believed() {
    let setup = Setup { addresses: vec!["192.0.2.0/28"], contended: false, ..Setup::default() };
    let mut world = setup.world(Pace::Eager);
    for number in 0..16 {
        world.create(claim("tenant-a", &format!("late-{number}"), json!({})));
    }
    world.settle();
    assert_eq!(world.addresses().len(), 16);
    world.pass(600);
    world.mark();
    for available in [16, 12, 1, 0] {
        let body = json!({ "availableIPv4": available, "availableIPv6": 0 });
        world.patch_status(&pool_ref("reserved"), body);
        world.settle();
        assert_eq!(world.writes, 0, "{available}: {}", world.last_words(40));
    }
}
