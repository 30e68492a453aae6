//! Names that other programs read: groups, annotations, labels, finalizers (contract §2, §7).

/// API group of the three kinds.
pub const GROUP: &str = "local.sdn.cozystack.io";
/// API version of the three kinds.
pub const VERSION: &str = "v1alpha1";

/// Finalizer of the core on claims: the reclaim flow runs behind it.
pub const CLAIM_PROTECTION: &str = "local.sdn.cozystack.io/claim-protection";
/// Finalizer of the core on addresses: an address in use is not deleted.
pub const ADDRESS_PROTECTION: &str = "local.sdn.cozystack.io/address-protection";
/// Annotation on claims, written by the core: the provisioner that is to serve the claim.
pub const PROVISIONER: &str = "local.sdn.cozystack.io/provisioner";
/// Annotation on Services, written by tenants: the claim (of the Service's own namespace) whose addresses
/// the Service is to have.
pub const CLAIM: &str = "local.sdn.cozystack.io/ip-address-claim";
/// Annotation that marks the one class used by claims that name none.
pub const DEFAULT_CLASS: &str = "ipaddressclass.local.sdn.cozystack.io/is-default-class";
/// Annotation that marks the one class from which plain Services get claims of their own.
pub const AUTO_CLAIM_CLASS: &str = "ipaddressclass.local.sdn.cozystack.io/is-auto-claim-class";
/// Annotation by which a Service opts out of auto-claim with `"false"`.
pub const AUTO_CLAIM: &str = "local.sdn.cozystack.io/auto-claim";

/// Annotation on claims, addresses and placeholders: the trace of what is being done (W3C Trace Context). On a claim or
/// a Service it may be the user's own.
pub const TRACEPARENT: &str = "local.sdn.cozystack.io/traceparent";
/// Annotation by which other parts of Kubernetes hand on a trace; read only.
pub const TRACEPARENT_KUBERNETES: &str = "tracing.k8s.io/traceparent";
/// Annotation on Events: the trace of the operation they tell of.
pub const TRACE_ID: &str = "local.sdn.cozystack.io/trace-id";

/// The MetalLB driver's own names (contract §7).
pub mod driver {
    /// The provisioner a class names to be served by the MetalLB driver.
    pub const PROVISIONER: &str = "metallb.drivers.local.sdn.cozystack.io";
    /// Finalizer on addresses: the placeholder goes before the address does.
    pub const TEARDOWN: &str = "metallb.drivers.local.sdn.cozystack.io/teardown";
    /// Finalizer on associated Services: the address is held again before the Service goes.
    pub const HANDOFF: &str = "metallb.drivers.local.sdn.cozystack.io/handoff";
    /// Label of every placeholder, `"true"`.
    pub const PLACEHOLDER: &str = "metallb.drivers.local.sdn.cozystack.io/placeholder";
    /// Label of a placeholder that holds an address: the name of its `IPAddress`.
    pub const IP_ADDRESS: &str = "metallb.drivers.local.sdn.cozystack.io/ip-address";
    /// Annotation of a placeholder: the namespace of the claim it was made for.
    pub const CLAIM_NAMESPACE: &str = "metallb.drivers.local.sdn.cozystack.io/claim-namespace";
    /// Annotation of a placeholder: the name of the claim it was made for.
    pub const CLAIM_NAME: &str = "metallb.drivers.local.sdn.cozystack.io/claim-name";
    /// Annotation of a placeholder: a sentence for whoever finds it.
    pub const DESCRIPTION: &str = "metallb.drivers.local.sdn.cozystack.io/description";
    /// Annotation of a placeholder: when a handoff back to it began (RFC 3339).
    pub const HANDOFF_STARTED: &str = "metallb.drivers.local.sdn.cozystack.io/handoff-started";
    /// Annotation of a placeholder, [`GAP`]: it was made when nobody had its address any more.
    pub const HANDOFF_MODE: &str = "metallb.drivers.local.sdn.cozystack.io/handoff-mode";
    /// The one value of [`HANDOFF_MODE`].
    pub const GAP: &str = "Gap";
    /// Annotation of a placeholder: when MetalLB was last made to look at it again (RFC 3339).
    pub const ASKED_AGAIN: &str = "metallb.drivers.local.sdn.cozystack.io/asked-again";
    /// Annotation on a pinned Service, `"true"`: the pin is ours.
    pub const PINNED: &str = "metallb.drivers.local.sdn.cozystack.io/pinned";
    /// Label on a pinned Service, `"true"`, so that a pool's `serviceSelectors` can admit what we pinned.
    pub const ASSOCIATED: &str = "metallb.drivers.local.sdn.cozystack.io/associated";
    /// Annotation on a claim, `"true"`: made for the Service of its name, which asked for none.
    pub const AUTO_CLAIMED: &str = "metallb.drivers.local.sdn.cozystack.io/auto-claimed";
    /// Annotation on a claim made for what a Service had already, `"true"`: nothing is reserved for it.
    pub const ADOPTED: &str = "metallb.drivers.local.sdn.cozystack.io/adopted";
    /// Label on an address that the inventory found: nobody can be bound to it.
    pub const OBSERVED: &str = "metallb.drivers.local.sdn.cozystack.io/observed";
}

/// MetalLB's names, as far as they are read or written here.
pub mod metallb {
    /// Annotation: the IPs a Service asks for, comma separated.
    pub const PIN: &str = "metallb.io/loadBalancerIPs";
    /// Annotation: the pool a Service draws from.
    pub const POOL: &str = "metallb.io/address-pool";
    /// Annotation: Services with one key may share an IP.
    pub const SHARE: &str = "metallb.io/allow-shared-ip";
    /// The old spelling of [`PIN`], still honoured.
    pub const PIN_OLD: &str = "metallb.universe.tf/loadBalancerIPs";
    /// The old spelling of [`POOL`], still honoured.
    pub const POOL_OLD: &str = "metallb.universe.tf/address-pool";
    /// The old spelling of [`SHARE`], still honoured.
    pub const SHARE_OLD: &str = "metallb.universe.tf/allow-shared-ip";
}
