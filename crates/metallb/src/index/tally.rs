//! What is counted for the metrics, as it changes. No decision reads it.

use std::collections::{BTreeMap, BTreeSet};

use api::address::{AddressPhase, Handoff, HandoffDirection, HandoffMode};
use api::conditions::{find, types};
use api::{AddressName, Family, IPAddress, Ip};
use jiff::Timestamp;
use plan::{Gauge, Labels, Timer, Timing, Took, trace_id};

use super::Index;
use crate::decide::class::is_served;
use crate::parse::pool::Pool;

const HANDOFF: &str = "ipam_handoff_seconds";
const UNHELD: &str = "ipam_handoff_unheld_seconds";

/// Both ways, with two holders and with none for a moment.
const SORTS: &[&[(&str, &str)]] = &[
    &[("direction", "Associate"), ("mode", "Overlap")],
    &[("direction", "Associate"), ("mode", "Gap")],
    &[("direction", "Disassociate"), ("mode", "Overlap")],
    &[("direction", "Disassociate"), ("mode", "Gap")],
];

/// What the driver measures the time of.
pub const TIMERS: &[Timer] = &[
    Timer {
        name: HANDOFF,
        help: "From the first step of a handoff to its last",
        buckets: &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0],
        sorts: SORTS,
    },
    Timer {
        name: UNHELD,
        help: "How long nobody had the address during a handoff",
        buckets: &[0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0],
        sorts: SORTS,
    },
];

#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// The IPs that are in the ledger or that a Service shows, and whether one shows them that is no placeholder.
    taken: BTreeMap<Ip, bool>,
    conflicts: usize,
    /// The oldest first.
    under_way: BTreeSet<(Timestamp, AddressName)>,
    ended: Vec<Timing>,
}

impl Counts {
    /// Takes note of who has an IP: nobody, or whether a Service does.
    pub(super) fn standing(&mut self, ip: Ip, attached: Option<bool>) {
        match attached {
            Some(attached) => self.taken.insert(ip, attached),
            None => self.taken.remove(&ip),
        };
    }

    pub(super) fn address_changed(&mut self, old: Option<&IPAddress>, new: Option<&IPAddress>) {
        let is_conflict =
            |address: Option<&IPAddress>| address.is_some_and(|it| it.phase() == AddressPhase::Conflict);
        self.conflicts = self.conflicts + usize::from(is_conflict(new)) - usize::from(is_conflict(old));
        let begun = |address: &IPAddress| {
            let handoff = handoff(address).filter(|handoff| handoff.finished_at.is_none())?;
            Some((handoff.started_at.0, address.key()))
        };
        if let Some(begun) = old.and_then(begun) {
            self.under_way.remove(&begun);
        }
        self.under_way.extend(new.and_then(begun));
        if let (Some(old), Some(new)) = (old, new) {
            self.finished(old, new);
        }
    }

    /// A handoff that was not over before is now: one that began at that time is one and the same.
    fn finished(&mut self, old: &IPAddress, new: &IPAddress) {
        let Some(handoff) = handoff(new) else { return };
        let Some(finished) = &handoff.finished_at else { return };
        let known = self::handoff(old).filter(|old| old.finished_at.is_some());
        if known.is_some_and(|known| known.started_at == handoff.started_at) {
            return;
        }
        let trace_id = handoff.trace_id.clone().filter(|id| !id.is_empty());
        let trace_id = trace_id.or_else(|| trace_id_of(new));
        let seconds = finished.0.duration_since(handoff.started_at.0).as_secs_f64().max(0.0);
        let mut measured = |timer, seconds| {
            let (labels, trace_id) = (sort(handoff), trace_id.clone());
            self.ended.push(Timing { timer, labels, took: Took::Seconds(seconds), trace_id });
        };
        measured(HANDOFF, seconds);
        if let Some(milliseconds) = handoff.unheld_milliseconds {
            let milliseconds = u32::try_from(milliseconds.max(0)).unwrap_or(u32::MAX);
            measured(UNHELD, f64::from(milliseconds) / 1000.0);
        }
    }
}

fn trace_id_of(address: &IPAddress) -> Option<String> {
    trace_id(address.metadata.annotations.as_ref())
}

fn handoff(address: &IPAddress) -> Option<&Handoff> {
    address.status.as_ref()?.last_handoff.as_ref()
}

fn sort(handoff: &Handoff) -> Labels {
    let direction = match handoff.direction {
        HandoffDirection::Associate => "Associate",
        HandoffDirection::Disassociate => "Disassociate",
    };
    let mode = match handoff.mode {
        HandoffMode::Overlap => "Overlap",
        HandoffMode::Gap => "Gap",
    };
    vec![("direction", direction.to_owned()), ("mode", mode.to_owned())]
}

impl Index {
    /// Takes note of who has an IP.
    pub(super) fn note_standing(&mut self, ip: Ip) {
        let home = &self.config.placeholder_namespace;
        let mut shown_by = self.services_by_ip.get(&ip).peekable();
        let shown = shown_by.peek().is_some();
        let attached = shown_by.any(|service| service.namespace != *home);
        let taken = shown || self.addresses_by_ip.count(&ip) > 0;
        self.counts.standing(ip, taken.then_some(attached));
    }

    /// What has ended since this was asked last.
    pub(crate) fn ended(&mut self) -> Vec<Timing> {
        std::mem::take(&mut self.counts.ended)
    }

    /// How much there is of what.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let (room, unheld) = self.pool_gauges();
        let (under_way, oldest) = self.handoff_gauges();
        vec![room, unheld, self.class_gauge(), self.conflict_gauge(), under_way, oldest]
    }

    /// The pools that classes of this driver name, if they exist, by name.
    fn served_pools(&self) -> BTreeMap<&String, &Pool> {
        let served = |name: &&String| self.classes_by_pool.count(name) > 0;
        self.pools.iter().filter(|(name, _)| served(name)).collect()
    }

    /// Walks what is taken of each pool, in order, and nothing else.
    fn pool_gauges(&self) -> (Gauge, Gauge) {
        let (mut room, mut unheld) = (Vec::new(), Vec::new());
        for (name, pool) in self.served_pools() {
            for family in Family::ALL {
                let size = pool.addresses(family);
                if size == 0 {
                    continue;
                }
                let labels = || -> Labels { vec![("pool", name.clone()), ("family", family.to_string())] };
                let of_family = |ip: &Ip| ip.family() == family && pool.contains(*ip);
                let (mut attached, mut reserved) = (0_u128, 0_u128);
                for (_, is_attached) in pool
                    .ranges()
                    .flat_map(|range| self.counts.taken.range(range))
                    .filter(|(ip, _)| of_family(ip))
                {
                    *(if *is_attached { &mut attached } else { &mut reserved }) += 1;
                }
                let free = size.saturating_sub(attached + reserved);
                for (state, count) in [("attached", attached), ("reserved", reserved), ("free", free)] {
                    let mut labels = labels();
                    labels.push(("state", state.to_owned()));
                    room.push((labels, approximately(count)));
                }
                let count = self.unheld.within(pool).filter(|ip| ip.family() == family).count();
                unheld.push((labels(), approximately(count as u128)));
            }
        }
        let room = Gauge {
            name: "ipam_pool_addresses",
            help: "Addresses of a pool: at a Service (attached), kept and at none (reserved), or free",
            samples: room,
        };
        let unheld = Gauge {
            name: "ipam_pool_addresses_unheld",
            help: "Addresses of the ledger that MetalLB shows at no Service and no placeholder at this moment",
            samples: unheld,
        };
        (room, unheld)
    }

    fn class_gauge(&self) -> Gauge {
        let sample = |name: &String| {
            let class = self.classes.get(name).filter(|class| is_served(class))?;
            let accepted = find(&class.status.as_ref()?.conditions, types::ACCEPTED)?;
            let labels = vec![("class", name.clone()), ("reason", accepted.reason.clone())];
            Some((labels, f64::from(u8::from(accepted.status == "True"))))
        };
        Gauge {
            name: "ipam_class_accepted",
            help: "1 if new addresses are reserved from the class, 0 if not, and why",
            samples: self.classes.keys().filter_map(sample).collect(),
        }
    }

    fn conflict_gauge(&self) -> Gauge {
        Gauge {
            name: "ipam_conflicts",
            help: "Addresses that are at a Service they were not given to",
            samples: vec![(Labels::new(), approximately(self.counts.conflicts as u128))],
        }
    }

    fn handoff_gauges(&self) -> (Gauge, Gauge) {
        let under_way = &self.counts.under_way;
        let count = Gauge {
            name: "ipam_handoffs_in_progress",
            help: "Handoffs that have begun and not ended",
            samples: vec![(Labels::new(), approximately(under_way.len() as u128))],
        };
        let since = under_way.first().map(|(since, _)| (Labels::new(), since.as_duration().as_secs_f64()));
        let oldest = Gauge {
            name: "ipam_handoff_oldest_start_timestamp_seconds",
            help: "When the handoff began that is under way for longest, in seconds since 1970",
            samples: since.into_iter().collect(),
        };
        (count, oldest)
    }
}

/// A pool of IPv6 may have more addresses than a `f64` can tell apart: they are right to 16 digits then.
#[expect(clippy::cast_precision_loss, reason = "as said")]
const fn approximately(count: u128) -> f64 {
    count as f64
}
