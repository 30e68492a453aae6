//! Cases B5, B6, H2, I2, J1, J2, J3: what happens while a controller or MetalLB is away, restarts, or runs twice.

mod orders;
mod snapshot;

use std::collections::BTreeMap;
use std::time::Duration;

use api::wellknown::CLAIM;
use devcluster::proxy::{Rule, Verb};
use devcluster::{Controller, Part};
use futures::future::join_all;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::rig::{self, Own, Rig, Setup, Stage, ingress};

static OWN: Own = Own::new("upheavals");
/// How long the list of Services takes to come, for a driver that starts.
const SLOW: Duration = Duration::from_secs(3);
/// How long one of two drivers is frozen.
const FROZEN: Duration = Duration::from_secs(2);

/// Runs a test that stops parts of the control plane, on one that such tests share.
pub(crate) fn on_own(test: impl AsyncFnOnce(&Rig)) {
    // An API server that starts knows no roles for a moment.
    OWN.run_though_denied(Setup::proxied(), async |rig| {
        // An earlier test may have failed amid its upheaval.
        for part in [Part::Etcd, Part::Apiserver, Part::ControllerManager, Part::Metallb] {
            if !rig.cluster.process(part).unwrap().is_running() {
                rig.cluster.start_part(part).await.unwrap();
            }
        }
        for controller in [Controller::Core, Controller::Driver] {
            if !rig.process(controller).is_running() {
                rig.revive(controller).await;
            }
        }
        rig.proxy(Controller::Driver).unwrap().reset();
        test(rig).await;
    });
}

async fn flip(stage: &Stage, kind: &str) {
    rig::patch(&stage.services(), "web", json!({ "spec": { "type": kind } })).await;
}

/// B6: a Service turned into a `ClusterIP` while the driver or MetalLB is away, and turned back before or after it
/// returns: the same IP in the end, held in between.
#[test]
fn b6_flips_while_somebody_is_away() {
    on_own(async |rig| {
        let stage = rig.stage("away-flips", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.wait_in_line().await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        let go = async |driver: bool| {
            if driver {
                rig.process(Controller::Driver).kill().await;
            } else {
                rig.cluster.kill(Part::Metallb).await.unwrap();
            }
        };
        let come = async |driver: bool| {
            if driver {
                rig.revive(Controller::Driver).await;
            } else {
                rig.cluster.start_part(Part::Metallb).await.unwrap();
            }
        };
        for driver in [true, false] {
            // Off and on, both unseen.
            go(driver).await;
            flip(&stage, "ClusterIP").await;
            flip(&stage, "LoadBalancer").await;
            come(driver).await;
            stage.served("web", &[&ip]).await;
            // Off unseen, on seen.
            go(driver).await;
            flip(&stage, "ClusterIP").await;
            come(driver).await;
            stage.held(&ip).await;
            // On unseen.
            go(driver).await;
            flip(&stage, "LoadBalancer").await;
            come(driver).await;
            stage.served("web", &[&ip]).await;
        }
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}

/// B5: a Service that is being deleted goes on having the address until it lets go: while MetalLB is away the next
/// Service waits, told who has it; then it gets it, though the first still lingers behind somebody's finalizer.
#[test]
fn b5_the_next_service_is_told_who_lingers() {
    on_own(async |rig| {
        let (stage, ip) = rig.contended("lingering").await;
        let mut web = rig::load_balancer("web", json!({ CLAIM: "web-ip" }));
        web["metadata"]["finalizers"] = json!(["x.example/y"]);
        stage.service(web).await;
        stage.served("web", &[&ip]).await;
        rig.cluster.kill(Part::Metallb).await.unwrap();
        rig::delete(&stage.services(), "web").await;
        stage.web("web-v2", "web-ip").await;
        let words = stage.event("web-v2", "AssociationRejected").await;
        assert!(words.contains("used by Service web;"), "{words}");
        stage.assert_at_rest().await;
        assert_eq!(ingress(&stage.services().get("web").await.unwrap()).len(), 1);
        rig.cluster.start_part(Part::Metallb).await.unwrap();
        stage.served("web-v2", &[&ip]).await;
        let web = stage.services().get("web").await.unwrap();
        assert_eq!(web.finalizers(), ["x.example/y"]);
        rig::patch(&stage.services(), "web", json!({ "metadata": { "finalizers": null } })).await;
        rig::gone(&stage.services(), "web").await;
        stage.finish().await;
        stage.clear_thieves().await;
    });
}

/// I2: a claim that arrives already being deleted gets neither finalizer nor placeholder; the core was away when it came.
#[test]
fn i2_claim_that_arrives_dying() {
    on_own(async |rig| {
        let stage = rig.stage("born-dying", 1).await;
        rig.process(Controller::Core).kill().await;
        let mut claim = rig::claim_object("web-ip", json!({ "className": stage.name }));
        claim["metadata"]["finalizers"] = json!(["x.example/y"]);
        let claim = rig::create(&stage.claims(), claim).await;
        rig::delete(&stage.claims(), "web-ip").await;
        rig.revive(Controller::Core).await;
        stage.assert_at_rest().await;
        let now = stage.claims().get("web-ip").await.unwrap();
        assert_eq!(now.finalizers(), ["x.example/y"]);
        let placeholder = format!("iad-{}-v4", claim.uid().unwrap());
        assert!(stage.placeholders().get_opt(&placeholder).await.unwrap().is_none());
        rig::patch(&stage.claims(), "web-ip", json!({ "metadata": { "finalizers": null } })).await;
        rig::gone(&stage.claims(), "web-ip").await;
        assert!(stage.own_addresses().await.is_empty());
    });
}

/// J1: ten holds, five associations and claims that wait: MetalLB, the driver and both restart, the driver also with a list
/// of Services that comes last and late: nothing moves, and the driver writes nothing at all.
#[test]
fn j1_restarts_move_nothing() {
    on_own(async |rig| {
        let stage = rig.stage("restarts", 15).await;
        let claims: Vec<_> = (0..15).map(|number| format!("web-{number}")).collect();
        join_all(claims.iter().map(|claim| stage.claim(claim))).await;
        let ips = join_all(claims.iter().map(|claim| stage.bound(claim))).await;
        join_all(ips.iter().map(|ip| stage.held(ip))).await;
        for claim in &claims[..5] {
            stage.web(claim, claim).await;
        }
        for (claim, ip) in claims.iter().zip(&ips).take(5) {
            stage.served(claim, &[ip]).await;
        }
        let some: Vec<&str> = [&ips[0], &ips[5], &ips[6]].map(String::as_str).to_vec();
        stage.contend(&some).await;
        stage.assert_at_rest().await;
        let before = versions(&stage).await;
        let holders = join_all(ips.iter().map(|ip| stage.holders(ip))).await;
        let proxy = rig.proxy(Controller::Driver).unwrap();
        let slow = |call: &devcluster::proxy::Call| {
            call.resource == "services" && [Verb::List, Verb::Watch].contains(&call.verb)
        };
        for round in 0..4 {
            let (metallb, driver) = (round != 1, round != 0);
            if metallb {
                rig.cluster.kill(Part::Metallb).await.unwrap();
            }
            if driver {
                rig.process(Controller::Driver).kill().await;
            }
            proxy.reset();
            if round == 3 {
                proxy.add(Rule::when(slow).delay(SLOW));
            }
            if metallb {
                rig.cluster.start_part(Part::Metallb).await.unwrap();
            }
            if driver {
                rig.revive(Controller::Driver).await;
            }
            proxy.clear();
            stage.assert_at_rest().await;
            let wrote: Vec<_> =
                proxy.writes().iter().filter(|write| write.call.resource != "events").cloned().collect();
            assert!(wrote.is_empty(), "round {round}: {wrote:#?}");
        }
        assert_eq!(versions(&stage).await, before);
        assert_eq!(join_all(ips.iter().map(|ip| stage.holders(ip))).await, holders);
        for ip in &ips {
            stage.assert_never_unheld(ip).await;
        }
        stage.finish().await;
        stage.clear_thieves().await;
    });
}

/// The versions of the ledger and of the placeholders.
async fn versions(stage: &Stage) -> BTreeMap<String, Option<String>> {
    let mut versions = BTreeMap::new();
    for address in stage.own_addresses().await {
        for placeholder in stage.placeholders_of(&address.spec.address).await {
            versions.insert(placeholder.name_any(), placeholder.resource_version());
        }
        versions.insert(address.name_any(), address.resource_version());
    }
    versions
}

/// J2: two drivers with the election off, one of them frozen for a while amid handoffs: fifty claims have fifty addresses,
/// twenty Services theirs, and nobody ever lost one.
#[test]
fn j2_two_drivers_at_once() {
    on_own(async |rig| {
        let second = rig.start_as(Controller::Driver, "driver-second").await;
        let stage = rig.stage("rivals", 50).await;
        let claims: Vec<_> = (0..50).map(|number| format!("web-{number}")).collect();
        join_all(claims.iter().map(|claim| stage.claim(claim))).await;
        let ips = join_all(claims.iter().map(|claim| stage.bound(claim))).await;
        let different: std::collections::BTreeSet<_> = ips.iter().collect();
        assert_eq!(different.len(), 50);
        join_all(ips.iter().map(|ip| stage.held(ip))).await;
        stage.contend(&[&ips[0], &ips[1]]).await;
        let served = || claims.iter().zip(&ips).take(20);
        join_all(served().map(|(claim, _)| stage.web(claim, claim))).await;
        rig::eventually("the handoffs to be under way", async || {
            let address = stage.addresses().get(&rig::address_name(&ips[0])).await.unwrap();
            address.associated_to().map(drop)
        })
        .await;
        second.pause().unwrap();
        tokio::time::sleep(FROZEN).await;
        second.resume().unwrap();
        for (claim, ip) in served() {
            stage.served(claim, &[ip]).await;
        }
        join_all(served().map(async |(claim, _)| rig::delete(&stage.services(), claim).await)).await;
        second.pause().unwrap();
        tokio::time::sleep(FROZEN).await;
        second.resume().unwrap();
        for ip in &ips {
            stage.held(ip).await;
        }
        stage.finish().await;
        for ip in &ips {
            stage.assert_never_unheld(ip).await;
        }
        let history = |address: &api::IPAddress| {
            address.status.as_ref().map_or(0, |status| status.association_history.len())
        };
        for (claim, ip) in served() {
            let address = stage.addresses().get(&rig::address_name(ip)).await.unwrap();
            assert_eq!(history(&address), 1, "{claim}");
        }
        second.stop().await;
        stage.clear_thieves().await;
    });
}

/// J3: while MetalLB is away a Service is associated, one is deleted, one flipped; back, all is as they ask. Then somebody
/// else writes the status of an associated Service again and again: no new handoff, nothing written on the Service,
/// and the ledger is not written at each flip.
#[test]
fn j3_metallb_absent_and_a_status_that_flaps() {
    on_own(async |rig| {
        let stage = rig.stage("absent", 3).await;
        let mut ips = Vec::new();
        for claim in ["new", "old", "web"] {
            stage.claim(claim).await;
            ips.push(stage.bound(claim).await);
        }
        for ip in &ips {
            stage.held(ip).await;
        }
        stage.contend(&[&ips[0], &ips[1]]).await;
        // The flip wipes the Service's status, and there is no MetalLB to give the placeholder one: a MetalLB that starts
        // then may give the IP to anybody who waits for any of this pool (docs/contract.md). Here nobody does.
        rig::delete(&stage.thief_services(), "lurk").await;
        rig::gone(&stage.thief_services(), "lurk").await;
        for claim in ["old", "web"] {
            stage.web(claim, claim).await;
        }
        stage.served("old", &[&ips[1]]).await;
        stage.served("web", &[&ips[2]]).await;
        rig.cluster.kill(Part::Metallb).await.unwrap();
        stage.web("new", "new").await;
        stage.services().delete("old", &DeleteParams::default()).await.unwrap();
        flip(&stage, "ClusterIP").await;
        flip(&stage, "LoadBalancer").await;
        stage.ledger(&ips[0], "to be promised", |address| address.associated_to().is_some()).await;
        stage.assert_at_rest().await;
        rig.cluster.start_part(Part::Metallb).await.unwrap();
        stage.served("new", &[&ips[0]]).await;
        rig::gone(&stage.services(), "old").await;
        stage.held(&ips[1]).await;
        stage.served("web", &[&ips[2]]).await;
        stage.finish().await;

        let before = stage.ledger(&ips[0], "to be there", |_| true).await;
        let proxy = rig.proxy(Controller::Driver).unwrap();
        proxy.reset();
        let (mine, none) = (json!([{ "ip": ips[0] }]), Value::Null);
        for number in 0..20 {
            let list = [&mine, &none][number % 2];
            let status = json!({ "status": { "loadBalancer": { "ingress": list } } });
            stage
                .services()
                .patch_status("new", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(status))
                .await
                .unwrap();
            // MetalLB sets it right again each time.
            rig::until(&stage.services(), "new", "to be served", |service| !ingress(service).is_empty())
                .await;
        }
        stage.served("new", &[&ips[0]]).await;
        stage.assert_at_rest().await;
        let wrote = proxy.writes();
        let about = |name: &str| wrote.iter().filter(|write| write.call.name == name).count();
        assert_eq!(about("new"), 0, "{wrote:#?}");
        let name = rig::address_name(&ips[0]);
        // One condition, and no write at each flip: it was served for longer than it takes to be believed once.
        assert!(about(&name) <= 6, "{} writes of the ledger for 20 flips", about(&name));
        let events = stage.events(&stage.name, "new", "Associated").await;
        assert_eq!(events.len(), 1, "{events:#?}");
        let after = stage.ledger(&ips[0], "to be there", |_| true).await;
        let handoff = |address: &api::IPAddress| {
            serde_json::to_value(&address.status.as_ref().unwrap().last_handoff).unwrap()
        };
        assert_eq!(handoff(&before), handoff(&after));
        assert!(stage.placeholders_of(&ips[0]).await.is_empty());
        stage.clear_thieves().await;
    });
}
