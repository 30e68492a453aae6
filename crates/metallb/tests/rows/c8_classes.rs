//! Contract §8: classes.

use api::wellknown::AUTO_CLAIM_CLASS;
use plan::Ref;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::build::{IP, Setup, claim, claim_ref, class, pool, pool_ref};
use crate::world::{Pace, World, crash};

fn accepted(world: &World, name: &str) -> (String, String) {
    let conditions = world.class(name).status.clone().unwrap_or_default().conditions;
    let found = conditions.iter().find(|condition| condition.type_ == "Accepted").unwrap();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!((&found.status, &found.reason), (&ready.status, &ready.reason));
    (found.status.clone(), found.reason.clone())
}

fn good() -> Value {
    json!({ "addresses": ["192.0.2.0/29"], "autoAssign": false })
}

/// The class is refused with that reason and those words, once each on class and claim; a good pool and good
/// parameters clear it.
#[rstest]
#[case::c8_01_addresses(json!({ "addresses": ["192.0.2.0/29"] }), Some(good()), "InvalidParameters", "migrate")]
#[case::c8_02_unknown_field(json!({ "pool": "reserved", "size": 1 }), Some(good()), "InvalidParameters", "size")]
#[case::c8_03_no_pool_named(json!({}), Some(good()), "InvalidParameters", "pool is missing")]
#[case::c8_04_pool_missing(json!({ "pool": "reserved" }), None, "PoolNotFound", "reserved")]
#[case::c8_05_pool_auto_assigns(
    json!({ "pool": "reserved" }), Some(json!({ "addresses": ["192.0.2.0/29"], "autoAssign": true })),
    "PoolAutoAssigns", "autoAssign"
)]
#[case::c8_06_absent_auto_assign(
    json!({ "pool": "reserved" }), Some(json!({ "addresses": ["192.0.2.0/29"] })), "PoolAutoAssigns", "autoAssign"
)]
#[case::c8_07_pool_admits_no_placeholder(
    json!({ "pool": "reserved" }),
    Some(json!({ "addresses": ["192.0.2.0/29"], "autoAssign": false,
                 "serviceAllocation": { "namespaces": ["tenant-a"] } })),
    "PoolUnserviceable", "metallb-iad-system"
)]
#[case::c8_08_pool_admits_other_labels_only(
    json!({ "pool": "reserved" }),
    Some(json!({ "addresses": ["192.0.2.0/29"], "autoAssign": false,
                 "serviceAllocation": { "serviceSelectors": [{ "matchLabels": { "x": "y" } }] } })),
    "PoolUnserviceable", "serviceSelector"
)]
#[case::c8_14_pool_that_metallb_cannot_read(
    json!({ "pool": "reserved" }),
    Some(json!({ "addresses": ["192.0.2.0/29", "192.0.2.256"], "autoAssign": false })),
    "PoolUnreadable", "192.0.2.256"
)]
fn refused(
    #[case] parameters: Value,
    #[case] spec: Option<Value>,
    #[case] reason: &str,
    #[case] words: &str,
) {
    let mut world = Setup::roomy().empty(Pace::Eager);
    world.delete(&Ref::class("pub"));
    world.delete(&pool_ref("reserved"));
    world.settle();
    world.mark();
    let there = spec.is_some();
    if let Some(spec) = spec {
        world.create(pool("reserved", spec));
    }
    world.create(class("pub", "Retain", parameters));
    world.create(claim("tenant-a", "web-ip", json!({})));
    world.settle();
    assert_eq!(accepted(&world, "pub"), ("False".into(), reason.into()));
    assert!(world.told_once(&Ref::class("pub"), "PoolRefused").contains(words));
    assert!(world.told_once(&claim_ref("web-ip"), "PoolRefused").contains(words));
    assert!(world.placeholders().is_empty());
    // Told once, whatever else happens.
    world.restart();
    world.pass(3600);
    world.told_once(&Ref::class("pub"), "PoolRefused");
    world.told_once(&claim_ref("web-ip"), "PoolRefused");
    // The cause goes.
    world.patch(&Ref::class("pub"), json!({ "spec": { "parameters": null } }));
    world.patch(&Ref::class("pub"), json!({ "spec": { "parameters": { "pool": "reserved" } } }));
    if there {
        world.patch(&pool_ref("reserved"), json!({ "spec": null }));
        world.patch(&pool_ref("reserved"), json!({ "spec": good() }));
    } else {
        world.create(pool("reserved", good()));
    }
    world.settle();
    assert_eq!(accepted(&world, "pub"), ("True".into(), "Accepted".into()));
    world.assert_held(IP);
}

#[test]
fn c8_09_pool_named_twice_refuses_both_and_touches_nothing() {
    let mut world = Setup::roomy().world(Pace::Eager);
    world.create(class("copy", "Retain", json!({ "pool": "reserved" })));
    world.create(claim("tenant-a", "next", json!({})));
    world.settle();
    for name in ["pub", "copy"] {
        assert_eq!(accepted(&world, name), ("False".into(), "PoolNamedTwice".into()));
        world.told_once(&Ref::class(name), "PoolRefused");
    }
    world.told_once(&claim_ref("next"), "PoolRefused");
    world.assert_held(IP);
    assert_eq!(world.placeholders().len(), 1);
    world.delete(&Ref::class("copy"));
    world.settle();
    assert_eq!(accepted(&world, "pub"), ("True".into(), "Accepted".into()));
    assert_eq!(world.claim_phase("next"), "Bound");
}

#[test]
fn c8_10_a_refusal_lets_what_is_assigned_be_recorded() {
    crash::from(
        |pace| Setup::roomy().empty(pace),
        |world| {
            world.create(claim("tenant-a", "web-ip", json!({})));
            // The placeholder is there, MetalLB serves it; then the pool is told to auto-assign.
            while world.holders(IP).is_empty() {
                world.turns(1);
            }
            world.patch(&pool_ref("reserved"), json!({ "spec": { "autoAssign": true } }));
        },
        |world| {
            assert_eq!(accepted(world, "pub").1, "PoolAutoAssigns");
            world.assert_held(IP);
            assert_eq!(world.claim_phase("web-ip"), "Bound");
        },
    );
}

#[test]
fn c8_11_status_mirrors_pool_and_load_balancer_class() {
    let mut setup = Setup::roomy();
    setup.config.lb_class = Some("metallb.io/tenants".to_owned());
    let world = setup.empty(Pace::Eager);
    let status = world.class("pub").status.unwrap();
    assert_eq!(status.load_balancer_class.as_deref(), Some("metallb.io/tenants"));
    assert_eq!(status.pool.as_deref(), Some("reserved"));
}

#[test]
fn c8_12_auto_claim_with_a_load_balancer_class_is_unservable() {
    let mut setup = Setup::roomy();
    setup.config.lb_class = Some("metallb.io/tenants".to_owned());
    let mut world = setup.empty(Pace::Eager);
    let body = json!({ "metadata": { "annotations": { AUTO_CLAIM_CLASS: "true" } } });
    world.patch(&Ref::class("pub"), body);
    world.settle();
    assert!(world.told_once(&Ref::class("pub"), "AutoClaimUnservable").contains(AUTO_CLAIM_CLASS));
}
