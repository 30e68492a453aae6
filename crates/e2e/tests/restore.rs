//! `docs/operations.md`, backup and restore: everything is lost, and comes back from a backup with new uids.

use std::fmt::Debug;

use api::claim::ClaimPhase;
use api::{IPAddress, IPAddressClaim};
use devcluster::Controller;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ListParams};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::c13_admission::who::Who;
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

/// Loses the ledger, the claims, the Service and the holds, and restores all but the holds, under the account of what restores.
async fn lose_and_restore(stage: &Stage, restorer: &Client, ips: [&str; 2]) {
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
        rig::create(&Api::<IPAddress>::all(restorer.clone()), address).await;
    }
    for claim in claims {
        rig::create(&Api::<IPAddressClaim>::namespaced(restorer.clone(), &stage.name), claim).await;
    }
    rig::create(&Api::<Service>::namespaced(restorer.clone(), &stage.name), service).await;
}

/// Who restores, as the guide has it: in the values, since it writes `claimRef`, pins and marks.
const RESTORER: [&str; 2] = [
    "admission.allowedServiceAccounts[0].namespace=velero",
    "admission.allowedServiceAccounts[0].name=velero",
];

/// With the uids taken off the addresses, each claim has its own address again and the Service its own, whatever the order
/// in which the claims are looked at.
#[test]
fn c12_all_comes_back_from_a_backup() {
    let driver_values = RESTORER.map(str::to_owned).to_vec();
    rig::alone(Setup { leader_elect: false, driver_values, ..Setup::default() }, async |rig| {
        let restorer = Who::Account("velero".to_owned(), "velero".to_owned()).client(rig).await;
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
        lose_and_restore(&stage, &restorer, [&web, &spare]).await;
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
