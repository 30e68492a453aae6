//! Case D4 on the real MetalLB: whom a pool serves changes under a live Service, and changes back.

use api::claim::ClaimPhase;
use api::wellknown::driver;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::api::Api;
use serde_json::{Value, json};

use crate::rig::{self, Rig, Stage};
use devcluster::Controller;

const REJECTED: &str = "AssociationRejected";

impl Stage {
    async fn allocate(&self, allocation: Value) {
        rig::patch(&self.pools(), &self.name, json!({ "spec": { "serviceAllocation": allocation } })).await;
    }

    async fn label_namespace(&self, labels: Value) {
        let api: Api<Namespace> = Api::all(self.client());
        rig::patch(&api, &self.name, json!({ "metadata": { "labels": labels } })).await;
    }

    async fn label_service(&self, name: &str, labels: Value) {
        rig::patch(&self.services(), name, json!({ "metadata": { "labels": labels } })).await;
    }

    /// Nobody has the address, the ledger says why, and the claim keeps it.
    async fn not_admitted(&self, ip: &str, claim: &str) {
        let address = self
            .ledger(ip, "to say that MetalLB refuses the placeholder", |address| {
                let conditions = rig::address_conditions(address);
                let held = api::conditions::find(conditions, "Held");
                held.is_some_and(|held| held.status == "False" && held.message.contains("not compatible"))
            })
            .await;
        assert_eq!(rig::said(rig::address_conditions(&address), "Held"), "False/NotAssigned");
        assert_eq!(rig::associated(&address), None);
        assert!(self.holders(ip).await.is_empty());
        self.claim_is(claim, ClaimPhase::Bound).await;
    }
}

/// `web` has the contended address of `web-ip`.
async fn associated(rig: &Rig, name: &str) -> (Stage, String) {
    let (stage, ip) = rig.contended(name).await;
    stage.web("web", "web-ip").await;
    stage.served("web", &[&ip]).await;
    (stage, ip)
}

/// The pool is for others: the Service and the placeholder are cleared. For us again: both back, with the same IP.
#[test]
fn d4_pool_given_to_others_and_back() {
    rig::run(async |rig| {
        let (stage, ip) = associated(rig, "d4-others").await;
        stage.allocate(json!({ "namespaces": ["d4-nobody"] })).await;
        stage.unserved("web").await;
        stage.not_admitted(&ip, "web-ip").await;
        let words = stage.class_says(&stage.name, "False/PoolUnserviceable").await;
        assert!(words.contains(Controller::Driver.namespace()), "{words}");
        stage.event_with("web", REJECTED, "serviceAllocation").await;
        stage.assert_at_rest().await;
        // The thieves, who wait as well, are not let in again: MetalLB would give it to whom it likes.
        stage.allocate(json!({ "namespaces": [Controller::Driver.namespace(), stage.name] })).await;
        stage.served("web", &[&ip]).await;
        stage.class_says(&stage.name, "True/Accepted").await;
        stage.delete_service("web").await;
        stage.held(&ip).await;
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}

/// The label goes by which a pool knows the tenant's namespace: the address is held again; it comes back: associated.
#[test]
fn d4_namespace_label() {
    rig::run(async |rig| {
        let (stage, ip) = associated(rig, "d4-label").await;
        stage.label_namespace(json!({ "d4": "yes" })).await;
        let allocation = json!({
            "namespaces": [Controller::Driver.namespace()],
            "namespaceSelectors": [{ "matchLabels": { "d4": "yes" } }],
        });
        stage.allocate(allocation).await;
        for _ in 0..2 {
            stage.served("web", &[&ip]).await;
            stage.label_namespace(json!({ "d4": null })).await;
            let words = stage.event_with("web", REJECTED, "serviceAllocation").await;
            assert!(words.contains(&stage.name), "{words}");
            stage.held(&ip).await;
            let web = stage.unserved("web").await;
            assert!(!web.labels().contains_key(driver::ASSOCIATED), "{web:?}");
            stage.assert_at_rest().await;
            stage.label_namespace(json!({ "d4": "yes" })).await;
        }
        stage.served("web", &[&ip]).await;
        stage.class_says(&stage.name, "True/Accepted").await;
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}

/// A label goes by which a pool knows the Service: held again; it comes back: associated.
#[test]
fn d4_service_label() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("d4-service").await;
        let allocation = json!({ "serviceSelectors": [
            { "matchLabels": { "d4": "yes" } }, { "matchLabels": { driver::PLACEHOLDER: "true" } },
        ] });
        stage.allocate(allocation).await;
        stage.held(&ip).await;
        stage.web("web", "web-ip").await;
        for _ in 0..2 {
            stage.event_with("web", REJECTED, "serviceSelector").await;
            stage.held(&ip).await;
            stage.label_service("web", json!({ "d4": "yes" })).await;
            stage.served("web", &[&ip]).await;
            stage.label_service("web", json!({ "d4": null })).await;
            stage.unserved("web").await;
        }
        stage.held(&ip).await;
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}

/// A pool that serves what wears our labels, and nothing else: reserved from, held, handed over and back, at no version
/// with nobody.
#[test]
fn d4_pool_for_our_labels() {
    rig::run(async |rig| {
        let stage = rig.stage("d4-ours", 1).await;
        let allocation = json!({ "serviceSelectors": [
            { "matchLabels": { driver::ASSOCIATED: "true" } }, { "matchLabels": { driver::PLACEHOLDER: "true" } },
        ] });
        stage.allocate(allocation).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;
        for _ in 0..3 {
            stage.web("web", "web-ip").await;
            stage.served("web", &[&ip]).await;
            stage.name_claim("web", None).await;
            stage.held(&ip).await;
            stage.name_claim("web", Some("web-ip")).await;
            stage.served("web", &[&ip]).await;
            stage.delete_service("web").await;
            stage.held(&ip).await;
        }
        stage.finish().await;
    });
}

/// A pool that serves the tenant and no placeholder: the Service keeps its IP without a write. Deleted, it stays and has
/// the address until a placeholder may have it: at no version it is with nobody.
#[test]
fn d4_pool_for_the_tenant_only() {
    rig::run(async |rig| {
        let (stage, ip) = associated(rig, "d4-tenant").await;
        stage.allocate(json!({ "namespaces": [stage.name] })).await;
        stage.class_says(&stage.name, "False/PoolUnserviceable").await;
        stage.served("web", &[&ip]).await;
        rig::delete(&stage.services(), "web").await;
        let hold = rig::eventually("a placeholder to be made", async || {
            stage.placeholders_of(&ip).await.pop().map(|hold| hold.name_any())
        })
        .await;
        stage.event_in(Controller::Driver.namespace(), &hold, "AllocationFailed").await;
        for words in [
            stage.event("web", "PlaceholderRefused").await,
            stage.cluster_event(&rig::address_name(&ip), "PlaceholderRefused").await,
        ] {
            assert!(words.contains(&ip) && words.contains("serviceAllocation"), "{words}");
        }
        stage.assert_at_rest().await;
        assert_eq!(rig::ingress(&stage.services().get("web").await.unwrap()).len(), 1);
        stage.allocate(json!({ "namespaces": [Controller::Driver.namespace(), stage.name] })).await;
        rig::gone(&stage.services(), "web").await;
        stage.held(&ip).await;
        stage.class_says(&stage.name, "True/Accepted").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.finish().await;
    });
}

/// A pool that serves the tenant and no placeholder, and nobody has the address: the claim's Service gets it all the same.
#[test]
fn d4_address_that_nothing_can_hold() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("d4-unheld").await;
        stage.allocate(json!({ "namespaces": [stage.name] })).await;
        stage.not_admitted(&ip, "web-ip").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.allocate(json!({ "namespaces": [Controller::Driver.namespace(), stage.name] })).await;
        stage.class_says(&stage.name, "True/Accepted").await;
        stage.delete_service("web").await;
        stage.held(&ip).await;
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}
