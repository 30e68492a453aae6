//! What the overview says, counted once for each version of the index.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::claim::ClaimPhase;
use api::conditions::types;
use api::{Family, Ip};
use jiff::Timestamp;

use super::World;
use super::rows::{AddressRow, ClaimRow, ClassRow, Key, PoolRow};
use super::verdict::State;
use crate::Scope;

/// How many of the last handoffs are kept.
const HANDOFFS: usize = 10;

/// Counts of addresses and claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Addresses by state.
    pub states: BTreeMap<State, usize>,
    /// All addresses.
    pub addresses: usize,
    /// All claims.
    pub claims: usize,
    /// All classes.
    pub classes: usize,
    /// Load balancer Services, without placeholders.
    pub services: usize,
}

impl Totals {
    /// How many addresses stand there.
    pub fn of(&self, state: State) -> usize {
        self.states.get(&state).copied().unwrap_or(0)
    }
}

/// How full the pool of a class is, for one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The class.
    pub class: Arc<str>,
    /// The pool, if the class names one.
    pub pool: Option<Arc<str>>,
    /// The family.
    pub family: Family,
    /// How many addresses the pool has; none when it is not known, or not the visitor's to know.
    pub size: Option<u128>,
    /// Those that Services have.
    pub attached: u128,
    /// Those that are kept and attached to nothing.
    pub reserved: u128,
    /// Those that are with somebody they were not given to.
    pub conflict: u128,
    /// Those that MetalLB gave to Services past the ledger.
    pub other: u128,
    /// Addresses of the class that its pool does not contain.
    pub outside: u128,
}

impl Room {
    /// How many nobody has; none when the size is not known.
    pub fn free(&self) -> Option<u128> {
        let taken = self.attached + self.reserved + self.conflict + self.other;
        Some(self.size?.saturating_sub(taken))
    }

    fn count(&mut self, row: &AddressRow) {
        match row.state() {
            State::Conflict => self.conflict += 1,
            State::Attached | State::Observed => self.attached += 1,
            _ if row.service.is_some() => self.attached += 1,
            _ => self.reserved += 1,
        }
    }
}

/// What the overview says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// The version of the index it was made of, as far as the scope sees it.
    pub version: u64,
    /// The counts.
    pub totals: Totals,
    /// Class by class, family by family.
    pub rooms: Vec<Room>,
    /// The addresses in conflict, by the ledger or by what MetalLB shows, in IP order.
    pub conflicts: Vec<Arc<str>>,
    /// The lost addresses.
    pub lost: Vec<Arc<str>>,
    /// The claims that wait or lost an address, the longest first.
    pub waiting: Vec<Key>,
    /// The addresses that changed hands last, newest first.
    pub handoffs: Vec<Arc<str>>,
}

impl Digest {
    /// Counts what the scope sees.
    pub fn of(world: &World, scope: &Scope) -> Self {
        let mut digest = Self { version: world.version_for(scope), ..Self::default() };
        let mut handoffs: Vec<(Timestamp, &Arc<str>)> = Vec::new();
        for row in world.addresses().filter(|row| scope.sees_address(row)) {
            digest.totals.addresses += 1;
            *digest.totals.states.entry(row.state()).or_default() += 1;
            if row.state() == State::Conflict || !world.offenders(row).is_empty() {
                digest.conflicts.push(Arc::clone(&row.name));
            }
            if row.state() == State::Lost {
                digest.lost.push(Arc::clone(&row.name));
            }
            if let Some(handoff) = &row.handoff {
                handoffs.push((handoff.finished.unwrap_or(handoff.started), &row.name));
            }
        }
        handoffs.sort_unstable_by(|a, b| b.cmp(a));
        digest.handoffs = handoffs.into_iter().take(HANDOFFS).map(|(_, name)| Arc::clone(name)).collect();
        digest.totals.classes = world.classes().count();
        digest.totals.services =
            world.services().filter(|row| !row.placeholder && scope.sees(&row.key.namespace)).count();
        let mut waiting: Vec<(Timestamp, &Key)> = Vec::new();
        for row in world.claims().filter(|row| scope.sees(&row.key.namespace)) {
            digest.totals.claims += 1;
            if row.phase != ClaimPhase::Bound {
                waiting.push((row.waiting_since(), &row.key));
            }
        }
        waiting.sort_unstable();
        digest.waiting = waiting.into_iter().map(|(_, key)| key.clone()).collect();
        digest.rooms = rooms(world, scope);
        digest
    }
}

impl ClaimRow {
    /// Since when it waits, or has what it has.
    pub fn waiting_since(&self) -> Timestamp {
        super::verdict::condition(&self.conditions, types::BOUND)
            .map_or(self.created, |condition| condition.since)
    }
}

/// Each class with its pool, and each family that it has room or addresses in.
fn rooms(world: &World, scope: &Scope) -> Vec<Room> {
    let mut rooms: BTreeMap<(&str, Family), Room> = BTreeMap::new();
    for class in world.classes() {
        for family in [Family::IPv4, Family::IPv6] {
            let pool = class.pool.as_deref().and_then(|pool| world.pool(pool));
            let size = pool.map(|pool| pool.size(family)).filter(|_| scope.is_all());
            rooms.insert((&class.name, family), empty(class, family, size));
        }
    }
    for row in world.addresses().filter(|row| scope.sees_address(row)) {
        let Some(ip) = row.ip else { continue };
        let Some(room) = rooms.get_mut(&(&*row.class, ip.family())) else { continue };
        let pool = room.pool.as_deref().and_then(|pool| world.pool(pool));
        if scope.is_all() && pool.is_none_or(|pool| !pool.contains(ip)) {
            room.outside += 1;
        } else if row.is_valid() {
            room.count(row);
        }
    }
    if scope.is_all() {
        for room in rooms.values_mut() {
            room.other = strangers(world, room);
        }
    }
    rooms.into_values().filter(is_worth_a_line).collect()
}

fn empty(class: &ClassRow, family: Family, size: Option<u128>) -> Room {
    Room {
        class: Arc::clone(&class.name),
        pool: class.pool.clone(),
        family,
        size,
        attached: 0,
        reserved: 0,
        conflict: 0,
        other: 0,
        outside: 0,
    }
}

/// How many IPs of the pool are with Services, or in the ledger under other classes, past the class.
fn strangers(world: &World, room: &Room) -> u128 {
    let Some(pool) = room.pool.as_deref().and_then(|pool| world.pool(pool)) else { return 0 };
    let of_class = |ip: Ip| world.addresses_on(ip).any(|row| *row.class == *room.class && row.is_valid());
    let mut count = 0;
    for (first, last) in ranges(pool, room.family) {
        let shown = world.shown_between(first, last).map(|(ip, _)| ip);
        count += shown.filter(|ip| pool.serves(*ip) && !of_class(*ip)).count();
        let ledger = world.addresses_between(first, last).filter(|row| *row.class != *room.class);
        let unshown = ledger.filter_map(|row| row.ip).filter(|ip| world.services_on(*ip).next().is_none());
        count += unshown.filter(|ip| pool.serves(*ip) && !of_class(*ip)).count();
    }
    count as u128
}

/// The ranges of one family.
fn ranges(pool: &PoolRow, family: Family) -> impl Iterator<Item = (Ip, Ip)> {
    let ranges = pool.ranges.iter().map(|(first, last)| (Ip::from(*first), Ip::from(*last)));
    ranges.filter(move |(first, _)| first.family() == family)
}

/// A family that the class has neither room nor addresses in is not shown, unless it would be the only line.
fn is_worth_a_line(room: &Room) -> bool {
    room.size.unwrap_or(0) > 0 || room.attached + room.reserved + room.conflict + room.outside > 0
}
