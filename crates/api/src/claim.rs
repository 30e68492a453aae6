//! `IPAddressClaim`: the whole tenant-facing API.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ClaimFamily, ClaimKey};

/// The desired state of an `IPAddressClaim` (contract §2).
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "local.sdn.cozystack.io",
    version = "v1alpha1",
    kind = "IPAddressClaim",
    plural = "ipaddressclaims",
    singular = "ipaddressclaim",
    shortname = "ipacm",
    namespaced,
    category = "ipam",
    derive = "PartialEq",
    derive = "Default",
    status = "IPAddressClaimStatus",
    doc = "IPAddressClaim asks for one address, or one of each family, and owns it for as long as it exists: what PersistentVolumeClaim is to disks.",
    annotation("helm.sh/resource-policy", "keep"),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase == 'Pending' || \
         (has(self.spec.className) ? self.spec.className : '') == \
         (has(oldSelf.spec.className) ? oldSelf.spec.className : '')"
    ).message("spec.className cannot be changed once the claim is bound; create another claim"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Class", type_ = "string", json_path = ".status.className"),
    printcolumn(name = "Addresses", type_ = "string", json_path = ".status.addresses[*].address"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("!has(self.addressName) || !has(self.family) || self.family != 'Dual'")
        .message("spec.addressName names one address and cannot be used with family Dual"),
    validation = Rule::new(
        "!has(oldSelf.addressName) || (has(self.addressName) && self.addressName == oldSelf.addressName)"
    ).message("spec.addressName cannot be changed once set; create another claim")
)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressClaimSpec {
    /// The class to draw from; without it, the default class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub class_name: Option<String>,
    /// The families wanted. May only be widened, to `Dual`.
    #[serde(default)]
    #[x_kube(
        validation = Rule::new("self == oldSelf || self == 'Dual'")
            .message("spec.family can only be widened to Dual; create another claim")
    )]
    pub family: ClaimFamily,
    /// One certain `IPAddress`, by name. Cannot be changed once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub address_name: Option<String>,
}

/// Where a claim stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ClaimPhase {
    /// Not all families are bound yet.
    #[default]
    Pending,
    /// Every family asked for is bound.
    Bound,
    /// Was bound, and an address is missing now.
    Lost,
}

impl ClaimPhase {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Bound, Self::Lost];
}

/// The observed state of an `IPAddressClaim`: a projection of the addresses bound to it (contract §3).
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressClaimStatus {
    /// Where the claim stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ClaimPhase>,
    /// The class the claim was resolved to; it stays, whatever becomes the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_name: Option<String>,
    /// The addresses bound to the claim, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<ClaimAddress>,
    /// `ClassResolved`, `Bound`, `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// One address of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimAddress {
    /// The name of the `IPAddress`.
    pub name: String,
    /// The IP.
    pub address: String,
}

impl IPAddressClaim {
    /// Namespace and name.
    pub fn key(&self) -> ClaimKey {
        ClaimKey::new(self.namespace().unwrap_or_default(), self.name_any())
    }

    /// The phase; `Pending` when there is none yet.
    pub fn phase(&self) -> ClaimPhase {
        self.status.as_ref().and_then(|status| status.phase).unwrap_or_default()
    }

    /// Whether the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}
