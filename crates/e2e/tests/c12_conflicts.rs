//! Contract §12 and cases A2, D2, L2, L3: who has an address against the ledger, and what no pool contains.

use api::address::AddressPhase;
use api::claim::ClaimPhase;
use api::wellknown::{driver, metallb};
use devcluster::Controller;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::rig::{self, Bar, Stage, address_conditions, load_balancer, said};
use crate::upheavals;

const THIEF: &str = "thief";

/// A thief has the address in place of its hold.
async fn rob(stage: &Stage, ip: &str, thief: Value) {
    stage.thief_service(thief).await;
    Bar::lets_first(stage, ip, &stage.thief_services(), THIEF).await;
}

/// Both sides are told; the thief does not learn whose it is.
async fn in_conflict(stage: &Stage, ip: &str) {
    let address = stage.address_is(ip, AddressPhase::Conflict).await;
    assert_eq!(said(address_conditions(&address), "Conflict"), "True/HeldByOther");
    let note = stage.cluster_event(&rig::address_name(ip), "AddressConflict").await;
    assert!(note.contains(&format!("{}/{THIEF}", stage.thief)), "{note}");
    let note = stage.event_in(&stage.thief, THIEF, "AddressConflict").await;
    assert!(note.contains(ip) && !note.contains("web-ip"), "{note}");
    stage.claim_is("web-ip", ClaimPhase::Bound).await;
}

/// The thief goes: the phase goes back and the hold re-arms.
async fn resolved(stage: &Stage, ip: &str) {
    stage.held(ip).await;
    let address = stage.address_is(ip, AddressPhase::Bound).await;
    assert_eq!(said(address_conditions(&address), "Conflict"), "");
    stage.cluster_event(&rig::address_name(ip), "ConflictResolved").await;
    stage.assert_at_rest().await;
}

async fn begin(rig: &rig::Rig, name: &str) -> (Stage, String) {
    let stage = rig.stage(name, 1).await;
    stage.claim("web-ip").await;
    let ip = stage.bound("web-ip").await;
    stage.held(&ip).await;
    (stage, ip)
}

async fn theft(rig: &rig::Rig, name: &str, wish: impl Fn(&Stage, &str) -> (Value, Value)) {
    let (stage, ip) = begin(rig, name).await;
    let (annotations, spec) = wish(&stage, &ip);
    let mut thief = load_balancer(THIEF, annotations);
    for (field, value) in spec.as_object().unwrap() {
        thief["spec"][field] = value.clone();
    }
    rob(&stage, &ip, thief).await;
    in_conflict(&stage, &ip).await;
    // Meanwhile the address is given to nobody, and whoever asks is told.
    stage.web("web", "web-ip").await;
    let note = stage.event("web", "AssociationRejected").await;
    assert!(note.contains("against the ledger"), "{note}");
    stage.delete_service("web").await;
    rig::delete(&stage.thief_services(), THIEF).await;
    resolved(&stage, &ip).await;
}

/// §12: theft by a pin of one's own.
#[test]
fn c12_theft_by_pin() {
    rig::run(async |rig| theft(rig, "theft-pin", |_, ip| (json!({ metallb::PIN: ip }), json!({}))).await);
}

/// A2: theft by an IPv4-mapped pin names the IPv4 address.
#[test]
fn a2_theft_by_a_mapped_pin() {
    let pin = |ip: &str| json!({ metallb::PIN: format!("::ffff:{ip}") });
    rig::run(async |rig| theft(rig, "theft-mapped", |_, ip| (pin(ip), json!({}))).await);
}

/// L3: theft by the name of the pool.
#[test]
fn c12_theft_by_pool() {
    let pool = |stage: &Stage| json!({ metallb::POOL: stage.name });
    rig::run(async |rig| theft(rig, "theft-pool", |stage, _| (pool(stage), json!({}))).await);
}

/// §12: theft by the old field.
#[test]
fn c12_theft_by_load_balancer_ip() {
    rig::run(async |rig| {
        theft(rig, "theft-field", |_, ip| (json!({}), json!({ "loadBalancerIP": ip }))).await;
    });
}

/// §12: a forged placeholder label exempts nobody outside of the placeholders' namespace.
#[test]
fn c12_theft_under_a_forged_label() {
    rig::run(async |rig| {
        let (stage, ip) = begin(rig, "theft-label").await;
        let mut thief = load_balancer(THIEF, json!({ metallb::PIN: ip }));
        thief["metadata"]["labels"] =
            json!({ driver::PLACEHOLDER: "true", driver::IP_ADDRESS: rig::address_name(&ip) });
        rob(&stage, &ip, thief).await;
        in_conflict(&stage, &ip).await;
        rig::delete(&stage.thief_services(), THIEF).await;
        resolved(&stage, &ip).await;
    });
}

/// L2: `spec.externalIPs` goes past MetalLB: a conflict, while the hold keeps the address.
#[test]
fn l2_external_ips_are_a_conflict() {
    rig::run(async |rig| {
        let (stage, ip) = begin(rig, "external-ips").await;
        stage
            .thief_service(json!({
                "metadata": { "name": THIEF },
                "spec": { "externalIPs": [ip], "ports": [{ "port": 80 }] },
            }))
            .await;
        in_conflict(&stage, &ip).await;
        stage.held(&ip).await;
        rig::patch(&stage.thief_services(), THIEF, json!({ "spec": { "externalIPs": null } })).await;
        resolved(&stage, &ip).await;
    });
}

async fn forge(stage: &Stage, ingress: Value) {
    let body = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
    let params = PatchParams::default();
    stage.thief_services().patch_status(THIEF, &params, &Patch::Merge(body)).await.unwrap();
}

/// L2, §12: a forged status of a Service that another load balancer serves stands until it is taken back.
#[test]
fn l2_forged_status_of_another_load_balancer_class() {
    rig::run(async |rig| {
        let (stage, ip) = begin(rig, "forged-class").await;
        let mut thief = load_balancer(THIEF, json!({}));
        thief["spec"]["loadBalancerClass"] = json!("example.org/other");
        stage.thief_service(thief).await;
        forge(&stage, json!([{ "ip": ip }])).await;
        in_conflict(&stage, &ip).await;
        let conditions = stage.address_is(&ip, AddressPhase::Conflict).await;
        assert_eq!(said(address_conditions(&conditions), "Held"), "True/Held");
        forge(&stage, json!(null)).await;
        resolved(&stage, &ip).await;
    });
}

/// L2: a forged status on a held address is cleared by MetalLB itself; whatever was said meanwhile is taken back.
#[test]
fn l2_forged_status_on_a_held_address() {
    rig::run(async |rig| {
        let (stage, ip) = begin(rig, "forged-held").await;
        stage.thief_service(load_balancer(THIEF, json!({ metallb::POOL: "no-such-pool" }))).await;
        stage.event_in(&stage.thief, THIEF, "AllocationFailed").await;
        forge(&stage, json!([{ "ip": ip }])).await;
        rig::until(&stage.thief_services(), THIEF, "to have nothing", |service| {
            rig::ingress(service).is_empty()
        })
        .await;
        stage.held(&ip).await;
        stage.address_is(&ip, AddressPhase::Bound).await;
        stage.assert_at_rest().await;
    });
}

/// §12: MetalLB was away, and a second Service was first when it came back.
#[test]
fn c12_theft_while_metallb_and_the_driver_are_away() {
    upheavals::on_own(async |rig| {
        let (stage, ip) = begin(rig, "away").await;
        rig.process(Controller::Driver).kill().await;
        rig.cluster.stop("metallb").await.unwrap();
        for hold in stage.placeholders_of(&ip).await {
            rig::delete(&stage.placeholders(), &hold.name_any()).await;
        }
        stage.thief_service(load_balancer(THIEF, json!({ metallb::PIN: ip }))).await;
        rig.cluster.start_part("metallb").await.unwrap();
        rig::until(&stage.thief_services(), THIEF, "to have it", |service| {
            rig::ingress(service).contains(&ip)
        })
        .await;
        rig.revive(Controller::Driver).await;
        in_conflict(&stage, &ip).await;
        rig::delete(&stage.thief_services(), THIEF).await;
        resolved(&stage, &ip).await;
    });
}

async fn ranges(stage: &Stage, ranges: &[String]) {
    rig::patch(&stage.pools(), &stage.name, json!({ "spec": { "addresses": ranges } })).await;
}

/// D1, §12: the pool is cut below a held and an associated address: both are `Lost`, nothing is given in their place, and
/// both are back by themselves.
#[test]
fn c12_lost_by_a_recut_pool_and_back() {
    rig::run(async |rig| {
        let stage = rig.stage("recut", 4).await;
        for claim in ["web-ip", "idle-ip"] {
            stage.claim(claim).await;
        }
        let (ip, idle) = (stage.bound("web-ip").await, stage.bound("idle-ip").await);
        stage.held(&idle).await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        let all = stage.ranges();
        ranges(&stage, &[format!("{0}.3-{0}.4", stage.subnet)]).await;
        for (ip, claim) in [(&ip, "web-ip"), (&idle, "idle-ip")] {
            stage.address_is(ip, AddressPhase::Lost).await;
            stage.claim_is(claim, ClaimPhase::Lost).await;
            stage.cluster_event(&rig::address_name(ip), "AddressLost").await;
        }
        stage.assert_at_rest().await;
        assert_eq!(stage.own_addresses().await.len(), 2, "nothing is provisioned around a loss");
        ranges(&stage, &all).await;
        stage.held(&idle).await;
        stage.served("web", &[&ip]).await;
        for (ip, claim) in [(&ip, "web-ip"), (&idle, "idle-ip")] {
            stage.address_is(ip, AddressPhase::Bound).await;
            stage.claim_is(claim, ClaimPhase::Bound).await;
        }
        stage.cluster_event(&rig::address_name(&idle), "AddressRecovered").await;
        stage.assert_at_rest().await;
    });
}

/// D2: the pool is deleted and made anew.
#[test]
fn d2_pool_deleted_and_made_anew() {
    rig::run(async |rig| {
        let stage = rig.stage("no-pool", 2).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.claim("idle-ip").await;
        let idle = stage.bound("idle-ip").await;
        stage.held(&idle).await;
        rig::delete(&stage.pools(), &stage.name).await;
        for claim in ["web-ip", "idle-ip"] {
            stage.claim_is(claim, ClaimPhase::Lost).await;
        }
        let all = stage.ranges();
        stage.pool(&stage.name, &all.iter().map(String::as_str).collect::<Vec<_>>(), false).await;
        stage.served("web", &[&ip]).await;
        stage.held(&idle).await;
        for claim in ["web-ip", "idle-ip"] {
            stage.claim_is(claim, ClaimPhase::Bound).await;
        }
        stage.assert_at_rest().await;
    });
}

/// §12: the pool gets another name: the addresses are lost between, and held by the pin alone after.
#[test]
fn c12_lost_by_a_renamed_pool_and_back() {
    rig::run(async |rig| {
        let (stage, ip) = begin(rig, "renamed").await;
        rig::delete(&stage.pools(), &stage.name).await;
        stage.claim_is("web-ip", ClaimPhase::Lost).await;
        let all = stage.ranges();
        stage.pool("renamed-too", &all.iter().map(String::as_str).collect::<Vec<_>>(), false).await;
        stage.claim_is("web-ip", ClaimPhase::Bound).await;
        stage.held(&ip).await;
        stage.class_says(&stage.name, "False/PoolNotFound").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.assert_at_rest().await;
    });
}
