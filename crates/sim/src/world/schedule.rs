//! When which key is worked on, by the rules of the runtime's own queue, on virtual time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Milliseconds of virtual time.
pub type Millis = u64;

const ERROR: (Millis, Millis) = (5, 300_000);
const STALE: (Millis, Millis) = (20, 5_000);
const DIRTY_ERROR: Millis = 1_000;

/// How the work on a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    Rest,
    In(Millis),
    Stale,
    Error(Millis),
}

/// The keys that wait, are worked on, or are due later.
pub struct Schedule<K> {
    lane: fn(&K) -> u8,
    lanes: BTreeMap<u8, VecDeque<K>>,
    waiting: BTreeSet<K>,
    in_flight: BTreeMap<K, bool>,
    due: BTreeSet<(Millis, K)>,
    due_of: BTreeMap<K, Millis>,
    /// Lost races and errors in a row.
    tries: BTreeMap<K, (u32, u32)>,
}

impl<K: Clone + Ord> Schedule<K> {
    pub fn new(lane: fn(&K) -> u8) -> Self {
        Self {
            lane,
            lanes: BTreeMap::new(),
            waiting: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            due: BTreeSet::new(),
            due_of: BTreeMap::new(),
            tries: BTreeMap::new(),
        }
    }

    /// Asks for work on a key.
    pub fn add(&mut self, key: K) {
        if let Some(dirty) = self.in_flight.get_mut(&key) {
            *dirty = true;
            return;
        }
        if self.waiting.insert(key.clone()) {
            if let Some(at) = self.due_of.remove(&key) {
                self.due.remove(&(at, key.clone()));
            }
            self.lanes.entry((self.lane)(&key)).or_default().push_back(key);
        }
    }

    /// The keys whose delay is over wait from now on.
    pub fn promote(&mut self, now: Millis) {
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.due.pop_first() else { return };
            self.due_of.remove(&key);
            self.add(key);
        }
    }

    pub fn has_work(&self, now: Millis) -> bool {
        !self.waiting.is_empty() || self.next_due().is_some_and(|at| at <= now)
    }

    pub fn next_due(&self) -> Option<Millis> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Whether the key is to be decided anew without a change to the cluster.
    pub fn is_due_later(&self, key: &K) -> bool {
        self.due_of.contains_key(key)
    }

    pub fn take(&mut self, now: Millis) -> Option<K> {
        self.promote(now);
        let key = self.lanes.values_mut().find_map(VecDeque::pop_front)?;
        self.waiting.remove(&key);
        self.in_flight.insert(key.clone(), false);
        Some(key)
    }

    /// The work on a key ended.
    pub fn done(&mut self, key: &K, after: After, now: Millis) {
        let dirty = self.in_flight.remove(key).unwrap_or(false);
        let delay = self.delay(key, after);
        let delay = match (after, delay, dirty) {
            (After::Error(_), Some(delay), true) => Some(delay.min(DIRTY_ERROR)),
            (_, _, true) => Some(0),
            (_, delay, false) => delay,
        };
        match delay {
            None => {}
            Some(0) => self.add(key.clone()),
            Some(delay) => {
                self.due.insert((now + delay, key.clone()));
                self.due_of.insert(key.clone(), now + delay);
            }
        }
    }

    fn delay(&mut self, key: &K, after: After) -> Option<Millis> {
        let tries = self.tries.entry(key.clone()).or_default();
        let delay = match after {
            After::Rest => None,
            After::In(delay) => Some(delay.max(1)),
            After::Stale => {
                tries.0 += 1;
                return Some(backoff(STALE, tries.0));
            }
            After::Error(at_least) => {
                tries.1 += 1;
                return Some(backoff(ERROR, tries.1).max(at_least));
            }
        };
        self.tries.remove(key);
        delay
    }
}

fn backoff((first, longest): (Millis, Millis), tries: u32) -> Millis {
    (first << tries.saturating_sub(1).min(20)).min(longest)
}
