//! Contract §11, `--handoff=gap`: no key is ever put on a Service, nobody has the address for a moment, and the claim that
//! waits for an address of the full pool never gets it.

use api::address::{HandoffDirection, HandoffMode};
use api::claim::ClaimPhase;
use api::wellknown::{CLAIM, metallb};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::rig::{self, Rig, Setup, Stage};

fn gap(further: &[&str]) -> Setup {
    let flags = ["--handoff=gap"].iter().chain(further);
    Setup { driver_args: flags.map(ToString::to_string).collect(), ..Setup::default() }
}

async fn waited_for(rig: &Rig, name: &str) -> (Stage, String) {
    let stage = rig.stage(name, 1).await;
    stage.claim("web-ip").await;
    let ip = stage.bound("web-ip").await;
    stage.held(&ip).await;
    stage.wait_in_line().await;
    (stage, ip)
}

/// The ledger shows a gap, and how long it was.
async fn by_gap(stage: &Stage, ip: &str, direction: HandoffDirection) {
    let address = stage.ledger(ip, "to be handed over", |address| rig::handed(address, direction)).await;
    let handoff = address.status.unwrap().last_handoff.unwrap();
    assert_eq!(handoff.mode, HandoffMode::Gap, "{handoff:?}");
    let unheld = handoff.unheld_milliseconds.unwrap();
    println!("{direction:?} {ip}: nobody had it for {unheld} ms");
    assert!((0..30_000).contains(&unheld), "{unheld} ms");
}

async fn there_and_back(stage: &Stage, ip: &str, spec: &Value, delete: bool) {
    let mut web = rig::load_balancer("web", json!({ CLAIM: "web-ip" }));
    for (field, value) in spec.as_object().unwrap() {
        web["spec"][field] = value.clone();
    }
    stage.service(web).await;
    stage.served("web", &[ip]).await;
    by_gap(stage, ip, HandoffDirection::Associate).await;
    if !delete {
        stage.name_claim("web", None).await;
        stage.held(ip).await;
        by_gap(stage, ip, HandoffDirection::Disassociate).await;
        let web = stage.unserved("web").await;
        let left = serde_json::to_string(&(web.annotations(), web.labels(), web.finalizers())).unwrap();
        assert!(!left.contains("metallb"), "marks were left: {left}");
    }
    stage.delete_service("web").await;
    stage.held(ip).await;
}

/// Both ways, of each shape, twice; the claim that waits gets nothing.
#[test]
fn c11_gap_there_and_back() {
    rig::alone(gap(&[]), async |rig| {
        let (stage, ip) = waited_for(rig, "gap").await;
        for spec in
            [json!({}), json!({ "externalTrafficPolicy": "Local" }), json!({ "ports": [{ "port": 65535 }] })]
        {
            for delete in [false, true] {
                there_and_back(&stage, &ip, &spec, delete).await;
            }
        }
        // Directly from one Service to the next.
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.web("web-v2", "web-ip").await;
        stage.event("web-v2", "AssociationRejected").await;
        stage.delete_service("web").await;
        stage.served("web-v2", &[&ip]).await;
        // The claim goes: the workload keeps nothing.
        stage.delete_claim("web-ip").await;
        stage.unserved("web-v2").await;
        stage.held(&ip).await;
        stage.claim_is(rig::LATE, ClaimPhase::Pending).await;
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
        // Both families, and a key of the tenant's own.
        let stage = rig.stage_dual("gap-dual", 1, 1).await;
        stage.claim_with("web-ip", json!({ "family": "Dual" })).await;
        let ips = stage.bound_all("web-ip").await;
        let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
        for ip in &ips {
            stage.held(ip).await;
        }
        stage.wait_in_line().await;
        let mut web = rig::load_balancer("web", json!({ CLAIM: "web-ip" }));
        web["spec"]["ipFamilyPolicy"] = json!("RequireDualStack");
        web["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
        stage.service(web).await;
        stage.served("web", &ips).await;
        stage.annotate("web", json!({ metallb::SHARE: "mine" })).await;
        stage.name_claim("web", None).await;
        for ip in &ips {
            stage.held(ip).await;
            by_gap(&stage, ip, HandoffDirection::Disassociate).await;
        }
        let web = stage.unserved("web").await;
        assert_eq!(web.annotations()[metallb::SHARE], "mine");
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}

/// Without the finalizer, and while a thief waits: what it takes in the gap it may keep; the pin stays, and when the thief
/// goes, the Service is served.
#[test]
fn c11_gap_without_hold_on_delete_and_with_a_thief() {
    rig::alone(gap(&["--hold-on-delete=false"]), async |rig| {
        let (stage, ip) = waited_for(rig, "gap-free").await;
        for delete in [false, true] {
            there_and_back(&stage, &ip, &json!({}), delete).await;
        }
        stage.delete_claim(rig::LATE).await;
        stage.contend(&[&ip]).await;
        stage.web("web", "web-ip").await;
        let thief = format!("{}/", stage.thief);
        let holder = rig::eventually("somebody to have the address, and no placeholder", async || {
            let holders = stage.holders(&ip).await;
            let gone = stage.placeholders_of(&ip).await.is_empty();
            holders.into_iter().next().filter(|_| gone)
        })
        .await;
        println!("{holder} was the fastest");
        if holder.starts_with(&thief) {
            stage
                .ledger(&ip, "to say that MetalLB refuses", |address| {
                    rig::said(rig::address_conditions(address), "Associated").starts_with("False/")
                })
                .await;
            let web = stage.services().get("web").await.unwrap();
            assert_eq!(web.annotations()[metallb::PIN], ip);
        }
        stage.clear_thieves().await;
        stage.served("web", &[&ip]).await;
        stage.delete_service("web").await;
        stage.held(&ip).await;
        stage.claim_is(rig::LATE, ClaimPhase::Pending).await;
        stage.assert_at_rest().await;
    });
}
