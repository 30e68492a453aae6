//! `IPAddressClass`: which driver, which reclaim policy, which pool.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::conditions::{find, types};
use crate::{Family, ReclaimPolicy};

/// The desired state of an `IPAddressClass` (contract §2).
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "local.sdn.cozystack.io",
    version = "v1alpha1",
    kind = "IPAddressClass",
    plural = "ipaddressclasses",
    singular = "ipaddressclass",
    shortname = "ipacl",
    category = "ipam",
    derive = "PartialEq",
    derive = "Default",
    status = "IPAddressClassStatus",
    doc = "IPAddressClass says which driver provides addresses, from what, and what becomes of them when their claim goes: what StorageClass is to disks.",
    annotation("helm.sh/resource-policy", "keep"),
    printcolumn(name = "Provisioner", type_ = "string", json_path = ".spec.provisioner"),
    printcolumn(name = "ReclaimPolicy", type_ = "string", json_path = ".spec.reclaimPolicy"),
    printcolumn(name = "Pool", type_ = "string", json_path = ".status.pool"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressClassSpec {
    /// The driver that provides the addresses of this class. Cannot be changed.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("spec.provisioner cannot be changed; create another class"))]
    pub provisioner: String,
    /// What happens to an address when its claim is deleted; copied onto each address at its birth.
    #[serde(default)]
    pub reclaim_policy: ReclaimPolicy,
    /// What the driver needs to know; validated by the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub parameters: Option<serde_json::Map<String, serde_json::Value>>,
}

/// The observed state of an `IPAddressClass`, written by its driver (contract §2).
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressClassStatus {
    /// The `spec.loadBalancerClass` that a Service must carry to be served by this class; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_class: Option<String>,
    /// The pool that new addresses are drawn from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// `Accepted` and `Ready`; `IPv4Available` or `IPv6Available` while the cluster lacks that family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true })
}

impl IPAddressClass {
    /// Why there can be no address of a family, if its driver says so.
    pub fn lacks(&self, family: Family) -> Option<&str> {
        let condition = find(&self.status.as_ref()?.conditions, types::available(family))?;
        (condition.status == "False").then_some(condition.message.as_str())
    }

    /// Whether claims that name no class get this one.
    pub fn is_default(&self) -> bool {
        self.metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(crate::wellknown::DEFAULT_CLASS))
            .is_some_and(|value| value == "true")
    }
}
