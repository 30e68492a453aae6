//! Contract §8 and cases H5, H6: classes that are refused, deleted, defaulted.

use api::address::AddressPhase;
use api::claim::ClaimPhase;
use api::wellknown::DEFAULT_CLASS;
use devcluster::Controller;
use devcluster::proxy::{Call, Rule, Verb};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::rig::{self, Rig, Stage};
use crate::upheavals;

/// Refused for new reservations: said on the class and on the claim, with the way out; mended, the claim is served.
async fn refused(
    rig: &Rig,
    name: &str,
    parameters: impl Fn(&Stage) -> Value,
    row: (&str, &str),
    mend: impl AsyncFn(&Stage),
) {
    let (reason, words) = row;
    // The stage's own class has no pool then: the pool is left to the class under test.
    let stage = rig.stage(name, 0).await;
    let class = format!("{name}-class");
    stage.class_with(&class, "Retain", parameters(&stage)).await;
    let said = stage.class_says(&class, &format!("False/{reason}")).await;
    assert!(said.contains(words), "{said}");
    assert!(stage.cluster_event(&class, "PoolRefused").await.contains(words));
    stage.claim_with("web-ip", json!({ "className": class })).await;
    let told = stage.event("web-ip", "PoolRefused").await;
    assert!(told.contains(words) && told.contains(&class), "{told}");
    stage.assert_at_rest().await;
    stage.claim_is("web-ip", ClaimPhase::Pending).await;
    assert_eq!(stage.events("default", &class, "PoolRefused").await.len(), 1);
    assert_eq!(stage.events(&stage.name, "web-ip", "PoolRefused").await.len(), 1);

    mend(&stage).await;
    stage.class_says(&class, "True/Accepted").await;
    let ip = stage.bound("web-ip").await;
    assert!(ip.starts_with(&stage.subnet), "{ip}");
    stage.assert_at_rest().await;
}

async fn own_pool(stage: &Stage, auto_assign: bool) {
    stage.pool(&stage.name, &[&format!("{}.7/32", stage.subnet)], auto_assign).await;
}

async fn set_parameters(stage: &Stage, parameters: Value) {
    let change = json!({ "spec": { "parameters": parameters } });
    rig::patch(&stage.classes(), &format!("{}-class", stage.name), change).await;
}

/// Takes the stage's own class away, which would name the same pool.
async fn clear_the_way(stage: &Stage) {
    rig::delete(&stage.classes(), &stage.name).await;
    rig::gone(&stage.classes(), &stage.name).await;
}

/// §8: `addresses`, of the driver's old form, is refused by name, with the migration hint.
#[test]
fn c8_addresses_refused_by_name() {
    rig::run(async |rig| {
        let parameters = |_: &Stage| json!({ "addresses": ["203.0.113.0/24"] });
        refused(rig, "class-addresses", parameters, ("InvalidParameters", "migrate"), async |stage| {
            clear_the_way(stage).await;
            own_pool(stage, false).await;
            set_parameters(stage, json!({ "addresses": null, "pool": stage.name })).await;
        })
        .await;
    });
}

/// §8: an unknown field is refused by name.
#[test]
fn c8_unknown_field_refused_by_name() {
    rig::run(async |rig| {
        let parameters = |stage: &Stage| json!({ "pool": stage.name, "range": "x" });
        refused(rig, "class-unknown", parameters, ("InvalidParameters", "range"), async |stage| {
            clear_the_way(stage).await;
            own_pool(stage, false).await;
            set_parameters(stage, json!({ "range": null })).await;
        })
        .await;
    });
}

/// §8: a pool that does not exist.
#[test]
fn c8_pool_missing() {
    rig::run(async |rig| {
        let parameters = |_: &Stage| json!({ "pool": "class-missing-pool" });
        refused(rig, "class-missing", parameters, ("PoolNotFound", "class-missing-pool"), async |stage| {
            stage.pool("class-missing-pool", &[&format!("{}.7/32", stage.subnet)], false).await;
        })
        .await;
    });
}

/// §8: a pool that gives its addresses to any Service.
#[test]
fn c8_pool_auto_assigns() {
    rig::run(async |rig| {
        let stage = rig.stage("class-auto", 0).await;
        clear_the_way(&stage).await;
        // MetalLB would give of it to every Service of the other tests: a selector that matches none keeps it from that.
        let pool = json!({ "spec": {
            "autoAssign": true,
            "serviceAllocation": { "serviceSelectors": [{ "matchLabels": { "nobody": "has-this" } }] },
        }});
        stage.pool(&stage.name, &[&format!("{}.7/32", stage.subnet)], false).await;
        rig::patch(&stage.pools(), &stage.name, pool).await;
        stage.class(&stage.name, "Retain").await;
        stage.claim("web-ip").await;
        let said = stage.class_says(&stage.name, "False/PoolAutoAssigns").await;
        assert!(said.contains("autoAssign"), "{said}");
        stage.event("web-ip", "PoolRefused").await;
        stage.cluster_event(&stage.name, "PoolRefused").await;
        stage.assert_at_rest().await;
        let mended = json!({ "spec": { "autoAssign": false, "serviceAllocation": null } });
        rig::patch(&stage.pools(), &stage.name, mended).await;
        stage.class_says(&stage.name, "True/Accepted").await;
        stage.bound("web-ip").await;
        stage.assert_at_rest().await;
    });
}

/// §8: a pool named by two classes: both make no new reservations, what exists stays held and goes on being handed over.
#[test]
fn c8_pool_named_twice() {
    rig::run(async |rig| {
        let stage = rig.stage("class-twice", 2).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.class("class-twice-b", "Retain").await;
        for (class, other) in [("class-twice", "class-twice-b"), ("class-twice-b", "class-twice")] {
            let said = stage.class_says(class, "False/PoolNamedTwice").await;
            assert!(said.contains(other), "{said}");
            stage.cluster_event(class, "PoolRefused").await;
        }
        stage.claim("second").await;
        stage.event("second", "PoolRefused").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.delete_service("web").await;
        stage.held(&ip).await;
        stage.assert_at_rest().await;
        stage.claim_is("second", ClaimPhase::Pending).await;
        rig::delete(&stage.classes(), "class-twice-b").await;
        stage.class_says("class-twice", "True/Accepted").await;
        stage.bound("second").await;
        stage.assert_never_unheld(&ip).await;
        stage.assert_at_rest().await;
    });
}

/// §8: a pool with an entry that MetalLB cannot read, which then takes in no change of any pool: said with the entry, no new
/// reservation; what exists stays held and goes on being handed over.
#[test]
fn c8_pool_unreadable() {
    // Nobody else's pools may change meanwhile.
    upheavals::on_own(async |rig| {
        let stage = rig.stage("class-unreadable", 2).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        let ranges = stage.ranges();
        let addresses = |more: &[String]| {
            let all = [ranges.as_slice(), more].concat();
            json!({ "spec": { "addresses": all } })
        };
        let nonsense = "192.0.2.256/32".to_owned();
        rig::patch(&stage.pools(), &stage.name, addresses(std::slice::from_ref(&nonsense))).await;
        let said = stage.class_says(&stage.name, "False/PoolUnreadable").await;
        assert!(said.contains(&nonsense), "{said}");
        assert!(stage.cluster_event(&stage.name, "PoolRefused").await.contains(&nonsense));
        stage.claim("second").await;
        assert!(stage.event("second", "PoolRefused").await.contains(&nonsense));
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.delete_service("web").await;
        stage.held(&ip).await;
        stage.claim_is("second", ClaimPhase::Pending).await;
        stage.assert_at_rest().await;
        rig::patch(&stage.pools(), &stage.name, addresses(&[])).await;
        stage.class_says(&stage.name, "True/Accepted").await;
        stage.bound("second").await;
        stage.assert_never_unheld(&ip).await;
        stage.assert_at_rest().await;
    });
}

/// §8: MetalLB has assigned an address to the placeholder of a claim, and then the class is refused, before the driver has
/// seen either: the address is recorded all the same; the next claim gets none.
#[test]
fn c8_refused_while_a_placeholder_is_assigned() {
    upheavals::on_own(async |rig| {
        let stage = rig.stage("class-midway", 2).await;
        let (driver, proxy) = (rig.process(Controller::Driver), rig.proxy(Controller::Driver).unwrap());
        let frozen = driver.clone();
        stage.class_says(&stage.name, "True/Accepted").await;
        let made = |call: &Call| call.verb == Verb::Create && call.resource == "services";
        proxy.add(Rule::when(made).times(1).after(move |_| {
            let driver = frozen.clone();
            async move { driver.pause().unwrap() }
        }));
        stage.claim("web-ip").await;
        let ip = rig::eventually("the placeholder to have an address", async || {
            for ip in &stage.v4 {
                if !stage.holders(ip).await.is_empty() {
                    return Some(ip.clone());
                }
            }
            None
        })
        .await;
        stage.class("class-midway-b", "Retain").await;
        driver.resume().unwrap();
        stage.class_says(&stage.name, "False/PoolNamedTwice").await;
        assert_eq!(stage.bound("web-ip").await, ip);
        stage.held(&ip).await;
        stage.claim("second").await;
        stage.event("second", "PoolRefused").await;
        stage.assert_never_unheld(&ip).await;
        stage.assert_at_rest().await;
        stage.claim_is("second", ClaimPhase::Pending).await;
    });
}

/// H5: without its class an address is held, handed over and reclaimed as before; a placeholder deleted by hand comes
/// back; the class made again serves new claims.
#[test]
fn h5_class_deleted() {
    rig::run(async |rig| {
        let stage = rig.stage("class-deleted", 4).await;
        // One that was released under Retain, before the class changed its policy.
        stage.claim("gone-ip").await;
        let released = stage.bound("gone-ip").await;
        stage.held(&released).await;
        stage.delete_claim("gone-ip").await;
        stage.address_is(&released, AddressPhase::Released).await;
        stage.delete_with_claims().await;
        for claim in ["held-ip", "web-ip"] {
            stage.claim(claim).await;
        }
        let (held, web) = (stage.bound("held-ip").await, stage.bound("web-ip").await);
        stage.held(&held).await;
        stage.held(&web).await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&web]).await;
        rig::delete(&stage.classes(), &stage.name).await;
        rig::gone(&stage.classes(), &stage.name).await;
        stage.claim("late").await;
        stage.claim_says("late", "ClassResolved", "False/ClassNotFound").await;
        stage.assert_at_rest().await;
        stage.claim_is("held-ip", ClaimPhase::Bound).await;
        stage.address_is(&released, AddressPhase::Released).await;
        stage.held(&released).await;

        let placeholder = stage.placeholders_of(&held).await.pop().unwrap();
        rig::delete(&stage.placeholders(), &placeholder.name_any()).await;
        rig::eventually("another placeholder to hold the address", async || {
            let now = stage.placeholders_of(&held).await.pop()?;
            (now.uid() != placeholder.uid() && rig::ingress(&now).contains(&held)).then_some(())
        })
        .await;
        stage.held(&held).await;

        stage.delete_service("web").await;
        stage.held(&web).await;
        stage.web("web-b", "web-ip").await;
        stage.served("web-b", &[&web]).await;
        stage.assert_never_unheld(&web).await;
        for (claim, ip) in [("held-ip", &held), ("web-ip", &web)] {
            stage.delete_claim(claim).await;
            rig::gone(&stage.addresses(), &rig::address_name(ip)).await;
            assert!(stage.placeholders_of(ip).await.is_empty());
        }
        stage.unserved("web-b").await;
        stage.class(&stage.name, "Retain").await;
        stage.bound("late").await;
        stage.assert_at_rest().await;
    });
}

/// H6: without a default class a claim that names none waits and says so; it resolves when one appears and stays with it;
/// with two, the next is refused and both are named; with one of them again, it resolves.
#[test]
fn h6_default_classes() {
    rig::run(async |rig| {
        let (a, b) = (rig.stage("default-a", 1).await, rig.stage("default-b", 1).await);
        let default = async |stage: &Stage, value: Value| {
            let change = json!({ "metadata": { "annotations": { DEFAULT_CLASS: value } } });
            rig::patch(&stage.classes(), &stage.name, change).await;
        };
        let claim = |name: &str| rig::claim_object(name, json!({}));
        rig::create(&a.claims(), claim("first")).await;
        a.claim_says("first", "ClassResolved", "False/NoDefaultClass").await;
        a.event("first", "NoDefaultClass").await;
        default(&a, json!("true")).await;
        let ip = a.bound("first").await;
        assert_eq!(ip, a.v4[0]);
        a.claim_says("first", "ClassResolved", "True/Resolved").await;

        default(&b, json!("true")).await;
        rig::create(&a.claims(), claim("second")).await;
        let words = a.claim_says("second", "ClassResolved", "False/MultipleDefaultClasses").await;
        assert!(words.contains("default-a") && words.contains("default-b"), "{words}");
        a.event("second", "MultipleDefaultClasses").await;
        let first = a.claim_is("first", ClaimPhase::Bound).await;
        assert_eq!(first.status.unwrap().class_name.as_deref(), Some("default-a"));

        default(&a, Value::Null).await;
        assert_eq!(a.bound("second").await, b.v4[0]);
        let first = a.claim_is("first", ClaimPhase::Bound).await;
        assert_eq!(first.status.unwrap().class_name.as_deref(), Some("default-a"));
        default(&b, Value::Null).await;
        a.assert_at_rest().await;
    });
}
