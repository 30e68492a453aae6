//! `docs/operations.md`, backup and restore: everything is lost, and comes back from a backup with new uids.

use std::fmt::Debug;

use api::claim::ClaimPhase;
use devcluster::Controller;
use kube::api::{Api, ListParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::rig::{self, Setup, Stage};

/// An object as a backup has it and a restore makes it: no identity of its own, no status.
async fn backed_up<K>(api: &Api<K>, name: &str) -> Value
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let mut object = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object.as_object_mut().unwrap().remove("status");
    for field in ["clusterIP", "clusterIPs"] {
        object["spec"].as_object_mut().unwrap().remove(field);
    }
    object
}

/// Takes an object away at once, as a disaster does.
pub async fn lose<K>(api: &Api<K>, name: &str)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    rig::patch(api, name, json!({ "metadata": { "finalizers": null } })).await;
    rig::delete(api, name).await;
    rig::gone(api, name).await;
}

/// Loses the ledger, the claims, the Service and the holds, and restores all but the holds.
async fn lose_and_restore(stage: &Stage, ips: [&str; 2]) {
    let names = ips.map(rig::address_name);
    let service = backed_up(&stage.services(), "web").await;
    let mut addresses = Vec::new();
    for name in &names {
        addresses.push(backed_up(&stage.addresses(), name).await);
    }
    let mut claims = Vec::new();
    for name in ["web-ip", "spare-ip"] {
        claims.push(backed_up(&stage.claims(), name).await);
        lose(&stage.claims(), name).await;
    }
    lose(&stage.services(), "web").await;
    for name in &names {
        lose(&stage.addresses(), name).await;
    }
    for hold in stage.placeholders().list(&ListParams::default()).await.unwrap() {
        lose(&stage.placeholders(), &hold.name_any()).await;
    }
    for address in addresses {
        rig::create(&stage.addresses(), address).await;
    }
    for claim in claims {
        rig::create(&stage.claims(), claim).await;
    }
    rig::create(&stage.services(), service).await;
}

/// With the uids taken off the addresses, each claim has its own address again and the Service its own, whatever the order
/// in which the claims are looked at.
#[test]
fn c12_all_comes_back_from_a_backup() {
    rig::alone(Setup { leader_elect: false, ..Setup::default() }, async |rig| {
        let stage = rig.stage("restore", 2).await;
        stage.claim("web-ip").await;
        let web = stage.bound("web-ip").await;
        stage.claim("spare-ip").await;
        let spare = stage.bound("spare-ip").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&web]).await;
        stage.held(&spare).await;

        for controller in [Controller::Core, Controller::Driver] {
            rig.process(controller).stop().await;
        }
        lose_and_restore(&stage, [&web, &spare]).await;
        for controller in [Controller::Core, Controller::Driver] {
            rig.revive(controller).await;
        }
        // Nobody gets the address of an earlier claim, not even one of its name, without an admin's word.
        let told = stage.claim_says("spare-ip", "Bound", "False/AddressNotAvailable").await;
        assert!(told.contains(&rig::address_name(&spare)), "{told}");
        for ip in [&web, &spare] {
            let body = json!({ "spec": { "claimRef": { "uid": null } } });
            rig::patch(&stage.addresses(), &rig::address_name(ip), body).await;
        }
        for (claim, ip) in [("web-ip", &web), ("spare-ip", &spare)] {
            stage.claim_is(claim, ClaimPhase::Bound).await;
            assert_eq!(&stage.bound(claim).await, ip);
        }
        stage.served("web", &[&web]).await;
        stage.held(&spare).await;
        stage.assert_at_rest().await;
    });
}
