//! Contract §7, §10, §11: what people and tools do to placeholders, classes, claims and the ledger by hand.

use api::address::AddressPhase;
use api::wellknown::{CLAIM, driver, metallb as names};
use kube::ResourceExt;
use plan::Ref;
use rstest::rstest;
use serde_json::{Value, json};

use super::c11_reverse::associated;
use crate::world::build::{
    HOME, IP, Setup, address_ref, claim, claim_ref, home_ref, pool, service_in, service_ref, web,
};
use crate::world::look::condition;
use crate::world::{Pace, World, crash};

const OTHER: &str = "192.0.2.1";

/// Two addresses held and the pool full; the first hold is the one that was allocated, or one made later.
fn held_twice(rearmed: bool) -> impl Fn(Pace) -> World {
    move |pace| {
        let setup = Setup { addresses: vec!["192.0.2.0/31"], contended: false, ..Setup::default() };
        let mut world = setup.world(pace);
        world.create(claim("tenant-a", "alt-ip", json!({})));
        world.settle();
        if rearmed {
            world.create(web("web-ip"));
            world.settle();
            world.delete(&service_ref("web"));
            world.settle();
            assert_eq!(world.hold(IP).name_any(), "iad-ip-192-0-2-0");
        }
        world.contend();
        world
    }
}

fn edit_hold(world: &mut World, body: Value) {
    let name = world.hold(IP).name_any();
    world.patch(&home_ref(&name), body);
}

/// The hold is as it was born: found by its labels, owned by nobody.
fn assert_plain(world: &World, ip: &str) {
    world.assert_held(ip);
    let hold = world.hold(ip);
    assert_eq!(hold.labels().get(driver::PLACEHOLDER).map(String::as_str), Some("true"));
    assert_eq!(hold.labels().get(driver::IP_ADDRESS), Some(&world.address_of(ip).name_any()));
    assert!(hold.owner_references().is_empty());
    let spec = hold.spec.unwrap();
    assert_eq!(spec.ip_family_policy.as_deref(), Some("SingleStack"));
    assert_eq!((spec.type_.as_deref(), spec.load_balancer_ip), (Some("LoadBalancer"), None));
}

fn labels(body: Value) -> Value {
    json!({ "metadata": { "labels": body } })
}

/// Edits that MetalLB does not see: nothing moves, with the pool full and rivals waiting, and all is put right.
#[rstest]
#[case::c10_40_placeholder_label_removed(labels(json!({ driver::PLACEHOLDER: null })))]
#[case::c10_41_placeholder_label_changed(labels(json!({ driver::PLACEHOLDER: "false" })))]
#[case::c10_42_address_label_removed(labels(json!({ driver::IP_ADDRESS: null })))]
#[case::c10_43_address_label_of_another(labels(json!({ driver::IP_ADDRESS: "ip-192-0-2-1" })))]
#[case::c10_44_address_label_of_none(labels(json!({ driver::IP_ADDRESS: "ip-192-0-2-99" })))]
#[case::c10_45_all_labels_removed(labels(Value::Null))]
#[case::e2_owner_that_does_not_exist(json!({ "metadata": { "ownerReferences": [{
    "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress", "name": "ip-192-0-2-0", "uid": "gone",
}] } }))]
#[case::c10_46_what_it_says_of_itself(json!({ "metadata": { "annotations": {
    driver::DESCRIPTION: null, driver::CLAIM_NAME: null, driver::CLAIM_NAMESPACE: "elsewhere",
} } }))]
fn hold_relabelled_by_hand(#[case] body: Value, #[values(false, true)] rearmed: bool) {
    crash::from(
        held_twice(rearmed),
        |world| {
            let uid = world.hold(IP).uid();
            edit_hold(world, body.clone());
            world.settle();
            assert_eq!(world.hold(IP).uid(), uid, "made anew: {}", world.last_words(40));
        },
        |world| {
            assert_plain(world, IP);
            assert_plain(world, OTHER);
            assert_eq!(world.placeholders().len(), 2);
        },
    );
}

/// The address is held, there is a second pool, and somebody is about to free the address from outside.
pub fn beside_another_pool(setup: Setup) -> impl Fn(Pace) -> World {
    move |pace| {
        let mut world = setup.world(pace);
        world.create(pool("other", json!({ "addresses": ["198.51.100.0/30"], "autoAssign": false })));
        world.settle();
        world.law.gap = true;
        world
    }
}

/// Edits by which MetalLB takes the IP away: put right, it is held as before.
#[rstest]
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
fn hold_taken_apart_by_hand(#[case] body: Value) {
    crash::from(
        beside_another_pool(Setup::roomy()),
        |world| {
            edit_hold(world, body.clone());
            world.settle();
            // Until then an address may still be recorded that a placeholder was made for.
            world.pass(80);
        },
        |world| assert_plain(world, IP),
    );
}

/// Without its labels and in the middle of a handoff, there and back.
#[test]
fn c10_56_labels_removed_in_the_middle_of_a_handoff() {
    for (pace, turns) in (0..12).flat_map(|turns| [(Pace::Eager, turns), (Pace::Lazy, turns)]) {
        let mut world = held_twice(turns % 2 == 0)(pace);
        let strip = |world: &mut World| {
            for hold in world.placeholders() {
                world.patch(&home_ref(&hold.name_any()), labels(Value::Null));
            }
        };
        world.create(web("web-ip"));
        world.turns(turns);
        strip(&mut world);
        world.settle();
        world.assert_associated("web", &[IP]);
        world.annotate("web", json!({ CLAIM: null }));
        world.turns(turns);
        strip(&mut world);
        world.settle();
        assert_plain(&world, IP);
        assert_plain(&world, OTHER);
    }
}

/// A Service in our namespace that has the name and not the key stays a stranger: it is reported, never taken over.
#[test]
fn c10_57_a_stranger_with_the_name_and_a_pin_is_no_placeholder() {
    let mut world = Setup { contended: false, ..Setup::default() }.world(Pace::Eager);
    world.law.gap = true;
    let hold = world.hold(IP).name_any();
    world.create(service_in(HOME, "iad-ip-192-0-2-0", json!({ names::PIN: IP }), json!({})));
    world.delete(&home_ref(&hold));
    world.settle();
    world.told_once(&address_ref("ip-192-0-2-0"), "PlaceholderBlocked");
    let stranger = world.service_at(&api::ServiceKey::new(HOME, "iad-ip-192-0-2-0")).unwrap();
    assert!(stranger.labels().is_empty());
    world.delete(&home_ref("iad-ip-192-0-2-0"));
    world.settle();
    assert_plain(&world, IP);
}

/// The class draws from another pool from now on: what it had stays where it is, what is new comes from there.
#[test]
fn c8_20_class_moved_to_another_pool() {
    crash::from(
        |pace| {
            let setup = Setup { addresses: vec!["192.0.2.0/31"], contended: false, ..Setup::default() };
            let mut world = setup.world(pace);
            world.create(claim("tenant-a", "alt-ip", json!({})));
            world.create(web("alt-ip"));
            world.create(pool("other", json!({ "addresses": ["198.51.100.0/30"], "autoAssign": false })));
            world.settle();
            world
        },
        |world| {
            world.patch(&Ref::class("pub"), json!({ "spec": { "parameters": { "pool": "other" } } }));
            world.settle();
            assert_plain(world, IP);
            world.assert_associated("web", &[OTHER]);
            world.create(claim("tenant-a", "new-ip", json!({})));
            world.settle();
            world.delete(&service_ref("web"));
        },
        |world| {
            assert_plain(world, IP);
            assert_plain(world, OTHER);
            assert_plain(world, "198.51.100.0");
        },
    );
}

/// The claim is deleted and made again under its name while a Service has the address: the Service gives it back, the
/// address is `Released` to the old claim, and the new one inherits nothing.
#[test]
fn h1_claim_made_again_while_associated() {
    crash::from(
        associated(&Setup::default(), json!({})),
        |world| {
            world.delete(&claim_ref("web-ip"));
            while world.claim("web-ip").is_some() {
                world.turns(1);
            }
            world.create(claim("tenant-a", "web-ip", json!({})));
        },
        |world| {
            world.assert_held(IP);
            world.assert_bare("web");
            assert_eq!(world.address_of(IP).phase(), AddressPhase::Released);
            assert_eq!(world.claim_phase("web-ip"), "Pending");
        },
    );
}

/// An admin clears the `claimRef` of an address that a Service has: it is taken off the Service before anybody gets it.
#[test]
fn c5_claim_ref_cleared_while_associated() {
    let setup = Setup { contended: false, ..Setup::default() };
    crash::freely(
        associated(&setup, json!({})),
        |world| world.patch(&address_ref("ip-192-0-2-0"), json!({ "spec": { "claimRef": null } })),
        |world| {
            // Nobody else wants it: the claim that lost it may have taken it again.
            if world.address_of(IP).phase() == AddressPhase::Bound {
                world.assert_associated("web", &[IP]);
            } else {
                world.assert_held(IP);
                world.assert_bare("web");
            }
        },
    );
}

/// A namespace goes with all that is in it, in whatever order its objects are deleted.
#[rstest]
#[case::i1_claim_first(true)]
#[case::i1_service_first(false)]
fn namespace_goes(#[case] claim_first: bool) {
    crash::from(
        associated(&Setup::default(), json!({})),
        |world| {
            let all = [claim_ref("web-ip"), service_ref("web")];
            for reference in
                if claim_first { all } else { all.into_iter().rev().collect::<Vec<_>>().try_into().unwrap() }
            {
                world.delete(&reference);
            }
        },
        |world| {
            world.assert_held(IP);
            assert_eq!(world.address_of(IP).phase(), AddressPhase::Released);
            assert_eq!(world.claim_phase("web-ip"), "gone");
            assert!(world.services_in("tenant-a").is_empty());
        },
    );
}

/// The ledger's status edited by hand while a Service has the address.
#[rstest]
#[case::c3_60_cleared(json!({ "associatedTo": null }))]
#[case::c3_61_another_name(json!({ "associatedTo": {
    "kind": "Service", "namespace": "tenant-b", "name": "nobody", "uid": "nobody",
} }))]
#[case::c3_62_another_uid(json!({ "associatedTo": { "uid": "nobody" } }))]
#[case::c3_63_phase(json!({ "phase": "Available" }))]
#[case::c3_64_all_of_it(json!({
    "phase": null, "associatedTo": null, "conditions": null, "lastHandoff": null, "associationHistory": null,
}))]
fn ledger_edited_by_hand_while_associated(#[case] body: Value) {
    crash::from(
        associated(&Setup::default(), json!({})),
        |world| {
            // The law reads the ledger, which lies for a moment.
            world.law.gap = true;
            world.patch_status(&address_ref("ip-192-0-2-0"), body.clone());
        },
        |world| {
            world.assert_associated("web", &[IP]);
            assert_eq!(world.address_of(IP).phase(), AddressPhase::Bound);
        },
    );
}

/// The ledger's status edited by hand while the address is held.
#[rstest]
#[case::c3_70_association_made_up(json!({ "associatedTo": {
    "kind": "Service", "namespace": "tenant-b", "name": "a-thief", "uid": "nobody",
} }))]
#[case::c3_71_conditions_gone(json!({ "conditions": null }))]
#[case::c3_72_all_of_it(json!({ "phase": null, "associatedTo": null, "conditions": null }))]
fn ledger_edited_by_hand_while_held(#[case] body: Value) {
    crash::from(
        |pace| Setup::default().world(pace),
        |world| world.patch_status(&address_ref("ip-192-0-2-0"), body.clone()),
        |world| {
            assert_plain(world, IP);
            let held = condition(&world.address_of(IP), "Held");
            assert_eq!(held, Some(("True".into(), "Held".into())));
        },
    );
}
