//! Cases D1 and D2 on the real MetalLB: pools are widened, cut, told to avoid addresses, deleted and made again.
//!
//! A claim of ours waits in line all the time. Thieves do not: what MetalLB takes off everybody it gives back to whom
//! it likes.

use std::collections::BTreeSet;

use api::IPAddress;
use api::address::AddressPhase;
use api::claim::ClaimPhase;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::rig::{self, LATE, Setup, Stage};

/// A stage whose pool is `web` with an associated address and claims for all the others, and one that waits.
async fn full(stage: &Stage) -> (String, Vec<String>) {
    stage.claim("web-ip").await;
    let ip = stage.bound("web-ip").await;
    stage.held(&ip).await;
    stage.wait_in_line().await;
    stage.web("web", "web-ip").await;
    stage.served("web", &[&ip]).await;
    let mut others: Vec<_> = stage.own_addresses().await.into_iter().map(|one| one.spec.address).collect();
    others.retain(|other| *other != ip);
    for other in &others {
        stage.held(other).await;
    }
    (ip, others)
}

impl Stage {
    async fn pool_spec(&self, spec: Value) {
        rig::patch(&self.pools(), &self.name, json!({ "spec": spec })).await;
    }

    /// The ledger of this stage, as object name, claim and uid.
    async fn books(&self) -> BTreeSet<(String, Option<String>, Option<String>)> {
        let claim = |address: &IPAddress| address.spec.claim_ref.as_ref().map(|claim| claim.name.clone());
        let addresses = self.own_addresses().await;
        addresses.iter().map(|address| (address.name_any(), claim(address), address.uid())).collect()
    }

    /// Nobody has the address, and that is `Lost`, for its claim as well.
    async fn lost(&self, ip: &str) {
        rig::eventually(&format!("nobody to have {ip}"), async || {
            self.holders(ip).await.is_empty().then_some(())
        })
        .await;
        let address = self.address_is(ip, AddressPhase::Lost).await;
        self.claim_is(&address.spec.claim_ref.unwrap().name, ClaimPhase::Lost).await;
        self.cluster_event(&rig::address_name(ip), "AddressLost").await;
    }

    /// Somebody is to have the address again, by itself.
    async fn found(&self, ip: &str) {
        let address = self.address_is(ip, AddressPhase::Bound).await;
        self.claim_is(&address.spec.claim_ref.unwrap().name, ClaimPhase::Bound).await;
        self.cluster_event(&rig::address_name(ip), "AddressRecovered").await;
    }

    async fn says_unheld(&self, ip: &str) {
        self.ledger(ip, "to say that it is not held", |address| {
            rig::said(rig::address_conditions(address), "Held").starts_with("False/")
        })
        .await;
    }
}

/// D1: a wider pool moves nothing; who waited in line is served from what was added.
#[test]
fn d1_pool_widened() {
    rig::run(async |rig| {
        let stage = rig.stage("d1-wide", 2).await;
        let (ip, others) = full(&stage).await;
        let web = stage.services().get("web").await.unwrap();
        let books = stage.books().await;
        stage.pool_spec(json!({ "addresses": [format!("{}.0/28", stage.subnet)] })).await;
        let added = stage.bound(LATE).await;
        assert!(added != ip && !others.contains(&added));
        stage.held(&added).await;
        stage.served("web", &[&ip]).await;
        for ip in others.iter().chain([&ip]) {
            stage.assert_never_unheld(ip).await;
        }
        assert!(stage.books().await.is_superset(&books));
        let now = stage.services().get("web").await.unwrap();
        assert_eq!(now.annotations(), web.annotations());
        stage.assert_at_rest().await;
    });
}

/// D1: a pool cut below addresses that are held and associated: they are `Lost` to their claims, nothing is reserved
/// in their place; with the pool as it was, everything is as it was.
#[test]
fn d1_pool_shrunk_and_back() {
    rig::run(async |rig| {
        let stage = rig.stage("d1-cut", 3).await;
        let (ip, others) = full(&stage).await;
        let books = stage.books().await;
        let [out, stays] = [&others[0], &others[1]];
        let whole = stage.ranges();
        for _ in 0..2 {
            stage.pool_spec(json!({ "addresses": [format!("{stays}/32")] })).await;
            stage.unserved("web").await;
            for ip in [&ip, out] {
                stage.lost(ip).await;
            }
            stage.says_unheld(out).await;
            stage.held(stays).await;
            stage.assert_at_rest().await;
            assert_eq!(stage.books().await, books);
            stage.claim_is(LATE, ClaimPhase::Pending).await;
            stage.pool_spec(json!({ "addresses": whole })).await;
            stage.served("web", &[&ip]).await;
            stage.held(out).await;
            for ip in [&ip, out] {
                stage.found(ip).await;
            }
        }
        stage.assert_never_unheld(stays).await;
        assert_eq!(stage.bound("web-ip").await, ip);
        assert_eq!(stage.books().await, books);
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}

/// D1: `.0` and `.255` are addresses like others until the pool avoids them, and again when it does no longer.
#[test]
fn d1_avoid_buggy_ips_and_back() {
    rig::run(async |rig| {
        let stage = rig.stage("d1-avoid", 2).await;
        stage.pool_spec(json!({ "addresses": [format!("{}.0/31", stage.subnet)] })).await;
        stage.claim("first").await;
        let zero = stage.bound("first").await;
        stage.held(&zero).await;
        stage.claim("second").await;
        let one = stage.bound("second").await;
        stage.held(&one).await;
        let (zero, one, odd) =
            if zero.ends_with(".0") { (zero, one, "second") } else { (one, zero, "first") };
        assert!(zero.ends_with(".0"), "{zero}");
        stage.web("web", odd).await;
        stage.served("web", &[&one]).await;
        stage.claim(LATE).await;
        stage.event(LATE, "PoolExhausted").await;
        let books = stage.books().await;
        for _ in 0..2 {
            stage.pool_spec(json!({ "avoidBuggyIPs": true })).await;
            stage.lost(&zero).await;
            stage.says_unheld(&zero).await;
            stage.served("web", &[&one]).await;
            stage.assert_at_rest().await;
            assert_eq!(stage.books().await, books);
            stage.pool_spec(json!({ "avoidBuggyIPs": false })).await;
            stage.held(&zero).await;
            stage.found(&zero).await;
        }
        stage.assert_never_unheld(&one).await;
        assert_eq!(stage.books().await, books);
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}

/// D2: the only pool is deleted, and MetalLB wipes every status. All is `Lost`, nothing is deleted, nothing reserved anew; made again, every
/// address is with whom it was.
#[test]
fn d2_only_pool_deleted_and_made_again() {
    rig::alone(Setup::default(), async |rig| {
        let stage = rig.stage("d2", 3).await;
        let (ip, others) = full(&stage).await;
        let books = stage.books().await;
        let uid = stage.services().get("web").await.unwrap().uid();
        for round in 0..2 {
            rig::delete(&stage.pools(), &stage.name).await;
            stage.class_says(&stage.name, "False/PoolNotFound").await;
            stage.unserved("web").await;
            for ip in others.iter().chain([&ip]) {
                stage.lost(ip).await;
            }
            for ip in &others {
                stage.says_unheld(ip).await;
            }
            let claim = format!("meanwhile-{round}");
            stage.claim(&claim).await;
            stage.event(&claim, "PoolRefused").await;
            stage.assert_at_rest().await;
            assert_eq!(stage.books().await, books);
            let ranges = stage.ranges();
            let ranges: Vec<&str> = ranges.iter().map(String::as_str).collect();
            stage.pool(&stage.name, &ranges, false).await;
            stage.class_says(&stage.name, "True/Accepted").await;
            stage.served("web", &[&ip]).await;
            for ip in &others {
                stage.held(ip).await;
            }
            for ip in others.iter().chain([&ip]) {
                stage.found(ip).await;
            }
        }
        assert_eq!(stage.services().get("web").await.unwrap().uid(), uid);
        assert_eq!(stage.bound("web-ip").await, ip);
        assert_eq!(stage.books().await, books);
        for claim in stage.claims().list(&ListParams::default()).await.unwrap() {
            let waits = [LATE, "meanwhile-0", "meanwhile-1"].contains(&claim.name_any().as_str());
            let phase = if waits { ClaimPhase::Pending } else { ClaimPhase::Bound };
            assert_eq!(claim.phase(), phase, "{}", claim.name_any());
        }
        stage.assert_at_rest().await;
    });
}
