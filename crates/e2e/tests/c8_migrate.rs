//! Contract §8: `metallb-iad migrate`, from the objects of the Go implementation to a class that is deleted, and its pool
//! lives.

use std::collections::BTreeSet;

use api::address::AddressPhase;
use api::claim::ClaimPhase;
use api::wellknown::{ADDRESS_PROTECTION, CLAIM_PROTECTION, PROVISIONER, driver, metallb};
use devcluster::Controller;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::rig::{self, Rig, Setup, Stage};

const CLASS: &str = "public";
const POOL: &str = "iad-public";
/// A claim that is held, and one whose Service has the address.
pub const CLAIMS: [&str; 2] = ["held-ip", "web-ip"];

fn advertisements(stage: &Stage) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("metallb.io", "v1beta1", "L2Advertisement"));
    Api::namespaced_with(stage.client(), "metallb-system", &kind)
}

fn owner(uid: &str) -> Value {
    json!([{
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClass", "name": CLASS, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Class, pool and advertisement as the Go implementation left them; and something else that dies with the class.
pub async fn rendered(stage: &Stage) {
    let addresses = json!([format!("{}.0/29", stage.subnet)]);
    let class = stage.class_with(CLASS, "Retain", json!({ "addresses": addresses })).await;
    let owners = owner(&class.uid().unwrap());
    let object = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "metallb.io/v1beta1", "kind": kind,
            "metadata": { "name": POOL, "ownerReferences": owners }, "spec": spec,
        })
    };
    let pool = object("IPAddressPool", json!({ "addresses": addresses, "autoAssign": false }));
    rig::create(&stage.pools(), pool).await;
    let announced = object("L2Advertisement", json!({ "ipAddressPools": [POOL] }));
    rig::create(&advertisements(stage), announced).await;
    let owned = json!({ "metadata": { "name": "owned", "ownerReferences": owners } });
    rig::create::<ConfigMap>(&Api::namespaced(stage.client(), "metallb-system"), owned).await;
}

/// A bound claim with its address and its hold, or with its Service, as the Go implementation left them.
pub async fn reserved(stage: &Stage, claim: &str, ip: &str) {
    let made = json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClaim",
        "metadata": {
            "name": claim, "finalizers": [CLAIM_PROTECTION], "annotations": { PROVISIONER: driver::PROVISIONER },
        },
        "spec": { "className": CLASS, "family": "IPv4" },
    });
    let uid = rig::create(&stage.claims(), made).await.uid().unwrap();
    let address = json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
        "metadata": { "name": rig::address_name(ip), "finalizers": [ADDRESS_PROTECTION, driver::TEARDOWN] },
        "spec": {
            "className": CLASS, "address": ip, "reclaimPolicy": "Retain", "source": { "fromClass": {} },
            "claimRef": { "namespace": stage.name, "name": claim, "uid": uid },
        },
    });
    rig::create(&stage.addresses(), address).await;
    let phase = json!({ "status": { "phase": "Bound" } });
    rig::patch_status(&stage.addresses(), &rig::address_name(ip), phase).await;
    let status = json!({ "status": {
        "phase": "Bound", "className": CLASS,
        "addresses": [{ "name": rig::address_name(ip), "address": ip }],
    }});
    rig::patch_status(&stage.claims(), claim, status).await;
    if claim == "web-ip" {
        let pinned = json!({
            api::wellknown::CLAIM: claim, metallb::PIN: ip, driver::PINNED: "true",
        });
        stage.service(rig::load_balancer("web", pinned)).await;
        let to = json!({ "kind": "Service", "namespace": stage.name, "name": "web" });
        let status = json!({ "status": { "associatedTo": to } });
        rig::patch_status(&stage.addresses(), &rig::address_name(ip), status).await;
        return;
    }
    let hold = json!({
        "metadata": {
            "name": format!("iad-{}", rig::address_name(ip)),
            "labels": { driver::PLACEHOLDER: "true", driver::IP_ADDRESS: rig::address_name(ip) },
            "annotations": {
                metallb::PIN: ip, metallb::POOL: POOL,
                driver::CLAIM_NAMESPACE: stage.name, driver::CLAIM_NAME: claim,
            },
        },
        "spec": {
            "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ipFamilies": ["IPv4"],
            "ports": [{ "name": "placeholder", "port": 65535 }],
        },
    });
    rig::create(&stage.placeholders(), hold).await;
}

/// All that a migration may touch. Not their versions: MetalLB counts in the pool's status, the driver writes that of
/// the class.
async fn touched(stage: &Stage) -> [Value; 3] {
    let objects = [
        serde_json::to_value(stage.pools().get(POOL).await.unwrap()),
        serde_json::to_value(advertisements(stage).get(POOL).await.unwrap()),
        serde_json::to_value(stage.classes().get(CLASS).await.unwrap()),
    ];
    objects.map(|object| {
        let object = object.unwrap();
        let mut metadata = object["metadata"].clone();
        for field in ["resourceVersion", "managedFields"] {
            metadata.as_object_mut().unwrap().remove(field);
        }
        json!({ "metadata": metadata, "spec": object["spec"] })
    })
}

/// Waits until the driver has taken over what the Service has.
pub async fn served(stage: &Stage, ip: &str) {
    let ours = |service: &Service| service.finalizers().iter().any(|name| name == driver::HANDOFF);
    let service = rig::until(&stage.services(), "web", "to be the driver's", ours).await;
    assert_eq!(rig::ingress(&service), BTreeSet::from([ip.to_owned()]));
    let holder = Some(format!("{}/web", stage.name));
    stage.ledger(ip, "to be the Service's", |address| rig::associated(address) == holder).await;
}

async fn start(rig: &Rig) {
    tokio::join!(rig.start(Controller::Core), rig.start(Controller::Driver));
}

/// §8: `--dry-run` writes nothing; the migration is three writes, then nothing; new claims are served; the class deleted,
/// the pool and its advertisement live, and every address stays where it is.
#[test]
fn c8_migrate_from_the_objects_of_the_go_implementation() {
    let setup = Setup { controllers: false, ..Setup::default() };
    rig::alone(setup, async |rig| {
        let stage = rig.stage("tenant", 0).await;
        rendered(&stage).await;
        let ips = [0, 1].map(|host| format!("{}.{host}", stage.subnet));
        for (claim, ip) in CLAIMS.iter().zip(&ips) {
            reserved(&stage, claim, ip).await;
        }
        rig.cluster.rediscover().await.unwrap();
        start(rig).await;

        // Before: nothing new, everything that exists held, and the hint how to get on.
        let said = stage.class_says(CLASS, "False/InvalidParameters").await;
        assert!(said.contains("spec.parameters.addresses") && said.contains("metallb-iad migrate"), "{said}");
        stage.held(&ips[0]).await;
        served(&stage, &ips[1]).await;
        stage.claim_with("new-ip", json!({ "className": CLASS })).await;
        assert!(stage.event("new-ip", "PoolRefused").await.contains("metallb-iad migrate"));
        stage.assert_at_rest().await;

        let before = touched(&stage).await;
        let steps = [
            "IPAddressPool metallb-system/iad-public: remove the owner reference to IPAddressClass public",
            "L2Advertisement metallb-system/iad-public: remove the owner reference to IPAddressClass public",
            "IPAddressClass public: set spec.parameters to {pool: iad-public}",
        ];
        let dry = rig.errand(&["migrate", "--class", CLASS, "--dry-run"]).await;
        assert_eq!(dry.lines(), [&steps[..], &["dry run: 3 steps, nothing was written"]].concat());
        assert_eq!(touched(&stage).await, before);
        let done = rig.errand(&["migrate", "--class", CLASS]).await;
        assert_eq!(done.lines(), [&steps[..], &["done in 3 steps"]].concat());
        let after = touched(&stage).await;
        for args in [&["migrate"][..], &["migrate", "--class", CLASS, "--dry-run"]] {
            assert_eq!(rig.errand(args).await.lines().last().unwrap(), &"nothing to do");
        }
        assert_eq!(touched(&stage).await, after);

        // After: new claims are served, from the same pool.
        stage.class_says(CLASS, "True/Accepted").await;
        let class = stage.classes().get(CLASS).await.unwrap();
        assert_eq!(serde_json::to_value(&class.spec.parameters).unwrap(), json!({ "pool": POOL }));
        let new = stage.bound("new-ip").await;
        assert!(new.starts_with(&stage.subnet) && !ips.contains(&new), "{new}");

        // What the class owned dies with it, and the pool does not.
        rig::delete(&stage.classes(), CLASS).await;
        rig::gone(&stage.classes(), CLASS).await;
        rig::gone::<ConfigMap>(&Api::namespaced(stage.client(), "metallb-system"), "owned").await;
        for object in
            [stage.pools().get(POOL).await.unwrap(), advertisements(&stage).get(POOL).await.unwrap()]
        {
            assert_eq!(
                (object.metadata.deletion_timestamp.is_none(), object.owner_references().len()),
                (true, 0)
            );
        }
        for ip in [&ips[0], &new] {
            stage.held(ip).await;
        }
        served(&stage, &ips[1]).await;
        for ip in ips.iter().chain([&new]) {
            stage.address_is(ip, AddressPhase::Bound).await;
            stage.assert_never_unheld(ip).await;
        }
        for claim in CLAIMS.iter().chain(&["new-ip"]) {
            stage.claim_is(claim, ClaimPhase::Bound).await;
        }
        stage.assert_at_rest().await;
    });
}

/// §8: what is not as the Go implementation left it is refused with the way out, and nothing is written; the other classes
/// are migrated.
#[test]
fn c8_migrate_refuses_half_known_states() {
    let setup = Setup { controllers: false, ..Setup::default() };
    rig::alone(setup, async |rig| {
        let stage = rig.stage("tenant", 0).await;
        rendered(&stage).await;
        let addresses = json!([format!("{}.8/29", stage.subnet)]);
        stage.class_with("bad", "Retain", json!({ "addresses": addresses })).await;
        stage.pool("iad-bad", &[&format!("{}.8-{}.14", stage.subnet, stage.subnet)], false).await;
        let bad = rig.errand(&["migrate"]).await;
        let refused = bad.refused().to_owned();
        assert!(
            refused.contains("IPAddressClass bad") && refused.contains("is not within spec.addresses"),
            "{refused}"
        );
        assert_eq!(bad.lines.last().unwrap(), "done in 3 steps");
        let class = stage.classes().get("bad").await.unwrap();
        assert_eq!(serde_json::to_value(&class.spec.parameters).unwrap(), json!({ "addresses": addresses }));

        let whole = json!({ "spec": { "addresses": addresses } });
        rig::patch(&stage.pools(), "iad-bad", whole).await;
        let good = rig.errand(&["migrate"]).await;
        assert_eq!(good.lines()[0], "IPAddressClass bad: set spec.parameters to {pool: iad-bad}");
        assert!(good.lines()[1].contains("not announced until you make one"), "{good:?}");

        let missing = rig.errand(&["migrate", "--class", "nobody"]).await;
        assert_eq!(
            missing.refused(),
            "metallb-iad: refused: IPAddressClass nobody does not exist; check --class\n"
        );
    });
}
