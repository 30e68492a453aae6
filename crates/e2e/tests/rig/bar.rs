//! Keeping placeholders of one address from being made, for as long as a test needs a thief to be first.

use api::wellknown::metallb;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::look::ingress;
use super::make::{self, load_balancer};
use super::stage::Stage;
use super::wait::{eventually, gone, until};

/// An admission policy that refuses every new placeholder pinned to one address.
pub struct Bar {
    client: Client,
    name: String,
}

impl Bar {
    /// From its return on the API server refuses them.
    pub async fn raise(stage: &Stage, ip: &str) -> Self {
        let bar = Self { client: stage.client(), name: format!("bar-{}", make::address_name(ip)) };
        let pin = metallb::PIN;
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": bar.name },
            "spec": {
                "matchConstraints": { "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"], "operations": ["CREATE"],
                }] },
                "validations": [{
                    "expression": format!("object.metadata.?annotations[?'{pin}'].orValue('') != '{ip}'"),
                    "message": "barred by a test",
                }],
            },
        });
        make::create(&bar.policies(), policy).await;
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": bar.name },
            "spec": {
                "policyName": bar.name, "validationActions": ["Deny"],
                "matchResources": { "namespaceSelector": {
                    "matchLabels": { "kubernetes.io/metadata.name": stage.home },
                } },
            },
        });
        make::create(&bar.bindings(), binding).await;
        let trial = serde_json::from_value(load_balancer("trial", json!({ pin: ip }))).unwrap();
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        eventually("the policy to be in force", async || {
            stage.placeholders().create(&dry, &trial).await.is_err().then_some(())
        })
        .await;
        bar
    }

    /// Takes the hold away, and lets no other be made until a Service that waits for the address has it: by itself the driver
    /// would nearly always be back before MetalLB looks at that Service.
    pub async fn lets_first(stage: &Stage, ip: &str, services: &Api<Service>, thief: &str) {
        let bar = Self::raise(stage, ip).await;
        for hold in stage.placeholders_of(ip).await {
            make::delete(&stage.placeholders(), &hold.name_any()).await;
        }
        until(services, thief, "to have the address", |thief| ingress(thief).contains(ip)).await;
        bar.lower().await;
    }

    /// They may be made again.
    pub async fn lower(self) {
        make::delete(&self.bindings(), &self.name).await;
        gone(&self.bindings(), &self.name).await;
        make::delete(&self.policies(), &self.name).await;
    }

    fn policies(&self) -> Api<ValidatingAdmissionPolicy> {
        Api::all(self.client.clone())
    }

    fn bindings(&self) -> Api<ValidatingAdmissionPolicyBinding> {
        Api::all(self.client.clone())
    }
}
