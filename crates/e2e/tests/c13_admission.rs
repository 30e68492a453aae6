//! Contract §13, layer 1, against the real API server with real identities: what tenants may not write, what they may, and
//! whom the policies are not about.

mod absent;
mod allowed;
pub mod who;

use api::wellknown::{CLAIM, driver, metallb};
use api::{IPAddress, IPAddressClaim};
use devcluster::Controller;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use self::who::Who;
use crate::rig::{self, Own, Rig, Setup, Stage, load_balancer};

static OWN: Own = Own::new("admission");

/// In the charts' values of this control plane: somebody of each kind who is let through.
const ALLOWED: [&str; 4] = [
    "admission.allowedServiceAccounts[0].namespace=c13-gitops",
    "admission.allowedServiceAccounts[0].name=deployer",
    "admission.allowedUsers[0]=restorer",
    "admission.allowedGroups[2]=operators",
];

fn setup() -> Setup {
    let values = ALLOWED.iter().copied().chain(["admission.enabled=auto"]);
    // A list that is set in part keeps nothing of its default.
    let groups =
        ["admission.allowedGroups[0]=system:masters", "admission.allowedGroups[1]=kubeadm:cluster-admins"];
    let driver_values = groups.into_iter().chain(values).map(str::to_owned).collect();
    Setup { driver_values, leader_elect: false, ..Setup::default() }
}

/// What nobody but the driver, MetalLB and whom the values name may put on a Service: as a merge patch.
fn wishes() -> Vec<Value> {
    let annotations = [
        metallb::PIN,
        metallb::PIN_OLD,
        metallb::POOL,
        metallb::POOL_OLD,
        driver::PINNED,
        driver::CLAIM_NAME,
        "metallb.drivers.local.sdn.cozystack.io/of-a-later-version",
    ];
    let labels = [driver::PLACEHOLDER, driver::IP_ADDRESS, driver::ASSOCIATED];
    let annotations =
        annotations.map(|key| json!({ "metadata": { "annotations": { key: "198.51.100.1" } } }));
    let labels = labels.map(|key| json!({ "metadata": { "labels": { key: "true" } } }));
    let field = json!({ "spec": { "loadBalancerIP": "198.51.100.1" } });
    annotations.into_iter().chain(labels).chain([field]).collect()
}

fn merged(mut object: Value, patch: &Value) -> Value {
    for (key, value) in patch.as_object().unwrap() {
        object[key] = if value.is_object() { merged(object[key].take(), value) } else { value.clone() };
    }
    object
}

/// Refused by a policy, in words that name the way out.
#[expect(clippy::panic, reason = "that is how a test fails")]
fn refused<T>(outcome: kube::Result<T>, what: &str) {
    match outcome {
        Ok(_) => panic!("{what} was let through"),
        Err(kube::Error::Api(status)) => {
            let words = &status.message;
            assert!(status.code == 403 && words.contains("ValidatingAdmissionPolicy"), "{what}: {words}");
            assert!(words.contains(CLAIM), "{what}: the way out is not in {words}");
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

fn services(client: &Client, namespace: &str) -> Api<Service> {
    Api::namespaced(client.clone(), namespace)
}

fn dry() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

fn dry_patch() -> PatchParams {
    PatchParams { dry_run: true, ..PatchParams::default() }
}

async fn try_patch(api: &Api<Service>, name: &str, body: &Value) -> kube::Result<Service> {
    api.patch(name, &dry_patch(), &Patch::Merge(body)).await
}

/// Creates a Service without anything being stored.
async fn try_create(api: &Api<Service>, object: Value) -> kube::Result<Service> {
    api.create(&dry(), &serde_json::from_value(object).unwrap()).await
}

/// Upgrades the driver's chart with the values of this control plane and these.
async fn upgrade(rig: &Rig, more: &[&str]) {
    let values = setup().driver_values;
    let sets = values.iter().map(String::as_str).chain(more.iter().copied());
    let mut args: Vec<&str> = sets.flat_map(|value| ["--set", value]).collect();
    // Somebody may have edited what is the chart's.
    args.push("--force-conflicts");
    rig.cluster.install_chart(Controller::Driver, &args).await.unwrap();
}

/// Policies come into force a moment after they are made, and go so, too.
async fn in_force(tenant: &Api<Service>, wanted: bool) {
    let pinned = load_balancer("trial", json!({ metallb::PIN: "198.51.100.1" }));
    rig::eventually(&format!("policies in force: {wanted}"), async || {
        (try_create(tenant, pinned.clone()).await.is_err() == wanted).then_some(())
    })
    .await;
}

/// A stage, the tenant who owns its namespace, and their Services, with the policies in force.
async fn begin(rig: &Rig, name: &str, addresses: usize) -> (Stage, Client, Api<Service>) {
    let stage = rig.stage(name, addresses).await;
    let tenant = Who::tenant(&stage.name).client(rig).await;
    let own = services(&tenant, &stage.name);
    in_force(&own, true).await;
    (stage, tenant, own)
}

/// §13: pins, pools, `loadBalancerIP`, the driver's marks: refused at creation, by an edit, and by a write of the status.
#[test]
fn c13_a_tenant_picks_no_address_and_forges_no_mark() {
    OWN.run(setup(), async |rig| {
        let (stage, _, own) = begin(rig, "c13-wishes", 1).await;
        stage.service(load_balancer("plain", json!({}))).await;
        for wish in wishes() {
            let made = merged(load_balancer("made", json!({})), &wish);
            refused(try_create(&own, made.clone()).await, &format!("creating {made}"));
            refused(try_patch(&own, "plain", &wish).await, &format!("patching {wish}"));
            if wish.get("metadata").is_some() {
                let by_status = own.patch_status("plain", &dry_patch(), &Patch::Merge(&wish)).await;
                refused(by_status, &format!("patching by the status {wish}"));
            }
            // Whatever the type: it can be changed later.
            let mut inner = made;
            inner["spec"]["type"] = json!("ClusterIP");
            if inner["spec"].get("loadBalancerIP").is_none() {
                refused(try_create(&own, inner.clone()).await, &format!("creating {inner}"));
            }
        }
        // What is for tenants passes.
        let claim = json!({ CLAIM: "web-ip", metallb::SHARE: "mine", "team": "x" });
        try_create(&own, load_balancer("web", claim)).await.unwrap();
    });
}

/// §13: an update that leaves what stands there as it was is let through, one that changes it is not; their own old wishes
/// tenants may take off, the driver's they may not.
#[test]
fn c13_what_a_service_carries_already_disturbs_no_update() {
    OWN.run(setup(), async |rig| {
        let (stage, _, own) = begin(rig, "c13-carried", 1).await;
        // It would take marks off that are not its own.
        rig.process(Controller::Driver).stop().await;
        for (number, wish) in wishes().iter().enumerate() {
            let name = format!("old-{number}");
            let admin = stage.service(merged(load_balancer(&name, json!({ "team": "x" })), wish)).await;
            let edits = [
                json!({ "metadata": { "labels": { "app": "y" }, "annotations": { "team": null } } }),
                json!({ "spec": { "ports": [{ "port": 81 }] } }),
                json!({ "metadata": { "annotations": { CLAIM: "web-ip" } } }),
            ];
            for edit in edits {
                try_patch(&own, &name, &edit).await.unwrap();
            }
            let mut whole = own.get(&name).await.unwrap();
            assert_eq!(whole.uid(), admin.uid());
            whole.labels_mut().insert("app".to_owned(), "z".to_owned());
            own.replace(&name, &dry(), &whole).await.unwrap();
            let status = json!({ "status": { "conditions": [] } });
            own.patch_status(&name, &dry_patch(), &Patch::Merge(status)).await.unwrap();

            refused(try_patch(&own, &name, &another(wish)).await, &format!("changing {wish}"));

            let ours = wish.to_string().contains(driver::PROVISIONER);
            let off = try_patch(&own, &name, &without(wish)).await;
            if ours {
                refused(off, &format!("taking off {wish}"));
            } else {
                off.unwrap();
                // With the driver's marker beside it, it is the driver's.
                stage.annotate(&name, json!({ driver::PINNED: "true" })).await;
                refused(
                    try_patch(&own, &name, &without(wish)).await,
                    &format!("taking off {wish} of the driver"),
                );
            }
            rig::delete(&stage.services(), &name).await;
        }
        rig.revive(Controller::Driver).await;
    });
}

/// The same patch with another value.
fn another(wish: &Value) -> Value {
    match wish {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), another(value))).collect(),
        Value::String(text) => json!(format!("{text}2")),
        other => other.clone(),
    }
}

/// The same patch with every value taken off.
fn without(wish: &Value) -> Value {
    match wish {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), without(value))).collect(),
        _ => Value::Null,
    }
}

/// §13: with every right on Services, a tenant writes none in the placeholder namespace.
#[test]
fn c13_a_tenant_writes_no_placeholder() {
    OWN.run(setup(), async |rig| {
        let (stage, tenant, own) = begin(rig, "c13-placeholders", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        let hold = stage.placeholders_of(&ip).await.pop().unwrap().name_any();
        let there = services(&tenant, &stage.home);
        refused(try_create(&there, load_balancer("mine", json!({}))).await, "creating");
        let edit = json!({ "metadata": { "annotations": { metallb::SHARE: "mine" } } });
        refused(try_patch(&there, &hold, &edit).await, "patching");
        let status = json!({ "status": { "loadBalancer": { "ingress": [] } } });
        refused(
            there.patch_status(&hold, &PatchParams::default(), &Patch::Merge(status)).await,
            "the status",
        );
        refused(there.delete(&hold, &DeleteParams::default()).await, "deleting");
        refused(
            there.delete_collection(&DeleteParams::default(), &ListParams::default()).await,
            "deleting all",
        );
        // At home all of it is theirs.
        try_create(&own, load_balancer("mine", json!({}))).await.unwrap();
        stage.held(&ip).await;
    });
}

/// §13: with every right on addresses, a tenant writes neither whose one is nor what is said of it.
#[test]
fn c13_a_tenant_writes_no_claim_ref_and_no_status_of_an_address() {
    OWN.run(setup(), async |rig| {
        let (stage, tenant, _) = begin(rig, "c13-ledger", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        let name = rig::address_name(&ip);
        let addresses: Api<IPAddress> = Api::all(tenant);
        let object = |claim_ref: Value| {
            let address = json!({
                "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
                "metadata": { "name": "ip-198-51-100-1" },
                "spec": {
                    "className": stage.name, "address": "198.51.100.1", "source": { "providerRef": { "id": "x" } },
                    "claimRef": claim_ref,
                },
            });
            serde_json::from_value::<IPAddress>(address).unwrap()
        };
        let mine = json!({ "namespace": stage.name, "name": "mine" });
        refused(addresses.create(&dry(), &object(mine.clone())).await, "creating one that is theirs");
        addresses.create(&dry(), &object(Value::Null)).await.unwrap();
        for claim_ref in [mine, json!({ "uid": null }), Value::Null] {
            let body = json!({ "spec": { "claimRef": claim_ref } });
            refused(addresses.patch(&name, &dry_patch(), &Patch::Merge(&body)).await, &body.to_string());
        }
        let status = json!({ "status": { "phase": "Available" } });
        refused(addresses.patch_status(&name, &dry_patch(), &Patch::Merge(status)).await, "the status");
        let labels = json!({ "metadata": { "labels": { "team": "x" } } });
        addresses.patch(&name, &dry_patch(), &Patch::Merge(labels)).await.unwrap();
    });
}

/// §11, §13: with the policies in force a tenant gets an address by a claim, edits their Service while it has it, and gives it
/// back, with thieves in line; driver and MetalLB are not disturbed.
#[test]
fn c13_a_tenants_own_handoffs_with_the_policies_in_force() {
    OWN.run(setup(), async |rig| {
        let (stage, tenant, own) = begin(rig, "c13-flow", 1).await;
        let claims: Api<IPAddressClaim> = Api::namespaced(tenant, &stage.name);
        let claim = rig::claim_object("web-ip", json!({ "className": stage.name }));
        rig::create(&claims, claim).await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;
        for name in ["web-a", "web-b"] {
            rig::create(&own, load_balancer(name, json!({ CLAIM: "web-ip" }))).await;
            let served = stage.served(name, &[&ip]).await;
            assert_eq!(served.annotations()[driver::PINNED], "true");
            rig::patch(&own, name, json!({ "spec": { "ports": [{ "port": 8080 }] } })).await;
            refused(
                try_patch(&own, name, &json!({ "metadata": { "annotations": { metallb::PIN: null } } }))
                    .await,
                "taking the driver's pin off",
            );
            rig::delete(&own, name).await;
            rig::gone(&own, name).await;
            stage.held(&ip).await;
        }
        stage.finish().await;
        rig.assert_none_denied();
    });
}
