//! What the runtime asks of a controller's brain.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use crate::{Change, Gauge, Plan, Timer, Timing};

/// What a decision may know of the world outside the cluster: brains have no clock and no dice.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time.
    pub now: jiff::Timestamp,
    /// 128 fresh random bits.
    pub entropy: u128,
}

impl Moment {
    /// How much is left of a time that began then; nothing if it is over.
    pub fn left_of(&self, time: Duration, since: jiff::Timestamp) -> Option<Duration> {
        let passed = Duration::try_from(self.now.duration_since(since)).unwrap_or_default();
        time.checked_sub(passed).filter(|left| !left.is_zero())
    }
}

/// A controller's brain: an index, and decisions over it.
pub trait Brain: Send + 'static {
    /// What is decided about, one at a time each.
    type Key: Clone + Eq + Ord + Hash + fmt::Debug + fmt::Display + Send + Sync + 'static;

    /// Takes in a change and tells which keys it made dirty. The cost must not grow with the fleet, except
    /// for [`Change::Listed`].
    fn apply(&mut self, change: Change) -> Vec<Self::Key>;

    /// Every key there is, the oldest first: decided once, when every cache is complete.
    fn keys(&self) -> Vec<Self::Key>;

    /// The queue a key waits in: lower ones go first.
    fn lane(key: &Self::Key) -> u8;

    /// The name that metrics and logs use for keys of this kind: `claim`, `address`.
    fn controller(key: &Self::Key) -> &'static str;

    /// Decides what is to be done about a key. Total: bad input becomes a condition and an event in the
    /// plan. May mark choices as assumed, until [`settle`](Self::settle).
    fn decide(&mut self, key: &Self::Key, moment: &Moment) -> Plan;

    /// The plan made for this key was carried out, or given up: nothing is assumed for it any more.
    fn settle(&mut self, key: &Self::Key);

    /// Keys that may gain by what [`settle`](Self::settle) released: to be asked for after each settling. A
    /// plan that was given up may leave free what another key did without.
    fn freed(&mut self) -> Vec<Self::Key> {
        Vec::new()
    }

    /// What this brain measures the time of.
    fn timers() -> &'static [Timer] {
        &[]
    }

    /// What has ended since this was asked last. Asked after each change.
    fn ended(&mut self) -> Vec<Timing> {
        Vec::new()
    }

    /// How much there is of what. Asked whenever somebody reads the metrics, while decisions wait: it must be told from
    /// what was counted as it changed, or from what is few.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
}
