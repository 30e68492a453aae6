//! Contract §11: `metallb-iad release --all`, the uninstall it prepares, and the reinstall that takes all of it up again.

use std::collections::BTreeSet;

use api::address::AddressPhase;
use api::wellknown::{driver, metallb};
use devcluster::{Controller, Part};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::rig::{self, Rig, Setup, Stage};

/// A pool that serves only what is ours: placeholders, and Services that have the driver's label.
async fn restrict(stage: &Stage) {
    let only = |label: &str| json!({ "matchLabels": { label: "true" } });
    let selectors = json!([only(driver::PLACEHOLDER), only(driver::ASSOCIATED)]);
    let change = json!({ "spec": { "serviceAllocation": { "serviceSelectors": selectors } } });
    rig::patch(&stage.pools(), &stage.name, change).await;
}

/// What only the driver could take away: nothing is left of it.
async fn assert_free(stage: &Stage) {
    let all: Api<Service> = Api::all(stage.client());
    for service in all.list(&ListParams::default()).await.unwrap() {
        let ours = |name: &String| name.starts_with(driver::PROVISIONER);
        assert!(!service.finalizers().iter().any(ours), "{service:?}");
        assert!(!service.annotations().contains_key(driver::PINNED), "{service:?}");
        let keyed = service.annotations().contains_key(metallb::SHARE);
        assert!(!keyed || service.labels().contains_key(driver::PLACEHOLDER), "{service:?}");
    }
    for address in stage.addresses().list(&ListParams::default()).await.unwrap() {
        assert!(!address.finalizers().iter().any(|name| name == driver::TEARDOWN), "{address:?}");
    }
}

/// Who has an IP: not who is about to.
async fn has(stage: &Stage, name: &str, ip: &str) {
    let only = BTreeSet::from([ip.to_owned()]);
    rig::until(&stage.services(), name, &format!("to have {ip}"), |service| rig::ingress(service) == only)
        .await;
}

/// MetalLB begins anew, and has read what there is when it serves a Service that was not there before.
async fn metallb_anew(rig: &Rig, stage: &Stage) {
    rig.cluster.kill(Part::Metallb).await.unwrap();
    let ledger = stage.own_addresses().await;
    let free = stage.v4.iter().find(|ip| ledger.iter().all(|address| address.spec.address != **ip)).unwrap();
    let mut canary = rig::load_balancer("canary", json!({ metallb::PIN: free }));
    canary["metadata"]["labels"] = json!({ driver::ASSOCIATED: "true" });
    stage.service(canary).await;
    rig.cluster.start_part(Part::Metallb).await.unwrap();
    has(stage, "canary", free).await;
}

/// Waits until the driver has put back what was taken off every Service and address.
async fn taken_up(stage: &Stage) {
    let all: Api<Service> = Api::all(stage.client());
    rig::eventually("all marks and finalizers to be back", async || {
        let services = all.list(&ListParams::default()).await.unwrap().items;
        let mut named =
            services.iter().filter(|service| service.annotations().contains_key(api::wellknown::CLAIM));
        let marked = |service: &Service| {
            service.annotations().contains_key(driver::PINNED)
                && service.finalizers().iter().any(|name| name == driver::HANDOFF)
        };
        let addresses = stage.addresses().list(&ListParams::default()).await.unwrap().items;
        let kept =
            |address: &api::IPAddress| address.finalizers().iter().any(|name| name == driver::TEARDOWN);
        (named.all(marked) && addresses.iter().all(kept)).then_some(())
    })
    .await;
    stage.assert_at_rest().await;
}

/// Every address and claim in its version, and who has each IP.
async fn book(stage: &Stage) -> Vec<String> {
    let mut lines = Vec::new();
    for address in stage.addresses().list(&ListParams::default()).await.unwrap() {
        let (ip, phase) = (&address.spec.address, address.phase());
        let holders = stage.holders(ip).await;
        let identity = (address.uid(), address.resource_version());
        lines.push(format!("{ip} {phase:?} {identity:?} {:?} {holders:?}", address.associated_to()));
    }
    for claim in stage.claims().list(&ListParams::default()).await.unwrap() {
        lines.push(format!("{} {:?} {:?}", claim.name_any(), claim.uid(), claim.resource_version()));
    }
    lines
}

/// E6: the core's chart goes as well, and comes back: nothing of the ledger and of the claims is touched, and nobody's IP.
async fn core_again(rig: &Rig, stage: &Stage) {
    let before = book(stage).await;
    rig.process(Controller::Core).stop().await;
    rig.cluster
        .helm(&["uninstall", "address-controller", "--namespace", Controller::Core.namespace()])
        .await
        .unwrap();
    assert_eq!(book(stage).await, before);
    rig.cluster.install_chart(Controller::Core, &[]).await.unwrap();
    rig.start_as(Controller::Core, "core-again").await;
    stage.assert_at_rest().await;
    assert_eq!(book(stage).await, before);
}

async fn driver_again(rig: &Rig) {
    rig.cluster.install_chart(Controller::Driver, &[]).await.unwrap();
    rig.start_as(Controller::Driver, "driver-again").await;
}

/// §11: a driver that runs is not released behind its back; stopped, everything is; Services keep their IPs over a restart
/// of MetalLB, and go at once when they are deleted; installed again, the driver takes up every address where it was. E6: the
/// core goes and comes back meanwhile, and bound, held, associated and released addresses are as they were.
#[test]
fn c11_release_then_uninstall_then_reinstall() {
    rig::alone(Setup::default(), async |rig| {
        let stage = rig.stage("tenant", 6).await;
        restrict(&stage).await;
        for claim in ["web-ip", "gone-ip", "held-ip", "left-ip"] {
            stage.claim(claim).await;
        }
        stage.thief_claim("theirs", json!({ "className": stage.name })).await;
        let mut ips = Vec::new();
        for claim in ["web-ip", "gone-ip", "held-ip", "left-ip"] {
            let ip = stage.bound(claim).await;
            stage.held(&ip).await;
            ips.push(ip);
        }
        let [web, gone, held, left] = <[String; 4]>::try_from(ips).unwrap();
        for (service, claim, ip) in [("web", "web-ip", &web), ("gone", "gone-ip", &gone)] {
            stage.web(service, claim).await;
            stage.served(service, &[ip]).await;
        }
        let theirs = rig::load_balancer("theirs", json!({ api::wellknown::CLAIM: "theirs" }));
        stage.thief_service(theirs).await;
        let finalized = |service: &Service| service.finalizers().iter().any(|name| name == driver::HANDOFF);
        rig::until(&stage.thief_services(), "theirs", "to be associated", finalized).await;
        stage.delete_claim("left-ip").await;
        stage.address_is(&left, AddressPhase::Released).await;
        stage.assert_at_rest().await;

        // A driver that runs would put everything back.
        let refused = rig.errand(&["release", "--all"]).await;
        let words = refused.refused();
        assert!(words.contains("metallb-iad-system/metallb-iad") && words.contains("--force"), "{words}");
        let dry = rig.errand(&["release", "--all", "--dry-run"]).await;
        assert!(dry.lines().iter().any(|line| line.contains("the driver runs")), "{dry:?}");

        // By force it is done all the same, and done again by the driver: nobody loses an address.
        let forced = rig.errand(&["release", "--all", "--force"]).await;
        assert!(forced.lines.iter().any(|line| line.contains("Service tenant/web: remove")), "{forced:?}");
        taken_up(&stage).await;

        rig.process(Controller::Driver).stop().await;
        let before = stage.services().get("web").await.unwrap();
        let dry = rig.errand(&["release", "--all", "--dry-run"]).await;
        let now = stage.services().get("web").await.unwrap();
        assert_eq!(now.resource_version(), before.resource_version());
        let done = rig.errand(&["release", "--all"]).await;
        let steps = |said: &rig::Said| -> Vec<String> {
            said.lines.iter().filter(|line| line.contains(": remove ")).cloned().collect()
        };
        assert_eq!((steps(&done).len(), steps(&done)), (8, steps(&dry)), "three Services, five addresses");
        assert!(
            done.lines().iter().any(|line| line.ends_with(&format!("goes on holding {held}"))),
            "{done:?}"
        );
        let again = rig.errand(&["release", "--all"]).await;
        assert_eq!(again.lines().last().unwrap(), &"nothing to do");
        assert_free(&stage).await;
        rig.cluster.helm(&["uninstall", "metallb-iad", "--namespace", "metallb-iad-system"]).await.unwrap();

        core_again(rig, &stage).await;

        // Without the driver: nothing waits for anybody, and the pin keeps the IP over a restart.
        rig::delete(&stage.services(), "gone").await;
        assert!(
            stage.services().get_opt("gone").await.unwrap().is_none(),
            "it waits for a driver that is gone"
        );
        let namespaces: Api<Namespace> = Api::all(stage.client());
        rig::delete(&namespaces, &stage.thief).await;
        rig::gone(&namespaces, &stage.thief).await;
        metallb_anew(rig, &stage).await;
        has(&stage, "web", &web).await;
        rig::delete(&stage.addresses(), &rig::address_name(&left)).await;
        rig::gone(&stage.addresses(), &rig::address_name(&left)).await;

        // Back again: the same IPs, the marks, the finalizers.
        driver_again(rig).await;
        rig::until(&stage.services(), "web", "to be associated again", finalized).await;
        let service = stage.served("web", &[&web]).await;
        assert_eq!(service.annotations().get(driver::PINNED).map(String::as_str), Some("true"));
        for ip in [&gone, &held] {
            let address = stage.held(ip).await;
            assert!(address.finalizers().iter().any(|name| name == driver::TEARDOWN), "{address:?}");
        }
        stage.web("next", "gone-ip").await;
        stage.served("next", &[&gone]).await;
        let swept = format!("iad-{}", rig::address_name(&left));
        rig::eventually("the placeholder of an address deleted meanwhile to be swept", async || {
            stage.placeholders_of(&left).await.is_empty().then_some(())
        })
        .await;
        rig::gone(&stage.placeholders(), &swept).await;
        stage.assert_never_unheld(&web).await;
        stage.assert_never_unheld(&held).await;
        stage.assert_at_rest().await;
    });
}
