//! Contract §11, cases C3, C4, E5, G1: what others write on Services that have an address.

use std::collections::BTreeSet;
use std::time::Duration;

use api::wellknown::{CLAIM, driver, metallb};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::rig::{self, Rig, Stage, ingress};

/// How often the other tool writes.
const EVERY: Duration = Duration::from_secs(1);
const TIMES: usize = 20;

impl Stage {
    /// Puts the Service as a tool has it, without anything of ours.
    async fn put_without_marks(&self, plain: &Service, revision: usize) {
        loop {
            let live = self.services().get(&plain.name_any()).await.unwrap();
            let mut next = live.clone();
            next.metadata.annotations = plain.metadata.annotations.clone();
            // Who only takes fields away leaves no name; a tool puts its revision.
            next.annotations_mut().insert("revision".to_owned(), revision.to_string());
            next.metadata.labels = None;
            next.metadata.finalizers = None;
            let parameters =
                PostParams { field_manager: Some("put-tool".to_owned()), ..PostParams::default() };
            match self.services().replace(&plain.name_any(), &parameters, &next).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                done => return drop(done.unwrap()),
            }
        }
    }

    /// The driver's writes about a Service since then.
    fn driver_writes(&self, rig: &Rig, mark: u64, name: &str) -> usize {
        let all = rig.audit().since(mark);
        all.iter()
            .filter(|one| {
                one.writes() && one.resource == "services" && one.namespace == self.name && one.name == name
            })
            .count()
    }
}

/// E5: a tool puts the Service without our marks every second for 20 s: at most one write of ours for one of its, later
/// each time; at no moment is the address with nobody; it is told once who it is. Then the marks come back.
#[test]
fn e5_replaced_every_second() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("replaced").await;
        let plain = stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.assert_at_rest().await;
        let mark = rig.audit().mark();
        let mut ticks = tokio::time::interval(EVERY);
        for revision in 0..TIMES {
            ticks.tick().await;
            stage.put_without_marks(&plain, revision).await;
        }
        let ours = stage.driver_writes(rig, mark, "web");
        println!("{TIMES} writes of theirs, {ours} of ours");
        assert!((1..=TIMES / 2).contains(&ours), "{ours} writes of ours");
        let told = stage.event("web", "PinOverwritten").await;
        assert!(told.contains("put-tool"), "{told}");
        rig::until(&stage.services(), "web", "to wear our marks again", |service| {
            service.annotations().get(metallb::PIN) == Some(&ip)
                && service.labels().contains_key(driver::ASSOCIATED)
                && service.finalizers().iter().any(|name| name == driver::HANDOFF)
        })
        .await;
        assert_eq!(stage.events(&stage.name, "web", "PinOverwritten").await.len(), 1);
        assert_eq!(stage.holders(&ip).await, BTreeSet::from([format!("{}/web", stage.name)]));
        stage.delete_service("web").await;
        stage.held(&ip).await;
        stage.finish().await;
    });
}

/// E5: forced server-side applies that own our pin and set it to nothing of use: put back; the address stays.
#[test]
fn e5_applied_by_force() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("applied").await;
        let applied = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "web", "annotations": { CLAIM: "web-ip", driver::PINNED: "no" } },
            "spec": { "type": "LoadBalancer", "selector": { "app": "web" }, "ports": [{ "port": 80, "protocol": "TCP" }] },
        });
        let apply = async |object: &serde_json::Value| {
            let parameters = PatchParams::apply("apply-tool").force();
            stage.services().patch("web", &parameters, &Patch::Apply(object)).await.unwrap()
        };
        let mut plain = applied.clone();
        plain["metadata"]["annotations"].as_object_mut().unwrap().remove(driver::PINNED);
        apply(&plain).await;
        stage.served("web", &[&ip]).await;
        stage.assert_at_rest().await;
        let mark = rig.audit().mark();
        // Without our fields an apply takes nothing of ours.
        for _ in 0..5 {
            apply(&plain).await;
        }
        stage.assert_at_rest().await;
        assert_eq!(stage.driver_writes(rig, mark, "web"), 0);
        let mut ticks = tokio::time::interval(EVERY);
        for _ in 0..TIMES / 2 {
            ticks.tick().await;
            apply(&applied).await;
        }
        let ours = stage.driver_writes(rig, mark, "web");
        assert!((1..=TIMES / 2).contains(&ours), "{ours} writes of ours");
        let told = stage.event("web", "PinOverwritten").await;
        assert!(told.contains("apply-tool"), "{told}");
        rig::until(&stage.services(), "web", "to be marked again", |service| {
            service.annotations().get(driver::PINNED).is_some_and(|value| value == "true")
        })
        .await;
        stage.finish().await;
    });
}

/// C4: a pin edited to another free address of the pool moves the Service at once: it is put back at once.
#[test]
fn c4_pin_edited_to_a_free_address() {
    rig::run(async |rig| {
        let stage = rig.stage("edited-pin", 2).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        let free = stage.v4.iter().find(|other| **other != ip).unwrap().clone();
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        for _ in 0..3 {
            stage.annotate("web", json!({ metallb::PIN: free })).await;
            rig::until(&stage.services(), "web", "to be moved back", |service| {
                service.annotations().get(metallb::PIN) == Some(&ip)
                    && ingress(service) == BTreeSet::from([ip.clone()])
            })
            .await;
        }
        stage.event("web", "PinOverwritten").await;
        stage.annotate("web", json!({ driver::PINNED: null })).await;
        stage.name_claim("web", None).await;
        stage.held(&ip).await;
        let web = stage.unserved("web").await;
        assert!(
            !web.annotations().contains_key(metallb::PIN),
            "a pin without its marker is still ours: {web:?}"
        );
        stage.assert_at_rest().await;
    });
}

/// C4: the same while a thief waits for the address: MetalLB may give it to the thief before anybody can act. Then it is told
/// who has it, the pin is back, and so is the address as soon as the thief lets go.
#[test]
fn c4_pin_edited_while_a_thief_waits() {
    rig::run(async |rig| {
        let stage = rig.stage("edited-contended", 2).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        let free = stage.v4.iter().find(|other| **other != ip).unwrap().clone();
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.thief_service(rig::load_balancer("grab", json!({ metallb::PIN: ip }))).await;
        stage.event_in(&stage.thief, "grab", "AllocationFailed").await;
        stage.annotate("web", json!({ metallb::PIN: free })).await;
        stage.event("web", "PinOverwritten").await;
        let thief = format!("{}/grab", stage.thief);
        let stolen =
            rig::eventually("the Service to have its address, or the thief to be named", async || {
                let web = stage.services().get("web").await.unwrap();
                if web.annotations().get(metallb::PIN) != Some(&ip) {
                    return None;
                }
                let address = stage.addresses().get(&rig::address_name(&ip)).await.unwrap();
                let conflict = api::conditions::find(rig::address_conditions(&address), "Conflict");
                let named =
                    conflict.is_some_and(|said| said.status == "True" && said.message.contains(&thief));
                if ingress(&web) == BTreeSet::from([ip.clone()]) {
                    Some(false)
                } else {
                    named.then_some(true)
                }
            })
            .await;
        println!("stolen: {stolen}");
        stage.clear_thieves().await;
        stage.served("web", &[&ip]).await;
        stage.address_is(&ip, api::address::AddressPhase::Bound).await;
        let claims = stage.own_addresses().await;
        assert!(claims.iter().all(|address| address.spec.address == ip), "{free} was never reserved");
        stage.delete_service("web").await;
        stage.held(&ip).await;
        stage.assert_at_rest().await;
    });
}

/// G1: two Services of one claim under the tenant's own key: the first is associated, contended, its key respected; the
/// second is refused and told the way out, and follows when the first lets go. Our key is gone, theirs stays.
#[test]
fn g1_two_services_of_one_claim_under_a_tenants_key() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("tenant-key").await;
        let dns = |name: &str, protocol: &str, policy: &str| {
            let mut service = rig::load_balancer(name, json!({ CLAIM: "web-ip", metallb::SHARE: "mine" }));
            service["spec"]["ports"] = json!([{ "port": 53, "protocol": protocol }]);
            service["spec"]["externalTrafficPolicy"] = json!(policy);
            service
        };
        let has = async |name: &str| {
            let holder = BTreeSet::from([format!("{}/{name}", stage.name)]);
            rig::eventually(&format!("{name} alone to have {ip}"), async || {
                (stage.holders(&ip).await == holder && stage.placeholders_of(&ip).await.is_empty())
                    .then_some(())
            })
            .await;
            let service = stage.services().get(name).await.unwrap();
            assert_eq!(service.annotations()[metallb::SHARE], "mine");
            assert_eq!(service.annotations()[metallb::PIN], ip);
        };
        for policy in ["Cluster", "Local"] {
            stage.service(dns("tcp", "TCP", policy)).await;
            has("tcp").await;
            stage.service(dns("udp", "UDP", policy)).await;
            let words = stage.event("udp", "AssociationRejected").await;
            assert!(words.contains("one Service with all the ports works"), "{words}");
            stage.name_claim("tcp", None).await;
            has("udp").await;
            let tcp = stage.unserved("tcp").await;
            assert_eq!(tcp.annotations()[metallb::SHARE], "mine");
            assert!(!tcp.annotations().contains_key(metallb::PIN));
            stage.delete_service("udp").await;
            stage.held(&ip).await;
            stage.delete_service("tcp").await;
        }
        stage.finish().await;
    });
}

/// §11: a `loadBalancerIP` added to a Service that has the address: it stands and is told what to remove; removed, nothing
/// is said any more.
#[test]
fn c11_unserviceable_but_served() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("at-risk").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        let edits = [
            (
                json!({ "spec": { "loadBalancerIP": ip } }),
                json!({ "spec": { "loadBalancerIP": null } }),
                "spec.loadBalancerIP",
            ),
            (
                json!({ "metadata": { "annotations": { metallb::POOL: stage.name } } }),
                json!({ "metadata": { "annotations": { metallb::POOL: null } } }),
                metallb::POOL,
            ),
        ];
        for (edit, undo, words) in edits {
            rig::patch(&stage.services(), "web", edit).await;
            let said = |verdict: &'static str| {
                move |address: &api::IPAddress| {
                    rig::said(rig::address_conditions(address), "Associated") == verdict
                }
            };
            stage.ledger(&ip, "to say that the association is at risk", said("True/AtRisk")).await;
            stage.event_with("web", "AssociationAtRisk", words).await;
            stage.assert_at_rest().await;
            assert_eq!(ingress(&stage.services().get("web").await.unwrap()), BTreeSet::from([ip.clone()]));
            rig::patch(&stage.services(), "web", undo).await;
            stage.ledger(&ip, "to be without risk", said("True/Associated")).await;
        }
        assert_eq!(stage.events(&stage.name, "web", "AssociationAtRisk").await.len(), 2);
        stage.finish().await;
    });
}

/// §11: a pool cut below a live Service, which loses its IP: the pin stays, the ledger has MetalLB's own words; back in the
/// pool: the same IP by itself.
#[test]
fn c11_served_no_more_in_metallbs_words() {
    rig::run(async |rig| {
        let stage = rig.stage("cut", 2).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.wait_in_line().await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        let other = stage.v4.iter().find(|other| **other != ip).unwrap();
        // Words of the second in which the handoff was over are not taken for words about what is now.
        tokio::time::sleep(EVERY).await;
        let ranges = |ranges: &[String]| json!({ "spec": { "addresses": ranges } });
        rig::patch(&stage.pools(), &stage.name, ranges(&[format!("{other}/32")])).await;
        let address = stage
            .ledger(&ip, "to have MetalLB's words", |address| {
                rig::said(rig::address_conditions(address), "Associated") == "False/AllocationFailed"
            })
            .await;
        let told = api::conditions::find(rig::address_conditions(&address), "Associated").unwrap();
        assert!(told.message.contains("not allowed in config"), "{told:?}");
        let web = stage.unserved("web").await;
        assert_eq!(web.annotations()[metallb::PIN], ip);
        stage.assert_at_rest().await;
        rig::patch(&stage.pools(), &stage.name, ranges(&stage.ranges())).await;
        stage.served("web", &[&ip]).await;
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}

/// C3: a misspelt claim annotation is told once, with the right one.
#[test]
fn c3_misspelt_claim_annotation() {
    rig::run(async |rig| {
        let stage = rig.stage("misspelt", 1).await;
        stage
            .service(rig::load_balancer("web", json!({ "local.sdn.cozystack.io/ip-adress-claim": "web-ip" })))
            .await;
        let words = stage.event("web", "UnknownAnnotation").await;
        assert!(words.contains(CLAIM), "{words}");
        rig::patch(&stage.services(), "web", json!({ "metadata": { "labels": { "x": "y" } } })).await;
        stage.assert_at_rest().await;
        assert_eq!(stage.events(&stage.name, "web", "UnknownAnnotation").await.len(), 1);
    });
}
