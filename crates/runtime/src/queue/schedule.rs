//! When which key is worked on: no clock, no tasks, only the rules.
//!
//! A key waits at most once, is never worked on twice at the same time, and one that is added while it is
//! worked on runs again after. Lower lanes go first. What went wrong is tried again after a delay that
//! doubles; a change to the cluster cuts that delay short.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// The first and the longest delay after an error.
const ERROR: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(300));
/// The first and the longest delay after a lost race.
const STALE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));
/// A key that was refused while it was added again waits at most this long: the change may be the cure, or
/// our own doing.
const DIRTY_ERROR: Duration = Duration::from_secs(1);

/// So many keys may wait without more memory.
const ROOM: usize = 1024;

/// How the work on a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Well; and nothing more to do until something changes.
    Rest,
    /// Well; and again after this time.
    In(Duration),
    /// Overtaken by somebody else's write.
    Stale,
    /// Badly; not again before this time.
    Error(Duration),
}

#[derive(Default)]
struct Tries {
    stale: u32,
    error: u32,
}

/// The keys that wait, are worked on, or are due later.
pub(crate) struct Schedule<K> {
    lane: fn(&K) -> u8,
    lanes: BTreeMap<u8, VecDeque<K>>,
    waiting: HashMap<K, Instant>,
    in_flight: HashMap<K, bool>,
    due: BTreeSet<(Instant, K)>,
    due_of: HashMap<K, Instant>,
    tries: HashMap<K, Tries>,
}

impl<K: Clone + Eq + Ord + Hash> Schedule<K> {
    pub(crate) fn new(lane: fn(&K) -> u8) -> Self {
        Self {
            lane,
            lanes: BTreeMap::new(),
            waiting: HashMap::new(),
            in_flight: HashMap::new(),
            due: BTreeSet::new(),
            due_of: HashMap::new(),
            tries: HashMap::new(),
        }
    }

    /// Asks for work on a key. Whether it now waits and did not before.
    pub(crate) fn add(&mut self, key: K, now: Instant) -> bool {
        if let Some(dirty) = self.in_flight.get_mut(&key) {
            *dirty = true;
            return false;
        }
        if self.waiting.contains_key(&key) {
            return false;
        }
        self.forget_delay(&key);
        self.lanes.entry((self.lane)(&key)).or_default().push_back(key.clone());
        self.waiting.insert(key, now);
        true
    }

    /// The keys whose delay is over, which wait from now on.
    pub(crate) fn promote(&mut self, now: Instant) -> Vec<K> {
        let mut promoted = Vec::new();
        while let Some((at, _)) = self.due.first() {
            if *at > now {
                break;
            }
            let Some((_, key)) = self.due.pop_first() else { break };
            self.due_of.remove(&key);
            if self.add(key.clone(), now) {
                promoted.push(key);
            }
        }
        promoted
    }

    /// The next key to work on, and since when it waited.
    pub(crate) fn take(&mut self) -> Option<(K, Instant)> {
        let key = self.lanes.values_mut().find_map(VecDeque::pop_front)?;
        let since = self.waiting.remove(&key)?;
        if self.waiting.is_empty() {
            self.shrink();
        }
        self.in_flight.insert(key.clone(), false);
        Some((key, since))
    }

    /// All that there is waits when a process starts, and hardly ever again.
    fn shrink(&mut self) {
        self.waiting.shrink_to(ROOM);
        self.lanes.values_mut().for_each(|lane| lane.shrink_to(ROOM));
    }

    /// The work on a key ended. Whether it waits again at once.
    pub(crate) fn done(&mut self, key: &K, after: After, now: Instant) -> bool {
        let dirty = self.in_flight.remove(key).unwrap_or(false);
        let delay = self.delay(key, after);
        let delay = match (after, delay, dirty) {
            (After::Error(_), Some(delay), true) => Some(delay.min(DIRTY_ERROR)),
            (_, _, true) => Some(Duration::ZERO),
            (_, delay, false) => delay,
        };
        match delay {
            None => false,
            Some(delay) if delay.is_zero() => self.add(key.clone(), now),
            Some(delay) => {
                self.due.insert((now + delay, key.clone()));
                self.due_of.insert(key.clone(), now + delay);
                false
            }
        }
    }

    /// When the next delay is over.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// How often work on this key went wrong since it last went well.
    pub(crate) fn errors(&self, key: &K) -> u32 {
        self.tries.get(key).map_or(0, |tries| tries.error)
    }

    fn delay(&mut self, key: &K, after: After) -> Option<Duration> {
        match after {
            After::Rest => {
                self.tries.remove(key);
                None
            }
            After::In(delay) => {
                self.tries.remove(key);
                Some(delay.max(Duration::from_millis(1)))
            }
            After::Stale => {
                let tries = self.tries.entry(key.clone()).or_default();
                tries.stale = tries.stale.saturating_add(1);
                Some(backoff(STALE, tries.stale))
            }
            After::Error(at_least) => {
                let tries = self.tries.entry(key.clone()).or_default();
                tries.error = tries.error.saturating_add(1);
                Some(backoff(ERROR, tries.error).max(at_least))
            }
        }
    }

    fn forget_delay(&mut self, key: &K) {
        if let Some(at) = self.due_of.remove(key) {
            self.due.remove(&(at, key.clone()));
        }
    }
}

fn backoff((first, longest): (Duration, Duration), tries: u32) -> Duration {
    let doubled = first.saturating_mul(1 << tries.saturating_sub(1).min(20));
    doubled.min(longest).mul_f64(rand::random_range(0.9..=1.1))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn schedule() -> (Schedule<&'static str>, Instant) {
        (Schedule::new(|key: &&str| u8::from(key.starts_with("low"))), Instant::now())
    }

    fn taken(schedule: &mut Schedule<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| schedule.take().map(|(key, _)| key)).collect()
    }

    #[test]
    fn lower_lanes_go_first_and_a_key_waits_once() {
        let (mut schedule, now) = schedule();
        let added: Vec<bool> =
            ["low-1", "a", "low-2", "b", "a"].into_iter().map(|key| schedule.add(key, now)).collect();
        assert_eq!(added, [true, true, true, true, false]);
        assert_eq!(taken(&mut schedule), ["a", "b", "low-1", "low-2"]);
    }

    #[test]
    fn never_twice_at_the_same_time_but_again_after() {
        let (mut schedule, now) = schedule();
        schedule.add("a", now);
        assert_eq!(taken(&mut schedule), ["a"]);
        assert!(!schedule.add("a", now));
        assert_eq!(taken(&mut schedule), [""; 0]);
        assert!(schedule.done(&"a", After::Rest, now));
        assert_eq!(taken(&mut schedule), ["a"]);
        assert!(!schedule.done(&"a", After::Rest, now));
        assert_eq!((taken(&mut schedule), schedule.next_due()), (vec![], None));
    }

    #[test]
    fn a_change_cuts_a_delay_short() {
        let (mut schedule, now) = schedule();
        schedule.add("a", now);
        schedule.take();
        schedule.done(&"a", After::In(1000 * MS), now);
        assert_eq!(schedule.next_due(), Some(now + 1000 * MS));
        assert_eq!(schedule.promote(now + 999 * MS), [""; 0]);
        assert!(schedule.add("a", now));
        assert_eq!((taken(&mut schedule), schedule.next_due()), (vec!["a"], None));
        schedule.done(&"a", After::In(1000 * MS), now);
        assert_eq!(schedule.promote(now + 1000 * MS), ["a"]);
    }

    #[rstest]
    #[case(After::Error(Duration::ZERO), false, &[5, 10, 20, 40], 300_000)]
    #[case(After::Error(Duration::ZERO), true, &[5, 10, 20, 40], 1000)]
    #[case(After::Error(2000 * MS), false, &[2000, 2000], 300_000)]
    #[case(After::Stale, false, &[20, 40, 80], 5000)]
    fn delays_double(#[case] after: After, #[case] dirty: bool, #[case] first: &[u64], #[case] longest: u64) {
        let (mut schedule, now) = schedule();
        let mut delays = vec![];
        for _ in 0..25 {
            schedule.add("a", now);
            schedule.take();
            if dirty {
                schedule.add("a", now);
            }
            assert!(!schedule.done(&"a", after, now));
            delays.push(u64::try_from((schedule.next_due().unwrap() - now).as_millis()).unwrap());
        }
        for (delay, expected) in delays.iter().zip(first.iter().copied()).chain([(&delays[24], longest)]) {
            assert!((expected * 9 / 10 - 1..=expected * 11 / 10).contains(delay), "{delay} {expected}");
        }
        schedule.add("a", now);
        schedule.take();
        schedule.done(&"a", After::Rest, now);
        assert_eq!(schedule.errors(&"a"), 0);
    }

    #[test]
    fn a_lost_race_with_news_runs_at_once() {
        let (mut schedule, now) = schedule();
        schedule.add("a", now);
        schedule.take();
        schedule.add("a", now);
        assert!(schedule.done(&"a", After::Stale, now));
    }
}
