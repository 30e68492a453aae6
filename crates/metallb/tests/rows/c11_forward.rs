//! Contract §11: the way to the Service. Everything contended.

use api::wellknown::{CLAIM, metallb as names};
use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::build::{IP, IP6, Setup, service, service_ref, web};
use crate::world::{Pace, crash};

fn associates(setup: &Setup, spec: Value, ips: &[&str]) {
    crash::everywhere(
        setup,
        |world| {
            world.create(service("web", json!({ CLAIM: "web-ip" }), spec.clone()));
        },
        |world| {
            world.assert_associated("web", ips);
            assert!(world.placeholders().iter().all(|hold| {
                hold.annotations().get(names::PIN).is_none_or(|pin| !ips.contains(&pin.as_str()))
            }));
        },
    );
}

#[rstest]
#[case::c11_01_cluster(json!({}))]
#[case::c11_02_local(json!({ "externalTrafficPolicy": "Local" }))]
#[case::c11_03_local_without_selector(json!({ "externalTrafficPolicy": "Local", "selector": null }))]
#[case::c11_04_port_of_the_placeholder(json!({ "ports": [{ "port": 65535 }] }))]
#[case::c11_05_both_protocols(json!({ "ports": [
    { "name": "t", "port": 65535, "protocol": "TCP" }, { "name": "u", "port": 65534, "protocol": "UDP" },
] }))]
fn forward(#[case] spec: Value) {
    associates(&Setup::default(), spec, &[IP]);
}

#[rstest]
#[case::c11_06_dual(json!({}))]
#[case::c11_07_dual_v6_first(json!({ "ipFamilies": ["IPv6", "IPv4"] }))]
#[case::c11_08_dual_preferred(json!({ "ipFamilyPolicy": "PreferDualStack" }))]
#[case::c11_09_dual_local(json!({ "externalTrafficPolicy": "Local" }))]
fn forward_dual(#[case] mut spec: Value) {
    let fields = spec.as_object_mut().unwrap();
    fields.entry("ipFamilies").or_insert(json!(["IPv4", "IPv6"]));
    fields.entry("ipFamilyPolicy").or_insert(json!("RequireDualStack"));
    associates(&Setup::dual(), spec, &[IP, IP6]);
}

#[test]
fn c11_10_without_hold_on_delete_there_is_no_finalizer() {
    let mut setup = Setup::default();
    setup.config.hold_on_delete = false;
    associates(&setup, json!({}), &[IP]);
}

#[test]
fn c11_11_with_a_load_balancer_class() {
    let mut setup = Setup::default();
    setup.config.lb_class = Some("metallb.io/tenants".to_owned());
    associates(&setup, json!({ "loadBalancerClass": "metallb.io/tenants" }), &[IP]);
}

#[test]
fn c11_12_the_service_is_there_before_its_claim() {
    let setup = Setup { contended: false, ..Setup::default() };
    crash::from(
        |pace| {
            let mut world = setup.empty(pace);
            world.create(web("web-ip"));
            world.settle();
            assert!(world.told_once(&service_ref("web"), "ClaimNotFound").contains("web-ip"));
            world
        },
        |world| {
            world.create(crate::world::build::claim("tenant-a", "web-ip", json!({})));
        },
        |world| world.assert_associated("web", &[IP]),
    );
}

#[test]
fn c11_13_harmless_edits_cause_no_write_and_no_empty_status() {
    let mut world = Setup::default().world(Pace::Eager);
    world.create(web("web-ip"));
    world.settle();
    world.mark();
    for edit in [
        json!({ "metadata": { "labels": { "tier": "web" } } }),
        json!({ "metadata": { "annotations": { "note": "x" } } }),
        json!({ "spec": { "selector": { "app": "other" } } }),
        json!({ "spec": { "ports": [{ "name": "web", "port": 80 }, { "name": "tls", "port": 443 }] } }),
        json!({ "spec": { "sessionAffinity": "ClientIP" } }),
    ] {
        world.patch(&service_ref("web"), edit);
        assert_eq!(world.shows("web"), [IP]);
        world.settle();
        assert_eq!(world.shows("web"), [IP]);
    }
    assert_eq!((world.writes, world.told.len()), (0, 0), "{}", world.last_words(20));
}
