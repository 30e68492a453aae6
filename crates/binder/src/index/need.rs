//! What a claim has, and what it lacks (contract §4.3, §4.5, §4.8, §12 *Restore*).

use std::cmp::Reverse;
use std::sync::Arc;

use api::address::AddressPhase;
use api::claim::ClaimPhase;
use api::wellknown::driver;
use api::{Family, IPAddress, IPAddressClaim, Ip, ReclaimPolicy};
use kube::ResourceExt;

use super::Index;

/// What a claim has, and what it lacks.
#[derive(Clone, Debug, Default)]
pub struct Need {
    /// One address for each family that is met.
    pub met: Vec<Arc<IPAddress>>,
    /// The families asked for that no address meets.
    pub missing: Vec<Family>,
    /// One address for each missing family that has one which is `Lost` or being deleted.
    pub ill: Vec<(Family, Arc<IPAddress>)>,
    /// Addresses that name this claim without its uid (§4.4).
    pub incomplete: Vec<Arc<IPAddress>>,
    /// Addresses of an earlier claim of this name, kept for whoever is to have them (§12).
    pub released: Vec<Arc<IPAddress>>,
    /// Whether something that was bound is missing: nothing is provisioned around it (§4.8).
    pub lost: bool,
}

impl Need {
    /// The address that is `Lost` or being deleted, in place of one that meets the family.
    pub fn ill_of(&self, family: Family) -> Option<&Arc<IPAddress>> {
        self.ill.iter().find(|(ill, _)| *ill == family).map(|(_, address)| address)
    }

    /// Whether another address may be taken for a missing family: not around one that is `Lost`, for that one
    /// comes back; but around one that goes for good.
    pub fn may_take(&self, family: Family) -> bool {
        !self.lost && self.ill_of(family).is_none_or(|address| address.is_deleting())
    }
}

impl Index {
    /// What `claim` has, and what it lacks.
    pub fn need(&self, claim: &IPAddressClaim) -> Need {
        let mut need = Need::default();
        let uid = claim.metadata.uid.as_deref();
        let mut collected = Vec::new();
        for address in self.addresses_naming(&claim.key()) {
            // Nothing trusts what is not valid (§5.3).
            let Some(ip) = self.valid_ip(&address) else { continue };
            match address.spec.claim_ref.as_ref().and_then(|claim_ref| claim_ref.uid()) {
                // One that goes is not bound on its way out.
                None if address.is_deleting() || is_observed(&address) => {}
                None => {
                    need.incomplete.push(Arc::clone(&address));
                    collected.push((ip.family(), address));
                }
                own if own == uid => collected.push((ip.family(), address)),
                Some(_) if is_kept_for_a_successor(&address) => need.released.push(Arc::clone(&address)),
                Some(_) => {}
            }
        }
        for family in claim.spec.family.expand() {
            let best = collected
                .iter()
                .filter(|(of, _)| of == family)
                .map(|(_, address)| address)
                .min_by_key(|address| (!is_well(address), preference(claim, address)));
            match best {
                Some(address) if is_well(address) => need.met.push(Arc::clone(address)),
                Some(address) => {
                    need.missing.push(*family);
                    need.ill.push((*family, Arc::clone(address)));
                }
                None => need.missing.push(*family),
            }
        }
        need.lost = is_lost(claim, &need.missing);
        need
    }
}

/// Whether an address meets its family (§4.5).
fn is_well(address: &IPAddress) -> bool {
    address.phase() != AddressPhase::Lost && !address.is_deleting()
}

/// The order among several addresses of one family: the one asked for by name, the one the status shows
/// already (a tenant's DNS must not change because another was bound), the smallest name.
fn preference(claim: &IPAddressClaim, address: &IPAddress) -> (Reverse<bool>, Reverse<bool>, String) {
    let name = address.name_any();
    let wanted = claim.spec.address_name.as_ref() == Some(&name);
    let shown = claim
        .status
        .as_ref()
        .is_some_and(|status| status.addresses.iter().any(|address| address.name == name));
    (Reverse(wanted), Reverse(shown), name)
}

/// Whether an address of an earlier claim of a name is `Released`, or would be marked so this very moment. What
/// the inventory found was never a claim's: its `claimRef` names a Service.
fn is_kept_for_a_successor(address: &IPAddress) -> bool {
    address.spec.reclaim_policy == ReclaimPolicy::Retain
        && !address.is_deleting()
        && !address.phase().is_drivers()
        && !is_observed(address)
}

/// Whether the address is a note of the inventory: a Service has it that no claim covers, so no claim may have it (§12).
pub(super) fn is_observed(address: &IPAddress) -> bool {
    address.labels().contains_key(driver::OBSERVED)
}

/// Whether the missing families were bound before. A claim that was widened never had what it lacks now: that
/// is a new wish, and no loss.
fn is_lost(claim: &IPAddressClaim, missing: &[Family]) -> bool {
    if missing.is_empty() {
        return false;
    }
    match claim.phase() {
        ClaimPhase::Pending => false,
        ClaimPhase::Lost => true,
        ClaimPhase::Bound => {
            let shown: Vec<Family> = claim
                .status
                .iter()
                .flat_map(|status| &status.addresses)
                .filter_map(|address| Ip::lenient(&address.address).ok())
                .map(Ip::family)
                .collect();
            shown.is_empty() || missing.iter().any(|family| shown.contains(family))
        }
    }
}
