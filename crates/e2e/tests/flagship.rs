//! The whole promise in one path: claim, hold, Service A, hold, Service B with the same IP.

use api::address::HandoffDirection;
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
