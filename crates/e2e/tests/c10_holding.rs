//! Contract §9, §10 and case L3: holds that somebody takes away, and claims that wait.

use std::collections::BTreeSet;

use api::claim::ClaimPhase;
use futures::future::join_all;
use kube::ResourceExt;
use serde_json::json;

use crate::rig::{self, ingress};

/// §10: a placeholder deleted by hand comes back; the waiting claim does not get its address.
#[test]
fn c10_placeholder_deleted_by_hand_comes_back() {
    rig::run(async |rig| {
        let stage = rig.stage("placeholder", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.wait_in_line().await;
        for _ in 0..3 {
            let placeholder = stage.placeholders_of(&ip).await.pop().unwrap();
            rig::delete(&stage.placeholders(), &placeholder.name_any()).await;
            rig::eventually("another placeholder to hold the address", async || {
                let now = stage.placeholders_of(&ip).await.pop()?;
                (now.uid() != placeholder.uid() && ingress(&now).contains(&ip)).then_some(())
            })
            .await;
            stage.held(&ip).await;
        }
        stage.assert_at_rest().await;
        stage.assert_nothing_stolen().await;
    });
}

/// L3: a placeholder deleted by hand while thieves wait: the race may be lost, as MetalLB serves them first. The address
/// then tells who has it; the hold comes back when the thief lets go.
#[test]
fn l3_placeholder_deleted_while_thieves_wait() {
    rig::run(async |rig| {
        let stage = rig.stage("theft", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;
        let placeholder = stage.placeholders_of(&ip).await.pop().unwrap();
        rig::delete(&stage.placeholders(), &placeholder.name_any()).await;
        stage.held_or_stolen(&ip, placeholder.uid()).await;
        stage.claim_is(rig::LATE, ClaimPhase::Pending).await;
        stage.clear_thieves().await;
        stage.held(&ip).await;
        stage.claim_is(rig::LATE, ClaimPhase::Pending).await;
        stage.assert_at_rest().await;
    });
}

/// L3: all placeholders deleted at once, with two claims waiting: every address is held again, the waiting get nothing.
#[test]
fn l3_all_placeholders_deleted() {
    rig::run(async |rig| {
        let stage = rig.stage("tidied", 6).await;
        let claims: Vec<_> = (0..6).map(|number| format!("web-{number}")).collect();
        for claim in &claims {
            stage.claim(claim).await;
        }
        for claim in &claims {
            stage.bound(claim).await;
        }
        for ip in &stage.v4 {
            stage.held(ip).await;
        }
        stage.wait_in_line().await;
        stage.claim("later").await;
        stage.event("later", "PoolExhausted").await;
        let all = join_all(stage.v4.iter().map(|ip| stage.placeholders_of(ip))).await.concat();
        assert_eq!(all.len(), 6);
        let placeholders = stage.placeholders();
        let names: Vec<_> = all.iter().map(ResourceExt::name_any).collect();
        join_all(names.iter().map(|name| rig::delete(&placeholders, name))).await;
        stage.assert_at_rest().await;
        for ip in &stage.v4 {
            stage.held(ip).await;
        }
        for claim in [rig::LATE, "later"] {
            stage.claim_is(claim, ClaimPhase::Pending).await;
        }
        for claim in &claims {
            stage.claim_is(claim, ClaimPhase::Bound).await;
        }
    });
}

/// §9: the claim that waits longest gets the address that comes free, told that the pool is exhausted, each wording once,
/// in words that name the pool; nobody of ours queues in MetalLB meanwhile.
#[test]
fn c9_oldest_waiting_claim_first() {
    rig::run(async |rig| {
        let stage = rig.stage("queue", 1).await;
        stage.delete_with_claims().await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        // Creation times have no finer grain than a second: the names are in the order of time.
        for claim in ["wait-1", "wait-2"] {
            stage.claim(claim).await;
            let words = stage.event(claim, "PoolExhausted").await;
            assert!(words.contains(&stage.name), "{words}");
        }
        stage.assert_at_rest().await;
        let queued = stage.queued().await;
        assert!(queued.is_empty(), "{queued:?}");
        for (gone, next) in [("web-ip", "wait-1"), ("wait-1", "wait-2")] {
            stage.delete_claim(gone).await;
            assert_eq!(stage.bound(next).await, ip);
            stage.held(&ip).await;
        }
        stage.assert_at_rest().await;
        for claim in ["wait-1", "wait-2"] {
            let told = stage.events(&stage.name, claim, "PoolExhausted").await;
            // In the driver's words when the pool's status says so, in MetalLB's when that was tried: each once.
            let different: BTreeSet<_> = told.iter().collect();
            assert!(told.len() == different.len() && told.len() <= 2, "{claim}: {told:#?}");
        }
    });
}

/// §9: when the pool grows, the waiting claim is served, without further help.
#[test]
fn c9_pool_grows() {
    rig::run(async |rig| {
        let stage = rig.stage("grown", 1).await;
        stage.claim("web-ip").await;
        stage.bound("web-ip").await;
        stage.wait_in_line().await;
        let more = format!("{}.77/32", stage.subnet);
        let mut ranges = stage.ranges();
        ranges.push(more);
        let change = json!({ "spec": { "addresses": ranges } });
        rig::patch(&stage.pools(), &stage.name, change).await;
        assert_eq!(stage.bound(rig::LATE).await, format!("{}.77", stage.subnet));
        stage.assert_at_rest().await;
    });
}

/// §9: a claim that waits for one family, however long, keeps nobody from the other.
#[test]
fn c9_one_family_does_not_wait_for_the_other() {
    rig::run(async |rig| {
        let stage = rig.stage_dual("queue-families", 1, 1).await;
        let six = || json!({ "family": "IPv6" });
        stage.claim_with("six", six()).await;
        stage.bound("six").await;
        stage.claim_with("six-waits", six()).await;
        stage.event("six-waits", "PoolExhausted").await;
        stage.assert_at_rest().await;
        stage.claim("four").await;
        let ip = stage.bound("four").await;
        stage.held(&ip).await;
        assert!(stage.events(&stage.name, "four", "PoolExhausted").await.is_empty());
        stage.assert_at_rest().await;
    });
}
