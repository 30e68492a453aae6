//! Case D4: whom a pool serves changes under a live Service. Each verdict is looked at again by what changed it: the
//! pool, the labels of a namespace, the labels of the Service.

use plan::{Kind, Ref};
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::build::{HOME, IP, Setup, address_ref, claim, namespace, pool_ref, service_ref, web};
use crate::world::look::condition;
use crate::world::{Pace, World, crash};

fn namespace_ref(name: &str) -> Ref {
    Ref { kind: Kind::Namespace, namespace: None, name: name.to_owned() }
}

fn relabel(world: &mut World, name: &str, labels: Value) {
    world.patch(&namespace_ref(name), json!({ "metadata": { "labels": labels } }));
}

fn allocate(world: &mut World, allocation: Value) {
    world.patch(&pool_ref("reserved"), json!({ "spec": { "serviceAllocation": allocation } }));
}

/// `web` is associated; the pool serves the placeholders' namespace and those with `team: a`, as tenant-a has.
fn by_label(pace: Pace) -> World {
    let mut world = Setup::default().world(pace);
    relabel(&mut world, "tenant-a", json!({ "team": "a" }));
    allocate(
        &mut world,
        json!({ "namespaces": [HOME], "namespaceSelectors": [{ "matchLabels": { "team": "a" } }] }),
    );
    world.create(web("web-ip"));
    world.settle();
    world.assert_associated("web", &[IP]);
    world
}

#[test]
fn d4_namespace_label_removed_and_put_back() {
    crash::from(
        by_label,
        |world| {
            // MetalLB takes the IP off the Service: until the hold is there it is with nobody.
            world.law.gap = true;
            relabel(world, "tenant-a", json!({ "team": null }));
            world.settle();
            world.assert_held(IP);
            world.assert_bare("web");
            let told = world.told(&service_ref("web"), "AssociationRejected");
            assert!(
                told.iter().any(|note| note.contains("does not admit Services of namespace tenant-a")),
                "{told:?}"
            );
            relabel(world, "tenant-a", json!({ "team": "a" }));
        },
        |world| world.assert_associated("web", &[IP]),
    );
}

#[test]
fn d4_service_label_removed_and_put_back() {
    let label = |world: &mut World, value: Value| {
        world.patch(&service_ref("web"), json!({ "metadata": { "labels": { "public": value } } }));
    };
    crash::from(
        |pace| {
            let mut world = Setup::default().world(pace);
            allocate(
                &mut world,
                json!({ "serviceSelectors": [
                    { "matchLabels": { "public": "yes" } },
                    { "matchLabels": { "metallb.drivers.local.sdn.cozystack.io/placeholder": "true" } },
                ] }),
            );
            world.create(web("web-ip"));
            label(&mut world, json!("yes"));
            world.settle();
            world.assert_associated("web", &[IP]);
            world
        },
        |world| {
            world.law.gap = true;
            label(world, Value::Null);
            world.settle();
            world.assert_held(IP);
            world.assert_bare("web");
            label(world, json!("yes"));
        },
        |world| world.assert_associated("web", &[IP]),
    );
}

/// Neither the Service nor a placeholder is admitted: nobody has the address, the ledger and the class say why, and
/// nothing else is reserved. Undone, the same Service has the same IP, unless a stranger who waits was quicker.
#[test]
fn d4_pool_for_others_only_and_back() {
    crash::from(
        |pace| {
            let mut world = Setup { contended: false, ..Setup::default() }.world(pace);
            world.create(claim("tenant-b", "late", json!({})));
            world.create(web("web-ip"));
            world.settle();
            world
        },
        |world| {
            world.law.gap = true;
            allocate(world, json!({ "namespaces": ["nobody"] }));
            world.settle();
            assert!(world.holders(IP).is_empty());
            assert_eq!(
                condition(&world.address_of(IP), "Held"),
                Some(("False".into(), "NotAssigned".into()))
            );
            assert_eq!(world.addresses().len(), 1);
            assert_eq!(world.claim_phase("web-ip"), "Bound");
            assert_eq!(class_says(world), "PoolUnserviceable");
            allocate(world, Value::Null);
        },
        |world| {
            world.assert_associated("web", &[IP]);
            assert_eq!(class_says(world), "Accepted");
        },
    );
}

/// The class is looked at again when the placeholders' namespace is admitted by its labels no longer.
#[test]
fn d4_home_relabelled() {
    let mut world = Setup::roomy().world(Pace::Eager);
    world.law.gap = true;
    let selectors = json!([{ "matchLabels": { "name": HOME } }, { "matchLabels": { "name": "tenant-a" } }]);
    allocate(&mut world, json!({ "namespaceSelectors": selectors }));
    world.settle();
    world.assert_held(IP);
    relabel(&mut world, HOME, json!({ "name": "other" }));
    world.settle();
    assert_eq!(class_says(&world), "PoolUnserviceable");
    assert_eq!(condition(&world.address_of(IP), "Held").unwrap().0, "False");
    relabel(&mut world, HOME, json!({ "name": HOME }));
    world.settle();
    assert_eq!(class_says(&world), "Accepted");
    world.assert_held(IP);
}

/// Selectors that no namespace fits restrict nobody; the first that fits restricts all others, the last gone frees them.
#[rstest]
#[case::relabelled(true)]
#[case::made_and_deleted(false)]
fn d4_first_and_last_namespace_that_fits(#[case] relabelled: bool) {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Shuffled(1)] {
        let mut world = Setup { contended: false, ..Setup::default() }.world(pace);
        world.law.gap = true;
        allocate(&mut world, json!({ "namespaceSelectors": [{ "matchLabels": { "team": "z" } }] }));
        world.create(web("web-ip"));
        world.settle();
        world.assert_associated("web", &[IP]);
        assert_eq!(class_says(&world), "Accepted");
        if relabelled {
            relabel(&mut world, "tenant-b", json!({ "team": "z" }));
        } else {
            world.create(namespace("tenant-z", json!({ "team": "z" })));
        }
        world.settle();
        assert!(world.holders(IP).is_empty(), "{}", world.last_words(60));
        assert_eq!(class_says(&world), "PoolUnserviceable");
        if relabelled {
            relabel(&mut world, "tenant-b", json!({ "team": null }));
        } else {
            world.delete(&namespace_ref("tenant-z"));
            world.server.end_namespace("tenant-z");
        }
        world.settle();
        world.assert_associated("web", &[IP]);
        assert_eq!(class_says(&world), "Accepted");
    }
}

/// A pool for the tenant only: a Service that has the address keeps it, deleted or not, and is told why; a new one gets it
/// though nobody holds it.
#[test]
fn d4_pool_for_the_tenant_only() {
    crash::from(
        |pace| {
            let mut world = Setup { contended: false, ..Setup::default() }.world(pace);
            world.law.gap = true;
            allocate(&mut world, json!({ "namespaces": ["tenant-a"] }));
            world.settle();
            assert!(world.holders(IP).is_empty());
            world
        },
        |world| {
            world.create(web("web-ip"));
            world.settle();
            world.assert_associated("web", &[IP]);
            world.law.gap = false;
            world.delete(&service_ref("web"));
            world.settle();
            assert_eq!(world.shows("web"), [IP]);
            for about in [service_ref("web"), address_ref("ip-192-0-2-0")] {
                let words = world.told_once(&about, "PlaceholderRefused");
                assert!(words.contains("tenant-a/web keeps 192.0.2.0") && words.contains(HOME), "{words}");
            }
            allocate(world, json!({ "namespaces": ["tenant-a", HOME] }));
        },
        |world| {
            world.assert_held(IP);
            assert_eq!(class_says(world), "Accepted");
        },
    );
}

/// Labels that no pool asks for wake nobody, and nobody's labels matter to a pool that restricts nobody.
#[test]
fn d4_other_labels_wake_nobody() {
    let mut world = by_label(Pace::Eager);
    world.mark();
    relabel(&mut world, "tenant-a", json!({ "colour": "red" }));
    relabel(&mut world, "tenant-b", json!({ "colour": "red" }));
    world.settle();
    assert_eq!(world.writes, 0, "{}", world.last_words(40));
    world.assert_associated("web", &[IP]);
}

fn class_says(world: &World) -> String {
    let conditions = world.class("pub").status.unwrap_or_default().conditions;
    conditions.into_iter().find(|condition| condition.type_ == "Accepted").unwrap().reason
}
