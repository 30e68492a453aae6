//! Contract §12, auto-claim: plain Services get claims of their own.

use ::metallb::Config;
use api::wellknown::{AUTO_CLAIM, AUTO_CLAIM_CLASS, CLAIM, driver, metallb as names};
use kube::ResourceExt;
use plan::Ref;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::build::{
    HOME, IP, Setup, claim, claim_ref, class, home_ref, pool, service, service_in, service_ref,
};
use crate::world::{Pace, World, crash};

fn setup(policy: &'static str) -> Setup {
    Setup {
        config: Config { auto_claim: true, ..Config::default() },
        policy,
        contended: false,
        ..Setup::default()
    }
}

fn mark(world: &mut World, class: &str, value: Value) {
    world.patch(&Ref::class(class), json!({ "metadata": { "annotations": { AUTO_CLAIM_CLASS: value } } }));
}

fn opened(setup: &Setup, pace: Pace) -> World {
    let mut world = setup.empty(pace);
    mark(&mut world, "pub", json!("true"));
    world.settle();
    world.mark();
    world
}

#[rstest]
#[case::retain("Retain", false)]
#[case::delete("Delete", true)]
fn c12_60_a_plain_service_gets_a_claim_of_its_name(#[case] policy: &'static str, #[case] owned: bool) {
    let setup = setup(policy);
    crash::from(
        |pace| opened(&setup, pace),
        |world| {
            let mut plain = service("plain", json!({ "team": "x" }), json!({}));
            plain.labels_mut().insert("app".to_owned(), "x".to_owned());
            world.create(plain);
        },
        |world| {
            world.assert_associated("plain", &[IP]);
            let claim = world.claim("plain").unwrap();
            assert_eq!(claim.spec.class_name.as_deref(), Some("pub"));
            assert_eq!(!claim.owner_references().is_empty(), owned);
            if owned {
                assert_eq!(
                    Some(&claim.owner_references()[0].uid),
                    world.service("plain").metadata.uid.as_ref()
                );
            }
            assert_eq!(world.service("plain").annotations()[CLAIM], "plain");
        },
    );
}

/// Who asks for something, or not to be asked, is left alone.
#[rstest]
#[case::opted_out(json!({ AUTO_CLAIM: "false" }), json!({}))]
#[case::claim(json!({ CLAIM: "other" }), json!({}))]
#[case::pool(json!({ names::POOL: "other" }), json!({}))]
#[case::old_pool(json!({ names::POOL_OLD: "other" }), json!({}))]
#[case::pin(json!({ names::PIN: "198.51.100.1" }), json!({}))]
#[case::field(json!({}), json!({ "loadBalancerIP": "198.51.100.1" }))]
#[case::class(json!({}), json!({ "loadBalancerClass": "other" }))]
#[case::cluster_ip(json!({}), json!({ "type": "ClusterIP" }))]
fn c12_61_who_asks_for_something_is_left_alone(#[case] annotations: Value, #[case] spec: Value) {
    let mut world = opened(&setup("Retain"), Pace::Eager);
    world.create(service("plain", annotations, spec));
    world.settle();
    assert!(world.claim("plain").is_none());
    assert!(world.addresses().is_empty());
}

#[test]
fn c12_62_a_service_that_has_an_address_keeps_it() {
    let mut world = opened(&setup("Retain"), Pace::Eager);
    world.create(pool("open", json!({ "addresses": ["198.51.100.0/30"] })));
    world.settle();
    mark(&mut world, "pub", json!(null));
    world.create(service("old", json!({}), json!({})));
    world.settle();
    mark(&mut world, "pub", json!("true"));
    world.settle();
    assert_eq!(world.shows("old"), ["198.51.100.0"]);
    assert!(world.claim("old").is_none());
}

/// Without the flag, without a marked class, with two of them: nothing.
#[test]
fn c12_63_none_is_guessed() {
    let mut world = setup("Retain").empty(Pace::Eager);
    world.create(service("plain", json!({}), json!({})));
    world.settle();
    assert!(world.claim("plain").is_none());
    world.create(pool("second", json!({ "addresses": ["192.0.2.8/32"], "autoAssign": false })));
    world.create(class("two", "Retain", json!({ "pool": "second" })));
    mark(&mut world, "pub", json!("true"));
    world.settle();
    mark(&mut world, "two", json!("true"));
    world.create(service("late", json!({}), json!({})));
    world.settle();
    assert!(world.claim("late").is_none(), "two are marked");
    assert!(world.told_once(&Ref::class("pub"), "AutoClaimUnservable").contains("two"));
    // The first was served when only one was marked.
    assert!(world.claim("plain").is_some());
    mark(&mut world, "two", json!(null));
    world.settle();
    assert!(world.claim("late").is_some());
    let mut off = Setup { config: Config::default(), ..setup("Retain") }.empty(Pace::Eager);
    mark(&mut off, "pub", json!("true"));
    off.create(service("plain", json!({}), json!({})));
    off.settle();
    assert!(off.claim("plain").is_none());
}

/// The class is no longer for auto-claim: who has a claim keeps it, who comes gets none.
#[test]
fn c12_64_a_class_that_stops_being_for_auto_claim_takes_nothing_back() {
    let mut world = opened(&setup("Retain"), Pace::Eager);
    world.create(service("plain", json!({}), json!({})));
    world.settle();
    world.mark();
    mark(&mut world, "pub", json!(null));
    world.settle();
    world.create(service("late", json!({}), json!({})));
    world.settle();
    world.assert_associated("plain", &[IP]);
    assert!(world.claim("late").is_none());
}

/// A claim that somebody made for another purpose is not used without being asked.
#[test]
fn c12_65_a_claim_of_that_name_is_not_used_unasked() {
    let mut world = opened(&setup("Retain"), Pace::Eager);
    world.create(claim("tenant-a", "plain", json!({})));
    world.create(service("plain", json!({}), json!({})));
    world.settle();
    assert!(world.shows("plain").is_empty());
    assert!(world.told_once(&service_ref("plain"), "AutoClaimBlocked").contains(CLAIM));
    world.delete(&claim_ref("plain"));
    world.settle();
    assert_eq!(world.claim("plain").unwrap().annotations()[driver::AUTO_CLAIMED], "true");
}

/// Under `Retain` the claim outlives its Service and serves the next of its name.
#[test]
fn c12_66_recreated_under_its_name_it_has_the_same_address() {
    let setup = setup("Retain");
    crash::from(
        |pace| {
            let mut world = opened(&setup, pace);
            world.create(service("plain", json!({}), json!({})));
            world.settle();
            world
        },
        |world| {
            world.delete(&service_ref("plain"));
            world.settle();
            world.assert_held(IP);
            world.create(service("plain", json!({}), json!({})));
        },
        |world| world.assert_associated("plain", &[IP]),
    );
}

/// A tenant who takes the claim off without opting out gets it again; with it, the address is held.
#[test]
fn c12_67_opting_out_later() {
    let mut world = opened(&setup("Retain"), Pace::Eager);
    world.create(service("plain", json!({}), json!({})));
    world.settle();
    world.annotate("plain", json!({ CLAIM: null, AUTO_CLAIM: "false" }));
    world.settle();
    world.assert_held(IP);
    world.assert_bare("plain");
    world.annotate("plain", json!({ AUTO_CLAIM: null }));
    world.settle();
    world.assert_associated("plain", &[IP]);
}

/// Nothing in the placeholders' namespace gets a claim, a placeholder least of all.
#[test]
fn c12_68_placeholders_always_opt_out() {
    let mut world = opened(&setup("Retain"), Pace::Eager);
    world.create(claim("tenant-a", "web-ip", json!({})));
    world.create(service_in(HOME, "stranger", json!({}), json!({})));
    world.settle();
    let hold = world.hold(IP).name_any();
    world.patch(&home_ref(&hold), json!({ "metadata": { "labels": { driver::PLACEHOLDER: null } } }));
    world.law.gap = true;
    world.settle();
    assert_eq!(world.server.all(plan::Kind::Claim).count(), 1);
}

#[test]
fn c12_69_families_of_the_service() {
    let setup = Setup { addresses: vec!["192.0.2.0/32", "2001:db8::7/128"], ..setup("Retain") };
    let mut world = opened(&setup, Pace::Eager);
    let spec = json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" });
    world.create(service("plain", json!({}), spec));
    world.settle();
    world.assert_associated("plain", &[IP, "2001:db8::7"]);
}
