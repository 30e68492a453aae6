//! Contract §11: the way back to the placeholder. Everything contended.

use api::wellknown::{CLAIM, driver, metallb};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::build::{HOME, IP, IP6, Setup, address_ref, claim, claim_ref, service, service_ref, web};
use crate::world::{Pace, World, crash};

/// A world in which `web` has the addresses of `web-ip`.
pub fn associated(setup: &Setup, spec: Value) -> impl Fn(Pace) -> World {
    move |pace| {
        let mut world = setup.world(pace);
        world.create(service("web", json!({ CLAIM: "web-ip" }), spec.clone()));
        world.settle();
        assert_eq!(world.address_of(IP).associated_to().map(|to| to.name.clone()).as_deref(), Some("web"));
        world.mark();
        world
    }
}

fn gives_back(setup: &Setup, spec: Value, act: impl Fn(&mut World)) {
    let dual = setup.family == "Dual";
    crash::from(associated(setup, spec), act, |world| {
        world.assert_held(IP);
        if dual {
            world.assert_held(IP6);
        }
        if world.service_at(&crate::world::build::key("web")).is_some() {
            world.assert_bare("web");
            assert_eq!(world.shows("web"), Vec::<String>::new());
        }
        let history = world.address_of(IP).status.clone().unwrap().association_history;
        assert_eq!(history.len(), 1);
        assert!(history[0].until.is_some());
    });
}

fn annotation_off(world: &mut World) {
    world.annotate("web", json!({ CLAIM: null }));
}

fn service_off(world: &mut World) {
    world.delete(&service_ref("web"));
}

/// A quota that the placeholder would be beyond is told in its words; the Service keeps the address until there is room.
#[rstest]
fn c11_162_a_quota_is_told_on_the_address_and_the_service_keeps_it(
    #[values(false, true)] crowded: bool,
    #[values(annotation_off, service_off)] act: fn(&mut World),
) {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Shuffled(1)] {
        let mut world = associated(&Setup::default().among(crowded), json!({}))(pace);
        world.server.full_namespaces.insert(HOME.to_owned());
        act(&mut world);
        world.settle();
        assert_eq!(world.shows("web"), [IP], "{}", world.last_words(60));
        let note = world.told_once(&address_ref("ip-192-0-2-0"), "PlaceholderRefused");
        assert!(note.contains("exceeded quota"), "{note}");
        world.server.full_namespaces.clear();
        world.pass(600);
        world.assert_held(IP);
    }
}

pub fn every_mark_off(world: &mut World) {
    let body = json!({ "metadata": {
        "annotations": {
            CLAIM: null, driver::PINNED: null, "metallb.io/loadBalancerIPs": null,
        },
        "labels": { driver::ASSOCIATED: null },
        "finalizers": null,
    }});
    world.patch(&service_ref("web"), body);
}

fn foreign_finalizer(world: &mut World) {
    let body = json!({ "metadata": { "finalizers": [driver::HANDOFF, "x.example/y"] } });
    world.patch(&service_ref("web"), body);
    world.delete(&service_ref("web"));
}

#[rstest]
#[case::c11_20_annotation_removed(annotation_off)]
#[case::c11_21_claim_that_is_missing(|world: &mut World| world.annotate("web", json!({ CLAIM: "typo" })))]
#[case::c11_22_service_deleted(service_off)]
#[case::c11_23_terminating_service_with_a_foreign_finalizer(foreign_finalizer)]
#[case::c11_24_replaced_without_any_of_our_marks(every_mark_off)]
fn reverse(#[case] act: fn(&mut World), #[values(false, true)] crowded: bool) {
    gives_back(&Setup::default().among(crowded), json!({}), act);
}

#[rstest]
#[case::c11_25_local_annotation_removed(json!({ "externalTrafficPolicy": "Local" }), annotation_off)]
#[case::c11_26_local_service_deleted(json!({ "externalTrafficPolicy": "Local" }), service_off)]
#[case::c11_27_port_of_the_placeholder(json!({ "ports": [{ "port": 65535 }] }), annotation_off)]
#[case::c11_28_port_of_the_placeholder_deleted(json!({ "ports": [{ "port": 65535 }] }), service_off)]
fn reverse_shapes(#[case] spec: Value, #[case] act: fn(&mut World), #[values(false, true)] crowded: bool) {
    gives_back(&Setup::default().among(crowded), spec, act);
}

#[rstest]
#[case::c11_29_dual_annotation_removed(annotation_off)]
#[case::c11_30_dual_service_deleted(service_off)]
fn reverse_dual(#[case] act: fn(&mut World), #[values(false, true)] crowded: bool) {
    let spec = json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" });
    gives_back(&Setup::dual().among(crowded), spec, act);
}

#[rstest]
fn c11_31_changed_to_another_claim(#[values(false, true)] crowded: bool) {
    let setup =
        Setup { addresses: vec!["192.0.2.0/31"], contended: false, ..Setup::default() }.among(crowded);
    let world = |pace| {
        let mut world = associated(&setup, json!({}))(pace);
        world.create(claim("tenant-a", "alt-ip", json!({})));
        world.settle();
        world.contend();
        world
    };
    crash::from(
        world,
        |world| world.annotate("web", json!({ CLAIM: "alt-ip" })),
        |world| {
            world.assert_associated("web", &["192.0.2.1"]);
            world.assert_held(IP);
        },
    );
    // Back within a second.
    crash::from(
        world,
        |world| {
            world.annotate("web", json!({ CLAIM: "alt-ip" }));
            world.annotate("web", json!({ CLAIM: "web-ip" }));
        },
        |world| {
            world.assert_associated("web", &[IP]);
            world.assert_held("192.0.2.1");
        },
    );
    // Back after a moment in which the handoff has begun.
    for turns in 1..12 {
        let mut world = world(Pace::Eager);
        world.annotate("web", json!({ CLAIM: "alt-ip" }));
        world.turns(turns);
        world.annotate("web", json!({ CLAIM: "web-ip" }));
        world.settle();
        world.assert_associated("web", &[IP]);
        world.assert_held("192.0.2.1");
    }
}

#[rstest]
fn c11_32_removed_and_back_at_once_whenever(#[values(false, true)] crowded: bool) {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(3)] {
        let origin = associated(&Setup::default().among(crowded), json!({}))(pace);
        for turns in 0..14 {
            let mut world = origin.fork();
            world.settle();
            world.annotate("web", json!({ CLAIM: null }));
            world.turns(turns);
            world.annotate("web", json!({ CLAIM: "web-ip" }));
            world.settle();
            world.assert_associated("web", &[IP]);
        }
    }
}

/// The claim's name is taken off and put back before MetalLB has looked at the new placeholder. It may count that one in
/// before any status shows it; so the placeholder stays until it has the IP, as the Service would lose it otherwise.
#[test]
fn c11_42_turned_round_before_metallb_has_seen_the_placeholder() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(3)] {
        let mut world = associated(&Setup::default(), json!({}))(pace);
        world.metallb.down = true;
        for claim in [json!(null), json!("web-ip"), json!(null), json!("web-ip")] {
            world.annotate("web", json!({ CLAIM: claim }));
            world.settle();
        }
        let (web, hold) = (world.service("web"), world.hold(IP));
        let key = |service: &Service| service.annotations().get(metallb::SHARE).cloned();
        assert!(key(&web).is_some() && key(&web) == key(&hold), "{}", world.last_words(60));
        world.metallb.down = false;
        world.settle();
        world.assert_associated("web", &[IP]);
    }
}

#[test]
fn c11_33_removed_in_the_middle_of_the_way_there() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(3)] {
        let origin = Setup::default().world(pace);
        for turns in 0..14 {
            let mut world = origin.fork();
            world.settle();
            world.create(web("web-ip"));
            world.turns(turns);
            world.annotate("web", json!({ CLAIM: null }));
            world.settle();
            world.assert_held(IP);
            world.assert_bare("web");
        }
    }
}

#[test]
fn c11_34_deleted_in_the_middle_of_the_way_there() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(3)] {
        let origin = Setup::default().world(pace);
        for turns in 0..14 {
            let mut world = origin.fork();
            world.settle();
            world.create(web("web-ip"));
            world.turns(turns);
            world.delete(&service_ref("web"));
            world.settle();
            world.assert_held(IP);
        }
    }
}

#[rstest]
#[case::c11_35_shape_edited_in_the_middle_cluster_to_local(json!({ "externalTrafficPolicy": "Local" }))]
#[case::c11_36_shape_edited_in_the_middle_ports(json!({ "ports": [{ "port": 65535 }] }))]
fn edits_in_the_middle(#[case] spec: Value) {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(3)] {
        let origin = Setup::default().world(pace);
        for turns in 0..14 {
            let mut world = origin.fork();
            world.settle();
            world.create(web("web-ip"));
            world.turns(turns);
            world.patch(&service_ref("web"), json!({ "spec": spec }));
            world.settle();
            world.assert_associated("web", &[IP]);
            world.annotate("web", json!({ CLAIM: null }));
            world.turns(turns);
            world.patch(&service_ref("web"), json!({ "spec": { "selector": { "app": "new" } } }));
            world.settle();
            world.assert_held(IP);
        }
    }
}

#[rstest]
#[case::c11_37_claim_deleted_retain(Setup::default())]
#[case::c11_38_claim_deleted_delete(Setup::delete())]
fn claim_deleted(#[case] setup: Setup) {
    let delete = setup.policy == "Delete";
    crash::freely(
        associated(&setup, json!({})),
        |world| world.delete(&claim_ref("web-ip")),
        |world| {
            world.assert_bare("web");
            assert_eq!(world.shows("web"), Vec::<String>::new());
            if delete {
                assert!(!world.addresses().iter().any(|address| {
                    address.spec.claim_ref.as_ref().is_some_and(|claim| claim.name == "web-ip")
                }));
            } else {
                world.assert_held(IP);
                assert_eq!(world.address_of(IP).phase(), api::address::AddressPhase::Released);
            }
        },
    );
}

#[test]
fn c11_39_type_change_and_back() {
    // The API server frees the IP itself: nobody can have it in between, but with room in the pool nobody takes it.
    let setup = Setup { contended: false, ..Setup::default() };
    crash::from(
        |pace| {
            let mut world = associated(&setup, json!({}))(pace);
            world.law.gap = true;
            world
        },
        |world| world.patch(&service_ref("web"), json!({ "spec": { "type": "ClusterIP" } })),
        |world| {
            world.assert_held(IP);
            world.assert_bare("web");
        },
    );
    for turns in 0..14 {
        let mut world = associated(&setup, json!({}))(Pace::Eager);
        world.law.gap = true;
        world.patch(&service_ref("web"), json!({ "spec": { "type": "ClusterIP" } }));
        world.turns(turns);
        world.patch(&service_ref("web"), json!({ "spec": { "type": "LoadBalancer" } }));
        world.settle();
        world.assert_associated("web", &[IP]);
    }
}

#[rstest]
#[case::c11_40_recreated_with_the_finalizer(true)]
#[case::c11_41_recreated_without(false)]
fn recreated_under_one_name(#[case] hold_on_delete: bool) {
    let mut setup = Setup { contended: hold_on_delete, ..Setup::default() };
    setup.config.hold_on_delete = hold_on_delete;
    crash::from(
        |pace| {
            let mut world = associated(&setup, json!({}))(pace);
            world.law.gap = !hold_on_delete;
            world
        },
        |world| {
            world.delete(&service_ref("web"));
            if hold_on_delete {
                world.settle();
            }
            world.create(web("web-ip"));
        },
        |world| {
            world.assert_associated("web", &[IP]);
            assert_eq!(world.address_of(IP).status.clone().unwrap().association_history.len(), 2);
        },
    );
}
