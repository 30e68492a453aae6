//! Who waits for an address, and what must not be taken meanwhile (contract §9).

use api::{AddressName, ClaimKey, Family};

use super::secondary::Dirty;
use super::{Attempt, Index};
use crate::Key;
use crate::decide::claim::missing_families;

impl Index {
    /// Enters the claim among those that wait for an address of their class, or takes it out. Whoever leaves
    /// the queue makes room for its head.
    pub(super) fn refresh_waiting(&mut self, key: &ClaimKey, dirty: &mut Dirty) {
        let wish = self.claims.get(key).and_then(|claim| {
            let waits = !missing_families(self, claim).is_empty();
            waits.then(|| (class_name(claim).unwrap_or_default(), claim.metadata.creation_timestamp.clone()))
        });
        let before = self.waits_for.get(key);
        if before == wish.as_ref() {
            return;
        }
        if let Some((class, created)) = self.waits_for.remove(key) {
            self.waiting.remove(&class, &(created, key.clone()));
            self.mark_first_waiting(&class, dirty);
        }
        if let Some((class, created)) = wish {
            self.waiting.insert(class.clone(), (created.clone(), key.clone()));
            self.waits_for.insert(key.clone(), (class, created));
            dirty.insert(Key::Claim(key.clone()));
        }
    }

    /// Enters the address among those that no Service shows, or takes it out.
    pub(super) fn refresh_held(&mut self, name: &AddressName, dirty: &mut Dirty) {
        let Some(address) = self.addresses.get(name) else { return };
        let class = address.spec.class_name.clone();
        let shown = address.ip().map_or(true, |ip| self.services_by_ip.count(&ip) > 0);
        if shown {
            if self.unheld.remove(&class, name) && self.unheld.count(&class) == 0 {
                self.mark_first_waiting(&class, dirty);
            }
        } else {
            self.unheld.insert(class, name.clone());
        }
    }

    /// The head of the queue: as many as the pool has room for, and at least one.
    pub(super) fn mark_first_waiting(&self, class: &String, dirty: &mut Dirty) {
        let available = |family| self.pool_of_class(class).and_then(|(_, pool)| pool.available(family));
        let room = available(Family::IPv4).unwrap_or(0).max(available(Family::IPv6).unwrap_or(0)).max(1);
        dirty.extend(self.waiting.get(class).take(room).map(|(_, key)| Key::Claim(key.clone())));
    }

    /// Whether this claim is among the first `room` that wait for an address of the class.
    pub fn is_among_first(&self, class: &str, claim: &ClaimKey, room: usize) -> bool {
        let class = class.to_owned();
        self.waiting.count(&class) <= room || self.waiting.get(&class).take(room).any(|(_, key)| key == claim)
    }

    /// An address of this class that lies in its pool and that no Service shows: whoever queues in MetalLB
    /// now could be given it.
    pub fn unheld_in_pool(&self, class: &str) -> Option<&AddressName> {
        let (_, pool) = self.pool_of_class(class)?;
        self.unheld.get(&class.to_owned()).find(|name| {
            let address = self.addresses.get(name);
            address.and_then(|address| address.ip().ok()).is_some_and(|ip| pool.contains(ip))
        })
    }

    /// The last failed reservation of a claim.
    pub fn attempt(&self, claim: &ClaimKey, family: Family) -> Option<&Attempt> {
        self.attempts.get(&(claim.clone(), family))
    }

    /// Remembers a failed reservation, so that it is not repeated at once.
    pub fn note_attempt(&mut self, claim: &ClaimKey, family: Family, at: jiff::Timestamp, message: &str) {
        let attempt = self.attempts.entry((claim.clone(), family)).or_insert_with(|| Attempt {
            count: 0,
            at,
            message: String::new(),
        });
        attempt.count += 1;
        attempt.at = at;
        message.clone_into(&mut attempt.message);
    }

    /// The reservation succeeded.
    pub fn forget_attempt(&mut self, claim: &ClaimKey, family: Family) {
        self.attempts.remove(&(claim.clone(), family));
    }
}

/// The class a claim was resolved to, or names.
pub fn class_name(claim: &api::IPAddressClaim) -> Option<String> {
    let resolved = claim.status.as_ref().and_then(|status| status.class_name.clone());
    claim.spec.class_name.clone().or(resolved)
}
