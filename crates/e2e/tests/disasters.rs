//! `docs/operations.md`, disasters: the ledger is lost and no backup is there, MetalLB is lost, both are.

use api::claim::ClaimPhase;
use api::wellknown::{CLAIM, driver};
use devcluster::{Controller, Part};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use serde_json::json;

use crate::restore::lose;
use crate::rig::{self, Own, Rig, Setup, Stage, ingress};

static OWN: Own = Own::new("disasters");

/// A claim whose Service has the address, and one whose address is held.
const SERVED: &str = "web-ip";
const HELD: &str = "spare-ip";
const BOTH: [Controller; 2] = [Controller::Core, Controller::Driver];

fn setup() -> Setup {
    Setup { leader_elect: false, ..Setup::default() }
}

async fn begin(rig: &Rig, name: &str) -> (Stage, [String; 2]) {
    let stage = rig.stage(name, 2).await;
    stage.claim(SERVED).await;
    let web = stage.bound(SERVED).await;
    stage.claim(HELD).await;
    let spare = stage.bound(HELD).await;
    stage.web("web", SERVED).await;
    stage.served("web", &[&web]).await;
    stage.held(&spare).await;
    (stage, [web, spare])
}

/// Everything is where it was.
async fn end(stage: &Stage, [web, spare]: &[String; 2]) {
    for (claim, ip) in [(SERVED, web), (HELD, spare)] {
        stage.claim_is(claim, ClaimPhase::Bound).await;
        assert_eq!(&stage.bound(claim).await, ip);
    }
    stage.served("web", &[web]).await;
    stage.held(spare).await;
    stage.assert_at_rest().await;
}

/// The ledger goes by force. No controller runs meanwhile: they would put their finalizers back, and let go of nothing bound.
async fn lose_ledger(rig: &Rig, stage: &Stage, ips: &[String; 2]) {
    for controller in BOTH {
        rig.process(controller).stop().await;
    }
    for ip in ips {
        lose(&stage.addresses(), &rig::address_name(ip)).await;
    }
}

async fn start(rig: &Rig) {
    for controller in BOTH {
        rig.revive(controller).await;
    }
}

/// What a Service, or a placeholder, tells of the ledger: the claim's namespace and name, and the IPs.
fn told(service: &Service) -> Option<(String, String, Vec<String>)> {
    let marks = service.annotations();
    let ips = ingress(service).into_iter().collect();
    match (marks.get(CLAIM), marks.get(driver::CLAIM_NAMESPACE), marks.get(driver::CLAIM_NAME)) {
        (Some(claim), ..) => Some((service.namespace()?, claim.clone(), ips)),
        (_, Some(namespace), Some(claim)) => Some((namespace.clone(), claim.clone(), ips)),
        _ => None,
    }
}

/// Writes the ledger anew from what Services show, as the operations guide has it.
async fn write_ledger(stage: &Stage) {
    let services: Api<Service> = Api::all(stage.client());
    for service in services.list(&ListParams::default()).await.unwrap() {
        let Some((namespace, claim, ips)) = told(&service).filter(|told| told.0 == stage.name) else {
            continue;
        };
        for ip in ips {
            let spec = json!({
                "className": stage.name, "address": ip, "source": { "fromClass": {} },
                "claimRef": { "namespace": namespace, "name": claim },
            });
            let address = json!({
                "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
                "metadata": { "name": rig::address_name(&ip) }, "spec": spec,
            });
            rig::create(&stage.addresses(), address).await;
        }
    }
}

/// MetalLB is gone, and its pools with it.
async fn lose_metallb(rig: &Rig, stage: &Stage) -> DynamicObject {
    let pool = stage.pools().get(&stage.name).await.unwrap();
    rig.cluster.kill(Part::Metallb).await.unwrap();
    rig::delete(&stage.pools(), &stage.name).await;
    pool
}

async fn install_metallb(rig: &Rig, stage: &Stage, mut pool: DynamicObject) {
    pool.metadata.resource_version = None;
    pool.metadata.uid = None;
    pool.data.as_object_mut().unwrap().remove("status");
    stage.pools().create(&PostParams::default(), &pool).await.unwrap();
    rig.cluster.start_part(Part::Metallb).await.unwrap();
}

/// The ledger is lost, no backup: Services keep what they have meanwhile, and with the ledger written anew from what they show
/// every claim has its own address again.
#[test]
fn c12_the_ledger_is_lost_and_written_anew() {
    OWN.run(setup(), async |rig| {
        let (stage, ips) = begin(rig, "ledger-lost").await;
        lose_ledger(rig, &stage, &ips).await;
        start(rig).await;
        stage.claim_is(SERVED, ClaimPhase::Lost).await;
        assert!(ingress(&stage.services().get("web").await.unwrap()).contains(&ips[0]));
        write_ledger(&stage).await;
        end(&stage, &ips).await;
    });
}

/// MetalLB is lost with its pools: Services go on showing what they had, and each address is where it was when both are back.
#[test]
fn c12_metallb_is_lost_and_installed_anew() {
    OWN.run(setup(), async |rig| {
        let (stage, ips) = begin(rig, "metallb-lost").await;
        let pool = lose_metallb(rig, &stage).await;
        install_metallb(rig, &stage, pool).await;
        end(&stage, &ips).await;
    });
}

/// Both are lost: first the ledger is written anew, as long as Services show what they had, then MetalLB is installed.
#[test]
fn c12_ledger_and_metallb_are_lost() {
    OWN.run(setup(), async |rig| {
        let (stage, ips) = begin(rig, "both-lost").await;
        let pool = lose_metallb(rig, &stage).await;
        lose_ledger(rig, &stage, &ips).await;
        write_ledger(&stage).await;
        start(rig).await;
        install_metallb(rig, &stage, pool).await;
        end(&stage, &ips).await;
    });
}
