//! Cases B5, B6, H2, I2, J1, J2, J3: what happens while a controller or MetalLB is away, restarts, or runs twice.

mod crowds;
mod orders;
mod snapshot;

use api::wellknown::{CLAIM, driver, metallb};
use devcluster::{Controller, Part};
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::rig::{self, Own, Rig, Setup, Stage, ingress};

static OWN: Own = Own::new("upheavals");

/// Runs a test that stops parts of the control plane, on one that such tests share.
pub(crate) fn on_own(test: impl AsyncFnOnce(&Rig)) {
    // An API server that starts knows no roles for a moment.
    OWN.run_though_denied(Setup::proxied(), async |rig| {
        rig.mend().await;
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

/// C4: the pin is stripped while the driver sees nothing of it, and MetalLB restarts: the Service goes on having the address,
/// contended, and has its pin again when the driver is back.
#[test]
fn c4_pin_stripped_over_a_restart_of_metallb() {
    on_own(async |rig| {
        let (stage, ip) = rig.contended("stripped").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        let driver = rig.process(Controller::Driver);
        for round in 0..2 {
            driver.pause().unwrap();
            stage.annotate("web", json!({ metallb::PIN: null, driver::PINNED: null })).await;
            rig.cluster.kill(Part::Metallb).await.unwrap();
            rig.cluster.start_part(Part::Metallb).await.unwrap();
            // It has looked at all that have an IP when it says something about one that has none.
            let late = format!("grab-late-{round}");
            stage.thief_service(rig::load_balancer(&late, json!({ metallb::PIN: ip }))).await;
            stage.event_in(&stage.thief, &late, "AllocationFailed").await;
            driver.resume().unwrap();
            rig::until(&stage.services(), "web", "to be pinned again", |service| {
                service.annotations().get(metallb::PIN) == Some(&ip)
                    && service.annotations().contains_key(driver::PINNED)
            })
            .await;
        }
        stage.served("web", &[&ip]).await;
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
