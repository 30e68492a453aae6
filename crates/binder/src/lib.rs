//! The core's decisions: which claim gets which address. No I/O.
//!
//! [`Binder`] is the brain of `address-controller`. It reads classes, addresses and claims into an
//! [`Index`](index::Index) and answers each dirty key with a plan:
//!
//! - [`decide::claim`]: class, stamp, binding and status of a claim (contract §4);
//! - [`decide::address`]: finalizer, validity and phase of an address, the safety net (§5);
//! - [`decide::reclaim`]: what becomes of the addresses of a claim that is being deleted (§6).
//!
//! What the three share is asked of the index: [`need`](index::need) tells what a claim has and lacks.
//! `index::market` brings free addresses and waiting claims together.
//!
//! **Invariant:** `claimRef` is the only record of a binding. A claim's status is computed from scratch in
//! each pass, from the addresses that name the claim; of its own former status only three things are read:
//! the sticky class, whether the claim was bound before (§4.8), and which of several addresses was shown.
//!
//! **Invariant:** every plan is prefix-safe. Whatever part of it was carried out before a crash, the next
//! decision continues from what the cluster shows: the claim's finalizer goes out before any `claimRef`, every
//! `claimRef` before the status that tells of it, every reclaim before the finalizer that guards it is dropped.
//!
//! **Invariant:** no decision scans a whole kind, and no change does, but for a complete list. A class event
//! walks the claims that wait for that class; an address event those that name this very address.
//!
//! **Invariant:** an address chosen for a claim is *assumed* until the claim's plan is settled: it is in nobody
//! else's choice, and its own pass keeps out of the way.
//!
//! Deliberately absent: Services, class parameters, pools (the driver's, §7 and after); memory of anything the
//! cluster does not show, but for whose turn it is.

pub mod decide;
pub mod index;

use std::fmt;

use api::{AddressName, ClaimKey};
use plan::trace::Sampler;
use plan::{Brain, Change, Gauge, Moment, Plan, Timer, Timing};

/// What is decided about, one at a time each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A claim.
    Claim(ClaimKey),
    /// An address.
    Address(AddressName),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(key) => write!(f, "claim {key}"),
            Self::Address(name) => write!(f, "address {name}"),
        }
    }
}

/// The core's brain.
#[derive(Clone, Debug, Default)]
pub struct Binder {
    index: index::Index,
}

impl Binder {
    /// A brain that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with operations that are traced.
    #[must_use]
    pub fn traced(mut self, sampler: Option<Sampler>) -> Self {
        self.index.sampler = sampler;
        self
    }

    /// What the brain knows.
    pub const fn index(&self) -> &index::Index {
        &self.index
    }
}

impl Brain for Binder {
    type Key = Key;

    fn apply(&mut self, change: Change) -> Vec<Key> {
        self.index.apply(change)
    }

    fn keys(&self) -> Vec<Key> {
        self.index.keys()
    }

    /// Claims first: a claim's plan gives a fresh address its finalizer and its `claimRef` in one write.
    fn lane(key: &Key) -> u8 {
        match key {
            Key::Claim(_) => 0,
            Key::Address(_) => 1,
        }
    }

    fn controller(key: &Key) -> &'static str {
        match key {
            Key::Claim(_) => "claim",
            Key::Address(_) => "address",
        }
    }

    fn decide(&mut self, key: &Key, moment: &Moment) -> Plan {
        match key {
            Key::Claim(key) => {
                self.index.looked_at(key, moment.now);
                decide::claim::decide(&mut self.index, key, moment)
            }
            Key::Address(name) => decide::address::decide(&self.index, name, moment),
        }
    }

    fn settle(&mut self, key: &Key) {
        if let Key::Claim(key) = key {
            self.index.settle(key);
        }
    }

    fn freed(&mut self) -> Vec<Key> {
        self.index.freed()
    }

    fn timers() -> &'static [Timer] {
        index::TIMERS
    }

    fn ended(&mut self) -> Vec<Timing> {
        self.index.ended()
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.index.gauges()
    }
}
