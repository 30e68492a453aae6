//! Contract §11: who is refused, and why: told once on Service and address, the hold stays; when the cause goes, the
//! Service is associated without further help.

use api::wellknown::{CLAIM, metallb as names};
use kube::ResourceExt;
use plan::Ref;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::build::{
    IP, Setup, address_ref, claim, claim_ref, pool, pool_ref, service, service_in, service_ref,
    static_address, web,
};
use crate::world::look::condition;
use crate::world::{Pace, World, crash};

fn rejected(world: &World, words: &str) {
    let note = world.told_once(&service_ref("web"), "AssociationRejected");
    assert!(note.contains(words), "{note}");
    let note = world.told_once(&address_ref("ip-192-0-2-0"), "AssociationRejected");
    assert!(note.contains(words) && note.contains("tenant-a/web"), "{note}");
}

/// Refused with these words; nothing of the Service is written; the remedy helps.
fn refused(setup: &Setup, annotations: Value, spec: Value, words: &str, remedy: Value) {
    for pace in [Pace::Eager, Pace::Stale, Pace::Shuffled(1)] {
        let mut world = setup.world(pace);
        let mut all = json!({ CLAIM: "web-ip" });
        sim::server::merge(&mut all, &annotations);
        world.create(service("web", all, spec.clone()));
        world.settle();
        let as_made = world.service("web").metadata.annotations;
        rejected(&world, words);
        world.assert_held(IP);
        assert_eq!(world.writes, 0, "{}", world.last_words(20));
        world.pass(3600);
        world.restart();
        world.settle();
        rejected(&world, words);
        assert_eq!(world.service("web").metadata.annotations, as_made);
        world.patch(&service_ref("web"), remedy.clone());
        world.settle();
        world.assert_associated("web", &[IP]);
    }
}

fn without(name: &str) -> Value {
    json!({ "metadata": { "annotations": { name: null } } })
}

#[rstest]
#[case::c11_50_own_address(names::PIN, "192.0.2.0")]
#[case::c11_51_another_address(names::PIN, "192.0.2.9")]
#[case::a1_spaces_and_newline(names::PIN, " 192.0.2.0 \n")]
#[case::a1_trailing_comma(names::PIN, "192.0.2.0,")]
#[case::a1_range(names::PIN, "192.0.2.0-192.0.2.1")]
#[case::a1_cidr(names::PIN, "192.0.2.0/32")]
#[case::a1_zeros(names::PIN, "192.000.002.000")]
#[case::a2_mapped(names::PIN, "::ffff:192.0.2.0")]
#[case::c3_empty(names::PIN, "")]
#[case::c3_old_pin(names::PIN_OLD, "192.0.2.0")]
#[case::c1_pool(names::POOL, "other")]
#[case::c1_own_pool(names::POOL, "reserved")]
#[case::c3_old_pool(names::POOL_OLD, "reserved")]
#[case::g1_empty_key(names::SHARE, "")]
fn c11_50_foreign_wishes(#[case] name: &str, #[case] value: &str) {
    // In a pool of one address: the foreign pin can get nothing by itself.
    let quoted = format!("{name}: {value:?}");
    refused(
        &Setup { contended: false, ..Setup::default() },
        json!({ name: value }),
        json!({}),
        &quoted,
        without(name),
    );
}

#[test]
fn c11_52_load_balancer_ip() {
    refused(
        &Setup::default(),
        json!({}),
        json!({ "loadBalancerIP": "192.0.2.0" }),
        "spec.loadBalancerIP: \"192.0.2.0\"",
        json!({ "spec": { "loadBalancerIP": null } }),
    );
}

#[rstest]
#[case::cluster_ip("ClusterIP")]
#[case::node_port("NodePort")]
fn c11_53_type(#[case] kind: &str) {
    let remedy = json!({ "spec": { "type": "LoadBalancer" } });
    refused(&Setup::default(), json!({}), json!({ "type": kind }), &format!("spec.type is {kind}"), remedy);
}

#[rstest]
#[case::v4_v6_single("IPv4", json!(["IPv6"]), "SingleStack", false)]
#[case::v4_prefer_dual("IPv4", json!(["IPv4", "IPv6"]), "PreferDualStack", false)]
#[case::v4_prefer_on_single_cluster("IPv4", json!(["IPv4"]), "PreferDualStack", false)]
#[case::v4_require_dual("IPv4", json!(["IPv4", "IPv6"]), "RequireDualStack", false)]
#[case::v4_single("IPv4", json!(["IPv4"]), "SingleStack", true)]
#[case::dual_single("Dual", json!(["IPv4"]), "SingleStack", false)]
#[case::dual_single_v6("Dual", json!(["IPv6"]), "SingleStack", false)]
#[case::dual_prefer("Dual", json!(["IPv4", "IPv6"]), "PreferDualStack", true)]
#[case::dual_require("Dual", json!(["IPv6", "IPv4"]), "RequireDualStack", true)]
fn c11_54_families_and_policies(
    #[case] family: &'static str,
    #[case] families: Value,
    #[case] policy: &str,
    #[case] served: bool,
) {
    let setup = Setup { family, ..Setup::dual() };
    let mut world = setup.world(Pace::Eager);
    let spec = json!({ "ipFamilies": families, "ipFamilyPolicy": policy });
    world.create(service("web", json!({ CLAIM: "web-ip" }), spec));
    world.settle();
    if served {
        assert!(world.shows("web").contains(&IP.to_owned()));
        assert!(world.told(&service_ref("web"), "AssociationRejected").is_empty());
    } else {
        rejected(&world, "spec.ip");
        world.assert_held(IP);
        assert_eq!(world.writes, 0);
    }
}

#[rstest]
#[case::none_and_none(None, None, true)]
#[case::none_and_some(None, Some("x.example/lb"), false)]
#[case::some_and_none(Some("x.example/lb"), None, false)]
#[case::equal(Some("x.example/lb"), Some("x.example/lb"), true)]
#[case::another(Some("x.example/lb"), Some("y.example/lb"), false)]
fn c11_55_load_balancer_classes(#[case] ours: Option<&str>, #[case] its: Option<&str>, #[case] served: bool) {
    let mut setup = Setup::default();
    setup.config.lb_class = ours.map(str::to_owned);
    let mut world = setup.world(Pace::Eager);
    world.create(service("web", json!({ CLAIM: "web-ip" }), json!({ "loadBalancerClass": its })));
    world.settle();
    if served {
        world.assert_associated("web", &[IP]);
    } else {
        rejected(&world, "spec.loadBalancerClass");
        world.assert_held(IP);
    }
}

#[rstest]
#[case::namespace(json!({ "namespaces": ["metallb-iad-system", "tenant-a"] }), true)]
#[case::other_namespace(json!({ "namespaces": ["metallb-iad-system", "tenant-b"] }), false)]
#[case::selector(json!({ "namespaces": ["metallb-iad-system"],
    "namespaceSelectors": [{ "matchLabels": { "name": "tenant-a" } }] }), true)]
#[case::other_selector(json!({ "namespaces": ["metallb-iad-system"],
    "namespaceSelectors": [{ "matchLabels": { "name": "tenant-b" } }] }), false)]
#[case::labels_it_will_have(json!({ "serviceSelectors": [
    { "matchLabels": { "metallb.drivers.local.sdn.cozystack.io/placeholder": "true" } },
    { "matchLabels": { "metallb.drivers.local.sdn.cozystack.io/associated": "true" } }] }), true)]
#[case::placeholders_only(json!({ "serviceSelectors": [
    { "matchLabels": { "metallb.drivers.local.sdn.cozystack.io/placeholder": "true" } }] }), false)]
fn c11_56_service_allocation(#[case] allocation: Value, #[case] served: bool) {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Shuffled(1)] {
        let mut world = Setup { contended: false, ..Setup::default() }.world(pace);
        world.patch(&pool_ref("reserved"), json!({ "spec": { "serviceAllocation": allocation } }));
        world.settle();
        world.create(web("web-ip"));
        world.settle();
        if served {
            world.assert_associated("web", &[IP]);
        } else {
            rejected(&world, "serviceAllocation");
            world.assert_held(IP);
            world.patch(&pool_ref("reserved"), json!({ "spec": { "serviceAllocation": null } }));
            world.settle();
            world.assert_associated("web", &[IP]);
        }
    }
}

#[test]
fn c11_57_dual_from_two_pools() {
    let mut world = Setup::roomy().empty(Pace::Eager);
    world.create(pool("six", json!({ "addresses": ["2001:db8::7/128"], "autoAssign": false })));
    for (name, ip) in [("four", IP), ("six", "2001:db8::7")] {
        let mut address = static_address(name, ip);
        address.spec.claim_ref =
            Some(api::address::ClaimRef { namespace: "tenant-a".into(), name: "web-ip".into(), uid: None });
        world.create(address);
    }
    world.create(claim("tenant-a", "web-ip", json!({ "family": "Dual" })));
    world.settle();
    let spec = json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" });
    world.create(service("web", json!({ CLAIM: "web-ip" }), spec));
    world.settle();
    assert!(world.told_once(&service_ref("web"), "AssociationRejected").contains("different pools"));
    world.assert_held(IP);
    world.assert_held("2001:db8::7");
}

#[test]
fn c11_58_claim_not_bound_and_not_found() {
    let mut world = Setup::default().world(Pace::Eager);
    world.create(claim("tenant-a", "late", json!({})));
    world.create(service("waits", json!({ CLAIM: "late" }), json!({})));
    world.create(service("typo", json!({ CLAIM: "web-lp" }), json!({})));
    world.create(service("trims", json!({ CLAIM: " web-ip\n" }), json!({})));
    world.settle();
    world.told_once(&service_ref("waits"), "ClaimNotBound");
    world.told_once(&service_ref("typo"), "ClaimNotFound");
    assert!(world.told(&service_ref("typo"), "AssociationRejected").is_empty());
    world.assert_associated("trims", &[IP]);
}

#[test]
fn c11_59_an_address_in_conflict_or_lost_is_given_to_nobody() {
    let mut world = Setup { contended: false, ..Setup::default() }.world(Pace::Eager);
    let thief = json!({ "type": "ClusterIP", "externalIPs": [IP] });
    world.create(service_in("tenant-b", "thief", json!({}), thief));
    world.create(web("web-ip"));
    world.settle();
    assert!(world.shows("web").is_empty());
    assert!(world.told_once(&service_ref("web"), "AssociationRejected").contains("against the ledger"));
    world.delete(&Ref::service(&api::ServiceKey::new("tenant-b", "thief")));
    world.settle();
    world.assert_associated("web", &[IP]);
}

#[test]
fn c11_60_no_pool_contains_the_address() {
    let mut world = Setup { contended: false, ..Setup::default() }.world(Pace::Eager);
    world.law.gap = true;
    world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.8/32"] } }));
    world.settle();
    world.create(web("web-ip"));
    world.settle();
    assert!(world.shows("web").is_empty());
    world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": ["192.0.2.0/32"] } }));
    world.settle();
    world.assert_associated("web", &[IP]);
}

/// Whoever makes thousands of Services of one claim must not cost a look at each of them at each change.
#[test]
fn c11_69_of_a_crowd_the_oldest_are_looked_at_and_the_others_are_told() {
    let mut world = Setup { contended: false, ..Setup::default() }.world(Pace::Eager);
    let name = |number: usize| format!("web-{number:02}");
    for number in 0..67 {
        world.create(service(&name(number), json!({ CLAIM: "web-ip" }), json!({})));
    }
    world.settle();
    world.assert_associated(&name(0), &[IP]);
    let last = service_ref(&name(66));
    let note = world.told_once(&last, "AssociationRejected");
    assert!(note.contains("64 older Services name claim web-ip"), "{note}");
    world.told_once(&service_ref(&name(63)), "AssociationRejected");
    for number in 0..3 {
        world.delete(&service_ref(&name(number)));
        world.settle();
    }
    world.assert_associated(&name(3), &[IP]);
    let notes = world.told(&last, "AssociationRejected");
    assert!(notes.last().is_some_and(|note| note.contains("already used by")), "{notes:#?}");
}

#[test]
fn c11_61_second_service_is_refused_and_told_once_and_inherits() {
    let setup = Setup::default();
    crash::from(
        |pace| {
            let mut world = setup.world(pace);
            world.create(web("web-ip"));
            world.settle();
            world.mark();
            for name in ["web-v2", "a-web-v3"] {
                world.pass(2);
                world.create(service(name, json!({ CLAIM: "web-ip" }), json!({})));
            }
            world.settle();
            let note = world.told_once(&service_ref("web-v2"), "AssociationRejected");
            assert!(note.contains("already used by Service web"), "{note}");
            world.told_once(&service_ref("a-web-v3"), "AssociationRejected");
            assert_eq!(world.writes, 0);
            world
        },
        |world| world.delete(&service_ref("web")),
        |world| {
            // The older of those that wait.
            world.assert_associated("web-v2", &[IP]);
            world.assert_bare("a-web-v3");
        },
    );
}

#[test]
fn c11_62_never_associate_a_service_that_is_being_deleted() {
    let mut world = Setup::default().world(Pace::Eager);
    let mut dying = web("web-ip");
    dying.metadata.finalizers = Some(vec!["x.example/y".into()]);
    dying.metadata.annotations = None;
    world.create(dying);
    world.delete(&service_ref("web"));
    world.annotate("web", json!({ CLAIM: "web-ip" }));
    world.settle();
    rejected(&world, "being deleted");
    world.assert_held(IP);
}

#[test]
fn c11_63_a_terminating_holder_is_the_holder_until_it_lets_go() {
    let setup = Setup::default();
    crash::from(
        |pace| {
            let mut world = setup.world(pace);
            let mut first = web("web-ip");
            first.metadata.finalizers = Some(vec!["x.example/y".into()]);
            world.create(first);
            world.settle();
            world
        },
        |world| {
            world.delete(&service_ref("web"));
            world.create(service("web2", json!({ CLAIM: "web-ip" }), json!({})));
        },
        |world| {
            world.assert_associated("web2", &[IP]);
            assert_eq!(world.service("web").finalizers(), ["x.example/y"]);
        },
    );
}

#[test]
fn c11_64_a_dead_holder_is_replaced() {
    // The finalizer was taken off by force while the driver was down.
    let setup = Setup { contended: false, ..Setup::default() };
    crash::from(
        |pace| {
            let mut world = setup.world(pace);
            world.create(web("web-ip"));
            world.settle();
            world
        },
        |world| {
            world.law.gap = true;
            world.patch(&service_ref("web"), json!({ "metadata": { "finalizers": null } }));
            world.delete(&service_ref("web"));
            world.create(service("web2", json!({ CLAIM: "web-ip" }), json!({})));
        },
        |world| world.assert_associated("web2", &[IP]),
    );
}

#[test]
fn c11_65_condition_says_who_holds() {
    let mut world = Setup::default().world(Pace::Eager);
    world.create(web("web-ip"));
    world.settle();
    let address = world.address_of(IP);
    assert_eq!(condition(&address, "Held"), Some(("True".into(), "Associated".into())));
    world.delete(&claim_ref("web-ip"));
    world.settle();
    assert_eq!(condition(&world.address_of(IP), "Associated"), None);
    world.assert_held(IP);
}
