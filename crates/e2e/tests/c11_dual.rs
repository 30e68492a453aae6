//! Contract §9, §11: both families, and IPv6 alone.

use std::collections::BTreeSet;

use api::claim::ClaimPhase;
use api::wellknown::{CLAIM, metallb};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::rig;

fn service(name: &str, claim: &str, policy: &str, families: &[&str]) -> Value {
    let mut service = rig::load_balancer(name, json!({ CLAIM: claim }));
    service["spec"]["ipFamilyPolicy"] = json!(policy);
    service["spec"]["ipFamilies"] = json!(families);
    service
}

/// §9, §11: a Dual claim has one address of each family, their placeholders share one key, and both go to a dual-stack
/// Service and back together.
#[test]
fn c11_dual_stack() {
    rig::run(async |rig| {
        let stage = rig.stage_dual("dual", 1, 1).await;
        stage.claim_with("web-ip", json!({ "family": "Dual" })).await;
        let ips = stage.bound_all("web-ip").await;
        let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
        assert_eq!(ips.len(), 2);
        let one_key = async || {
            let mut keys = BTreeSet::new();
            for ip in &ips {
                stage.held(ip).await;
                for placeholder in stage.placeholders_of(ip).await {
                    keys.insert(placeholder.annotations()[metallb::SHARE].clone());
                }
            }
            assert_eq!(keys.len(), 1, "{keys:?}");
            keys
        };
        let before = one_key().await;
        stage.contend(&ips).await;
        for name in ["web-a", "web-b"] {
            stage.service(service(name, "web-ip", "RequireDualStack", &["IPv4", "IPv6"])).await;
            let served = stage.served(name, &ips).await;
            assert_eq!(served.annotations()[metallb::PIN], ips.join(","));
            stage.name_claim(name, None).await;
            let after = one_key().await;
            assert_ne!(before, after, "the key is another after each handoff");
            stage.unserved(name).await;
        }
        stage.finish().await;
    });
}

/// §11: one IPv6 address, handed to an IPv6 Service and back.
#[test]
fn c11_ipv6_alone() {
    rig::run(async |rig| {
        let stage = rig.stage_dual("six", 0, 1).await;
        stage.claim_with("web-ip", json!({ "family": "IPv6" })).await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;
        stage.service(service("web", "web-ip", "SingleStack", &["IPv6"])).await;
        stage.served("web", &[&ip]).await;
        stage.delete_service("web").await;
        stage.held(&ip).await;
        stage.finish().await;
    });
}

/// §2, §11: a claim widened to Dual gets the other family as well; the Service that has the first goes on being served.
#[test]
fn c2_claim_widened_to_dual() {
    rig::run(async |rig| {
        let stage = rig.stage_dual("widened", 1, 1).await;
        stage.claim("web-ip").await;
        let v4 = stage.bound("web-ip").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&v4]).await;
        rig::patch(&stage.claims(), "web-ip", json!({ "spec": { "family": "Dual" } })).await;
        let v6 = stage.v6[0].clone();
        stage.held(&v6).await;
        stage.claim_is("web-ip", ClaimPhase::Bound).await;
        stage.served("web", &[&v4]).await;
        let wider =
            json!({ "spec": { "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"] } });
        rig::patch(&stage.services(), "web", wider).await;
        stage.served("web", &[&v4, &v6]).await;
        for ip in [&v4, &v6] {
            stage.assert_never_unheld(ip).await;
        }
        stage.assert_at_rest().await;
    });
}

/// F2: a Dual claim of which one family is exhausted waits, says which is missing, and holds the other.
#[test]
fn f2_dual_claim_half_satisfied() {
    rig::run(async |rig| {
        let stage = rig.stage_dual("half", 1, 1).await;
        stage.claim_with("first", json!({ "family": "IPv6" })).await;
        let v6 = stage.bound("first").await;
        stage.claim_with("both", json!({ "family": "Dual" })).await;
        let v4 = stage.v4[0].clone();
        stage.held(&v4).await;
        let words = stage.event("both", "PoolExhausted").await;
        assert!(words.contains("IPv6"), "{words}");
        let words = stage.claim_says("both", "Bound", "False/WaitingForProvisioning").await;
        assert!(words.contains("IPv6") && !words.contains("IPv4"), "{words}");
        stage.assert_at_rest().await;
        rig::patch(
            &stage.addresses(),
            &rig::address_name(&v6),
            json!({ "spec": { "reclaimPolicy": "Delete" } }),
        )
        .await;
        stage.delete_claim("first").await;
        assert_eq!(
            stage.bound_all("both").await.into_iter().collect::<BTreeSet<_>>(),
            BTreeSet::from([v4.clone(), v6])
        );
        stage.assert_never_unheld(&v4).await;
        stage.assert_at_rest().await;
    });
}
