//! Contract §10, §11: placeholders that somebody keeps from going, and such as can never hold what they are labelled with.

use api::wellknown::{CLAIM, driver, metallb as names};
use kube::ResourceExt;
use rstest::rstest;
use serde_json::json;
use sim::users::made_cluster_ip;

use super::c11_gap::gap;
use crate::world::build::{HOME, IP, IP6, Setup, home_ref, pool_ref, service, service_ref, web};
use crate::world::look::condition;
use crate::world::{Pace, World, crash};

fn alone() -> Setup {
    Setup { contended: false, ..Setup::default() }
}

/// Somebody's finalizer is on the hold.
fn keep(world: &mut World) -> String {
    let name = world.hold(IP).name_any();
    world.patch(&home_ref(&name), json!({ "metadata": { "finalizers": ["example.org/keep"] } }));
    world.settle();
    name
}

fn shows(world: &World, name: &str) -> Vec<String> {
    let all = world.placeholders();
    let found = all.iter().find(|one| one.name_any() == name);
    found.map(sim::metallb::ingress).unwrap_or_default()
}

/// It goes on holding; when MetalLB takes the IP off it the ledger says so, and another is made, if its name is free.
#[rstest]
#[case::by_the_name_of_its_claim(false)]
#[case::by_the_name_of_its_address(true)]
fn c10_60_a_placeholder_that_lingers(#[case] rearmed: bool) {
    let world = |pace: Pace| {
        let mut world = alone().world(pace);
        if rearmed {
            world.create(web("web-ip"));
            world.settle();
            world.delete(&service_ref("web"));
            world.settle();
        }
        world.law.gap = true;
        world
    };
    crash::from(
        world,
        |world| {
            let name = keep(world);
            world.delete(&home_ref(&name));
            world.settle();
            assert_eq!(shows(world, &name), [IP]);
            world.assert_held(IP);
            world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.8/32"] } }));
            world.settle();
            let expected = if rearmed { "PlaceholderLingers" } else { "NoPool" };
            let said = condition(&world.address_of(IP), "Held");
            assert_eq!(said, Some(("False".into(), expected.into())), "{}", world.last_words(40));
            world.patch(&home_ref(&name), json!({ "metadata": { "finalizers": null } }));
            world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.0/32"] } }));
        },
        |world| world.assert_held(IP),
    );
}

/// A hold that lingers keeps no handoff from its end, there or back.
#[test]
fn c11_158_a_hold_that_lingers_ends_its_handoff() {
    crash::everywhere(
        &alone(),
        |world| {
            let name = keep(world);
            world.create(web("web-ip"));
            world.settle();
            world.assert_associated("web", &[IP]);
            world.delete(&service_ref("web"));
            world.settle();
            assert!(world.service_at(&crate::world::build::key("web")).is_none(), "{}", world.last_words(60));
            assert_eq!(world.holders(IP), [format!("{HOME}/iad-ip-192-0-2-0")]);
            world.patch(&home_ref(&name), json!({ "metadata": { "finalizers": null } }));
        },
        |world| world.assert_held(IP),
    );
}

/// A hold that lingers with the address hands it over as any other.
#[test]
fn c11_160_a_hold_that_lingers_hands_over() {
    crash::everywhere(
        &alone(),
        |world| {
            let name = keep(world);
            world.delete(&home_ref(&name));
            world.settle();
            assert_eq!(shows(world, &name), [IP]);
            world.create(web("web-ip"));
            world.settle();
            world.assert_associated("web", &[IP]);
            assert!(shows(world, &name).is_empty());
            world.patch(&home_ref(&name), json!({ "metadata": { "finalizers": null } }));
        },
        |world| world.assert_associated("web", &[IP]),
    );
}

/// Where nothing shares, it would have to go first: the Service is told who keeps it.
#[test]
fn c11_161_in_gap_mode_the_service_is_told_which_hold_lingers() {
    let mut world = gap(alone()).world(Pace::Eager);
    let name = keep(&mut world);
    world.delete(&home_ref(&name));
    world.create(web("web-ip"));
    world.settle();
    assert_eq!(shows(&world, &name), [IP]);
    let words = world.told_once(&service_ref("web"), "AssociationRejected");
    assert!(words.contains(&name) && words.contains("example.org/keep"), "{words}");
    world.law.gap = true;
    world.patch(&home_ref(&name), json!({ "metadata": { "finalizers": null } }));
    world.settle();
    world.assert_associated("web", &[IP]);
}

/// A Service that waits for the hold of its other address is not sent to take finalizers off the one that could share.
#[test]
fn c11_163_a_hold_that_lingers_is_not_blamed_for_another() {
    let mut world = Setup { contended: false, ..Setup::dual() }.world(Pace::Eager);
    let name = keep(&mut world);
    world.delete(&home_ref(&name));
    world.law.gap = true;
    world.server.full_namespaces.insert(HOME.to_owned());
    let other = world.hold(IP6).name_any();
    world.delete(&home_ref(&other));
    let both = json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" });
    world.create(service("web", json!({ CLAIM: "web-ip" }), both));
    world.settle();
    assert_eq!(shows(&world, &name), [IP]);
    assert!(world.holders(IP6).is_empty());
    assert_eq!(world.told(&service_ref("web"), "AssociationRejected"), Vec::<String>::new());
    world.server.full_namespaces.clear();
    world.pass(600);
    world.assert_associated("web", &[IP, IP6]);
}

/// MetalLB has nothing to say of a hold that somebody made a `ClusterIP` amid a handoff: nobody waits for it.
#[test]
fn c11_159_a_hold_that_is_no_load_balancer_ends_its_handoff() {
    for turns in 0..60 {
        let mut world = alone().world(Pace::Eager);
        let name = world.hold(IP).name_any();
        world.law.gap = true;
        world.create(web("web-ip"));
        world.turns(turns);
        if world.placeholders().iter().any(|one| one.name_any() == name) {
            world.patch(&home_ref(&name), made_cluster_ip());
        }
        world.settle();
        world.assert_associated("web", &[IP]);
    }
}

/// One that is labelled with an address of another family can never have it: it goes, and both addresses are held.
#[test]
fn c10_61_a_placeholder_of_another_family_goes() {
    crash::from(
        |pace| {
            let mut world = Setup { contended: false, ..Setup::dual() }.world(pace);
            world.law.gap = true;
            world
        },
        |world| {
            let name = world.hold(IP).name_any();
            let body = json!({
                "metadata": {
                    "labels": { driver::IP_ADDRESS: "ip-2001-db8--7" }, "annotations": { names::PIN: IP6 },
                },
                "spec": made_cluster_ip()["spec"],
            });
            world.patch(&home_ref(&name), body);
        },
        |world| {
            world.assert_held(IP);
            world.assert_held(IP6);
        },
    );
}
