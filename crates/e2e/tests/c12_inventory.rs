//! Contract §12, backwards inventory: what MetalLB gave to Services without a claim.

use api::address::AddressPhase;
use api::claim::ClaimPhase;
use api::wellknown::{CLAIM, driver, metallb};
use devcluster::Controller;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::rig::{self, Setup, Stage, load_balancer};

/// A Service that draws an address of the pool without a claim.
async fn plain(stage: &Stage, name: &str, wish: Value) -> String {
    stage.service(load_balancer(name, wish)).await;
    let has = |service: &k8s_openapi::api::core::v1::Service| !rig::ingress(service).is_empty();
    let service = rig::until(&stage.services(), name, "to have an address", has).await;
    rig::ingress(&service).pop_first().unwrap()
}

async fn noted(stage: &Stage, ip: &str, holder: &str) {
    let address = stage.ledger(ip, "to name its Service", |address| address.associated_to().is_some()).await;
    assert_eq!(address.labels().get(driver::OBSERVED).map(String::as_str), Some("true"));
    assert_eq!(rig::associated(&address), Some(format!("{}/{holder}", stage.name)));
    stage.address_is(ip, AddressPhase::Released).await;
}

/// §12: an address that nobody claimed appears and goes with its Service; it is bound to nobody, by name or by class.
#[test]
fn c12_observed_addresses_appear_and_go() {
    rig::run(async |rig| {
        let stage = rig.stage("observed", 1).await;
        let ip = plain(&stage, "web", json!({ metallb::POOL: stage.name })).await;
        noted(&stage, &ip, "web").await;
        assert!(stage.placeholders_of(&ip).await.is_empty(), "nothing is held");
        let name = rig::address_name(&ip);
        stage.claim_with("by-name", json!({ "addressName": name })).await;
        stage.claim_says("by-name", "Bound", "False/AddressNotAvailable").await;
        // The Service's own name is no way to it either.
        stage.claim("web").await;
        stage.claim_says("web", "Bound", "False/WaitingForProvisioning").await;
        stage.claim_is("web", ClaimPhase::Pending).await;
        stage.assert_at_rest().await;
        stage.delete_claim("by-name").await;
        stage.delete_service("web").await;
        // Free now: the claim that draws from the class gets it.
        assert_eq!(stage.bound("web").await, ip);
        let address = stage.held(&ip).await;
        assert!(!address.labels().contains_key(driver::OBSERVED));
        stage.assert_at_rest().await;
    });
}

/// A2: an IPv4-mapped pin on a free address is found under the IPv4 address.
#[test]
fn a2_a_mapped_pin_is_observed_as_ipv4() {
    rig::run(async |rig| {
        let stage = rig.stage("mapped", 1).await;
        let pin = format!("::ffff:{}", stage.v4[0]);
        let ip = plain(&stage, "web", json!({ metallb::PIN: pin })).await;
        assert_eq!(ip, stage.v4[0]);
        noted(&stage, &ip, "web").await;
        stage.delete_service("web").await;
        rig::gone(&stage.addresses(), &rig::address_name(&ip)).await;
        stage.assert_at_rest().await;
    });
}

/// §12: a Service that names a claim waits for it and is no find; with the claim gone from it, it is one.
#[test]
fn c12_a_service_with_a_claim_is_no_find() {
    rig::run(async |rig| {
        let stage = rig.stage("no-find", 2).await;
        let ip = plain(&stage, "web", json!({ metallb::POOL: stage.name, CLAIM: "later" })).await;
        stage.event("web", "ClaimNotFound").await;
        stage.assert_at_rest().await;
        assert!(stage.addresses().get_opt(&rig::address_name(&ip)).await.unwrap().is_none());
        stage.name_claim("web", None).await;
        noted(&stage, &ip, "web").await;
        // With a claim of another address, and its own wish gone, it moves there; the note goes.
        stage.claim("later").await;
        let claimed = stage.bound("later").await;
        stage.annotate("web", json!({ metallb::POOL: null, CLAIM: "later" })).await;
        stage.served("web", &[&claimed]).await;
        rig::gone(&stage.addresses(), &rig::address_name(&ip)).await;
        stage.assert_at_rest().await;
    });
}

/// L3: a tenant who knows the pool's name draws from it: found, and a later claim is not given that address.
#[test]
fn l3_a_tenant_draws_from_the_reserved_pool() {
    rig::run(async |rig| {
        let stage = rig.stage("drawn", 2).await;
        for (name, key) in [("new", metallb::POOL), ("old", metallb::POOL_OLD)] {
            let ip = plain(&stage, name, json!({ key: stage.name })).await;
            noted(&stage, &ip, name).await;
        }
        stage.claim("late").await;
        stage.event("late", "PoolExhausted").await;
        stage.delete_service("new").await;
        let ip = stage.bound("late").await;
        stage.held(&ip).await;
        stage.assert_at_rest().await;
    });
}

/// L2: a forged status on an address that nobody has is taken for an assignment by MetalLB; whoever has it then is written
/// down, and a claim is not given that address.
#[test]
fn l2_forged_status_on_a_free_address_is_observed() {
    rig::run(async |rig| {
        let stage = rig.stage("forged-free", 1).await;
        stage.delete_with_claims().await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.delete_claim("web-ip").await;
        rig::gone(&stage.addresses(), &rig::address_name(&ip)).await;
        stage.service(load_balancer("forger", json!({}))).await;
        stage.event("forger", "AllocationFailed").await;
        let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": ip }] } } });
        let patch = Patch::Merge(status);
        stage.services().patch_status("forger", &PatchParams::default(), &patch).await.unwrap();
        noted(&stage, &ip, "forger").await;
        stage.claim("late").await;
        stage.event("late", "PoolExhausted").await;
        stage.delete_service("forger").await;
        assert_eq!(stage.bound("late").await, ip);
        stage.held(&ip).await;
        stage.assert_at_rest().await;
    });
}

/// §12: the inventory is switched off by the chart: the notes from before go, by the rights that the chart then gives.
#[test]
fn c12_an_inventory_that_is_switched_off_takes_its_notes_away() {
    rig::alone(Setup { leader_elect: false, ..Setup::default() }, async |rig| {
        let stage = rig.stage("switched-off", 2).await;
        let ip = plain(&stage, "web", json!({ metallb::POOL: stage.name })).await;
        noted(&stage, &ip, "web").await;
        rig.cluster.install_chart(Controller::Driver, &["--set", "inventory=off"]).await.unwrap();
        rig.restart_with(Controller::Driver, &["--inventory=off"]).await;
        rig::gone(&stage.addresses(), &rig::address_name(&ip)).await;
        // The Service keeps what it had.
        assert!(rig::ingress(&stage.services().get("web").await.unwrap()).contains(&ip));
        stage.assert_at_rest().await;
    });
}
