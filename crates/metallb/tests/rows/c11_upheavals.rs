//! Contract §11: the handoff through restarts, and the objects that the Go implementation left.

use api::address::{HandoffDirection, HandoffMode};
use api::wellknown::{CLAIM, driver};
use kube::ResourceExt;
use rstest::rstest;
use serde_json::json;

use super::c11_reverse::associated;
use crate::world::build::{IP, IP6, Setup, address_ref, claim_ref, service, service_ref, web};
use crate::world::look::condition;
use crate::world::{Pace, World, crash};

#[test]
fn c11_81_metallb_restarts_at_any_moment() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(1)] {
        let origin = Setup::default().world(pace);
        for turns in 0..12 {
            let mut world = origin.fork();
            world.settle();
            world.create(web("web-ip"));
            world.turns(turns);
            world.metallb.restart(&mut world.server);
            world.settle();
            world.assert_associated("web", &[IP]);
            world.annotate("web", json!({ CLAIM: null }));
            world.turns(turns);
            world.metallb.restart(&mut world.server);
            world.settle();
            world.assert_held(IP);
        }
    }
}

#[rstest]
#[case::annotation_off(false)]
#[case::deleted(true)]
fn c11_82_an_association_of_the_go_implementation_goes_on(#[case] delete: bool) {
    crash::from(
        |pace| {
            let mut world = associated(&Setup::default(), json!({}))(pace);
            // It recorded no uid and no history, and put neither label nor finalizer.
            let body = json!({ "associatedTo": { "uid": null }, "associationHistory": null,
                               "lastHandoff": null, "conditions": null });
            world.patch_status(&address_ref("ip-192-0-2-0"), body);
            let body = json!({ "metadata": { "labels": { driver::ASSOCIATED: null }, "finalizers": null } });
            world.patch(&service_ref("web"), body);
            world
        },
        |world| {
            world.settle();
            assert_eq!(world.shows("web"), [IP]);
            let to = world.address_of(IP).associated_to().cloned().unwrap();
            assert_eq!(to.uid.as_deref(), world.service("web").metadata.uid.as_deref());
            if delete {
                world.delete(&service_ref("web"));
            } else {
                world.annotate("web", json!({ CLAIM: null }));
            }
        },
        |world| world.assert_held(IP),
    );
}

#[test]
fn c11_83_dual_claim_deleted_under_its_service() {
    let spec = json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" });
    crash::from(
        associated(&Setup::dual(), spec),
        |world| world.delete(&claim_ref("web-ip")),
        |world| {
            world.assert_held(IP);
            world.assert_held(IP6);
            world.assert_bare("web");
        },
    );
}

#[test]
fn c11_84_claim_widened_under_its_single_stack_service() {
    let setup = Setup { family: "IPv4", contended: false, ..Setup::dual() };
    crash::from(
        |pace| {
            let mut world = setup.world(pace);
            world.create(service("web", json!({ CLAIM: "web-ip" }), json!({})));
            world.settle();
            world
        },
        |world| world.patch(&claim_ref("web-ip"), json!({ "spec": { "family": "Dual" } })),
        |world| world.assert_associated("web", &[IP]),
    );
}

#[test]
fn c11_85_service_edited_to_a_family_the_claim_lacks_is_held_again() {
    let setup = Setup { contended: false, ..Setup::default() };
    crash::from(
        associated(&setup, json!({})),
        |world| {
            world.law.gap = true;
            let spec = json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" });
            world.patch(&service_ref("web"), json!({ "spec": spec }));
            world.settle();
            world.assert_held(IP);
            let spec = json!({ "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack" });
            world.patch(&service_ref("web"), json!({ "spec": spec }));
        },
        |world| world.assert_associated("web", &[IP]),
    );
}

#[test]
fn c11_86_type_change_under_a_load_balancer_class_waits_for_metallb() {
    // MetalLB with a class of its own does not look at a Service that has none any more, and counts the IP as
    // its own until it restarts: said in `Held`, healed by the restart.
    let mut setup = Setup { contended: false, ..Setup::default() };
    setup.config.lb_class = Some("x.example/lb".to_owned());
    let mut world = associated(&setup, json!({ "loadBalancerClass": "x.example/lb" }))(Pace::Eager);
    world.law.gap = true;
    world.patch(&service_ref("web"), json!({ "spec": { "type": "ClusterIP" } }));
    world.settle();
    let held = condition(&world.address_of(IP), "Held");
    assert_eq!(held, Some(("False".into(), "NotAssigned".into())), "{}", world.last_words(40));
    assert_eq!(world.holders(IP), ["tenant-a/web"]);
    // Nobody shows the IP, so MetalLB is made to look again, soon and then ever more rarely.
    let asked = |world: &World| world.hold(IP).annotations().get(driver::ASKED_AGAIN).cloned();
    world.pass(10);
    assert!(asked(&world).is_some());
    let before = world.writes;
    for _ in 0..3_600 {
        world.pass(1);
    }
    assert!((12..25).contains(&(world.writes - before)), "{} writes in an hour", world.writes - before);
    world.metallb.restart(&mut world.server);
    world.settle();
    world.assert_held(IP);
}

/// Whether the driver dies between the new hold and the ledger, or loses a race there: the ledger shows the gap.
#[test]
fn c11_87_a_gap_that_nobody_chose_is_told_through_a_crash() {
    crash::from(
        associated(&Setup { contended: false, ..Setup::default() }, json!({})),
        |world| {
            world.law.gap = true;
            world.patch(&service_ref("web"), json!({ "spec": { "type": "ClusterIP" } }));
        },
        |world| {
            world.assert_held(IP);
            let handoff = world.address_of(IP).status.as_ref().unwrap().last_handoff.clone().unwrap();
            assert_eq!((handoff.direction, handoff.mode), (HandoffDirection::Disassociate, HandoffMode::Gap));
            assert!(handoff.unheld_milliseconds > Some(0), "{handoff:?}; {}", world.last_words(60));
        },
    );
}

/// Of a Service with two addresses one is being deleted, and waits for it; then somebody takes the Service out of that
/// one's ledger. It keeps both: MetalLB would take both off a Service that is pinned to one.
#[test]
fn c11_154_the_ledger_of_a_dying_address_is_edited_under_its_service() {
    let spec = json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" });
    crash::from(
        associated(&Setup::dual(), spec),
        |world| {
            world.keep_still("web");
            let name = world.address_of(IP6).name_any();
            world.delete(&address_ref(&name));
            world.settle();
            world.patch_status(&address_ref(&name), json!({ "associatedTo": null }));
        },
        |world| world.assert_associated("web", &[IP, IP6]),
    );
}
