//! `IPAddress`: one IP, reserved by the very existence of this object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::{CustomResource, KubeSchema, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AddressName, ClaimKey, Ip, IpError, ReclaimPolicy, ServiceKey};

/// The desired state of an `IPAddress` (contract §2).
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "local.sdn.cozystack.io",
    version = "v1alpha1",
    kind = "IPAddress",
    plural = "ipaddresses",
    singular = "ipaddress",
    shortname = "ipad",
    category = "ipam",
    derive = "PartialEq",
    derive = "Default",
    status = "IPAddressStatus",
    selectable = ".spec.address",
    doc = "IPAddress is one IP: as long as the object exists, the IP is reserved. What PersistentVolume is to disks.",
    annotation("helm.sh/resource-policy", "keep"),
    printcolumn(name = "Address", type_ = "string", json_path = ".spec.address"),
    printcolumn(name = "Class", type_ = "string", json_path = ".spec.className"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "ClaimNamespace", type_ = "string", json_path = ".spec.claimRef.namespace"),
    printcolumn(name = "Claim", type_ = "string", json_path = ".spec.claimRef.name"),
    printcolumn(name = "AttachedTo", type_ = "string", json_path = ".status.associatedTo.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressSpec {
    /// The class this address belongs to.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub class_name: String,
    /// The IP, in canonical text. Cannot be changed.
    #[schemars(length(min = 2, max = 45))]
    #[x_kube(
        validation = Rule::new("isIP(self) && ip.isCanonical(self)")
            .message("spec.address must be one IP address in canonical form: no zone, no prefix length, no IPv4-mapped IPv6, no leading zeros"),
        validation = Rule::new("self == oldSelf")
            .message("spec.address cannot be changed; create another IPAddress")
    )]
    pub address: String,
    /// What happens to this address when its claim is deleted.
    #[serde(default)]
    pub reclaim_policy: ReclaimPolicy,
    /// The claim this address is bound to: the only record of a binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<ClaimRef>,
    /// Where the address comes from: exactly one of `fromClass` and `providerRef`.
    #[x_kube(
        validation = Rule::new("has(self.fromClass) != has(self.providerRef)")
            .message("spec.source must have exactly one of fromClass and providerRef")
    )]
    pub source: Source,
}

/// The claim an address is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimRef {
    /// The claim's namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// The claim's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The claim's uid; without it, the address waits for exactly that namespace and name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub uid: Option<String>,
}

impl ClaimRef {
    /// Namespace and name.
    pub fn key(&self) -> ClaimKey {
        ClaimKey::new(&self.namespace, &self.name)
    }

    /// The uid; an empty text counts as none.
    pub fn uid(&self) -> Option<&str> {
        self.uid.as_deref().filter(|uid| !uid.is_empty())
    }
}

/// Where an address comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Allocated from the class's pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_class: Option<FromClass>,
    /// A reservation that a provider already has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ProviderRef>,
}

impl Source {
    /// An address allocated from its class.
    pub const fn from_class() -> Self {
        Self { from_class: Some(FromClass {}), provider_ref: None }
    }
}

/// Allocated from the class's pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FromClass {}

/// A reservation that a provider already has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderRef {
    /// The provider's own name for the reservation.
    #[schemars(length(min = 1, max = 253))]
    pub id: String,
}

/// Where an address stands. `Pending`, `Available`, `Bound` and `Released` are the core's, `Conflict` and
/// `Lost` the driver's (contract §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AddressPhase {
    /// Not yet looked at, or not valid.
    #[default]
    Pending,
    /// Free to be bound.
    Available,
    /// Bound to a claim.
    Bound,
    /// Its claim is gone; kept until an admin clears `spec.claimRef`.
    Released,
    /// A Service has the IP that the binding does not authorize.
    Conflict,
    /// No pool contains the IP any more.
    Lost,
}

impl AddressPhase {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Available, Self::Bound, Self::Released, Self::Conflict, Self::Lost];

    /// Whether only the driver may enter and leave this phase.
    pub const fn is_drivers(self) -> bool {
        matches!(self, Self::Conflict | Self::Lost)
    }
}

/// The observed state of an `IPAddress` (contract §2).
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressStatus {
    /// Where the address stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<AddressPhase>,
    /// The workload that has the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub associated_to: Option<AssociatedTo>,
    /// What stands in the way, or that nothing does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The last time the address changed hands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handoff: Option<Handoff>,
    /// Who had this IP when, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub association_history: Vec<Association>,
}

/// The workload that has an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AssociatedTo {
    /// Always `Service` today.
    pub kind: String,
    /// The workload's namespace.
    pub namespace: String,
    /// The workload's name.
    pub name: String,
    /// The workload's uid; the Go implementation wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl AssociatedTo {
    /// Namespace and name.
    pub fn key(&self) -> ServiceKey {
        ServiceKey::new(&self.namespace, &self.name)
    }
}

/// One change of hands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Handoff {
    /// To a Service, or back to the placeholder.
    pub direction: HandoffDirection,
    /// With two holders for a moment, or with none.
    pub mode: HandoffMode,
    /// Who had the address before, as `namespace/name` of a Service.
    pub from: String,
    /// Who has it after, as `namespace/name` of a Service.
    pub to: String,
    /// When the first step was decided.
    pub started_at: MicroTime,
    /// When the last step was done; absent while under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<MicroTime>,
    /// How long nobody had the address, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unheld_milliseconds: Option<i64>,
    /// The trace of the handoff.
    #[serde(default, rename = "traceID", skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// The direction of a change of hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HandoffDirection {
    /// From the placeholder to a Service.
    Associate,
    /// From a Service to the placeholder.
    Disassociate,
}

/// How an address changed hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HandoffMode {
    /// Two holders for a moment, never none.
    Overlap,
    /// None for a moment.
    Gap,
}

/// One line of the history of an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Association {
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub name: String,
    /// The Service's uid.
    pub uid: String,
    /// When the association was recorded.
    pub since: MicroTime,
    /// When it was cleared; absent while it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<MicroTime>,
}

impl IPAddress {
    /// The object's name.
    pub fn key(&self) -> AddressName {
        AddressName::new(self.name_any())
    }

    /// The IP this object reserves.
    ///
    /// # Errors
    /// When `spec.address` is not canonical: an object older than the schema's rule, or written past it.
    pub fn ip(&self) -> Result<Ip, IpError> {
        Ip::canonical(&self.spec.address)
    }

    /// The phase; `Pending` when there is none yet.
    pub fn phase(&self) -> AddressPhase {
        self.status.as_ref().and_then(|status| status.phase).unwrap_or_default()
    }

    /// The workload the ledger says has this address.
    pub fn associated_to(&self) -> Option<&AssociatedTo> {
        self.status.as_ref().and_then(|status| status.associated_to.as_ref())
    }

    /// Whether the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}
