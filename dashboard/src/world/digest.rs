//! What the overview says, of the counts at one version of the index.

use std::collections::HashMap;
use std::sync::Arc;

use api::conditions::types;
use jiff::Timestamp;

use super::World;
use super::rooms::Room;
use super::rows::{ClaimRow, Key};
use super::tally::Tally;
use super::verdict::State;
use crate::Scope;

/// Counts of addresses and claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Addresses by state.
    pub(super) states: [usize; State::ALL.len()],
    /// All addresses.
    pub addresses: usize,
    /// Addresses that nobody can take: MetalLB has given each to a placeholder, or to a Service that has it by right.
    pub held: usize,
    /// All claims.
    pub claims: usize,
    /// All classes.
    pub classes: usize,
    /// Load balancer Services, without placeholders.
    pub services: usize,
}

impl Totals {
    /// How many addresses stand there.
    pub const fn of(&self, state: State) -> usize {
        self.states[state as usize]
    }
}

/// How many there are, and the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First<T> {
    /// How many.
    pub count: usize,
    /// The first few.
    pub few: Vec<T>,
}

impl<T> First<T> {
    /// So many are told of.
    const FEW: usize = 10;

    pub(super) fn of(all: impl ExactSizeIterator<Item = T>) -> Self {
        Self { count: all.len(), few: all.take(Self::FEW).collect() }
    }
}

impl<T> Default for First<T> {
    fn default() -> Self {
        Self { count: 0, few: Vec::new() }
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
    pub lost: First<Arc<str>>,
    /// Addresses of MetalLB that neither a placeholder nor a Service has.
    pub unheld: First<Arc<str>>,
    /// The claims that wait or lost an address, the longest first.
    pub waiting: First<Key>,
    /// The same, class by class.
    pub waiting_by_class: HashMap<Arc<str>, First<Key>>,
    /// The addresses that changed hands last, newest first.
    pub handoffs: Vec<Arc<str>>,
}

impl Digest {
    /// What a scope sees of the counts. An operator's are kept; a tenant's are counted.
    pub fn of(world: &World, scope: &Scope) -> Self {
        if scope.is_all() { world.tally().digest(world, scope) } else { Self::counted(world, scope) }
    }

    /// The same, with everything counted anew.
    pub fn counted(world: &World, scope: &Scope) -> Self {
        Tally::of(world, scope).digest(world, scope)
    }
}

impl ClaimRow {
    /// The class it got, or else the one it asks for.
    pub fn class_or_asked(&self) -> Option<&Arc<str>> {
        self.class.as_ref().or(self.asked_class.as_ref())
    }

    /// Since when it waits, or has what it has.
    pub fn waiting_since(&self) -> Timestamp {
        super::verdict::condition(&self.conditions, types::BOUND)
            .map_or(self.created, |condition| condition.since)
    }
}
