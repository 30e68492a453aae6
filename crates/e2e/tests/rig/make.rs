//! Making, editing and deleting the objects of a stage.

use std::fmt::Debug;

use api::wellknown::CLAIM;
use api::{IPAddress, IPAddressClaim, IPAddressClass, Ip};
use k8s_openapi::api::core::v1::Service;
use kube::Resource;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::stage::Stage;
use super::wait;

const VERSION: &str = "local.sdn.cozystack.io/v1alpha1";

/// Creates an object that has to be accepted.
pub async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    try_create(api, object).await.unwrap()
}

/// Creates an object, or says why the API server will not have it.
pub async fn try_create<K>(api: &Api<K>, object: Value) -> kube::Result<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await
}

/// A merge patch that has to be accepted.
pub async fn patch<K>(api: &Api<K>, name: &str, change: Value) -> K
where
    K: Clone + Debug + DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap()
}

/// A merge patch of the status that has to be accepted.
pub async fn patch_status<K>(api: &Api<K>, name: &str, change: Value) -> K
where
    K: Clone + Debug + DeserializeOwned,
{
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap()
}

/// Asks for the deletion of an object that is there.
pub async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned,
{
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

/// The name of the `IPAddress` of an IP.
pub fn address_name(ip: &str) -> String {
    ip.parse::<Ip>().unwrap().object_name().to_string()
}

/// A claim.
pub fn claim_object(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": VERSION, "kind": "IPAddressClaim", "metadata": { "name": name }, "spec": spec })
}

/// A Service that is a load balancer for port 80, with these annotations.
pub fn load_balancer(name: &str, annotations: Value) -> Value {
    json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": { "type": "LoadBalancer", "selector": { "app": name }, "ports": [{ "port": 80 }] },
    })
}

impl Stage {
    /// Makes a class of this driver that draws from the stage's pool.
    pub async fn class(&self, name: &str, policy: &str) -> IPAddressClass {
        self.class_with(name, policy, json!({ "pool": self.name })).await
    }

    /// Makes a class of this driver with any parameters.
    pub async fn class_with(&self, name: &str, policy: &str, parameters: Value) -> IPAddressClass {
        let class = json!({
            "apiVersion": VERSION, "kind": "IPAddressClass", "metadata": { "name": name },
            "spec": {
                "provisioner": api::wellknown::driver::PROVISIONER,
                "reclaimPolicy": policy,
                "parameters": parameters,
            },
        });
        create(&self.classes(), class).await
    }

    /// Makes addresses of this stage's class die with their claims.
    pub async fn delete_with_claims(&self) {
        patch(&self.classes(), &self.name, json!({ "spec": { "reclaimPolicy": "Delete" } })).await;
    }

    /// Claims one IPv4 address of the stage's class.
    pub async fn claim(&self, name: &str) -> IPAddressClaim {
        self.claim_with(name, json!({})).await
    }

    /// Claims with a further specification; the class is the stage's if none is given.
    pub async fn claim_with(&self, name: &str, mut spec: Value) -> IPAddressClaim {
        if spec.get("className").is_none() {
            spec["className"] = json!(self.name);
        }
        create(&self.claims(), claim_object(name, spec)).await
    }

    /// Makes a static address of the stage's class, as an admin would.
    pub async fn address(&self, ip: &str, claim_ref: Option<Value>) -> IPAddress {
        let mut spec = json!({
            "className": self.name, "address": ip, "source": { "providerRef": { "id": ip } },
        });
        if let Some(claim_ref) = claim_ref {
            spec["claimRef"] = claim_ref;
        }
        self.address_with(&address_name(ip), spec).await
    }

    /// Makes an address of any specification.
    pub async fn address_with(&self, name: &str, spec: Value) -> IPAddress {
        let address =
            json!({ "apiVersion": VERSION, "kind": "IPAddress", "metadata": { "name": name }, "spec": spec });
        create(&self.addresses(), address).await
    }

    /// Makes a Service for port 80 that names a claim.
    pub async fn web(&self, name: &str, claim: &str) -> Service {
        self.service(self.load_balancer(name, json!({ CLAIM: claim }))).await
    }

    /// A Service as [`load_balancer`] has it, of the class that MetalLB serves here.
    pub fn load_balancer(&self, name: &str, annotations: Value) -> Value {
        let mut service = load_balancer(name, annotations);
        service["spec"]["loadBalancerClass"] = json!(self.balancer);
        service
    }

    /// Makes a Service in the stage's namespace.
    pub async fn service(&self, service: Value) -> Service {
        create(&self.services(), service).await
    }

    /// Makes a Service in the thief's namespace.
    pub async fn thief_service(&self, service: Value) -> Service {
        create(&self.thief_services(), service).await
    }

    /// Sets annotations of a Service; `null` takes one away.
    pub async fn annotate(&self, name: &str, annotations: Value) -> Service {
        patch(&self.services(), name, json!({ "metadata": { "annotations": annotations } })).await
    }

    /// Changes the claim that a Service names, or takes the annotation away.
    pub async fn name_claim(&self, name: &str, claim: Option<&str>) -> Service {
        self.annotate(name, json!({ CLAIM: claim })).await
    }

    /// Deletes a Service and waits until it is gone.
    pub async fn delete_service(&self, name: &str) {
        delete(&self.services(), name).await;
        wait::gone(&self.services(), name).await;
    }

    /// Deletes a claim and waits until it is gone.
    pub async fn delete_claim(&self, name: &str) {
        delete(&self.claims(), name).await;
        wait::gone(&self.claims(), name).await;
    }

    /// The pools of MetalLB.
    pub fn pools(&self) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("metallb.io", "v1beta1", "IPAddressPool"));
        Api::namespaced_with(self.client(), "metallb-system", &kind)
    }

    /// Makes a further pool.
    pub async fn pool(&self, name: &str, ranges: &[&str], auto_assign: bool) {
        let pool = json!({
            "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": { "name": name },
            "spec": { "addresses": ranges, "autoAssign": auto_assign },
        });
        let pool: DynamicObject = serde_json::from_value(pool).unwrap();
        self.pools().create(&PostParams::default(), &pool).await.unwrap();
    }
}
