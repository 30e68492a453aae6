//! What a whole cycle writes, for people to read, and how much.

use api::wellknown::CLAIM;
use serde_json::json;

use crate::world::Pace;
use crate::world::build::{Setup, web};

fn cycle() -> (String, String, usize) {
    let mut world = Setup { contended: false, ..Setup::default() }.world(Pace::Eager);
    world.create(web("web-ip"));
    world.settle();
    let forward = world.last_words(usize::MAX);
    let first = world.writes + world.emitted;
    world.mark();
    world.annotate("web", json!({ CLAIM: null }));
    world.settle();
    (forward, world.last_words(usize::MAX), first + world.writes + world.emitted)
}

#[test]
fn c11_90_forward() {
    insta::assert_snapshot!(cycle().0);
}

#[test]
fn c11_91_reverse() {
    insta::assert_snapshot!(cycle().1);
}

#[test]
fn c11_92_a_full_cycle_takes_at_most_twelve_writes_events_included() {
    let writes = cycle().2;
    assert!(writes <= 12, "{writes}");
}
