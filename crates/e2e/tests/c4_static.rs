//! Contract §4.7, §5, §10: addresses that an admin makes, and claims that name one.

use api::address::AddressPhase;
use api::claim::ClaimPhase;
use api::wellknown::{ADDRESS_PROTECTION, driver};
use kube::ResourceExt;
use serde_json::json;

use crate::rig;

/// §10: a static address of a class of ours gets both finalizers and is held; a claim that names it has it, and hands it
/// to a Service.
#[test]
fn c10_static_address_is_adopted_and_held() {
    rig::run(async |rig| {
        let stage = rig.stage("static", 2).await;
        let ip = stage.v4[1].clone();
        stage.address(&ip, None).await;
        let address = stage.address_is(&ip, AddressPhase::Available).await;
        stage.held(&ip).await;
        let address = stage.ledger(&address.spec.address, "to be protected", |address| {
            [ADDRESS_PROTECTION, driver::TEARDOWN]
                .iter()
                .all(|name| address.finalizers().iter().any(|own| own == name))
        });
        let name = address.await.name_any();
        stage.claim_with("web-ip", json!({ "addressName": name })).await;
        assert_eq!(stage.bound("web-ip").await, ip);
        stage.contend(&[&ip]).await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.delete_service("web").await;
        stage.held(&ip).await;
        stage.finish().await;
    });
}

/// §4.7: a static address that is `Available` is taken by the next claim of its class, before anything is reserved.
#[test]
fn c4_available_address_is_taken_before_anything_is_reserved() {
    rig::run(async |rig| {
        let stage = rig.stage("available", 2).await;
        let ip = stage.v4[1].clone();
        stage.address(&ip, None).await;
        stage.held(&ip).await;
        stage.claim("web-ip").await;
        assert_eq!(stage.bound("web-ip").await, ip);
        stage.assert_at_rest().await;
        assert_eq!(stage.own_addresses().await.len(), 1);
        assert!(stage.holders(&stage.v4[0]).await.is_empty());
        stage.assert_never_unheld(&ip).await;
    });
}

/// §4.4: an address pre-bound without uid waits, held, for exactly that namespace and name, though another claim of the
/// class waits too.
#[test]
fn c4_prebound_without_uid() {
    rig::run(async |rig| {
        let stage = rig.stage("prebound", 1).await;
        let ip = stage.v4[0].clone();
        stage.address(&ip, Some(json!({ "namespace": stage.name, "name": "web-ip" }))).await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;
        let claim = stage.claim("web-ip").await;
        assert_eq!(stage.bound("web-ip").await, ip);
        let address = stage.address_is(&ip, AddressPhase::Bound).await;
        assert_eq!(address.spec.claim_ref.unwrap().uid, claim.uid());
        stage.finish().await;
    });
}

/// L1, §4.7: a claim that names an address that is missing, taken, of another family or class is told which of these,
/// and never whose it is; it gets the address by itself when the cause goes.
#[test]
fn l1_named_address_not_available() {
    rig::run(async |rig| {
        let stage = rig.stage_dual("named", 3, 1).await;
        let refused = async |claim: &str, spec: serde_json::Value, words: &str| {
            stage.claim_with(claim, spec).await;
            let said = stage.claim_says(claim, "Bound", "False/AddressNotAvailable").await;
            assert!(said.contains(words), "{claim}: {said}");
            stage.event(claim, "AddressNotAvailable").await;
        };
        // Missing: bound as soon as an admin makes it.
        let ip = stage.v4[0].clone();
        refused("missing", json!({ "addressName": rig::address_name(&ip) }), "does not exist").await;
        stage.address(&ip, None).await;
        assert_eq!(stage.bound("missing").await, ip);

        // Of another family.
        let v6 = stage.v6[0].clone();
        stage.address(&v6, None).await;
        stage.held(&v6).await;
        refused("family", json!({ "addressName": rig::address_name(&v6) }), "family").await;

        // Of another class.
        stage.class_with("named-other", "Retain", json!({ "pool": "none-such" })).await;
        let spec =
            json!({ "addressName": rig::address_name(&v6), "family": "IPv6", "className": "named-other" });
        refused("class", spec, "of class").await;
        stage.assert_at_rest().await;
        for claim in ["family", "class"] {
            stage.claim_is(claim, ClaimPhase::Pending).await;
        }
    });
}

/// L1: to name somebody else's address gives nothing, neither the address nor the owner's name, in whatever phase it is.
#[test]
fn l1_taken_address_leaks_no_owner() {
    rig::run(async |rig| {
        let stage = rig.stage("taken", 1).await;
        stage.claim("secret-owner").await;
        let ip = stage.bound("secret-owner").await;
        stage.held(&ip).await;
        let spec = json!({ "className": stage.name, "addressName": rig::address_name(&ip) });
        stage.thief_claim("covet", spec).await;
        let thief_claims = kube::Api::<api::IPAddressClaim>::namespaced(stage.client(), &stage.thief);
        let check = async || {
            let claim = rig::until(&thief_claims, "covet", "to be refused", |claim| {
                rig::said(rig::claim_conditions(claim), "Bound") == "False/AddressNotAvailable"
            })
            .await;
            let status = serde_json::to_string(&claim.status).unwrap();
            let told = stage.events(&stage.thief, "covet", "AddressNotAvailable").await.join(" ");
            for text in [status, told] {
                assert!(
                    !text.contains("secret-owner") && !text.contains(&format!("{}/", stage.name)),
                    "{text}"
                );
            }
        };
        check().await;
        stage.web("web", "secret-owner").await;
        stage.served("web", &[&ip]).await;
        check().await;
        stage.delete_service("web").await;
        stage.delete_claim("secret-owner").await;
        stage.address_is(&ip, AddressPhase::Released).await;
        stage.assert_at_rest().await;
        check().await;
        stage.assert_never_unheld(&ip).await;
        // Freed by the admin, it is anybody's.
        let name = rig::address_name(&ip);
        rig::patch(&stage.addresses(), &name, json!({ "spec": { "claimRef": null } })).await;
        rig::until(&thief_claims, "covet", "to be bound", |claim| claim.phase() == ClaimPhase::Bound).await;
        stage.held(&ip).await;
        stage.assert_never_unheld(&ip).await;
    });
}

/// §3 c: of two objects with one IP the older stands, the other says so and is never bound.
#[test]
fn c3_duplicate_address() {
    rig::run(async |rig| {
        let stage = rig.stage("duplicate", 1).await;
        let ip = stage.v4[0].clone();
        stage.address(&ip, None).await;
        stage.held(&ip).await;
        let spec =
            json!({ "className": stage.name, "address": ip, "source": { "providerRef": { "id": "twice" } } });
        // Later by a second at least: creation times have no finer grain.
        stage.assert_at_rest().await;
        stage.address_with("duplicate-twin", spec).await;
        let twin = rig::until(&stage.addresses(), "duplicate-twin", "to be refused", |address| {
            rig::said(rig::address_conditions(address), "Valid") == "False/DuplicateAddress"
        })
        .await;
        assert_eq!(twin.phase(), AddressPhase::Pending);
        stage.cluster_event("duplicate-twin", "InvalidAddress").await;
        stage.claim("web-ip").await;
        stage.bound("web-ip").await;
        let first = stage.address_is(&ip, AddressPhase::Bound).await;
        assert_eq!(first.name_any(), rig::address_name(&ip));
        stage.held(&ip).await;
        // When the elder goes, the twin stands.
        stage.delete_claim("web-ip").await;
        rig::delete(&stage.addresses(), &first.name_any()).await;
        rig::gone(&stage.addresses(), &first.name_any()).await;
        rig::until(&stage.addresses(), "duplicate-twin", "to stand", |address| {
            address.phase() == AddressPhase::Available
        })
        .await;
        stage.assert_at_rest().await;
    });
}
