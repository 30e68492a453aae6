//! What people and their tools do by hand to placeholders, classes, claims and Services that have an address; case E2.

use api::address::AddressPhase;
use api::claim::ClaimPhase;
use api::wellknown::{driver, metallb};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::rig::{self, Stage, ingress};

/// Waits until the hold of an IP has the labels by which it is found, no owner, and the IP.
async fn plain_hold(stage: &Stage, ip: &str) -> Service {
    let name = rig::address_name(ip);
    let what = format!("a placeholder of {ip} as it was born");
    let hold = rig::eventually(&what, async || {
        let hold = stage.placeholders_of(ip).await.pop()?;
        let labelled = hold.labels().get(driver::PLACEHOLDER).is_some_and(|value| value == "true")
            && hold.labels().get(driver::IP_ADDRESS) == Some(&name);
        let has_it = ingress(&hold).contains(ip);
        (labelled && hold.owner_references().is_empty() && has_it).then_some(hold)
    });
    let hold = hold.await;
    stage.held(ip).await;
    hold
}

/// Item 7: labels of a placeholder removed or changed, and the annotations that explain it: the same placeholder goes on
/// holding, contended, and is labelled again; the one that a claim began with, and one that came after a handoff.
#[test]
fn c10_labels_of_a_placeholder_edited() {
    rig::run(async |rig| {
        let stage = rig.stage("relabelled", 2).await;
        for claim in ["web-ip", "alt-ip"] {
            stage.claim(claim).await;
        }
        let (ip, other) = (stage.bound("web-ip").await, stage.bound("alt-ip").await);
        for ip in [&ip, &other] {
            stage.held(ip).await;
        }
        stage.contend(&[&ip, &other]).await;
        for _ in 0..2 {
            let edits = [
                json!({ "labels": { driver::PLACEHOLDER: null } }),
                json!({ "labels": { driver::IP_ADDRESS: null } }),
                json!({ "labels": { driver::IP_ADDRESS: rig::address_name(&other) } }),
                json!({ "labels": { driver::IP_ADDRESS: "ip-203-0-113-99" } }),
                json!({ "labels": null, "annotations": { driver::CLAIM_NAME: null } }),
            ];
            let hold = plain_hold(&stage, &ip).await;
            for edit in edits {
                rig::patch(&stage.placeholders(), &hold.name_any(), json!({ "metadata": edit })).await;
                let now = plain_hold(&stage, &ip).await;
                assert_eq!(now.uid(), hold.uid(), "made anew after {edit}");
            }
            stage.web("web", "web-ip").await;
            stage.served("web", &[&ip]).await;
            stage.delete_service("web").await;
        }
        stage.held(&ip).await;
        stage.held(&other).await;
        stage.finish().await;
    });
}

/// E2: a placeholder that came out of a backup with an owner that no longer exists: the reference is taken off, or the
/// garbage collector was faster and the address is held again at once; the waiting claim gets nothing.
#[test]
fn e2_placeholder_with_an_owner_that_is_gone() {
    rig::run(async |rig| {
        let stage = rig.stage("owned", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.wait_in_line().await;
        let mut faster = 0;
        for round in 0..6 {
            let hold = plain_hold(&stage, &ip).await;
            let owner = json!([{
                "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress", "name": rig::address_name(&ip),
                "uid": format!("00000000-0000-4000-8000-{round:012}"),
            }]);
            rig::patch(
                &stage.placeholders(),
                &hold.name_any(),
                json!({ "metadata": { "ownerReferences": owner } }),
            )
            .await;
            let now = plain_hold(&stage, &ip).await;
            faster += i32::from(now.uid() == hold.uid());
        }
        println!("the garbage collector was slower in {faster} of 6 rounds");
        // Nobody has it for a moment at most as often as the placeholder was collected.
        let line = stage.timeline(&ip).await;
        let gaps = line.iter().filter(|holders| holders.services.is_empty()).count();
        assert!(gaps <= usize::try_from(6 - faster).unwrap(), "{gaps} gaps: {line:#?}");
        stage.assert_at_rest().await;
        stage.claim_is(rig::LATE, ClaimPhase::Pending).await;
        stage.claim_is("web-ip", ClaimPhase::Bound).await;
    });
}

/// Item 7: edits by which MetalLB takes the IP off the placeholder: undone, and held again.
#[test]
fn c10_placeholder_taken_apart() {
    rig::run(async |rig| {
        let stage = rig.stage("taken-apart", 2).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        let free = stage.v4.iter().find(|other| **other != ip).unwrap().clone();
        let edits = [
            json!({ "spec": { "type": "ClusterIP" } }),
            json!({ "spec": { "type": "NodePort" } }),
            json!({ "spec": { "type": "ExternalName", "externalName": "example.com" } }),
            json!({ "spec": { "loadBalancerIP": free } }),
            json!({ "spec": { "ipFamilyPolicy": "RequireDualStack" } }),
            json!({ "spec": { "externalTrafficPolicy": "Local", "selector": { "a": "b" } } }),
            json!({ "metadata": { "annotations": { metallb::POOL: "none-such" } } }),
            json!({ "metadata": { "annotations": { metallb::PIN: free } } }),
            json!({ "metadata": { "annotations": { metallb::PIN: null, metallb::SHARE: null } } }),
        ];
        for edit in edits {
            let hold = plain_hold(&stage, &ip).await.name_any();
            rig::patch(&stage.placeholders(), &hold, edit.clone()).await;
            let plain = |service: &Service| {
                let spec = service.spec.clone().unwrap_or_default();
                spec.type_.as_deref() == Some("LoadBalancer")
                    && spec.ip_family_policy.as_deref() == Some("SingleStack")
                    && (spec.load_balancer_ip, spec.selector) == (None, None)
                    && service.annotations().get(metallb::PIN) == Some(&ip)
                    && ingress(service).contains(&ip)
            };
            rig::until(&stage.placeholders(), &hold, &format!("to hold {ip} in spite of {edit}"), plain)
                .await;
            plain_hold(&stage, &ip).await;
            assert!(stage.holders(&free).await.is_empty(), "{edit}");
        }
        stage.assert_at_rest().await;
    });
}

/// Item 7: a class draws from another pool from now on: what is held or served stays where it is, what is new comes from
/// there.
#[test]
fn c8_class_moved_to_another_pool() {
    rig::run(async |rig| {
        let stage = rig.stage("pool-moved", 2).await;
        for claim in ["held-ip", "web-ip"] {
            stage.claim(claim).await;
        }
        let (held, web) = (stage.bound("held-ip").await, stage.bound("web-ip").await);
        stage.held(&held).await;
        stage.wait_in_line().await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&web]).await;
        let next = format!("{}.200", stage.subnet);
        stage.pool("pool-moved-b", &[&format!("{next}/32")], false).await;
        let parameters = json!({ "spec": { "parameters": { "pool": "pool-moved-b" } } });
        rig::patch(&stage.classes(), &stage.name, parameters).await;
        assert_eq!(stage.bound(rig::LATE).await, next);
        stage.held(&next).await;
        stage.held(&held).await;
        stage.delete_service("web").await;
        stage.held(&web).await;
        let before = stage.placeholders_of(&held).await.pop().unwrap();
        rig::delete(&stage.placeholders(), &before.name_any()).await;
        rig::eventually("another placeholder", async || {
            (plain_hold(&stage, &held).await.uid() != before.uid()).then_some(())
        })
        .await;
        stage.assert_never_unheld(&web).await;
        stage.assert_at_rest().await;
    });
}

/// Item 7: a namespace goes with the claims and the associated Services in it: nothing hangs, the addresses are held and
/// `Released`.
#[test]
fn i1_namespace_goes_with_claims_and_services() {
    rig::run(async |rig| {
        let stage = rig.stage("doomed", 2).await;
        for claim in ["web-ip", "held-ip"] {
            stage.claim(claim).await;
        }
        let (web, held) = (stage.bound("web-ip").await, stage.bound("held-ip").await);
        for ip in [&web, &held] {
            stage.held(ip).await;
        }
        stage.contend(&[&web, &held]).await;
        stage.web("web", "web-ip").await;
        stage.web("waits", "web-ip").await;
        stage.served("web", &[&web]).await;
        let namespaces: Api<Namespace> = Api::all(stage.client());
        rig::delete(&namespaces, &stage.name).await;
        rig::gone(&namespaces, &stage.name).await;
        for ip in [&web, &held] {
            stage.address_is(ip, AddressPhase::Released).await;
            stage.held(ip).await;
        }
        stage.finish().await;
    });
}

/// Item 7: an associated Service becomes something that MetalLB does not serve, of each kind: the address is held at once,
/// the Service told what to undo; undone, it has the same IP.
#[test]
fn c11_associated_service_changes_its_shape() {
    rig::run(async |rig| {
        let stage = rig.stage("reshaped", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.wait_in_line().await;
        stage.web("web", "web-ip").await;
        let back = json!({ "type": "LoadBalancer", "externalName": null });
        let single = json!({ "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"] });
        let shapes = [
            (json!({ "type": "NodePort" }), &back, "spec.type is NodePort"),
            (
                json!({ "type": "ExternalName", "externalName": "example.com" }),
                &back,
                "spec.type is ExternalName",
            ),
            (
                json!({ "ipFamilyPolicy": "RequireDualStack" }),
                &single,
                "spec.ipFamilies asks for IPv4 and IPv6",
            ),
        ];
        for (shape, undo, words) in shapes {
            stage.served("web", &[&ip]).await;
            rig::patch(&stage.services(), "web", json!({ "spec": shape })).await;
            stage.held(&ip).await;
            stage.event_with("web", "AssociationRejected", words).await;
            stage.unserved("web").await;
            rig::patch(&stage.services(), "web", json!({ "spec": undo })).await;
        }
        stage.served("web", &[&ip]).await;
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}

/// H1: a claim deleted and made again under its name while a Service has its address: the Service gives it back, the address
/// is `Released` to the old claim, the new one inherits nothing until the admin says so; then the Service has the same IP.
#[test]
fn h1_claim_made_again_while_associated_e2e() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("claim-again").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        rig::delete(&stage.claims(), "web-ip").await;
        let claim = || rig::claim_object("web-ip", json!({ "className": stage.name }));
        rig::eventually("the old claim to be gone", async || {
            rig::try_create(&stage.claims(), claim()).await.ok()
        })
        .await;
        stage.unserved("web").await;
        let address = stage.held(&ip).await.name_any();
        stage.address_is(&ip, AddressPhase::Released).await;
        stage.event("web", "ClaimNotBound").await;
        stage.assert_at_rest().await;
        stage.claim_is("web-ip", ClaimPhase::Pending).await;
        rig::patch(&stage.addresses(), &address, json!({ "spec": { "claimRef": { "uid": null } } })).await;
        stage.served("web", &[&ip]).await;
        stage.finish().await;
    });
}

/// Item 7: an admin clears the `claimRef` of an address that a Service has: it is taken off the Service by way of the hold,
/// and only then given to the claim that waits.
#[test]
fn c5_claim_ref_cleared_while_associated_e2e() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("unreferenced").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        let clear = json!({ "spec": { "claimRef": null } });
        rig::patch(&stage.addresses(), &rig::address_name(&ip), clear).await;
        stage.unserved("web").await;
        stage.claim_is("web-ip", ClaimPhase::Lost).await;
        assert_eq!(stage.bound(rig::LATE).await, ip);
        stage.held(&ip).await;
        stage.assert_never_unheld(&ip).await;
        stage.assert_at_rest().await;
        let web = stage.services().get("web").await.unwrap();
        let marks = serde_json::to_string(&(web.annotations(), web.labels(), web.finalizers())).unwrap();
        assert!(!marks.contains("metallb"), "{marks}");
        let left: Value = serde_json::to_value(&stage.claims().get("web-ip").await.unwrap().status).unwrap();
        assert!(!left.to_string().contains(rig::LATE), "{left}");
    });
}

/// Item 7: the ledger's status edited by hand while a Service has the address, and while it is held: put right from what
/// the cluster shows, and nothing moves.
#[test]
fn c3_ledger_edited_by_hand() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("ledger-edited").await;
        let name = rig::address_name(&ip);
        let nobody =
            json!({ "kind": "Service", "namespace": stage.thief, "name": "nobody", "uid": "nobody" });
        let edits = [
            json!({ "associatedTo": null }),
            json!({ "associatedTo": nobody }),
            json!({ "associatedTo": { "uid": "nobody" } }),
            json!({ "phase": "Available" }),
            json!({ "phase": "Released", "associatedTo": null, "conditions": null, "lastHandoff": null }),
        ];
        let edit = async |status: &Value| {
            let change = Patch::Merge(json!({ "status": status }));
            stage.addresses().patch_status(&name, &PatchParams::default(), &change).await.unwrap();
        };
        for status in edits.iter().filter(|status| **status != edits[2]) {
            edit(status).await;
            stage.address_is(&ip, AddressPhase::Bound).await;
            stage.held(&ip).await;
        }
        stage.web("web", "web-ip").await;
        let uid = stage.served("web", &[&ip]).await.uid();
        for status in &edits {
            edit(status).await;
            stage
                .ledger(&ip, "to name the Service again", |address| {
                    let to = address.associated_to();
                    address.phase() == AddressPhase::Bound && to.is_some_and(|to| to.uid == uid)
                })
                .await;
            stage.served("web", &[&ip]).await;
        }
        stage.delete_service("web").await;
        stage.held(&ip).await;
        stage.finish().await;
    });
}
