//! What is counted, and kept in order, along with every change: no page counts everything.
//!
//! What an IP adds hangs on what is on it: addresses and Services, and whether the claims and the holders that those
//! name are there. Before a change, what the IPs add that it reaches is taken out; after it, it is put in anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Ip;
use api::claim::ClaimPhase;
use jiff::Timestamp;

use super::World;
use super::digest::{Digest, First, Totals};
use super::origin::Origin;
use super::rooms::Rooms;
use super::rows::{AddressRow, ClaimRow, Key, ServiceRow};
use super::verdict::State;
use crate::Scope;

/// How many of the last handoffs are told of.
const HANDOFFS: usize = 10;

/// An address in the order of the IPs.
type Place = (Option<Ip>, Arc<str>);

/// Claims in the order in which they began to wait.
type Line = BTreeSet<(Timestamp, Key)>;

/// The counts for one scope.
#[derive(Debug, Default)]
pub(super) struct Tally {
    totals: Totals,
    rooms: Rooms,
    conflicts: BTreeSet<Place>,
    lost: BTreeSet<Place>,
    unheld: BTreeSet<Place>,
    handoffs: BTreeSet<(Timestamp, Arc<str>)>,
    waiting: Line,
    waiting_by_class: BTreeMap<Arc<str>, Line>,
    /// Workloads by where their IPs come from: of all, for operators.
    origins: BTreeMap<Origin, BTreeSet<Key>>,
}

/// What a change reaches: which counts may be others after it.
#[derive(Debug, Default)]
pub(super) struct Reach {
    pub(super) spots: BTreeSet<Option<Ip>>,
    pub(super) service: Option<Key>,
    pub(super) claim: Option<Key>,
}

/// Adds one, or takes one away.
pub(super) fn step(count: &mut usize, there: bool) {
    *count = if there { *count + 1 } else { count.saturating_sub(1) };
}

fn place<T: Ord>(set: &mut BTreeSet<T>, item: T, there: bool) {
    if there {
        set.insert(item);
    } else {
        set.remove(&item);
    }
}

fn place_under<K: Ord + Clone, T: Ord>(sets: &mut BTreeMap<K, BTreeSet<T>>, key: &K, item: T, there: bool) {
    if there {
        sets.entry(key.clone()).or_default().insert(item);
    } else if let Some(set) = sets.get_mut(key) {
        set.remove(&item);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

impl Tally {
    /// Counts everything that a scope sees.
    pub(super) fn of(world: &World, scope: &Scope) -> Self {
        let mut tally = Self { rooms: Rooms::of(world, scope), ..Self::default() };
        world.each_ip(|ip, addresses, services| tally.spot(world, scope, ip, addresses, services, true));
        for row in world.workloads().filter(|row| scope.sees(&row.key.namespace)) {
            tally.service(world, scope, row, true);
        }
        for row in world.claims().filter(|row| scope.sees(&row.key.namespace)) {
            tally.claim(row, true);
        }
        tally
    }

    /// Takes what an operator's counts have of a reach out of them, or puts it in.
    pub(super) fn reach(&mut self, world: &World, reach: &Reach, there: bool) {
        let mut keys: BTreeSet<&Key> = reach.service.iter().collect();
        for spot in &reach.spots {
            let (addresses, services) = world.spot(*spot);
            self.spot(world, &Scope::All, *spot, &addresses, services, there);
            keys.extend(services.iter().map(|service| &service.key));
        }
        let rows = keys.into_iter().filter_map(|key| world.service(key));
        for row in rows.filter(|row| !row.placeholder) {
            self.service(world, &Scope::All, row, there);
        }
        if let Some(row) = reach.claim.as_ref().and_then(|key| world.claim(key)) {
            self.claim(row, there);
        }
    }

    fn spot(
        &mut self,
        world: &World,
        scope: &Scope,
        ip: Option<Ip>,
        addresses: &[&Arc<AddressRow>],
        services: &[Arc<ServiceRow>],
        there: bool,
    ) {
        for row in addresses.iter().filter(|row| scope.sees_address(row)) {
            self.address(world, row, services, there);
            self.rooms.count(row, there);
        }
        if let Some(ip) = ip {
            self.rooms.count_others(ip, addresses, services, there);
        }
    }

    fn address(&mut self, world: &World, row: &AddressRow, services: &[Arc<ServiceRow>], there: bool) {
        let state = row.state();
        step(&mut self.totals.addresses, there);
        step(&mut self.totals.states[state as usize], there);
        let here = || (row.ip, Arc::clone(&row.name));
        let in_conflict = state == State::Conflict || world.is_offended(row, services);
        if in_conflict {
            place(&mut self.conflicts, here(), there);
        }
        if state == State::Lost {
            place(&mut self.lost, here(), there);
        } else if !in_conflict && row.is_valid() {
            if world.is_held(row, services) {
                step(&mut self.totals.held, there);
            } else if world.is_driven(row) {
                place(&mut self.unheld, here(), there);
            }
        }
        if let Some(handoff) = &row.handoff {
            let at = handoff.finished.unwrap_or(handoff.started);
            place(&mut self.handoffs, (at, Arc::clone(&row.name)), there);
        }
    }

    fn service(&mut self, world: &World, scope: &Scope, row: &ServiceRow, there: bool) {
        step(&mut self.totals.services, there);
        if scope.is_all() {
            place_under(&mut self.origins, &world.origin(row), row.key.clone(), there);
        }
    }

    fn claim(&mut self, row: &ClaimRow, there: bool) {
        step(&mut self.totals.claims, there);
        if row.phase == ClaimPhase::Bound {
            return;
        }
        let waits = (row.waiting_since(), row.key.clone());
        if let Some(class) = row.class_or_asked() {
            place_under(&mut self.waiting_by_class, class, waits.clone(), there);
        }
        place(&mut self.waiting, waits, there);
    }

    /// The workloads whose IPs come from one origin, or of all from the worst on, each in name order.
    pub(super) fn by_origin(&self, origin: Option<Origin>) -> impl DoubleEndedIterator<Item = &Key> {
        self.lines(origin).flatten()
    }

    /// How many those are.
    pub(super) fn count_by_origin(&self, origin: Option<Origin>) -> usize {
        self.lines(origin).map(BTreeSet::len).sum()
    }

    fn lines(&self, origin: Option<Origin>) -> impl DoubleEndedIterator<Item = &BTreeSet<Key>> {
        let wanted = move |of: &Origin| origin.is_none_or(|origin| origin == *of);
        self.origins.iter().filter(move |(of, _)| wanted(of)).map(|(_, keys)| keys)
    }

    /// What pages say of them.
    pub(super) fn digest(&self, world: &World, scope: &Scope) -> Digest {
        let name = |(_, name): &Place| Arc::clone(name);
        let key = |(_, key): &(Timestamp, Key)| key.clone();
        let by_class = self.waiting_by_class.iter();
        Digest {
            version: world.version_for(scope),
            totals: Totals { classes: world.classes().count(), ..self.totals.clone() },
            rooms: self.rooms.lines(),
            conflicts: self.conflicts.iter().map(name).collect(),
            lost: First::of(self.lost.iter().map(name)),
            unheld: First::of(self.unheld.iter().map(name)),
            waiting: First::of(self.waiting.iter().map(key)),
            waiting_by_class: by_class
                .map(|(class, line)| (Arc::clone(class), First::of(line.iter().map(key))))
                .collect(),
            handoffs: self.handoffs.iter().rev().take(HANDOFFS).map(|(_, name)| Arc::clone(name)).collect(),
        }
    }
}

impl World {
    /// An operator's counts. They are made when they are first asked for, and anew after a class or a pool changed.
    pub(super) fn tally(&self) -> &Tally {
        self.tally.get_or_init(|| Tally::of(self, &Scope::All))
    }

    /// Does what changes rows, and keeps the counts right. What it reaches has to be told before.
    pub(super) fn counted(&mut self, reach: &Reach, change: impl FnOnce(&mut Self)) {
        let mut tally = self.tally.take();
        if let Some(tally) = &mut tally {
            tally.reach(self, reach, false);
        }
        change(self);
        if let Some(mut tally) = tally {
            tally.reach(self, reach, true);
            self.tally = tally.into();
        }
    }

    /// What is on an IP, or what has none.
    fn spot(&self, ip: Option<Ip>) -> (Vec<&Arc<AddressRow>>, &[Arc<ServiceRow>]) {
        let rows = self.by_ip.range((ip, Arc::clone(&self.nothing))..);
        let rows = rows.take_while(|((at, _), _)| *at == ip).map(|(_, row)| row).collect();
        let services = ip.and_then(|ip| self.on_ip.get(&ip));
        (rows, services.map_or(&[], Vec::as_slice))
    }
}
