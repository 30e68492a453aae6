//! Contract §12, auto-claim: plain Services get claims of their own. On a control plane of its own, as it concerns every
//! Service there is.

use api::wellknown::{AUTO_CLAIM, AUTO_CLAIM_CLASS, CLAIM};
use devcluster::Controller;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::rig::{self, Own, Setup, Stage, load_balancer};

static OWN: Own = Own::new("auto-claim");

fn setup() -> Setup {
    Setup {
        driver_args: vec!["--auto-claim".to_owned()],
        driver_values: vec!["autoClaim=true".to_owned()],
        ..Setup::default()
    }
}

async fn mark(stage: &Stage, value: Value) {
    let body = json!({ "metadata": { "annotations": { AUTO_CLAIM_CLASS: value } } });
    rig::patch(&stage.classes(), &stage.name, body).await;
}

/// The class is for auto-claim no more, and the driver has heard of it: it answers to the generation that came with that.
async fn unmark_heard(stage: &Stage) {
    let body = json!({
        "metadata": { "annotations": { AUTO_CLAIM_CLASS: null } }, "spec": { "reclaimPolicy": "Delete" },
    });
    let generation = rig::patch(&stage.classes(), &stage.name, body).await.metadata.generation;
    rig::until(&stage.classes(), &stage.name, "to be answered", |class| {
        class.status.as_ref().is_some_and(|status| status.observed_generation == generation)
    })
    .await;
}

/// A plain Service gets a claim of its name and is associated; it goes, and the claim and the address go with it.
#[test]
fn c12_auto_claim_under_delete() {
    OWN.run(setup(), async |rig| {
        let stage = rig.stage("auto-delete", 1).await;
        stage.delete_with_claims().await;
        mark(&stage, json!("true")).await;
        let mut web = load_balancer("web", json!({ "team": "x" }));
        web["metadata"]["labels"] = json!({ "argocd.argoproj.io/instance": "x" });
        stage.service(web).await;
        let ip = stage.bound("web").await;
        let service = stage.served("web", &[&ip]).await;
        assert_eq!(service.annotations()[CLAIM], "web");
        let claim = stage.claims().get("web").await.unwrap();
        assert_eq!(claim.owner_references().len(), 1);
        assert!(claim.labels().is_empty(), "E3: nothing of the tenant's is copied");
        assert!(!claim.annotations().contains_key("team"));
        stage.assert_at_rest().await;
        stage.delete_service("web").await;
        rig::gone(&stage.claims(), "web").await;
        rig::gone(&stage.addresses(), &rig::address_name(&ip)).await;
        mark(&stage, json!(null)).await;
        rig.assert_none_denied();
        rig.assert_used(Controller::Driver, "autoClaim=true").await;
    });
}

/// Under `Retain` the claim stays, and the next Service of that name has the same address; opting out gives it back.
#[test]
fn c12_auto_claim_under_retain_and_opting_out() {
    OWN.run(setup(), async |rig| {
        let stage = rig.stage("auto-retain", 2).await;
        mark(&stage, json!("true")).await;
        stage.service(load_balancer("web", json!({}))).await;
        let ip = stage.bound("web").await;
        stage.served("web", &[&ip]).await;
        stage.delete_service("web").await;
        stage.held(&ip).await;
        stage.service(load_balancer("web", json!({}))).await;
        stage.served("web", &[&ip]).await;
        stage.annotate("web", json!({ CLAIM: null, AUTO_CLAIM: "false" })).await;
        stage.held(&ip).await;
        // Who opted out from the start is left alone, and so is everybody once the class is not marked.
        stage.service(load_balancer("aside", json!({ AUTO_CLAIM: "false" }))).await;
        unmark_heard(&stage).await;
        stage.service(load_balancer("late", json!({}))).await;
        stage.assert_at_rest().await;
        for name in ["aside", "late"] {
            assert!(stage.claims().get_opt(name).await.unwrap().is_none(), "{name}");
        }
        // The class stopped being for auto-claim: what there is goes on.
        stage.annotate("web", json!({ CLAIM: "web" })).await;
        stage.served("web", &[&ip]).await;
        // The next test's class would claim for them.
        for name in ["aside", "late"] {
            stage.delete_service(name).await;
        }
    });
}

/// Two marked classes: none is guessed, both are told.
#[test]
fn c12_auto_claim_with_two_classes() {
    OWN.run(setup(), async |rig| {
        let stage = rig.stage("auto-two", 1).await;
        mark(&stage, json!("true")).await;
        stage.class_with("auto-other", "Retain", json!({ "pool": "no-such-pool" })).await;
        let body = json!({ "metadata": { "annotations": { AUTO_CLAIM_CLASS: "true" } } });
        rig::patch(&stage.classes(), "auto-other", body).await;
        let note = stage.cluster_event("auto-other", "AutoClaimUnservable").await;
        assert!(note.contains(&stage.name), "{note}");
        stage.service(load_balancer("web", json!({}))).await;
        stage.assert_at_rest().await;
        assert!(stage.claims().get_opt("web").await.unwrap().is_none());
        rig::delete(&stage.classes(), "auto-other").await;
        let ip = stage.bound("web").await;
        stage.served("web", &[&ip]).await;
        mark(&stage, json!(null)).await;
    });
}
