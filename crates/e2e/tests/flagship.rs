//! The whole promise in one path: claim, hold, Service A, hold, Service B with the same IP.

use api::address::HandoffDirection;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use kube::api::Api;

use crate::rig;

/// §10, §11: an address goes claim -> hold -> Service A -> hold -> Service B, and at no version of the Services nobody
/// had it, with a full pool, a claim that waits for it and thieves pinned to it.
#[test]
fn c11_flagship() {
    rig::run(async |rig| {
        let stage = rig.stage("flagship", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;

        stage.web("web-a", "web-ip").await;
        stage.served("web-a", &[&ip]).await;
        stage.delete_service("web-a").await;
        let address = stage.held(&ip).await;
        assert!(rig::handed(&address, HandoffDirection::Disassociate), "{address:?}");

        stage.web("web-b", "web-ip").await;
        stage.served("web-b", &[&ip]).await;
        let address = stage.ledger(&ip, "to be handed over", |_| true).await;
        let handoff = address.status.unwrap_or_default().last_handoff.unwrap();
        assert_eq!(handoff.unheld_milliseconds, Some(0));
        let placeholders: Api<Service> = stage.placeholders();
        rig::gone(&placeholders, &format!("iad-{}", rig::address_name(&ip))).await;
        stage.finish().await;
    });
}

/// B1, B2, B3: eight addresses of one full pool change hands at once, five times each, by deletion and by annotation, with
/// thieves at each of them.
#[test]
fn b1_b2_b3_many_handoffs_at_once() {
    rig::run(async |rig| {
        let stage = rig.stage("crowd", 8).await;
        let claims: Vec<_> = (0..8).map(|number| format!("web-{number}")).collect();
        join_all(claims.iter().map(|claim| stage.claim(claim))).await;
        let ips = join_all(claims.iter().map(|claim| stage.bound(claim))).await;
        join_all(ips.iter().map(|ip| stage.held(ip))).await;
        stage.contend(&ips.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let stage = &stage;
        let rounds = claims.iter().zip(&ips).map(|(claim, ip)| async move {
            for round in 0..5 {
                let name = format!("{claim}-{round}");
                stage.web(&name, claim).await;
                stage.served(&name, &[ip]).await;
                if round % 2 == 0 {
                    stage.delete_service(&name).await;
                } else {
                    stage.name_claim(&name, None).await;
                    stage.unserved(&name).await;
                }
                stage.held(ip).await;
            }
        });
        join_all(rounds).await;
        stage.finish().await;
    });
}
