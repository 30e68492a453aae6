//! Cases H2, H3: claims and addresses deleted in every order.

use api::address::AddressPhase;
use devcluster::Controller;
use futures::future::join_all;
use serde_json::json;

use super::on_own;
use crate::rig::{self, Stage};

/// H2, H3: claims and addresses deleted in both orders, of both policies, with and without a Service: nothing is left.
#[test]
fn h2_every_order_of_deletion() {
    rig::run(async |rig| {
        let stage = rig.stage("orders", 8).await;
        every_order(&stage, async || {}, async || {}).await;
    });
}

/// H2, H3: as above, with everything deleted while the driver is away.
#[test]
fn h2_every_order_of_deletion_while_the_driver_is_away() {
    on_own(async |rig| {
        let stage = rig.stage("away-orders", 8).await;
        let away = async || rig.process(Controller::Driver).kill().await;
        let back = async || rig.revive(Controller::Driver).await;
        every_order(&stage, away, back).await;
    });
}

async fn every_order(stage: &Stage, before: impl AsyncFn(), after: impl AsyncFn()) {
    let all =
        (0..8).map(|number| (format!("claim-{number}"), number & 1 > 0, number & 2 > 0, number & 4 > 0));
    let rows = join_all(all.map(async |(claim, associated, delete, claim_first)| {
        stage.claim(&claim).await;
        let ip = stage.bound(&claim).await;
        stage.held(&ip).await;
        if delete {
            let policy = json!({ "spec": { "reclaimPolicy": "Delete" } });
            rig::patch(&stage.addresses(), &rig::address_name(&ip), policy).await;
        }
        if associated {
            stage.web(&claim, &claim).await;
            stage.served(&claim, &[&ip]).await;
        }
        (claim, ip, associated, delete, claim_first)
    }))
    .await;
    before().await;
    for (claim, ip, .., claim_first) in &rows {
        if !claim_first {
            rig::delete(&stage.addresses(), &rig::address_name(ip)).await;
        }
        rig::delete(&stage.claims(), claim).await;
    }
    after().await;
    for (claim, ip, associated, delete, claim_first) in &rows {
        rig::gone(&stage.claims(), claim).await;
        let name = rig::address_name(ip);
        if *claim_first && !delete {
            stage.address_is(ip, AddressPhase::Released).await;
            stage.held(ip).await;
            rig::delete(&stage.addresses(), &name).await;
        }
        rig::gone(&stage.addresses(), &name).await;
        assert!(stage.placeholders_of(ip).await.is_empty(), "{claim}: a placeholder of {ip} is left");
        if *associated {
            stage.unserved(claim).await;
        }
        rig::eventually(&format!("{ip} to be free"), async || {
            stage.holders(ip).await.is_empty().then_some(())
        })
        .await;
    }
    stage.assert_at_rest().await;
}
