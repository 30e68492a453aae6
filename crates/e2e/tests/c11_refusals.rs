//! Contract §11: Services that are refused, loudly and once, and associated by themselves when put right.

use api::wellknown::{CLAIM, metallb};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::rig;

const REJECTED: &str = "AssociationRejected";

/// A1, A2, C1, C3: what somebody else asked of MetalLB is never overwritten, in whatever spelling; the rejection quotes it.
/// Taken away, the Service is associated by itself.
#[test]
fn a1_a2_c1_c3_foreign_wishes_are_quoted() {
    rig::run(async |rig| {
        let stage = rig.stage("wishes", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;
        let parts: Vec<&str> = ip.split('.').collect();
        let zeros = format!("{}.0{}.{}.00{}", parts[0], parts[1], parts[2], parts[3]);
        let rows: Vec<(&str, String)> = vec![
            (metallb::PIN, ip.clone()),
            (metallb::PIN, format!(" {ip}\n")),
            (metallb::PIN, format!("{ip},")),
            (metallb::PIN, format!("{ip}-{ip}")),
            (metallb::PIN, format!("{ip}/32")),
            (metallb::PIN, format!("::ffff:{ip}")),
            (metallb::PIN, zeros),
            (metallb::PIN, String::new()),
            (metallb::PIN_OLD, ip.clone()),
            (metallb::POOL, "other".to_owned()),
            (metallb::POOL, stage.name.clone()),
            (metallb::POOL_OLD, stage.name.clone()),
            (metallb::SHARE, String::new()),
        ];
        stage.service(rig::load_balancer("web", json!({ CLAIM: "web-ip", rows[0].0: rows[0].1 }))).await;
        for (number, (key, value)) in rows.iter().enumerate() {
            let words = format!("{key}: {value:?}");
            stage.event_with("web", REJECTED, &words).await;
            let (next, value) =
                rows.get(number + 1).map_or((*key, Value::Null), |(key, value)| (*key, json!(value)));
            let mut change = json!({ *key: null });
            change[next] = value;
            stage.annotate("web", change).await;
        }
        stage.served("web", &[&ip]).await;
        let told = stage.events(&stage.name, "web", REJECTED).await;
        assert_eq!(told.len(), rows.len(), "each once: {told:#?}");
        stage.finish().await;
    });
}

/// §11: a foreign `loadBalancerIP` is refused, quoted; taken away, the Service is associated.
#[test]
fn c11_foreign_load_balancer_ip() {
    rig::run(async |rig| {
        let stage = rig.stage("lb-ip", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;
        let mut web = rig::load_balancer("web", json!({ CLAIM: "web-ip" }));
        web["spec"]["loadBalancerIP"] = json!(ip);
        stage.service(web).await;
        stage.event_with("web", REJECTED, &format!("spec.loadBalancerIP: {ip:?}")).await;
        rig::patch(&stage.services(), "web", json!({ "spec": { "loadBalancerIP": null } })).await;
        stage.served("web", &[&ip]).await;
        stage.finish().await;
    });
}

/// §11: a Service of a type, a class or families that cannot be served is told what to change, and served once it is.
#[test]
fn c11_unserviceable_shapes() {
    rig::run(async |rig| {
        let stage = rig.stage("shapes", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;
        let rows = [
            ("type", json!({ "type": "ClusterIP" }), "spec.type is ClusterIP"),
            ("class", json!({ "loadBalancerClass": "example.com/lb" }), "example.com/lb"),
            ("six", json!({ "ipFamilies": ["IPv6"] }), "spec.ipFamilies asks for IPv6"),
            ("dual", json!({ "ipFamilyPolicy": "RequireDualStack" }), "IPv4 and IPv6"),
        ];
        for (name, spec, words) in rows {
            let mut service = rig::load_balancer(name, json!({ CLAIM: "web-ip" }));
            for (field, value) in spec.as_object().unwrap() {
                service["spec"][field] = value.clone();
            }
            stage.service(service).await;
            stage.event_with(name, REJECTED, words).await;
            stage.delete_service(name).await;
        }
        // A claim of one family in a cluster of two: the API server makes it two, then MetalLB would add one of its own.
        let mut service = rig::load_balancer("prefer", json!({ CLAIM: "web-ip" }));
        service["spec"]["ipFamilyPolicy"] = json!("PreferDualStack");
        stage.service(service).await;
        stage.event("prefer", REJECTED).await;
        stage.held(&ip).await;
        let single = json!({ "spec": { "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"], "clusterIPs": null } });
        let service = stage.services().get("prefer").await.unwrap();
        let first = service.spec.unwrap().cluster_ip.unwrap();
        let mut single = single;
        single["spec"]["clusterIPs"] = json!([first]);
        rig::patch(&stage.services(), "prefer", single).await;
        stage.served("prefer", &[&ip]).await;
        stage.finish().await;
    });
}

/// E5: what cannot be changed is deleted and made again by tools: a Service made again with another `loadBalancerClass` is
/// refused and told the way out, its address is held; made again without it, it has the same IP.
#[test]
fn e5_recreated_with_another_load_balancer_class() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("another-balancer").await;
        let mut other = rig::load_balancer("web", json!({ CLAIM: "web-ip" }));
        other["spec"]["loadBalancerClass"] = json!("example.com/lb");
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        let change = Patch::Merge(json!({ "spec": { "loadBalancerClass": "example.com/lb" } }));
        let changed = stage.services().patch("web", &PatchParams::default(), &change).await;
        assert!(matches!(&changed, Err(kube::Error::Api(status)) if status.code == 422), "{changed:?}");
        stage.delete_service("web").await;
        stage.service(other).await;
        stage.event_with("web", REJECTED, "recreate the Service without it").await;
        stage.held(&ip).await;
        stage.assert_at_rest().await;
        stage.unserved("web").await;
        stage.delete_service("web").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.finish().await;
    });
}

/// §11: a claim that is missing, then not bound, then bound: each told once on the Service, which is then associated.
#[test]
fn c11_claim_missing_then_unbound_then_bound() {
    rig::run(async |rig| {
        let stage = rig.stage("claim-states", 1).await;
        stage.delete_with_claims().await;
        stage.claim("first").await;
        let ip = stage.bound("first").await;
        stage.web("web", "web-ip").await;
        let words = stage.event("web", "ClaimNotFound").await;
        assert!(words.contains("web-ip") && words.contains(&stage.name), "{words}");
        stage.claim("web-ip").await;
        let words = stage.event("web", "ClaimNotBound").await;
        assert!(words.contains("web-ip"), "{words}");
        stage.assert_at_rest().await;
        stage.delete_claim("first").await;
        assert_eq!(stage.bound("web-ip").await, ip);
        stage.served("web", &[&ip]).await;
        for reason in ["ClaimNotFound", "ClaimNotBound"] {
            assert_eq!(stage.events(&stage.name, "web", reason).await.len(), 1, "{reason}");
        }
        assert!(stage.events(&stage.name, "web", REJECTED).await.is_empty());
        stage.assert_at_rest().await;
    });
}

/// A1: white space around the claim's name is not part of it.
#[test]
fn a1_claim_name_is_trimmed() {
    rig::run(async |rig| {
        let stage = rig.stage("trimmed", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;
        stage.web("web", " web-ip\n").await;
        stage.served("web", &[&ip]).await;
        stage.delete_service("web").await;
        stage.held(&ip).await;
        stage.finish().await;
    });
}

/// A claim is of its own namespace: a Service elsewhere that names it gets nothing.
#[test]
fn c11_claim_of_another_namespace() {
    rig::run(async |rig| {
        let stage = rig.stage("elsewhere", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        for (name, claim) in [("same", "web-ip".to_owned()), ("path", format!("{}/web-ip", stage.name))] {
            stage.thief_service(rig::load_balancer(name, json!({ CLAIM: claim }))).await;
            stage.event_in(&stage.thief, name, "ClaimNotFound").await;
        }
        stage.held(&ip).await;
        stage.finish().await;
    });
}
