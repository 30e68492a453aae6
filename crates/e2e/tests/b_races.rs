//! Cases B1, B2, B3, C1, F2, L1, K3: races and refusals that no other module has.

use api::claim::ClaimPhase;
use api::wellknown::{CLAIM, metallb};
use futures::future::join_all;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::rig;

/// B1, B2, B3: the successor is lined up before the holder lets go, two dozen times, with one address, a claim that waits and
/// thieves by pin and by pool; nobody of ours queues in MetalLB meanwhile.
#[test]
fn b1_b2_b3_two_dozen_successors() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("successors").await;
        for round in 0..24 {
            let name = format!("web-{round}");
            stage.web(&name, "web-ip").await;
            stage.served(&name, &[&ip]).await;
            assert!(stage.queued().await.is_empty(), "round {round}");
            // The next comes while this one goes.
            rig::delete(&stage.services(), &name).await;
        }
        stage.held(&ip).await;
        assert!(stage.queued().await.is_empty());
        stage.finish().await;
    });
}

/// C1: a pin and a pool that contradict each other and the claim: refused whole, one after the other; when both are gone, the
/// Service is associated without further help.
#[test]
fn c1_pin_and_pool_removed_one_by_one() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("contradiction").await;
        let marks = json!({ CLAIM: "web-ip", metallb::PIN: "203.0.113.9", metallb::POOL: "other" });
        stage.service(rig::load_balancer("web", marks)).await;
        for key in [metallb::PIN, metallb::POOL] {
            stage.event_with("web", "AssociationRejected", key).await;
            stage.assert_at_rest().await;
            stage.held(&ip).await;
            stage.annotate("web", json!({ key: null })).await;
        }
        stage.served("web", &[&ip]).await;
        stage.finish().await;
    });
}

/// F2: two addresses of two pools can never be pinned together: the Service is told before anything is let go.
#[test]
fn f2_dual_from_two_pools() {
    rig::run(async |rig| {
        let (stage, other) = (rig.stage("two-pools", 1).await, rig.stage_dual("two-pools-six", 0, 1).await);
        let (four, six) = (stage.v4[0].clone(), other.v6[0].clone());
        stage.address(&four, None).await;
        stage.address(&six, None).await;
        for ip in [&four, &six] {
            stage.held(ip).await;
        }
        stage.claim_with("web-ip", json!({ "family": "Dual" })).await;
        assert_eq!(stage.bound_all("web-ip").await.len(), 2);
        let mut web = rig::load_balancer("web", json!({ CLAIM: "web-ip" }));
        web["spec"]["ipFamilyPolicy"] = json!("RequireDualStack");
        web["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
        stage.service(web).await;
        stage.event_with("web", "AssociationRejected", "different pools").await;
        stage.assert_at_rest().await;
        stage.unserved("web").await;
        for ip in [&four, &six] {
            stage.held(ip).await;
            stage.assert_never_unheld(ip).await;
        }
    });
}

/// L1: of two tenants' claims that name one available address one has it; the other is told, without a name.
#[test]
fn l1_two_claims_name_one_available_address() {
    rig::run(async |rig| {
        let stage = rig.stage("coveted", 2).await;
        let ip = stage.v4[0].clone();
        stage.address(&ip, None).await;
        stage.held(&ip).await;
        let spec = json!({ "className": stage.name, "addressName": rig::address_name(&ip) });
        tokio::join!(stage.claim_with("mine", spec.clone()), stage.thief_claim("theirs", spec));
        let theirs: Api<api::IPAddressClaim> = Api::namespaced(stage.client(), &stage.thief);
        let verdict = async |claims: &Api<api::IPAddressClaim>, name: &str| {
            let claim = rig::until(claims, name, "to be judged", |claim| {
                ["True/Bound", "False/AddressNotAvailable"]
                    .contains(&rig::said(rig::claim_conditions(claim), "Bound").as_str())
            });
            claim.await
        };
        stage.address_is(&ip, api::address::AddressPhase::Bound).await;
        stage.assert_at_rest().await;
        let both = [verdict(&stage.claims(), "mine").await, verdict(&theirs, "theirs").await];
        let bound: Vec<_> = both.iter().map(|claim| claim.phase() == ClaimPhase::Bound).collect();
        assert!(bound == [true, false] || bound == [false, true], "{both:#?}");
        let loser = &both[usize::from(bound[0])];
        let told = serde_json::to_string(&loser.status).unwrap();
        let (winner, place) = if bound[0] { ("mine", &stage.name) } else { ("theirs", &stage.thief) };
        assert!(
            !told.contains(&format!("{place}/{winner}")) && !told.contains(&format!("\"{winner}\"")),
            "{told}"
        );
        stage.held(&ip).await;
        stage.assert_never_unheld(&ip).await;
    });
}

/// K3: fifty claims that wait, and hundreds of edits of Services elsewhere: each claim is told once in each wording, and
/// the edits cause no write at all.
#[test]
fn k3_fifty_waiting_claims_tell_once() {
    rig::run(async |rig| {
        let stage = rig.stage("crowded", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        let claims: Vec<_> = (0..50).map(|number| format!("waits-{number}")).collect();
        join_all(claims.iter().map(|claim| stage.claim(claim))).await;
        for claim in &claims {
            stage.event(claim, "PoolExhausted").await;
        }
        stage.assert_at_rest().await;
        let events: Api<Event> = Api::namespaced(stage.client(), &stage.name);
        let count = async || {
            let events = events.list(&ListParams::default()).await.unwrap().items;
            let repeats = |event: &Event| event.series.as_ref().map_or(1, |series| series.count.max(1));
            events.iter().map(repeats).sum::<i32>()
        };
        let before = count().await;
        for name in ["busy-a", "busy-b"] {
            stage.service(rig::load_balancer(name, json!({ metallb::POOL: "none-such" }))).await;
        }
        let quiet = async || {
            for number in 0..100 {
                for name in ["busy-a", "busy-b"] {
                    let edit = json!({ "metadata": { "labels": { "edit": number.to_string() } } });
                    rig::patch(&stage.services(), name, edit).await;
                }
            }
        };
        quiet().await;
        stage.assert_at_rest().await;
        for claim in &claims {
            let told = stage.events(&stage.name, claim, "PoolExhausted").await;
            assert!((1..=2).contains(&told.len()), "{claim}: {told:#?}");
        }
        // What MetalLB says of the two is its own.
        let of_metallb =
            join_all(["busy-a", "busy-b"].map(|name| stage.events(&stage.name, name, "AllocationFailed")));
        let of_metallb: usize = of_metallb.await.iter().map(Vec::len).sum();
        assert_eq!(count().await, before + i32::try_from(of_metallb).unwrap());
    });
}
