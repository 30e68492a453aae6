//! Contract §6: what becomes of an address when its claim goes, and how it comes back.

use api::IPAddressClaim;
use api::address::AddressPhase;
use api::claim::ClaimPhase;
use kube::ResourceExt;
use serde_json::json;

use crate::rig::{self, Stage};

/// §6 Retain: the address outlives its claim as `Released`, held, and says who had it and how it is freed; cleared of its
/// `claimRef` it goes to the claim that waits, and MetalLB never sees it free.
#[test]
fn c6_retain_is_released_and_recycled() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("recycle").await;
        stage.delete_claim("web-ip").await;
        let address = stage.address_is(&ip, AddressPhase::Released).await;
        let name = address.name_any();
        let claim = address.spec.claim_ref.unwrap();
        assert_eq!((claim.namespace, claim.name), (stage.name.clone(), "web-ip".to_owned()));
        let words = stage.cluster_event(&name, "AddressReleased").await;
        assert!(words.contains(&name) && words.contains("claimRef"), "{words}");
        stage.event("web-ip", "Reclaimed").await;
        stage.held(&ip).await;
        stage.finish().await;

        rig::patch(&stage.addresses(), &name, json!({ "spec": { "claimRef": null } })).await;
        assert_eq!(stage.bound(rig::LATE).await, ip);
        let address = stage.address_is(&ip, AddressPhase::Bound).await;
        assert_eq!(address.spec.claim_ref.unwrap().name, rig::LATE);
        stage.held(&ip).await;
        stage.assert_never_unheld(&ip).await;
        stage.assert_at_rest().await;
    });
}

/// H1, §12 Restore: a claim made again under its name does not inherit, says which address waits for it and which edit
/// gives it back; that edit binds to exactly this claim, though another waits longer.
#[test]
fn h1_given_back_by_claim_ref_without_uid() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("give-back").await;
        stage.delete_claim("web-ip").await;
        let address = stage.address_is(&ip, AddressPhase::Released).await;
        stage.claim("web-ip").await;
        let words = stage.claim_says("web-ip", "Bound", "False/AddressNotAvailable").await;
        assert!(words.contains(&address.name_any()) && words.contains(r#""uid":null"#), "{words}");
        stage.assert_at_rest().await;
        stage.claim_is("web-ip", ClaimPhase::Pending).await;
        rig::patch(
            &stage.addresses(),
            &address.name_any(),
            json!({ "spec": { "claimRef": { "uid": null } } }),
        )
        .await;
        assert_eq!(stage.bound("web-ip").await, ip);
        stage.held(&ip).await;
        stage.finish().await;
    });
}

/// §6 Delete: with the claim go the address, its placeholder and MetalLB's assignment.
#[test]
fn c6_delete_leaves_nothing() {
    rig::run(async |rig| {
        let stage = rig.stage("delete", 1).await;
        stage.delete_with_claims().await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        let address = stage.held(&ip).await.name_any();
        stage.delete_claim("web-ip").await;
        rig::gone(&stage.addresses(), &address).await;
        let left: Vec<_> = stage.placeholders_of(&ip).await.iter().map(ResourceExt::name_any).collect();
        assert!(left.is_empty(), "the address went before its placeholders: {left:?}");
        assert!(stage.holders(&ip).await.is_empty());
        stage.cluster_event(&address, "AddressDeleted").await;
        stage.assert_at_rest().await;
        // Free indeed: MetalLB gives it to whoever asks.
        stage.thief_service(rig::load_balancer("next", json!({ api::wellknown::metallb::PIN: ip }))).await;
        rig::until(&stage.thief_services(), "next", "to have it", |service| {
            rig::ingress(service).contains(&ip)
        })
        .await;
    });
}

/// §6: the policy that counts is the one copied onto the address at its birth, never the class's of today.
#[test]
fn c6_policy_is_the_one_of_birth() {
    rig::run(async |rig| {
        let stage = rig.stage("policy", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.delete_with_claims().await;
        stage.delete_claim("web-ip").await;
        stage.address_is(&ip, AddressPhase::Released).await;
        stage.held(&ip).await;
        stage.assert_at_rest().await;
    });
}

/// Deletes a claim and makes it again as soon as the API server lets it.
async fn again(stage: &Stage) -> IPAddressClaim {
    rig::delete(&stage.claims(), "web-ip").await;
    let claim = || rig::claim_object("web-ip", json!({ "className": stage.name }));
    rig::eventually("the old claim to be gone", async || rig::try_create(&stage.claims(), claim()).await.ok())
        .await
}

/// H1, Retain: fifty quick deletions and creations of one name: no incarnation inherits, none takes a second address.
#[test]
fn h1_recreated_fifty_times_retain() {
    rig::run(async |rig| {
        let stage = rig.stage("again-retain", 3).await;
        let first = stage.claim("web-ip").await.uid();
        let ip = stage.bound("web-ip").await;
        for _ in 0..50 {
            again(&stage).await;
        }
        stage.claim_says("web-ip", "Bound", "False/AddressNotAvailable").await;
        let address = stage.address_is(&ip, AddressPhase::Released).await;
        assert_eq!(address.spec.claim_ref.unwrap().uid, first);
        stage.held(&ip).await;
        stage.assert_at_rest().await;
        assert_eq!(stage.own_addresses().await.len(), 1);
        stage.assert_never_unheld(&ip).await;
    });
}

/// H1, Delete: fifty quick deletions and creations of one name end with one claim, one address, one hold.
#[test]
fn h1_recreated_fifty_times_delete() {
    rig::run(async |rig| {
        let stage = rig.stage("again-delete", 3).await;
        stage.delete_with_claims().await;
        stage.claim("web-ip").await;
        let mut last = None;
        for _ in 0..50 {
            last = again(&stage).await.uid();
        }
        let ip = stage.bound("web-ip").await;
        stage.assert_at_rest().await;
        let addresses = stage.own_addresses().await;
        assert_eq!(addresses.len(), 1, "{addresses:#?}");
        assert_eq!(addresses[0].spec.address, ip);
        assert_eq!(addresses[0].spec.claim_ref.clone().unwrap().uid, last);
        stage.held(&ip).await;
        for ip in stage.v4.iter().filter(|other| **other != ip) {
            assert!(stage.holders(ip).await.is_empty(), "{ip} leaked");
        }
    });
}

/// H2: an address deleted by hand while bound waits and says why; it is held, and served, until its claim goes. Then
/// nothing is left of it.
#[test]
fn h2_address_deleted_while_bound() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("address-deleted").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        let name = rig::address_name(&ip);
        rig::delete(&stage.addresses(), &name).await;
        let words = stage.cluster_event(&name, "DeletionBlocked").await;
        assert!(words.contains("web-ip"), "{words}");
        stage.assert_at_rest().await;
        assert_eq!(stage.events("default", &name, "DeletionBlocked").await.len(), 1);
        assert_eq!(rig::ingress(&stage.services().get("web").await.unwrap()).len(), 1, "it is still served");
        stage.finish().await;
        // Whoever waits may have it once it is gone.
        stage.clear_thieves().await;
        stage.delete_claim("web-ip").await;
        assert_eq!(stage.bound(rig::LATE).await, ip);
        let address = stage.held(&ip).await;
        assert!(!address.is_deleting());
        stage.unserved("web").await;
        stage.assert_at_rest().await;
    });
}

/// H2, the other order: the claim is deleted first, then the `Released` address: it goes, with its hold.
#[test]
fn h2_released_address_deleted() {
    rig::run(async |rig| {
        let stage = rig.stage("released-deleted", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.delete_claim("web-ip").await;
        let name = stage.address_is(&ip, AddressPhase::Released).await.name_any();
        stage.held(&ip).await;
        rig::delete(&stage.addresses(), &name).await;
        rig::gone(&stage.addresses(), &name).await;
        assert!(stage.placeholders_of(&ip).await.is_empty());
        assert!(stage.holders(&ip).await.is_empty());
        stage.assert_at_rest().await;
    });
}

/// E3: nothing of a tenant's labels or annotations is copied onto an address or a placeholder.
#[test]
fn e3_nothing_of_the_tenants_is_copied() {
    rig::run(async |rig| {
        let stage = rig.stage("copied", 1).await;
        let mark = "argocd.argoproj.io/instance";
        let mut claim = rig::claim_object("web-ip", json!({ "className": stage.name }));
        claim["metadata"]["labels"] = json!({ mark: "tracked" });
        claim["metadata"]["annotations"] = json!({ mark: "tracked" });
        rig::create(&stage.claims(), claim).await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        let clean = async || {
            let address = stage.ledger(&ip, "to be there", |_| true).await;
            let mut text = serde_json::to_string(&(address.labels(), address.annotations())).unwrap();
            for placeholder in stage.placeholders_of(&ip).await {
                text += &serde_json::to_string(&(placeholder.labels(), placeholder.annotations())).unwrap();
                assert!(placeholder.owner_references().is_empty());
                assert!(placeholder.spec.unwrap().selector.is_none());
            }
            assert!(!text.contains("tracked"), "{text}");
        };
        clean().await;
        let mut web = rig::load_balancer("web", json!({ api::wellknown::CLAIM: "web-ip", mark: "tracked" }));
        web["metadata"]["labels"] = json!({ mark: "tracked" });
        stage.service(web).await;
        stage.served("web", &[&ip]).await;
        stage.delete_service("web").await;
        stage.held(&ip).await;
        clean().await;
        stage.assert_never_unheld(&ip).await;
        stage.assert_at_rest().await;
    });
}
