//! Who waits for an address, and what must not be taken meanwhile (contract §9).

use std::time::Duration;

use api::{AddressName, ClaimKey, Family, IPAddressClaim, Ip, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::Moment;

use super::secondary::Dirty;
use super::{Attempt, Index};
use crate::Key;
use crate::decide::claim::missing_families;
use crate::decide::inventory::is_observed;
use crate::decide::placeholder::allocation_name;
use crate::parse::pool::Pool;
use crate::parse::service::View;

/// How long a call may still be carried out after it was decided on: its sender waits ten seconds, the API server works on
/// what it got for a minute.
const LATE: Duration = Duration::from_secs(75);

/// What a claim waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    class: String,
    created: Option<Time>,
    families: Vec<Family>,
}

impl Index {
    /// Enters the claim among those that wait for an address of their class and family, or takes it out. Whoever
    /// leaves the queue makes room for its head.
    pub(super) fn refresh_waiting(&mut self, key: &ClaimKey, dirty: &mut Dirty) {
        let wish = self.claims.get(key).and_then(|claim| {
            // One to which MetalLB has given an address already waits no more: it would be counted against the room
            // that its own address left.
            let mut families = missing_families(self, &claim);
            families.retain(|family| !self.is_assigned(&claim, *family));
            let class = class_name(&claim).unwrap_or_default();
            let created = claim.metadata.creation_timestamp.clone();
            (!families.is_empty()).then_some(Wait { class, created, families })
        });
        if self.waits_for.get(key) == wish.as_ref() {
            return;
        }
        if let Some(Wait { class, created, families }) = self.waits_for.remove(key) {
            for family in families {
                self.waiting.remove(&(class.clone(), family), &(created.clone(), key.clone()));
                self.parked.remove(&(class.clone(), family), key);
            }
            self.mark_first_waiting(&class, dirty);
        }
        if let Some(wait) = wish {
            for family in &wait.families {
                self.waiting.insert((wait.class.clone(), *family), (wait.created.clone(), key.clone()));
            }
            self.waits_for.insert(key.clone(), wait);
            dirty.insert(Key::Claim(key.clone()));
        }
    }

    /// Whether the claim's allocation placeholder has an address.
    fn is_assigned(&self, claim: &IPAddressClaim, family: Family) -> bool {
        let name = allocation_name(claim, family);
        let placeholder = self.services.get(&ServiceKey::new(&self.config.placeholder_namespace, name));
        placeholder.is_some_and(|placeholder| placeholder.ingress().iter().any(|ip| ip.family() == family))
    }

    /// Enters the IP among those of the ledger that no Service shows, or takes it out. With the last of a pool held,
    /// the pool's queues go on.
    pub(super) fn refresh_held(&mut self, ip: Ip, dirty: &mut Dirty) {
        self.note_standing(ip);
        let shown = self.services_by_ip.count(&ip) > 0;
        if self.shown.set(ip, shown) {
            self.pools.values_mut().for_each(|pool| pool.shows(ip, shown));
        }
        let mut recorded = self.addresses_of_ip(ip).filter(|address| !is_observed(address)).peekable();
        let unheld = recorded.peek().is_some() && !shown;
        drop(recorded);
        if !self.unheld.set(ip, unheld) || unheld {
            return;
        }
        let of_pool = |(name, pool): (&String, &Pool)| {
            let free = pool.contains(ip) && self.unheld_in(pool).is_none();
            free.then(|| self.classes_by_pool.get(name).cloned().collect::<Vec<_>>())
        };
        let classes: Vec<String> = self.pools.iter().filter_map(of_pool).flatten().collect();
        for class in classes {
            self.mark_first_waiting(&class, dirty);
        }
    }

    /// Those in the head of the queue of each family that are parked. The head is as many as the pool has room for, and at
    /// least one. Whoever is not parked must not be marked: of N claims that come at once each would be looked at N times.
    pub(super) fn mark_first_waiting(&mut self, class: &str, dirty: &mut Dirty) {
        for family in Family::ALL {
            let queue = (class.to_owned(), family);
            if self.parked.count(&queue) == 0 {
                continue;
            }
            let available = self.pool_of_class(class).and_then(|(_, pool)| pool.available(family));
            let first = self.waiting.get(&queue).take(available.unwrap_or(0).max(1));
            let parked = first.filter(|(_, key)| self.parked.contains(&queue, key));
            for key in parked.map(|(_, key)| key.clone()).collect::<Vec<_>>() {
                self.parked.remove(&queue, &key);
                dirty.insert(Key::Claim(key));
            }
        }
    }

    /// The claim is looked at, and parked again if nothing comes of it.
    pub fn unpark(&mut self, claim: &ClaimKey) {
        for family in Family::ALL {
            if let Some(queue) = self.queue_of(claim, family) {
                self.parked.remove(&queue, claim);
            }
        }
    }

    /// Nothing could be made for the claim.
    pub fn park(&mut self, claim: &ClaimKey, family: Family) {
        if let Some(queue) = self.queue_of(claim, family) {
            self.parked.insert(queue, claim.clone());
        }
    }

    fn queue_of(&self, claim: &ClaimKey, family: Family) -> Option<(String, Family)> {
        let wait = self.waits_for.get(claim).filter(|wait| wait.families.contains(&family))?;
        Some((wait.class.clone(), family))
    }

    /// Whether this claim is among the first `room` that wait for an address of the class and family.
    pub fn is_among_first(&self, class: &str, family: Family, claim: &ClaimKey, room: usize) -> bool {
        let queue = (class.to_owned(), family);
        self.waiting.count(&queue) <= room || self.waiting.get(&queue).take(room).any(|(_, key)| key == claim)
    }

    /// An IP of the ledger that lies in the pool and that no Service shows: whoever queues in MetalLB now could be
    /// given it.
    pub fn unheld_in(&self, pool: &Pool) -> Option<Ip> {
        self.unheld.within(pool).find(|ip| self.addresses_of_ip(*ip).any(|address| self.is_ours(&address)))
    }

    /// Enters a placeholder among those that wait in MetalLB for any address of their pool, or takes it out.
    pub(super) fn refresh_queued(&mut self, key: &ServiceKey) {
        let waits = self.services.get(key).is_some_and(|service| {
            self.is_placeholder(&service)
                && service.ingress().is_empty()
                && service.pin().is_ok_and(|pin| pin.is_empty())
        });
        if waits {
            self.queued.insert(key.clone());
        } else {
            self.queued.remove(key);
        }
    }

    /// Whether a placeholder of ours waits in MetalLB and could be given one of these IPs if it were free.
    pub fn is_any_queued(&self, ips: &[Ip]) -> bool {
        self.queued
            .iter()
            .filter_map(|key| self.services.get(key)?.pool().map(str::to_owned))
            .any(|pool| self.pools.get(&pool).is_some_and(|pool| ips.iter().any(|ip| pool.contains(*ip))))
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

    /// An address is about to be recorded. Those whose calls are over are forgotten: what became of them is known.
    pub fn note_record(&mut self, name: AddressName, moment: &Moment) {
        self.records.retain(|_, sent| moment.left_of(LATE, *sent).is_some());
        self.records.insert(name, moment.now);
    }

    /// How long the call that records it may still be carried out, whatever its sender was told: this process, or one that
    /// ended when this one began to decide.
    pub fn may_be_recorded(&self, name: &AddressName, moment: &Moment) -> Option<Duration> {
        let sent = self.records.get(name).copied().or(self.began)?;
        moment.left_of(LATE, sent)
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
