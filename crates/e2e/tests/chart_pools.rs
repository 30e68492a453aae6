//! Pools by values: what `pools:` of the driver's chart makes works, and outlives the values and the release.

use std::collections::BTreeMap;

use devcluster::Controller;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;

use crate::rig::{self, Setup, Stage};

/// The pool, its advertisement and its class, all of one name.
const POOL: &str = "by-values";

async fn uid(stage: &Stage, group: &str, version: &str, kind: &str) -> String {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = if group == api::wellknown::GROUP {
        Api::all_with(stage.client(), &resource)
    } else {
        Api::namespaced_with(stage.client(), "metallb-system", &resource)
    };
    let object = api.get(POOL).await.unwrap();
    assert_eq!(object.metadata.deletion_timestamp, None, "{kind} is being deleted");
    object.metadata.uid.unwrap()
}

async fn identities(stage: &Stage) -> BTreeMap<&'static str, String> {
    let mut found = BTreeMap::new();
    for kind in ["IPAddressPool", "L2Advertisement"] {
        found.insert(kind, uid(stage, "metallb.io", "v1beta1", kind).await);
    }
    let class = "IPAddressClass";
    found.insert(class, uid(stage, api::wellknown::GROUP, "v1alpha1", class).await);
    found
}

/// §13: a claim of the class gets an address of the pool; taken off the values, after an uninstall and after a reinstall pool,
/// advertisement and class are the same objects, and the claim has its address throughout.
#[test]
fn c13_pools_by_values_serve_claims_and_stay() {
    let range = "203.0.113.8-203.0.113.9";
    let values: Vec<_> = [("name", POOL), ("addresses[0]", range), ("advertisement.interfaces[0]", "eth0")]
        .iter()
        .map(|(name, value)| format!("pools[0].{name}={value}"))
        .collect();
    let setup = Setup { leader_elect: false, driver_values: values.clone(), ..Setup::default() };
    rig::alone(setup, async |rig| {
        let driver = Controller::Driver;
        let stage = rig.stage("pooled", 0).await;
        stage.class_says(POOL, "True/Accepted").await;
        stage.claim_with("web-ip", json!({ "className": POOL })).await;
        let ip = stage.bound("web-ip").await;
        assert!(ip.starts_with("203.0.113."), "{ip}");
        stage.held(&ip).await;
        let before = identities(&stage).await;

        rig.cluster.install_chart(driver, &[]).await.unwrap();
        assert_eq!(identities(&stage).await, before);
        stage.class_says(POOL, "True/Accepted").await;
        // Its service account goes with the release.
        rig.process(driver).stop().await;
        rig.cluster.helm(&["uninstall", driver.name(), "--namespace", driver.namespace()]).await.unwrap();
        assert_eq!(identities(&stage).await, before);
        assert_eq!(stage.holders(&ip).await.len(), 1, "the hold stays");

        let sets: Vec<&str> = values.iter().flat_map(|value| ["--set", value.as_str()]).collect();
        rig.cluster.install_chart(driver, &sets).await.unwrap();
        rig.start(driver).await;
        assert_eq!(identities(&stage).await, before);
        stage.held(&ip).await;
        assert_eq!(stage.bound("web-ip").await, ip);
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.assert_never_unheld(&ip).await;
    });
}
