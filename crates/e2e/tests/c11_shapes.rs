//! Contract §11: Services of every shape that MetalLB serves, handed over contended; and MetalLB away meanwhile.

use api::address::HandoffDirection;
use api::wellknown::{CLAIM, driver};
use devcluster::{Controller, Part};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::rig::{self, Rig};
use crate::{crash, upheavals};

/// A Service of that specification gets the address and gives it back, three times, and at no version nobody had it.
async fn there_and_back(rig: &Rig, name: &str, spec: Value) {
    let stage = rig.stage(name, 1).await;
    stage.claim("web-ip").await;
    let ip = stage.bound("web-ip").await;
    stage.held(&ip).await;
    stage.contend(&[&ip]).await;
    for round in 0..3 {
        let mut web = rig::load_balancer("web", json!({ CLAIM: "web-ip" }));
        for (field, value) in spec.as_object().unwrap() {
            web["spec"][field] = value.clone();
        }
        stage.service(web).await;
        stage.served("web", &[&ip]).await;
        if round == 1 {
            stage.name_claim("web", None).await;
            stage.held(&ip).await;
        }
        stage.delete_service("web").await;
        stage.held(&ip).await;
        // A hold that still wears the last tenant's shape would not share with the next.
        rig::eventually("the hold to put off the shape of the Service", async || {
            let hold = stage.placeholders_of(&ip).await.pop()?.spec?;
            let plain = hold.external_traffic_policy.as_deref() == Some("Cluster") && hold.selector.is_none();
            plain.then_some(())
        })
        .await;
    }
    stage.finish().await;
}

/// `externalTrafficPolicy: Local`: the placeholder takes the shape for the handoff, and puts it off after it.
#[test]
fn c11_local_traffic_policy() {
    rig::run(async |rig| {
        there_and_back(rig, "local", json!({ "externalTrafficPolicy": "Local" })).await;
    });
}

/// A Service on the port of placeholders: the placeholder takes another one.
#[test]
fn c7_port_of_the_placeholder() {
    rig::run(async |rig| {
        let ports = json!([
            { "name": "high", "port": 65535 }, { "name": "next", "port": 65534 },
            { "name": "udp", "port": 65535, "protocol": "UDP" },
        ]);
        there_and_back(rig, "high-port", json!({ "ports": ports })).await;
    });
}

/// `externalTrafficPolicy` and ports change while the Service has the address: no write of ours, no other IP; and every
/// way back works from each.
#[test]
fn c11_switched_while_associated() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("switched").await;
        let clash = json!({ "ports": [{ "name": "web", "port": 80 }, { "name": "high", "port": 65535 }] });
        let rounds = [
            vec![json!({ "externalTrafficPolicy": "Local" })],
            vec![json!({ "externalTrafficPolicy": "Local" }), json!({ "externalTrafficPolicy": "Cluster" })],
            vec![clash.clone()],
            vec![json!({ "externalTrafficPolicy": "Local" }), clash],
        ];
        for edits in rounds {
            for delete in [false, true] {
                stage.web("web", "web-ip").await;
                stage.served("web", &[&ip]).await;
                for edit in &edits {
                    rig::patch(&stage.services(), "web", json!({ "spec": edit })).await;
                }
                stage.served("web", &[&ip]).await;
                if !delete {
                    stage.name_claim("web", None).await;
                    stage.held(&ip).await;
                    stage.unserved("web").await;
                }
                stage.delete_service("web").await;
                stage.held(&ip).await;
            }
        }
        stage.finish().await;
    });
}

/// G1: one Service with both protocols is the way to DNS on one address.
#[test]
fn g1_both_protocols() {
    rig::run(async |rig| {
        let ports = json!([{ "name": "udp", "port": 53, "protocol": "UDP" }, { "name": "tcp", "port": 53 }]);
        there_and_back(rig, "dns", json!({ "ports": ports, "allocateLoadBalancerNodePorts": false })).await;
    });
}

/// From one shape to another: the waiting Service is `Local`, the one that lets go is not.
#[test]
fn b7_waiter_of_another_shape() {
    rig::run(async |rig| {
        let stage = rig.stage("waiter-local", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        let mut local = rig::load_balancer("web-local", json!({ CLAIM: "web-ip" }));
        local["spec"]["externalTrafficPolicy"] = json!("Local");
        stage.service(local).await;
        stage.event("web-local", "AssociationRejected").await;
        stage.delete_service("web").await;
        stage.served("web-local", &[&ip]).await;
        stage.finish().await;
    });
}

/// §11 `--hold-on-delete=false`: nothing of ours stays on the Service that could keep it; a full pool and a
/// waiting claim take nothing.
#[test]
fn c11_without_hold_on_delete() {
    crash::without_hold_on_delete(async |rig| {
        let stage = rig.stage("no-finalizer", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.wait_in_line().await;
        for _ in 0..3 {
            stage.web("web", "web-ip").await;
            let web = stage.served("web", &[&ip]).await;
            assert!(!web.finalizers().iter().any(|name| name == driver::HANDOFF), "{web:?}");
            stage.name_claim("web", None).await;
            let address = stage.held(&ip).await;
            assert!(rig::handed(&address, HandoffDirection::Disassociate));
            stage.unserved("web").await;
            stage.name_claim("web", Some("web-ip")).await;
            stage.served("web", &[&ip]).await;
            stage.delete_service("web").await;
            stage.held(&ip).await;
        }
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}

/// §10, §11 `--hold-on-delete=false`: a Service that was deleted and made again under its name while the driver saw nothing of
/// it has the same IP, and the ledger tells the two apart.
#[test]
fn c11_recreated_between_two_events() {
    crash::without_hold_on_delete(async |rig| {
        let stage = rig.stage("unseen", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.wait_in_line().await;
        stage.web("web", "web-ip").await;
        let mut uids = vec![stage.served("web", &[&ip]).await.uid().unwrap()];
        let driver = rig.process(Controller::Driver);
        for _ in 0..3 {
            driver.pause().unwrap();
            stage.delete_service("web").await;
            uids.push(stage.web("web", "web-ip").await.uid().unwrap());
            driver.resume().unwrap();
            let newest = uids.last().cloned();
            stage
                .ledger(&ip, "to name the newest Service", |address| {
                    address.associated_to().and_then(|to| to.uid.clone()) == newest
                })
                .await;
            let web = stage.served("web", &[&ip]).await;
            assert_eq!(web.uid(), newest);
        }
        let history = stage.ledger(&ip, "to be there", |_| true).await;
        let history = history.status.unwrap_or_default().association_history;
        let told: Vec<_> = history.iter().map(|line| (line.uid.clone(), line.until.is_none())).collect();
        let wanted: Vec<_> = uids.iter().rev().enumerate().map(|(at, uid)| (uid.clone(), at == 0)).collect();
        assert_eq!(told, wanted, "{history:#?}");
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}

/// J1, J3: MetalLB is away while addresses change hands, and comes back to a full pool with thieves waiting: every address
/// is with whom the ledger names, nothing was taken.
#[test]
fn j1_metallb_restarts() {
    upheavals::on_own(async |rig| {
        let stage = rig.stage("restart", 3).await;
        for claim in ["web-0", "web-1", "web-2"] {
            stage.claim(claim).await;
        }
        let mut ips = Vec::new();
        for claim in ["web-0", "web-1", "web-2"] {
            let ip = stage.bound(claim).await;
            stage.held(&ip).await;
            ips.push(ip);
        }
        let all: Vec<&str> = ips.iter().map(String::as_str).collect();
        stage.contend(&all).await;
        stage.web("served", "web-1").await;
        stage.served("served", &[&ips[1]]).await;
        for _ in 0..3 {
            rig.cluster.kill(Part::Metallb).await.unwrap();
            // Begun without it, finished when it is back.
            stage.web("web", "web-0").await;
            stage
                .ledger(&ips[0], "to be promised to the Service", |address| address.associated_to().is_some())
                .await;
            stage.name_claim("served", None).await;
            rig.cluster.start_part(Part::Metallb).await.unwrap();
            stage.served("web", &[&ips[0]]).await;
            stage.held(&ips[1]).await;
            stage.name_claim("served", Some("web-1")).await;
            stage.served("served", &[&ips[1]]).await;
            stage.delete_service("web").await;
            stage.held(&ips[0]).await;
        }
        stage.held(&ips[2]).await;
        stage.finish().await;
        stage.clear_thieves().await;
    });
}
