//! The MetalLB driver's decisions: reservation, holding, handoff. No I/O.
//!
//! [`Driver`] is the brain of `metallb-iad`. It reads classes, addresses, claims, Services, pools, namespaces
//! and MetalLB's failure events into an [`Index`](index::Index) and answers each dirty key with a plan:
//!
//! - [`decide::class`]: may new reservations be made (contract §8)?
//! - [`decide::claim`]: reservation of what a claim lacks (§9);
//! - [`decide::address`]: holding, teardown (§10, §12);
//! - [`decide::service`], [`decide::serviceable`]: which Service is associated (§11);
//! - [`decide::handoff`], [`decide::gap`], [`decide::foreign`]: the handoff, and what others do to it (§11);
//! - [`decide::conflict`], [`decide::inventory`], [`decide::auto_claim`]: what others have, and who gets a claim
//!   without asking (§12).
//!
//! **Invariant:** everything a claim has (its addresses, their placeholders, the Service that wears them) is
//! decided under the one key [`Key::Claim`], and a key is never worked on twice at once. So no step of a
//! handoff races with a hold of the same address.
//!
//! **Invariant:** every plan is a prefix-safe sequence: whatever prefix of it was carried out before a crash,
//! the next decision continues from what the cluster shows. Nothing is remembered elsewhere (§3 d), but for
//! how soon to repeat a failed reservation, or to put back marks that somebody takes off again and again.

pub mod decide;
pub mod errand;
pub mod index;
pub mod parse;

use std::fmt;

use api::{AddressName, ClaimKey, ServiceKey};
use plan::trace::Sampler;
use plan::{Brain, Change, Gauge, Moment, Plan, Timer, Timing};

/// Under this name the driver writes: by it our own writes are told from those of others.
pub const FIELD_MANAGER: &str = "metallb-iad";

/// How the driver was told to run (contract §7).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own, as on the command line")]
pub struct Config {
    /// The namespace in which placeholders live.
    pub placeholder_namespace: String,
    /// The namespace of MetalLB's objects.
    pub metallb_namespace: String,
    /// The load balancer class of the MetalLB this driver fronts; none for the default implementation.
    pub lb_class: Option<String>,
    /// Whether associated Services carry a finalizer, so that deletion is a handoff too.
    pub hold_on_delete: bool,
    /// Whether every handoff goes through a gap.
    pub gap: bool,
    /// Whether addresses that Services have without a claim are written down.
    pub inventory: bool,
    /// Whether plain Services get claims of their own.
    pub auto_claim: bool,
    /// From how many Services on MetalLB's walk over all of them takes longer than a write, so that a way back is worth one more.
    pub crowd: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            placeholder_namespace: "metallb-iad-system".to_owned(),
            metallb_namespace: "metallb-system".to_owned(),
            lb_class: None,
            hold_on_delete: true,
            gap: false,
            inventory: true,
            auto_claim: false,
            crowd: 64,
        }
    }
}

/// What is decided about, one at a time each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A class.
    Class(String),
    /// A claim, existing or only named, with all that belongs to it.
    Claim(ClaimKey),
    /// An address that no claim is bound to.
    Address(AddressName),
    /// A Service that wears our marks, has an address nobody claimed, or may get a claim of its own.
    Service(ServiceKey),
    /// A placeholder that may be an orphan.
    Placeholder(ServiceKey),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class(name) => write!(f, "class {name}"),
            Self::Claim(key) => write!(f, "claim {key}"),
            Self::Address(name) => write!(f, "address {name}"),
            Self::Service(key) => write!(f, "service {key}"),
            Self::Placeholder(key) => write!(f, "placeholder {key}"),
        }
    }
}

/// The driver's brain.
#[derive(Clone, Debug)]
pub struct Driver {
    index: index::Index,
}

impl Driver {
    /// A brain that knows nothing yet.
    pub fn new(config: Config) -> Self {
        Self { index: index::Index::new(config) }
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

impl Brain for Driver {
    type Key = Key;

    fn apply(&mut self, change: Change) -> Vec<Key> {
        self.index.apply(change)
    }

    fn keys(&self) -> Vec<Key> {
        self.index.keys()
    }

    fn lane(key: &Key) -> u8 {
        match key {
            Key::Class(_) => 0,
            Key::Claim(_) | Key::Address(_) => 1,
            Key::Service(_) | Key::Placeholder(_) => 2,
        }
    }

    fn controller(key: &Key) -> &'static str {
        match key {
            Key::Class(_) => "class",
            Key::Claim(_) => "claim",
            Key::Address(_) => "address",
            Key::Service(_) => "service",
            Key::Placeholder(_) => "placeholder",
        }
    }

    fn decide(&mut self, key: &Key, moment: &Moment) -> Plan {
        decide::decide(&mut self.index, key, moment)
    }

    fn settle(&mut self, _key: &Key) {}

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
