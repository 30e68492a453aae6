//! What the overview says, counted once for each version of the index.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use api::claim::ClaimPhase;
use api::conditions::types;
use jiff::Timestamp;

use super::World;
use super::rooms::{Room, Rooms};
use super::rows::{AddressRow, ClaimRow, Key};
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
    /// The same, class by class.
    pub waiting_by_class: HashMap<Arc<str>, Vec<Key>>,
    /// The addresses that changed hands last, newest first.
    pub handoffs: Vec<Arc<str>>,
}

impl Digest {
    /// Counts what the scope sees.
    pub fn of(world: &World, scope: &Scope) -> Self {
        let mut digest = Self { version: world.version_for(scope), ..Self::default() };
        let mut handoffs: Vec<(Timestamp, &Arc<str>)> = Vec::new();
        let mut rooms = Rooms::of(world, scope);
        world.each_ip(|ip, addresses, services| {
            for row in addresses.iter().filter(|row| scope.sees_address(row)) {
                digest.count(row);
                rooms.count(row);
                if row.state() == State::Conflict || world.is_offended(row, services) {
                    digest.conflicts.push(Arc::clone(&row.name));
                }
                if let Some(handoff) = &row.handoff {
                    handoffs.push((handoff.finished.unwrap_or(handoff.started), &row.name));
                }
            }
            if let Some(ip) = ip {
                rooms.count_others(ip, addresses, services);
            }
        });
        if handoffs.len() > HANDOFFS {
            handoffs.select_nth_unstable_by(HANDOFFS, |a, b| b.cmp(a));
            handoffs.truncate(HANDOFFS);
        }
        handoffs.sort_unstable_by(|a, b| b.cmp(a));
        digest.handoffs = handoffs.into_iter().map(|(_, name)| Arc::clone(name)).collect();
        digest.totals.classes = world.classes().count();
        digest.totals.services =
            world.workloads().filter(|row| scope.is_all() || scope.sees(&row.key.namespace)).count();
        let mut waiting: Vec<(Timestamp, &Key, Option<&Arc<str>>)> = Vec::new();
        for row in world.claims().filter(|row| scope.sees(&row.key.namespace)) {
            digest.totals.claims += 1;
            if row.phase != ClaimPhase::Bound {
                waiting.push((
                    row.waiting_since(),
                    &row.key,
                    row.class.as_ref().or(row.asked_class.as_ref()),
                ));
            }
        }
        waiting.sort_unstable();
        for (_, key, class) in waiting {
            digest.waiting.push(key.clone());
            if let Some(class) = class {
                digest.waiting_by_class.entry(Arc::clone(class)).or_default().push(key.clone());
            }
        }
        digest.rooms = rooms.into_lines();
        digest
    }

    fn count(&mut self, row: &AddressRow) {
        self.totals.addresses += 1;
        *self.totals.states.entry(row.state()).or_default() += 1;
        if row.state() == State::Lost {
            self.lost.push(Arc::clone(&row.name));
        }
    }
}

impl ClaimRow {
    /// Since when it waits, or has what it has.
    pub fn waiting_since(&self) -> Timestamp {
        super::verdict::condition(&self.conditions, types::BOUND)
            .map_or(self.created, |condition| condition.since)
    }
}
