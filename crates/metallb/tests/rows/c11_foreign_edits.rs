//! Contract §11: what others do to an associated Service, and what MetalLB does.

use api::wellknown::{CLAIM, driver, metallb as names};
use rstest::rstest;
use serde_json::{Value, json};

use super::c11_reverse::{associated, every_mark_off};
use crate::world::build::{IP, Setup, home_ref, pool_ref, service, service_ref, web};
use crate::world::look::condition;
use crate::world::{Pace, World, crash};
use kube::ResourceExt;

fn annotations(body: Value) -> Value {
    json!({ "metadata": { "annotations": body } })
}

#[rstest]
#[case::c4_pin(annotations(json!({ names::PIN: null })))]
#[case::c4_marker(annotations(json!({ driver::PINNED: null })))]
#[case::c4_pin_and_marker(annotations(json!({ names::PIN: null, driver::PINNED: null })))]
#[case::c4_label(json!({ "metadata": { "labels": { driver::ASSOCIATED: null } } }))]
#[case::c4_finalizer(json!({ "metadata": { "finalizers": null } }))]
#[case::e5_all_but_the_claim(json!({ "metadata": {
    "annotations": { names::PIN: null, driver::PINNED: null }, "labels": null, "finalizers": null,
} }))]
fn c11_70_marks_taken_off_come_back_and_nothing_moves(#[case] body: Value) {
    crash::from(
        associated(&Setup::default(), json!({})),
        |world| {
            world.patch(&service_ref("web"), body.clone());
            assert_eq!(world.shows("web"), [IP]);
        },
        |world| world.assert_associated("web", &[IP]),
    );
}

#[test]
fn c11_71_pin_edited_to_another_address_and_back_by_us() {
    // MetalLB moves the Service at once: the address is with nobody until the pin is put back.
    let setup = Setup::roomy();
    crash::from(
        associated(&setup, json!({})),
        |world| {
            world.law.gap = true;
            world.patch(&service_ref("web"), annotations(json!({ names::PIN: "192.0.2.5" })));
        },
        |world| world.assert_associated("web", &[IP]),
    );
}

#[test]
fn c11_72_marks_taken_off_and_then_the_claim() {
    crash::from(
        associated(&Setup::default(), json!({})),
        |world| {
            world.patch(&service_ref("web"), annotations(json!({ driver::PINNED: null })));
            world.patch(&service_ref("web"), annotations(json!({ CLAIM: null })));
        },
        |world| {
            world.assert_held(IP);
            world.assert_bare("web");
        },
    );
}

#[test]
fn c11_73_load_balancer_ip_added_later_leaves_it_served() {
    let mut world = associated(&Setup::default(), json!({}))(Pace::Eager);
    world.patch(&service_ref("web"), json!({ "spec": { "loadBalancerIP": IP } }));
    world.settle();
    assert_eq!(world.shows("web"), [IP]);
    assert_eq!(world.address_of(IP).associated_to().unwrap().name, "web");
}

#[test]
fn c11_74_pool_narrowed_below_a_live_service_and_back() {
    let setup = Setup { contended: false, ..Setup::default() };
    crash::from(
        associated(&setup, json!({})),
        |world| {
            world.law.gap = true;
            world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.8/32"] } }));
            world.settle();
            // Not at the first flap of the status.
            let told = |world: &World| condition(&world.address_of(IP), "Associated").map(|one| one.0);
            assert_eq!(told(world), Some("True".into()));
            world.pass(6);
            assert_eq!(told(world), Some("False".into()), "{}", world.last_words(30));
            world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.0/32"] } }));
        },
        |world| world.assert_associated("web", &[IP]),
    );
}

#[test]
fn c11_75_service_allocation_narrowed_is_held_again_and_comes_back() {
    let setup = Setup { contended: false, ..Setup::default() };
    crash::from(
        associated(&setup, json!({})),
        |world| {
            world.law.gap = true;
            let allocation = json!({ "namespaces": ["metallb-iad-system"] });
            world.patch(&pool_ref("reserved"), json!({ "spec": { "serviceAllocation": allocation } }));
            world.settle();
            assert!(world.shows("web").is_empty());
            let hold = world.hold(IP).name_any();
            assert_eq!(world.holders(IP), [format!("metallb-iad-system/{hold}")], "{}", world.last_words(40));
            world.patch(&pool_ref("reserved"), json!({ "spec": { "serviceAllocation": null } }));
        },
        |world| world.assert_associated("web", &[IP]),
    );
}

#[test]
fn c11_76_metallb_down_while_a_service_is_associated_and_another_lets_go() {
    for name in ["associate", "give back", "delete"] {
        let mut world = Setup::default().world(Pace::Eager);
        if name != "associate" {
            world.create(web("web-ip"));
            world.settle();
        }
        world.metallb.down = true;
        match name {
            "associate" => drop(world.create(web("web-ip"))),
            "give back" => world.annotate("web", json!({ CLAIM: null })),
            _ => world.delete(&service_ref("web")),
        }
        world.settle();
        world.metallb.restart(&mut world.server);
        world.settle();
        match name {
            "associate" => world.assert_associated("web", &[IP]),
            _ => world.assert_held(IP),
        }
    }
}

#[test]
fn c11_77_status_forged_on_and_off() {
    let mut world = associated(&Setup::default(), json!({}))(Pace::Eager);
    world.metallb.down = true;
    for _ in 0..10 {
        world.patch_status(&service_ref("web"), json!({ "loadBalancer": { "ingress": null } }));
        world.settle();
        world.patch_status(&service_ref("web"), json!({ "loadBalancer": { "ingress": [{ "ip": IP }] } }));
        world.settle();
    }
    world.metallb.restart(&mut world.server);
    world.settle();
    world.assert_associated("web", &[IP]);
    assert!(world.placeholders().iter().all(|one| !one.annotations().contains_key(names::PIN)));
    let service_writes = world.story.iter().filter(|line| line.contains("  patch Service")).count();
    assert_eq!(service_writes, 0, "{}", world.last_words(40));
}

#[rstest]
#[case::claim_taken_off(|world: &mut World| world.annotate("web", json!({ CLAIM: null })))]
#[case::deleted(|world: &mut World| world.delete(&service_ref("web")))]
#[case::every_mark_taken_off(every_mark_off)]
fn c11_78_a_foreign_key_added_later_is_never_overwritten(#[case] act: fn(&mut World)) {
    crash::from(
        |pace| {
            let mut world = associated(&Setup::default(), json!({}))(pace);
            world.patch(&service_ref("web"), annotations(json!({ names::SHARE: "tenants-key" })));
            world.settle();
            assert_eq!(world.shows("web"), [IP]);
            world
        },
        act,
        |world| {
            world.assert_held(IP);
            assert_ne!(world.hold(IP).annotations()[names::SHARE], "tenants-key");
            if world.server.get(&service_ref("web")).is_some() {
                let service = world.service("web");
                assert_eq!(service.annotations()[names::SHARE], "tenants-key");
                assert_eq!(service.annotations().get(names::PIN), None);
            }
        },
    );
}

#[test]
fn c11_79_placeholder_deleted_by_hand_in_the_middle_of_a_handoff() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(1)] {
        for turns in 0..10 {
            let mut world = Setup { contended: false, ..Setup::default() }.world(pace);
            world.law.gap = true;
            world.create(web("web-ip"));
            world.turns(turns);
            for hold in world.placeholders() {
                world.delete(&home_ref(&hold.name_any()));
            }
            world.settle();
            world.assert_associated("web", &[IP]);
            world.delete(&service_ref("web"));
            world.turns(turns);
            for hold in world.placeholders() {
                world.delete(&home_ref(&hold.name_any()));
            }
            world.settle();
            world.assert_held(IP);
        }
    }
}

/// Used by nobody else: a Service whose name sorts before the placeholder's namespace.
#[test]
fn c11_80_the_name_of_the_service_does_not_matter() {
    let setup = Setup::default();
    for name in ["a", "zz"] {
        for pace in crash::paces() {
            let mut world: World = setup.world(pace);
            world.create(service(name, json!({ CLAIM: "web-ip" }), json!({})));
            world.settle();
            world.assert_associated(name, &[IP]);
        }
    }
}
