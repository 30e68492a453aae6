//! Quotas and missing families: what the cluster refuses is said on the claim, in its words.

use api::claim::ClaimPhase;
use devcluster::{Controller, Families};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::Api;
use serde_json::json;

use crate::rig::{self, Setup, Stage};

async fn quota(stage: &Stage, namespace: &str, hard: serde_json::Value) -> Api<ResourceQuota> {
    let quotas: Api<ResourceQuota> = Api::namespaced(stage.client(), namespace);
    rig::create(&quotas, json!({ "metadata": { "name": "quota" }, "spec": { "hard": hard } })).await;
    rig::until(&quotas, "quota", "to be counted", |quota| {
        quota.status.as_ref().is_some_and(|status| status.used.as_ref().is_some_and(|used| !used.is_empty()))
    })
    .await;
    quotas
}

/// A `ResourceQuota` on `count/ipaddressclaims.local.sdn.cozystack.io` refuses the claim over quota.
#[test]
fn quota_on_claims() {
    rig::run(async |rig| {
        let stage = rig.stage("claim-quota", 2).await;
        let hard = json!({ "count/ipaddressclaims.local.sdn.cozystack.io": "1" });
        quota(&stage, &stage.name, hard).await;
        stage.claim("first").await;
        let second = rig::claim_object("second", json!({ "className": stage.name }));
        let refused = rig::try_create(&stage.claims(), second).await;
        let Err(kube::Error::Api(status)) = refused else { panic!("{refused:?}") };
        assert_eq!(status.code, 403);
        assert!(status.message.contains("exceeded quota"), "{}", status.message);
        let ip = stage.bound("first").await;
        stage.held(&ip).await;
        stage.assert_at_rest().await;
    });
}

/// §9, I2, F3: a quota on Services in the placeholder namespace, and a family that the cluster lacks, are said on the
/// claim in the API server's words; no flood of events; other claims go on.
#[test]
fn c9_i2_f3_what_the_cluster_refuses_is_said_on_the_claim() {
    let setup = Setup { families: Families::Ipv4Only, ..Setup::default() };
    rig::alone(setup, async |rig| {
        let stage = rig.stage_dual("refused", 3, 1).await;
        stage.claim_with("six", json!({ "family": "IPv6" })).await;
        let words = stage.event("six", "ReservationFailed").await;
        assert!(words.contains("IPv6"), "{words}");
        stage.claim("first").await;
        let first = stage.bound("first").await;
        stage.held(&first).await;

        let quotas =
            quota(&stage, Controller::Driver.namespace(), json!({ "services.loadbalancers": "1" })).await;
        stage.claim("second").await;
        let words = stage.event("second", "ReservationFailed").await;
        assert!(words.contains("exceeded quota") && words.contains("services.loadbalancers"), "{words}");
        stage.claim_is("second", ClaimPhase::Pending).await;
        // While the first address is with a Service, the second claim gets the one placeholder that the quota allows.
        stage.web("web", "first").await;
        stage.served("web", &[&first]).await;
        let second = stage.bound("second").await;
        stage.held(&second).await;
        // Then there is none for the first: its Service goes on having it, until there is.
        rig::delete(&stage.services(), "web").await;
        let words = stage.cluster_event(&rig::address_name(&first), "PlaceholderRefused").await;
        assert!(words.contains("exceeded quota"), "{words}");
        let web = stage.services().get("web").await.unwrap();
        assert!(rig::ingress(&web).contains(&first), "{web:?}");
        rig::delete(&quotas, "quota").await;
        stage.held(&first).await;
        rig::gone(&stage.services(), "web").await;
        assert_eq!(stage.events(&stage.name, "second", "ReservationFailed").await.len(), 1);
        assert_eq!(stage.events(&stage.name, "six", "ReservationFailed").await.len(), 1);
        stage.assert_never_unheld(&first).await;
    });
}
