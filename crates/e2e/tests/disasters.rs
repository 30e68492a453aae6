//! `docs/operations.md`, disasters: the ledger is lost and no backup is there, MetalLB is lost, both are.

mod told;

use api::claim::ClaimPhase;
use api::wellknown::{CLAIM, metallb};
use devcluster::{Controller, Part};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use serde_json::json;

use self::told::{Told, by_the_guide, told};
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
    begin_on(rig.stage(name, 2).await).await
}

async fn begin_on(stage: Stage) -> (Stage, [String; 2]) {
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
async fn lose_ledger(rig: &Rig, stage: &Stage, ips: &[String]) {
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

/// Writes the ledger anew from what Services show, as the operations guide has it; returns what was written.
async fn write_ledger(stage: &Stage) -> Vec<Told> {
    let services: Api<Service> = Api::all(stage.client());
    let services = services.list(&ListParams::default()).await.unwrap().items;
    let all = told(&services, &stage.home);
    assert_eq!(by_the_guide(&services, &stage.home), all);
    let own: Vec<_> = all.into_iter().filter(|told| told.namespace == stage.name).collect();
    for Told { namespace, claim, ip } in &own {
        let spec = json!({
            "className": stage.name, "address": ip, "source": { "fromClass": {} },
            "claimRef": { "namespace": namespace, "name": claim },
        });
        stage.address_with(&rig::address_name(ip), spec).await;
    }
    own
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

/// Two further Services: one has both addresses of a Dual claim; one names the claim whose address is held, is refused for the
/// pool that it asks for, and shows an IP of that pool.
async fn begin_among_others(rig: &Rig, stage: &Stage) -> Vec<String> {
    stage.claim_with("both-ip", json!({ "family": "Dual" })).await;
    let both = stage.bound_all("both-ip").await;
    let mut service = rig::load_balancer("both", json!({ CLAIM: "both-ip" }));
    service["spec"]["ipFamilyPolicy"] = json!("RequireDualStack");
    service["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
    stage.service(service).await;
    stage.served("both", &both.iter().map(String::as_str).collect::<Vec<_>>()).await;

    let foreign = format!("{}.200", stage.subnet);
    let pool = format!("{}-foreign", stage.name);
    rig.cluster.create_pool(&pool, &[&format!("{foreign}/32")], false).await.unwrap();
    stage.service(rig::load_balancer("refused", json!({ CLAIM: HELD, metallb::POOL: pool }))).await;
    stage.event("refused", "AssociationRejected").await;
    let has = |service: &Service| ingress(service).contains(&foreign);
    rig::until(&stage.services(), "refused", "to show an IP of another pool", has).await;
    both
}

/// The ledger is lost, no backup: Services keep what they have meanwhile, and with the ledger written anew from what those of the
/// driver show every claim has its own address again. One that was refused and has an IP from elsewhere is not believed.
#[test]
fn c12_the_ledger_is_lost_and_written_anew() {
    OWN.run(setup(), async |rig| {
        let (stage, ips) = begin_on(rig.stage_dual("ledger-lost", 3, 1).await).await;
        let both = begin_among_others(rig, &stage).await;
        let all = ips.iter().chain(&both).cloned().collect::<Vec<_>>();
        lose_ledger(rig, &stage, &all).await;
        start(rig).await;
        stage.claim_is(SERVED, ClaimPhase::Lost).await;
        assert!(ingress(&stage.services().get("web").await.unwrap()).contains(&ips[0]));
        assert_eq!(write_ledger(&stage).await.len(), all.len());
        end(&stage, &ips).await;
        stage.claim_is("both-ip", ClaimPhase::Bound).await;
        assert_eq!(stage.bound_all("both-ip").await, both);
        stage.served("both", &both.iter().map(String::as_str).collect::<Vec<_>>()).await;
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
