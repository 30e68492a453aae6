//! The kinds of `local.sdn.cozystack.io`, the well-known names, canonical addresses. No I/O.
//!
//! Everything here is a public interface of the cluster (contract §2, §7): names and fields are used
//! verbatim by tenants, admins and other controllers.

pub mod address;
pub mod claim;
pub mod class;
pub mod conditions;
pub mod crd;
mod family;
mod ip;
mod keys;
mod range;
pub mod wellknown;

pub use address::{IPAddress, IPAddressSpec, IPAddressStatus};
pub use claim::{IPAddressClaim, IPAddressClaimSpec, IPAddressClaimStatus};
pub use class::{IPAddressClass, IPAddressClassSpec, IPAddressClassStatus};
pub use family::{ClaimFamily, Family};
pub use ip::{AddressName, Ip, IpError};
pub use keys::{ClaimKey, ServiceKey};
pub use range::range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens to an address when its claim is deleted (contract §6). The policy that counts is the one
/// copied onto the address at its birth, never the class's of today.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ReclaimPolicy {
    /// The address outlives its claim as `Released`, until an admin clears `spec.claimRef`.
    #[default]
    Retain,
    /// The address object is deleted with its claim.
    Delete,
}
