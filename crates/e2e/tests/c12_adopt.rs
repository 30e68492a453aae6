//! Contract §12: `metallb-iad adopt`: a running Service's address becomes a claim's, and a witness sees it never change.

use std::collections::BTreeSet;

use api::address::AddressPhase;
use api::wellknown::{CLAIM, driver, metallb};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::rig::{self, BROKEN, Rig, Setup, Stage};

/// A Service that has addresses of the pool without a claim.
async fn running(stage: &Stage, mut service: Value, wish: Value, spec: Value) -> BTreeSet<String> {
    service["metadata"]["annotations"] = wish;
    service["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let families = service["spec"]["ipFamilies"].as_array().map_or(1, Vec::len);
    stage.service(service).await;
    let full = |service: &Service| rig::ingress(service).len() == families;
    let what = format!("to have {families} IPs");
    rig::ingress(&rig::until(&stage.services(), "web", &what, full).await)
}

/// Adopts `web`, sees the driver take it over, and its addresses held when it goes. At no version of any Service's status
/// had anybody else one of them, or nobody.
async fn adopt(rig: &Rig, stage: &Stage, ips: &BTreeSet<String>) {
    let service = format!("{}/web", stage.name);
    // MetalLB may have served the Service before the driver, which has only just started, looked at the class.
    stage.class_says(&stage.name, "True/Accepted").await;
    let args = ["adopt", "--service", &service, "--claim", "web-ip"];
    let before = stage.services().get("web").await.unwrap().resource_version();
    let dry = rig.errand(&[&args[..], &["--dry-run"]].concat()).await;
    assert_eq!(
        dry.lines().last().unwrap(),
        &format!("dry run: {} steps, nothing was written", 2 + ips.len())
    );
    assert_eq!(stage.services().get("web").await.unwrap().resource_version(), before);
    assert!(stage.claims().get_opt("web-ip").await.unwrap().is_none());

    let done = rig.errand(&args).await;
    assert_eq!(done.lines()[..done.lines.len() - 1], dry.lines()[..dry.lines.len() - 1]);
    assert_eq!(stage.bound_all("web-ip").await.into_iter().collect::<BTreeSet<_>>(), *ips);
    let ours = |service: &Service| service.finalizers().iter().any(|name| name == driver::HANDOFF);
    let adopted = rig::until(&stage.services(), "web", "to be the driver's", ours).await;
    assert_eq!(rig::ingress(&adopted), *ips);
    for name in [metallb::POOL, metallb::POOL_OLD, metallb::PIN_OLD, metallb::SHARE] {
        assert!(!adopted.annotations().contains_key(name), "{adopted:?}");
    }
    for ip in ips {
        let of_web = |address: &api::IPAddress| rig::associated(address).as_ref() == Some(&service);
        let address = stage.ledger(ip, "to be the Service's", of_web).await;
        assert!(!address.labels().contains_key(driver::OBSERVED));
        assert!(address.finalizers().iter().any(|name| name == driver::TEARDOWN));
        stage.address_is(ip, AddressPhase::Bound).await;
        assert!(stage.placeholders_of(ip).await.is_empty(), "a placeholder was made for {ip}");
        let timeline = stage.timeline(ip).await;
        assert_eq!(timeline.len(), 1, "{BROKEN}{ip} changed hands: {timeline:#?}");
        assert_eq!(timeline[0].services, BTreeSet::from([service.clone()]));
    }
    assert_eq!(rig.errand(&args).await.lines(), ["nothing to do"]);
    stage.assert_at_rest().await;
    assert!(stage.queued().await.is_empty(), "something was reserved for the claim");
    assert_eq!(stage.own_addresses().await.len(), ips.len(), "something was reserved for the claim");

    stage.delete_service("web").await;
    for ip in ips {
        stage.held(ip).await;
        stage.assert_never_unheld(ip).await;
    }
}

fn web() -> Value {
    rig::load_balancer("web", json!({}))
}

/// §12: by the pool's annotation, and a note of the inventory about it; the pool is full and others wait.
#[test]
fn c12_adopt_what_the_inventory_noted() {
    rig::run(async |rig| {
        let stage = rig.stage("adopt-noted", 1).await;
        let ips = running(&stage, web(), json!({ metallb::POOL: stage.name }), json!({})).await;
        let ip = ips.first().unwrap();
        stage.ledger(ip, "to be noted", |address| address.associated_to().is_some()).await;
        stage.contend(&[ip]).await;
        adopt_contended(rig, &stage, &ips).await;
    });
}

/// As [`adopt`], where claims wait for the address as well.
async fn adopt_contended(rig: &Rig, stage: &Stage, ips: &BTreeSet<String>) {
    let service = format!("{}/web", stage.name);
    rig.errand(&["adopt", "--service", &service, "--claim", "web-ip"]).await.lines();
    let ip = ips.first().unwrap();
    assert_eq!(stage.bound("web-ip").await, *ip);
    let ours = |service: &Service| service.finalizers().iter().any(|name| name == driver::HANDOFF);
    rig::until(&stage.services(), "web", "to be the driver's", ours).await;
    assert_eq!(stage.timeline(ip).await.len(), 1);
    stage.delete_service("web").await;
    stage.held(ip).await;
    stage.finish().await;
}

/// §12: pinned by hand, in the old spelling, by `loadBalancerIP`, with the shape of a tenant who wants `Local` traffic.
#[test]
fn c12_adopt_what_was_asked_for_by_hand() {
    rig::run(async |rig| {
        let stage = rig.stage("adopt-pin", 2).await;
        let ips = running(&stage, web(), json!({ metallb::PIN: stage.v4[1] }), json!({})).await;
        adopt(rig, &stage, &ips).await;

        let stage = rig.stage("adopt-old", 1).await;
        let local = json!({ "externalTrafficPolicy": "Local" });
        let ips = running(&stage, web(), json!({ metallb::POOL_OLD: stage.name }), local).await;
        adopt(rig, &stage, &ips).await;

        let stage = rig.stage("adopt-field", 1).await;
        let ips = running(&stage, web(), json!({}), json!({ "loadBalancerIP": stage.v4[0] })).await;
        adopt(rig, &stage, &ips).await;
    });
}

/// §12: both families at once; nothing is reserved for the claim although it names no address, and there is room.
#[test]
fn c12_adopt_both_families() {
    rig::run(async |rig| {
        let stage = rig.stage_dual("adopt-dual", 3, 3).await;
        let dual = json!({ "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"] });
        let ips = running(&stage, web(), json!({ metallb::POOL: stage.name }), dual).await;
        for ip in &ips {
            stage.ledger(ip, "to be noted", |address| address.associated_to().is_some()).await;
        }
        adopt(rig, &stage, &ips).await;
    });
}

/// §12: without the inventory there is no note, and the address is written down for the claim.
#[test]
fn c12_adopt_without_the_inventory() {
    let driver_args = vec!["--inventory=off".to_owned()];
    rig::alone(Setup { driver_args, ..Setup::default() }, async |rig| {
        let stage = rig.stage("adopt-single", 2).await;
        let ips = running(&stage, web(), json!({ metallb::POOL: stage.name }), json!({})).await;
        adopt(rig, &stage, &ips).await;
        let stage = rig.stage_dual("adopt-both", 3, 3).await;
        let dual = json!({ "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"] });
        let ips = running(&stage, web(), json!({ metallb::POOL: stage.name }), dual).await;
        adopt(rig, &stage, &ips).await;
    });
}

/// §12: what a claim cannot serve is refused with the way out, and nothing is written.
#[test]
fn c12_adopt_refusals() {
    rig::run(async |rig| {
        let stage = rig.stage("adopt-refused", 2).await;
        let ips = running(&stage, web(), json!({ metallb::POOL: stage.name }), json!({})).await;
        let ip = ips.first().unwrap();
        let service = format!("{}/web", stage.name);
        let refused = async |change: Value, words: &str| {
            rig::patch(&stage.services(), "web", change).await;
            let said = rig.errand(&["adopt", "--service", &service, "--claim", "web-ip"]).await;
            assert!(said.refused().contains(words), "{said:#?}");
            assert!(said.lines.is_empty(), "{said:#?}");
        };
        let annotations = |value: Value| json!({ "metadata": { "annotations": value } });
        refused(annotations(json!({ CLAIM: "other" })), "names claim other already").await;
        refused(annotations(json!({ CLAIM: null, metallb::SHARE: "theirs" })), "allow-shared-ip is set")
            .await;
        rig::patch(&stage.services(), "web", annotations(json!({ metallb::SHARE: null }))).await;
        // A claim of that name that wants an address of its own, and a class of another pool.
        stage.claim("web-ip").await;
        stage.bound("web-ip").await;
        refused(json!({}), "asks for something else").await;
        stage.delete_claim("web-ip").await;
        stage.class_with("adopt-other", "Retain", json!({ "pool": "adopt-no-pool" })).await;
        let args = ["adopt", "--service", &service, "--claim", "mine", "--class", "adopt-other"];
        let said = rig.errand(&args).await;
        assert!(
            said.refused().contains("class adopt-other does not draw from IPAddressPool adopt-refused"),
            "{said:?}"
        );
        // A pool of no class, and one that gives to anybody.
        rig::delete(&stage.classes(), &stage.name).await;
        rig::gone(&stage.classes(), &stage.name).await;
        refused(json!({}), "no class draws from IPAddressPool adopt-refused").await;
        let selected = json!({ "spec": {
            "autoAssign": true,
            "serviceAllocation": { "serviceSelectors": [{ "matchLabels": { "adopt": "refused" } }] },
        }});
        let labelled = json!({ "metadata": { "labels": { "adopt": "refused" } } });
        rig::patch(&stage.services(), "web", labelled).await;
        rig::patch(&stage.pools(), &stage.name, selected).await;
        stage.class(&stage.name, "Retain").await;
        stage.class_says(&stage.name, "False/PoolAutoAssigns").await;
        refused(json!({}), "autoAssign").await;
        assert!(stage.claims().list(&kube::api::ListParams::default()).await.unwrap().items.is_empty());
        assert_eq!(stage.timeline(ip).await.len(), 1);
    });
}

/// §12: what a pool that assigned by itself gave away; made a pool for reservations, MetalLB leaves it where it is.
#[test]
fn c12_adopt_what_was_assigned_by_itself() {
    rig::run(async |rig| {
        let stage = rig.stage("adopt-auto", 1).await;
        // MetalLB would give of it to every Service of the other tests: a selector keeps it from that.
        let auto = json!({ "spec": {
            "autoAssign": true,
            "serviceAllocation": { "serviceSelectors": [{ "matchLabels": { "adopt": "auto" } }] },
        }});
        rig::patch(&stage.pools(), &stage.name, auto).await;
        let mut service = web();
        service["metadata"]["labels"] = json!({ "adopt": "auto" });
        let ips = running(&stage, service, json!({}), json!({})).await;
        stage.class_says(&stage.name, "False/PoolAutoAssigns").await;
        let args = ["adopt", "--service", "adopt-auto/web", "--claim", "web-ip"];
        assert!(rig.errand(&args).await.refused().contains("autoAssign"));
        let mended = json!({ "spec": { "autoAssign": false, "serviceAllocation": null } });
        rig::patch(&stage.pools(), &stage.name, mended).await;
        stage.class_says(&stage.name, "True/Accepted").await;
        adopt(rig, &stage, &ips).await;
    });
}
