//! Case E4: the store is put back to an older snapshot, and versions go backwards.

use std::path::Path;

use api::address::AddressPhase;
use api::claim::ClaimPhase;
use devcluster::{Controller, Part};
use futures::future::join_all;
use kube::ResourceExt;
use serde_json::json;

use super::on_own;
use crate::rig::{Rig, Stage, ingress};

/// E4: after the snapshot two more claims are bound, one is deleted, a Service is associated and another lets go; then the
/// snapshot is restored under running controllers, which are started anew as the operations guide says. All is as at the
/// time of the snapshot, no address is lost or with two, and whoever claims now gets a free one.
#[test]
fn e4_store_restored_from_an_older_snapshot() {
    on_own(async |rig| {
        let stage = rig.stage("snapshot", 5).await;
        for claim in ["web-a", "web-b", "web-c"] {
            stage.claim(claim).await;
            stage.bound(claim).await;
        }
        let ips = join_all(["web-a", "web-b", "web-c"].map(|claim| stage.bound(claim))).await;
        stage.web("a", "web-a").await;
        stage.served("a", &[&ips[0]]).await;
        for ip in &ips[1..] {
            stage.held(ip).await;
        }
        stage.assert_at_rest().await;
        let ledger = ledger(&stage).await;
        let store = stage.run_dir().join("etcd");
        let copy = stage.run_dir().join("etcd-snapshot");
        stop_store(rig).await;
        copy_tree(&store, &copy);
        start_store(rig).await;
        stage.witness_anew().await;

        for claim in ["later-d", "later-e"] {
            stage.claim(claim).await;
            stage.bound(claim).await;
        }
        stage.delete_claim("web-b").await;
        stage.address_is(&ips[1], AddressPhase::Released).await;
        stage.web("c", "web-c").await;
        stage.served("c", &[&ips[2]]).await;
        stage.delete_service("a").await;
        stage.held(&ips[0]).await;

        stop_store(rig).await;
        std::fs::remove_dir_all(&store).unwrap();
        copy_tree(&copy, &store);
        start_store(rig).await;
        // The controllers have run on, with a future in their caches that never came; so have MetalLB and the collector.
        for part in [Part::Metallb, Part::ControllerManager] {
            rig.cluster.kill(part).await.unwrap();
            rig.cluster.start_part(part).await.unwrap();
        }
        for controller in [Controller::Core, Controller::Driver] {
            rig.process(controller).stop().await;
            rig.revive(controller).await;
        }
        stage.witness_anew().await;
        stage.served("a", &[&ips[0]]).await;
        for ip in &ips[1..] {
            stage.held(ip).await;
        }
        stage.assert_at_rest().await;
        assert_eq!(self::ledger(&stage).await, ledger);
        for claim in ["web-a", "web-b", "web-c"] {
            stage.claim_is(claim, ClaimPhase::Bound).await;
        }
        for gone in ["later-d", "later-e"] {
            assert!(stage.claims().get_opt(gone).await.unwrap().is_none());
        }
        for claim in ["new-d", "new-e"] {
            stage.claim(claim).await;
            let ip = stage.bound(claim).await;
            assert!(!ips.contains(&ip));
            stage.held(&ip).await;
        }
        stage.web("c", "web-c").await;
        stage.served("c", &[&ips[2]]).await;
        for ip in &stage.v4 {
            assert_eq!(stage.holders(ip).await.len(), 1, "{ip}");
        }
        stage.assert_at_rest().await;
    });
}

/// Who has which address by the ledger.
async fn ledger(stage: &Stage) -> Vec<serde_json::Value> {
    let mut lines = Vec::new();
    for address in stage.own_addresses().await {
        let holds = stage.placeholders_of(&address.spec.address).await;
        let holds: Vec<_> = holds.iter().map(|hold| (hold.name_any(), hold.uid(), ingress(hold))).collect();
        lines.push(json!([address.uid(), address.spec, address.phase(), address.associated_to(), holds]));
    }
    lines
}

async fn stop_store(rig: &Rig) {
    rig.cluster.kill(Part::Apiserver).await.unwrap();
    rig.cluster.stop(Part::Etcd).await.unwrap();
}

async fn start_store(rig: &Rig) {
    rig.cluster.start_part(Part::Etcd).await.unwrap();
    rig.cluster.start_part(Part::Apiserver).await.unwrap();
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
