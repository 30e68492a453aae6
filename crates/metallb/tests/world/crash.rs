//! One scenario in every pace, and with the driver killed after each of its writes.

use super::{Pace, World};
use super::build::Setup;

/// How many random orders each scenario is run in.
const SEEDS: u64 = 6;

/// The paces that every scenario is run in.
pub fn paces() -> Vec<Pace> {
    let mut paces = vec![Pace::Eager, Pace::Lazy, Pace::Stale];
    paces.extend((1..=SEEDS).map(Pace::Shuffled));
    paces
}

/// Runs `act` on the set-up world in every pace, and dies after each write in each of the ordered ones; the
/// end must be the same, and pass `check`. `act` need not settle at its end.
pub fn everywhere(setup: &Setup, act: impl Fn(&mut World), check: impl Fn(&World)) {
    from(|pace| setup.world(pace), act, check);
}

/// As [`everywhere`], on a world of one's own making.
pub fn from(setup: impl Fn(Pace) -> World, act: impl Fn(&mut World), check: impl Fn(&World)) {
    let mut expected = None;
    for pace in paces() {
        let mut world = setup(pace);
        world.mark();
        act(&mut world);
        world.settle();
        check(&world);
        let digest = world.digest();
        let first = expected.get_or_insert_with(|| digest.clone());
        assert_eq!(*first, digest, "the end of {pace:?} differs; {}", world.last_words(60));
        if matches!(pace, Pace::Shuffled(seed) if seed > 2) {
            continue;
        }
        for after in 1..=world.writes {
            let mut world = setup(pace);
            world.mark();
            world.events_first = after % 2 == 1;
            world.kill_after = Some(after);
            act(&mut world);
            world.settle();
            check(&world);
            let words = || format!("{pace:?}, killed after write {after}; {}", world.last_words(60));
            assert_eq!(*first, world.digest(), "{}", words());
        }
    }
}
