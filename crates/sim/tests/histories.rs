//! Histories of the deterministic world (docs/simulator.md). `cargo verify --only sim` runs many more of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use sim::history::History;
use sim::planted::Saboteur;
use sim::profile::Profile;

const SEEDS: u64 = 40;

fn holds_in(profile: Profile) {
    for seed in 0..SEEDS {
        let ended = History::of(seed, Some(profile)).run(false, Saboteur::default());
        assert!(ended.violation.is_none(), "{profile:?}, seed {seed}: {:?}", ended.violation);
    }
}

/// Nobody breaks a hold from outside: the law holds at every step, with no excuse.
#[test]
fn c10_no_hold_is_lost_in_any_history() {
    holds_in(Profile::Strict);
}

/// Where a handoff goes through a gap, nothing is given to another by us, and the ledger is right at rest.
#[test]
fn c11_the_ledger_is_right_after_any_history_with_gaps() {
    holds_in(Profile::Gaps);
}

#[test]
fn a_seed_is_one_history() {
    for seed in 0..SEEDS {
        let history = History::of(seed, None);
        let (first, second) =
            (history.run(false, Saboteur::default()), history.run(true, Saboteur::default()));
        assert_eq!((first.steps, first.digest), (second.steps, second.digest), "seed {seed}");
    }
}
