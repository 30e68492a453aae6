//! Contract §11: a sharing key that somebody else put on the Service is borrowed by the hold for the moment, and never
//! written over or taken off. In gap mode nothing is shared.

use api::wellknown::{CLAIM, driver, metallb as names};
use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::build::{IP, Setup, service, service_ref};
use crate::world::{Pace, World, crash};

const KEY: &str = "tenants-key";

fn keyed(name: &str, key: &str, spec: Value) -> k8s_openapi::api::core::v1::Service {
    service("web", json!({ CLAIM: "web-ip", name: key }), spec)
}

/// The Service alone has the IP, by our pin, and its key is as it was.
fn assert_keyed(world: &World, name: &str) {
    let web = world.service("web");
    let words = world.last_words(60);
    assert_eq!(world.shows("web"), [IP], "{words}");
    assert_eq!(world.holders(IP), ["tenant-a/web"], "{words}");
    assert_eq!(web.annotations()[name], KEY);
    assert_eq!(web.annotations()[names::PIN], IP);
    assert_eq!(web.annotations()[driver::PINNED], "true");
    let other = if name == names::SHARE { names::SHARE_OLD } else { names::SHARE };
    assert_eq!(web.annotations().get(other), None);
    let handoff = world.address_of(IP).status.clone().unwrap().last_handoff.unwrap();
    assert!(handoff.finished_at.is_some(), "{words}");
    assert!(world.told.iter().all(|event| event.reason != "AssociationRejected"), "{words}");
}

#[rstest]
#[case::c11_120_cluster(names::SHARE, json!({}))]
#[case::c11_121_old_spelling(names::SHARE_OLD, json!({}))]
#[case::c11_122_local(names::SHARE, json!({ "externalTrafficPolicy": "Local" }))]
#[case::c11_123_port_of_the_placeholder(names::SHARE, json!({ "ports": [{ "port": 65535 }] }))]
fn c11_120_forward_under_a_foreign_key(#[case] name: &str, #[case] spec: Value) {
    crash::everywhere(
        &Setup::default(),
        |world| drop(world.create(keyed(name, KEY, spec.clone()))),
        |world| assert_keyed(world, name),
    );
    let mut setup = Setup { contended: false, ..Setup::default() };
    setup.config.gap = true;
    crash::everywhere(
        &setup,
        |world| {
            world.law.unheld = true;
            world.create(keyed(name, KEY, spec.clone()));
        },
        |world| assert_keyed(world, name),
    );
}

#[rstest]
#[case::c11_124_annotation_off(|world: &mut World| world.annotate("web", json!({ CLAIM: null })))]
#[case::c11_125_deleted(|world: &mut World| world.delete(&service_ref("web")))]
fn c11_124_reverse_under_a_foreign_key(#[case] act: fn(&mut World)) {
    for gap in [false, true] {
        let mut setup = Setup { contended: !gap, ..Setup::default() };
        setup.config.gap = gap;
        let start = |pace| {
            let mut world = setup.world(pace);
            world.law.unheld = gap;
            world.create(keyed(names::SHARE, KEY, json!({})));
            world.settle();
            world
        };
        crash::from(start, act, |world| {
            world.assert_held(IP);
            assert_ne!(world.hold(IP).annotations()[names::SHARE], KEY);
            if world.server.get(&service_ref("web")).is_some() {
                let web = world.service("web");
                assert_eq!(web.annotations()[names::SHARE], KEY);
                assert_eq!(web.annotations().get(names::PIN), None);
                assert_eq!(web.annotations().get(driver::PINNED), None);
                assert_eq!(web.annotations().get(driver::HANDOFF_STARTED), None);
            }
        });
    }
}

/// The key comes, goes and changes at any moment of the way there and back.
#[test]
fn c11_126_the_key_changes_in_the_middle() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(3)] {
        let origin = Setup::default().world(pace);
        for (before, after) in [(None, Some(KEY)), (Some(KEY), None), (Some(KEY), Some("another"))] {
            for turns in 0..10 {
                let mut world = origin.fork();
                world.settle();
                world.create(keyed("note", "x", json!({})));
                world.annotate("web", json!({ names::SHARE: before }));
                world.turns(turns);
                world.annotate("web", json!({ names::SHARE: after }));
                world.settle();
                let web = world.service("web");
                assert_eq!(world.shows("web"), [IP], "{}", world.last_words(60));
                assert_eq!(web.annotations().get(names::SHARE).map(String::as_str), after);
                world.annotate("web", json!({ CLAIM: null }));
                world.turns(turns);
                world.annotate("web", json!({ names::SHARE: before }));
                world.settle();
                world.assert_held(IP);
                let left = world.service("web").annotations().get(names::SHARE).cloned();
                assert_eq!(left.as_deref(), before, "{}", world.last_words(60));
            }
        }
    }
}

/// G1: two Services, one claim, one tenant key, two protocols: the second is refused and told the way out; after the
/// first lets go it follows. Our key is gone, theirs stays.
#[test]
fn g1_two_services_of_one_claim_and_one_tenant_key() {
    let dns = |name: &str, protocol: &str| {
        let ports = json!([{ "port": 53, "protocol": protocol }]);
        service(name, json!({ CLAIM: "web-ip", names::SHARE: KEY }), json!({ "ports": ports }))
    };
    crash::from(
        |pace| {
            let mut world = Setup::default().world(pace);
            world.create(dns("dns-tcp", "TCP"));
            world.settle();
            world.pass(2);
            world.create(dns("dns-udp", "UDP"));
            world.settle();
            let note = world.told_once(&service_ref("dns-udp"), "AssociationRejected");
            assert!(note.contains("one Service with all the ports"), "{note}");
            assert_eq!(world.holders(IP), ["tenant-a/dns-tcp"]);
            assert_eq!(world.service("dns-udp").annotations().get(names::PIN), None);
            world
        },
        |world| world.annotate("dns-tcp", json!({ CLAIM: null })),
        |world| {
            assert_eq!(world.holders(IP), ["tenant-a/dns-udp"], "{}", world.last_words(60));
            for name in ["dns-tcp", "dns-udp"] {
                assert_eq!(world.service(name).annotations()[names::SHARE], KEY);
            }
            assert_eq!(world.service("dns-tcp").annotations().get(names::PIN), None);
        },
    );
}
