//! What a whole cycle writes, for people to read, and how much.

use api::wellknown::CLAIM;
use rstest::rstest;
use serde_json::json;

use crate::world::build::{Setup, service_ref, web};
use crate::world::{Pace, World};

fn cycle(back: impl Fn(&mut World)) -> (String, String, usize) {
    let mut world = Setup { contended: false, ..Setup::default() }.world(Pace::Eager);
    world.create(web("web-ip"));
    world.settle();
    let forward = world.last_words(usize::MAX);
    let first = world.writes + world.emitted;
    world.mark();
    back(&mut world);
    world.settle();
    (forward, world.last_words(usize::MAX), first + world.writes + world.emitted)
}

fn unannotated(world: &mut World) {
    world.annotate("web", json!({ CLAIM: null }));
}

#[test]
fn c11_90_forward() {
    insta::assert_snapshot!(cycle(unannotated).0);
}

#[test]
fn c11_91_reverse() {
    insta::assert_snapshot!(cycle(unannotated).1);
}

#[rstest]
#[case::unannotated(unannotated)]
#[case::deleted(|world: &mut World| world.delete(&service_ref("web")))]
fn c11_92_a_full_cycle_takes_at_most_twelve_writes_events_included(#[case] back: impl Fn(&mut World)) {
    let writes = cycle(back).2;
    assert!(writes <= 12, "{writes}");
}
