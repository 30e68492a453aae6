//! What is counted for the metrics, as it changes. No decision reads it.

use std::collections::{BTreeSet, HashMap};

use api::address::AddressPhase;
use api::claim::ClaimPhase;
use api::{ClaimKey, Family, IPAddress, IPAddressClaim, Ip};
use jiff::Timestamp;
use plan::{Gauge, Labels, Tally, Timer, Timing, Took, trace_id};

use super::Index;
use super::secondary::own_class;

const RESERVATION: &str = "ipam_reservation_seconds";

/// What the core measures the time of.
pub const TIMERS: &[Timer] = &[Timer {
    name: RESERVATION,
    help: "From the creation of a claim until all it asks for was bound to it for the first time",
    buckets: &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0],
    // By class, and those are not known before.
    sorts: &[],
}];

/// An address, as far as it is counted.
type Standing = (String, Option<Family>, AddressPhase);

/// A claim that waits: its class, since when, and which it is.
type Waiting = (String, Timestamp, ClaimKey);

#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    addresses: Tally<Standing>,
    claims: Tally<(String, ClaimPhase)>,
    /// The oldest of each class first.
    waiting: BTreeSet<Waiting>,
    /// When those that wait were looked at first.
    looked_at: HashMap<ClaimKey, Timestamp>,
    ended: Vec<Timing>,
}

fn standing(address: &IPAddress) -> Standing {
    (address.spec.class_name.clone(), address.ip().ok().map(Ip::family), address.phase())
}

fn class_of(claim: &IPAddressClaim) -> String {
    own_class(claim).unwrap_or_default().to_owned()
}

fn waiting(claim: &IPAddressClaim) -> Option<Waiting> {
    let since = claim.metadata.creation_timestamp.as_ref()?.0;
    let waits = claim.phase() == ClaimPhase::Pending && !claim.is_deleting();
    waits.then(|| (class_of(claim), since, claim.key()))
}

impl Counts {
    pub(super) fn address_changed(&mut self, old: Option<&IPAddress>, new: Option<&IPAddress>) {
        self.addresses.change(old.map(standing), new.map(standing));
    }

    pub(super) fn claim_changed(&mut self, old: Option<&IPAddressClaim>, new: Option<&IPAddressClaim>) {
        let counted = |claim: &IPAddressClaim| (class_of(claim), claim.phase());
        self.claims.change(old.map(counted), new.map(counted));
        let (before, after) = (old.and_then(waiting), new.and_then(waiting));
        if let (Some((_, since, _)), Some(new)) = (&before, new)
            && new.phase() == ClaimPhase::Bound
            && old.is_some_and(|old| old.metadata.uid == new.metadata.uid)
        {
            let since = self.looked_at.get(&new.key()).copied().unwrap_or(*since);
            self.ended.push(Timing {
                timer: RESERVATION,
                labels: vec![("class", class_of(new))],
                took: Took::Since(since),
                trace_id: trace_id(new.metadata.annotations.as_ref()),
            });
        }
        if before == after {
            return;
        }
        if let Some(before) = before {
            if after.as_ref().is_none_or(|after| after.1 != before.1) {
                self.looked_at.remove(&before.2);
            }
            self.waiting.remove(&before);
        }
        self.waiting.extend(after);
    }

    /// A time of creation is told to the second only: of what was looked at within that second, the look is the better
    /// beginning.
    pub(super) fn looked_at(&mut self, claim: &IPAddressClaim, now: Timestamp) {
        let Some((_, created, key)) = waiting(claim) else { return };
        let within = now.duration_since(created);
        let begun = if within.as_secs() == 0 && !within.is_negative() { now } else { created };
        self.looked_at.entry(key).or_insert(begun);
    }
}

impl Index {
    /// A claim is about to be decided.
    pub(crate) fn looked_at(&mut self, key: &ClaimKey, now: Timestamp) {
        if let Some(claim) = self.claims.get(key) {
            self.counts.looked_at(&claim, now);
        }
    }

    /// What has ended since this was asked last.
    pub(crate) fn ended(&mut self) -> Vec<Timing> {
        std::mem::take(&mut self.counts.ended)
    }

    /// How much there is of what. Classes that claims name and that do not exist are one, without a name: else tenants
    /// could make as many series as they like.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        vec![self.address_gauge(), self.claim_gauge(), self.waiting_gauge()]
    }

    fn class_names(&self) -> impl Iterator<Item = String> {
        self.classes.keys().cloned()
    }

    fn existing(&self, class: &str) -> String {
        let name = class.to_owned();
        if self.classes.contains(&name) { name } else { String::new() }
    }

    fn address_gauge(&self) -> Gauge {
        let zero = self.class_names().flat_map(|class| {
            let each =
                Family::ALL.into_iter().flat_map(|family| AddressPhase::ALL.map(|phase| (family, phase)));
            each.map(move |(family, phase)| (class.clone(), Some(family), phase))
        });
        let mut counts: HashMap<Standing, usize> = zero.map(|standing| (standing, 0)).collect();
        counts.extend(self.counts.addresses.iter().map(|(standing, count)| (standing.clone(), count)));
        let labels = |(class, family, phase): Standing| -> Labels {
            let family = family.map_or("", Family::as_str);
            vec![("class", class), ("family", family.to_owned()), ("state", format!("{phase:?}"))]
        };
        Gauge {
            name: "ipam_addresses",
            help: "IPAddress objects by class, family and phase",
            samples: samples(counts, labels),
        }
    }

    fn claim_gauge(&self) -> Gauge {
        let zero = self.class_names().flat_map(|class| ClaimPhase::ALL.map(|phase| (class.clone(), phase)));
        let mut counts: HashMap<(String, ClaimPhase), usize> = zero.map(|sort| (sort, 0)).collect();
        for ((class, phase), count) in self.counts.claims.iter() {
            *counts.entry((self.existing(class), *phase)).or_default() += count;
        }
        let labels = |(class, phase)| vec![("class", class), ("phase", format!("{phase:?}"))];
        Gauge {
            name: "ipam_claims",
            help: "IPAddressClaim objects by class and phase",
            samples: samples(counts, labels),
        }
    }

    fn waiting_gauge(&self) -> Gauge {
        let mut oldest: HashMap<String, Timestamp> = HashMap::new();
        let mut last: Option<&str> = None;
        for (class, since, _) in &self.counts.waiting {
            // Sorted: the first of each class is its oldest.
            if last.replace(class) != Some(class) {
                let entry = oldest.entry(self.existing(class)).or_insert(*since);
                *entry = (*entry).min(*since);
            }
        }
        let sample =
            |(class, since): (String, Timestamp)| (vec![("class", class)], since.as_duration().as_secs_f64());
        Gauge {
            name: "ipam_claim_oldest_pending_timestamp_seconds",
            help: "When the claim was made that is not bound for longest, in seconds since 1970",
            samples: oldest.into_iter().map(sample).collect(),
        }
    }
}

fn samples<K>(counts: HashMap<K, usize>, labels: impl Fn(K) -> Labels) -> Vec<(Labels, f64)> {
    #[expect(clippy::cast_precision_loss, reason = "objects in etcd are far fewer than 2^53")]
    let sample = |(sort, count): (K, usize)| (labels(sort), count as f64);
    counts.into_iter().map(sample).collect()
}
