//! Contract §7, §8, §11 with `--lb-class`: MetalLB and the driver serve Services of one load balancer class alone.

use api::wellknown::{AUTO_CLAIM_CLASS, CLAIM};
use serde_json::{Value, json};

use crate::rig::{self, Setup, Stage};

const BALANCER: &str = "metallb.io/tenants";

/// §8: the class says what a Service must carry and where its addresses come from, and that it cannot be for auto-claim.
async fn says_what_to_carry(stage: &Stage) {
    let class = rig::until(&stage.classes(), &stage.name, "to say what it serves", |class| {
        class.status.as_ref().is_some_and(|status| status.load_balancer_class.is_some())
    })
    .await;
    let status = class.status.unwrap();
    assert_eq!(status.load_balancer_class.as_deref(), Some(BALANCER));
    assert_eq!(status.pool.as_deref(), Some(stage.name.as_str()));
    let mark = |value: Value| json!({ "metadata": { "annotations": { AUTO_CLAIM_CLASS: value } } });
    rig::patch(&stage.classes(), &stage.name, mark(json!("true"))).await;
    let words = stage.cluster_event(&stage.name, "AutoClaimUnservable").await;
    assert!(words.contains(BALANCER) && words.contains(AUTO_CLAIM_CLASS), "{words}");
    rig::patch(&stage.classes(), &stage.name, mark(Value::Null)).await;
}

/// A Service of no class, or of another, is refused and told to be made again with the right one; the hold stays.
async fn refuses_others(stage: &Stage, ip: &str) {
    for (name, balancer) in [("none", Value::Null), ("other", json!("example.com/lb"))] {
        let mut service = rig::load_balancer(name, json!({ CLAIM: "web-ip" }));
        service["spec"]["loadBalancerClass"] = balancer;
        stage.service(service).await;
        stage.event_with(name, "AssociationRejected", &format!("is not {BALANCER:?}; recreate")).await;
        stage.held(ip).await;
        stage.delete_service(name).await;
    }
}

/// §7, §8, §11: the placeholder is of the class, both handoffs work contended, whoever is of another class gets nothing. A
/// Service that is no load balancer any more lost its class: MetalLB looks at it no more, and the address is held when it
/// is gone.
#[test]
fn c11_of_one_load_balancer_class() {
    let setup = Setup { balancer: Some(BALANCER.to_owned()), leader_elect: false, ..Setup::default() };
    rig::alone(setup, async |rig| {
        let (stage, ip) = rig.contended("balancer").await;
        says_what_to_carry(&stage).await;
        let hold = stage.placeholders_of(&ip).await.pop().unwrap().spec.unwrap();
        assert_eq!(hold.load_balancer_class.as_deref(), Some(BALANCER));
        refuses_others(&stage, &ip).await;
        for delete in [false, true] {
            stage.web("web", "web-ip").await;
            stage.served("web", &[&ip]).await;
            if !delete {
                stage.name_claim("web", None).await;
                stage.held(&ip).await;
                stage.unserved("web").await;
            }
            stage.delete_service("web").await;
            stage.held(&ip).await;
        }
        stage.finish().await;
        stage.clear_thieves().await;

        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        rig::patch(&stage.services(), "web", json!({ "spec": { "type": "ClusterIP" } })).await;
        stage
            .ledger(&ip, "to be held by nobody", |address| {
                address.associated_to().is_none()
                    && rig::said(rig::address_conditions(address), "Held").starts_with("False/")
            })
            .await;
        stage.delete_service("web").await;
        stage.held(&ip).await;
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}
