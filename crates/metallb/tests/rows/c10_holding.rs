//! Contract §10: holding. With `gap` the scenario itself frees the address; then the pool has room or nobody waits.

use api::wellknown::{driver, metallb as names};
use kube::ResourceExt;
use plan::Ref;
use rstest::rstest;
use serde_json::json;

use crate::world::build::{
    HOME, IP, Setup, address_ref, home_ref, pool, pool_ref, service_in, service_ref, static_address,
    thief_ref, web,
};
use crate::world::look::condition;
use crate::world::{Pace, World, crash};

fn quiet() -> Setup {
    Setup { contended: false, ..Setup::default() }
}

fn open(world: &mut World) {
    world.law.gap = true;
}

#[test]
fn c10_01_a_class_deleted_loses_no_hold() {
    let setup = Setup::default();
    crash::everywhere(
        &setup,
        |world| {
            world.delete(&Ref::class("pub"));
            world.settle();
            // All goes on without the class.
            world.create(web("web-ip"));
            world.settle();
            world.assert_associated("web", &[IP]);
            world.delete(&service_ref("web"));
        },
        |world| world.assert_held(IP),
    );
}

#[test]
fn c10_02_placeholder_deleted_by_hand_comes_back() {
    crash::everywhere(
        &quiet(),
        |world| {
            open(world);
            let name = world.hold(IP).name_any();
            world.delete(&home_ref(&name));
        },
        |world| world.assert_held(IP),
    );
}

#[test]
fn c10_03_placeholder_deleted_by_hand_while_contended_names_the_thief() {
    let mut world = Setup::default().world(Pace::Eager);
    open(&mut world);
    let name = world.hold(IP).name_any();
    world.delete(&home_ref(&name));
    world.settle();
    assert_eq!(world.holders(IP), ["tenant-b/a-thief"]);
    let held = condition(&world.address_of(IP), "Held");
    assert_eq!(held, Some(("False".into(), "HeldByOther".into())), "{}", world.last_words(40));
    // Nobody of ours has taken it, and the hold waits for it by name.
    world.hold(IP);
    world.delete(&thief_ref());
    world.settle();
    world.assert_held(IP);
}

#[test]
fn c10_04_pool_renamed_the_hold_drops_the_name() {
    crash::everywhere(
        &quiet(),
        |world| {
            open(world);
            world.create(pool("new-name", json!({ "addresses": ["192.0.2.0/32"], "autoAssign": false })));
            world.delete(&pool_ref("reserved"));
        },
        |world| {
            world.assert_held(IP);
            assert_eq!(world.hold(IP).annotations().get(names::POOL), None);
        },
    );
}

#[test]
fn c10_05_pool_gone_and_back_is_held_as_before() {
    crash::everywhere(
        &quiet(),
        |world| {
            open(world);
            world.delete(&pool_ref("reserved"));
            world.settle();
            assert_eq!(condition(&world.address_of(IP), "Held").unwrap().0, "False");
            assert_eq!((world.addresses().len(), world.placeholders().len()), (1, 1));
            world.create(pool("reserved", json!({ "addresses": ["192.0.2.0/32"], "autoAssign": false })));
        },
        |world| world.assert_held(IP),
    );
}

#[test]
fn c10_06_avoid_buggy_ips_and_back() {
    let mut world = quiet().world(Pace::Eager);
    open(&mut world);
    world.patch(&pool_ref("reserved"), json!({ "spec": { "avoidBuggyIPs": true } }));
    world.settle();
    assert_eq!(condition(&world.address_of(IP), "Held").unwrap().0, "False");
    world.patch(&pool_ref("reserved"), json!({ "spec": { "avoidBuggyIPs": null } }));
    world.settle();
    world.assert_held(IP);
}

#[test]
fn c10_07_widened_pool_moves_nothing() {
    let mut world = Setup::default().world(Pace::Eager);
    world.create(web("web-ip"));
    world.settle();
    world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.0/28"] } }));
    world.settle();
    world.assert_associated("web", &[IP]);
}

#[test]
fn c10_08_static_address_gets_finalizer_and_hold() {
    crash::from(
        |pace| Setup::roomy().empty(pace),
        |world| {
            world.create(static_address("by-hand", "192.0.2.5"));
        },
        |world| {
            world.assert_held("192.0.2.5");
            let address = world.address("by-hand");
            assert!(address.finalizers().iter().any(|name| name == driver::TEARDOWN));
            assert_eq!(world.hold("192.0.2.5").name_any(), "iad-by-hand");
        },
    );
}

#[test]
fn c10_09_of_two_objects_with_one_ip_the_older_is_held() {
    let mut world = Setup::roomy().world(Pace::Eager);
    world.pass(5);
    world.create(static_address("again", IP));
    world.settle();
    assert_eq!(world.placeholders().len(), 1);
    let again = world.address("again");
    assert!(!again.finalizers().iter().any(|name| name == driver::TEARDOWN), "the older alone is ours");
    world.delete(&address_ref("again"));
    world.settle();
    world.assert_held(IP);
}

#[test]
fn c10_10_a_keyless_placeholder_of_the_go_implementation_gets_a_key() {
    crash::everywhere(
        &Setup::default(),
        |world| {
            let name = world.hold(IP).name_any();
            let body =
                json!({ "metadata": { "annotations": { names::SHARE: null, driver::DESCRIPTION: null } } });
            world.patch(&home_ref(&name), body);
        },
        |world| world.assert_held(IP),
    );
}

#[test]
fn c10_11_two_placeholders_become_one() {
    crash::everywhere(
        &Setup::default(),
        |world| {
            let mut hold = world.hold(IP);
            hold.metadata.name = Some("iad-ip-192-0-2-0".into());
            hold.metadata.resource_version = None;
            hold.metadata.uid = None;
            hold.metadata.annotations.as_mut().unwrap().remove(names::SHARE);
            hold.status = None;
            world.create(hold);
        },
        |world| {
            world.assert_held(IP);
            assert_eq!(world.placeholders().len(), 1);
        },
    );
}

#[rstest]
#[case::c10_12_type_changed(json!({ "spec": { "type": "ClusterIP" } }))]
#[case::c10_13_pin_taken_off(json!({ "metadata": { "annotations": { names::PIN: null } } }))]
#[case::c10_14_pin_changed(json!({ "metadata": { "annotations": { names::PIN: "192.0.2.3" } } }))]
#[case::c10_15_shape_changed(json!({ "spec": { "externalTrafficPolicy": "Local", "selector": { "a": "b" } } }))]
fn hold_edited_by_hand(#[case] body: serde_json::Value) {
    crash::everywhere(
        &Setup::roomy(),
        |world| {
            open(world);
            let name = world.hold(IP).name_any();
            world.patch(&home_ref(&name), body.clone());
        },
        |world| world.assert_held(IP),
    );
}

#[test]
fn c10_16_a_stranger_of_that_name_is_reported() {
    let mut world = quiet().world(Pace::Eager);
    open(&mut world);
    world.create(service_in(HOME, "iad-ip-192-0-2-0", json!({}), json!({ "type": "ClusterIP" })));
    world.settle();
    let name = world.placeholders().into_iter().find(|hold| hold.annotations().contains_key(names::PIN));
    world.delete(&home_ref(&name.unwrap().name_any()));
    world.settle();
    let about = address_ref("ip-192-0-2-0");
    assert!(world.told_once(&about, "PlaceholderBlocked").contains("iad-ip-192-0-2-0"));
    world.delete(&home_ref("iad-ip-192-0-2-0"));
    world.settle();
    world.assert_held(IP);
}

#[test]
fn c10_17_metallb_restarts_and_nothing_moves() {
    let mut world = Setup::default().world(Pace::Eager);
    world.metallb.restart(&mut world.server);
    world.settle();
    world.assert_held(IP);
    assert_eq!(world.writes, 0, "{}", world.last_words(40));
}

#[test]
fn c10_18_all_placeholders_deleted_at_once() {
    let setup = Setup { addresses: vec!["192.0.2.0/30"], contended: false, ..Setup::default() };
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(1), Pace::Shuffled(2)] {
        let mut world = setup.world(pace);
        for name in ["b", "c", "d", "late", "later"] {
            world.create(crate::world::build::claim("tenant-a", name, json!({})));
        }
        world.settle();
        assert_eq!(world.addresses().len(), 4);
        open(&mut world);
        for hold in world.placeholders() {
            world.delete(&home_ref(&hold.name_any()));
        }
        world.settle();
        world.pass(600);
        assert_eq!(world.addresses().len(), 4);
        for ip in [IP, "192.0.2.1", "192.0.2.2", "192.0.2.3"] {
            world.assert_held(ip);
        }
    }
}
