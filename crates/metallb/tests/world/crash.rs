//! One scenario in every pace, and with the driver killed after each of its writes.

use super::build::Setup;
use super::{Pace, World};

/// How many random orders each scenario is run in.
const SEEDS: u64 = 3;

/// The paces that every scenario is run in.
pub fn paces() -> Vec<Pace> {
    let mut paces = vec![Pace::Eager, Pace::Lazy, Pace::Stale];
    paces.extend((1..=SEEDS).map(Pace::Shuffled));
    paces
}

/// Runs `act` on the set-up world in every pace, and dies after each write in two of them; the end must be the same, and
/// pass `check`. `act` need not settle at its end.
pub fn everywhere(setup: &Setup, act: impl Fn(&mut World), check: impl Fn(&World)) {
    from(|pace| setup.world(pace), act, check);
}

/// As [`everywhere`], on a world of one's own making.
pub fn from(setup: impl Fn(Pace) -> World, act: impl Fn(&mut World), check: impl Fn(&World)) {
    run(setup, act, check, true);
}

/// As [`from`], where more than one end is right: who gets what is free is MetalLB's choice.
pub fn freely(setup: impl Fn(Pace) -> World, act: impl Fn(&mut World), check: impl Fn(&World)) {
    run(setup, act, check, false);
}

fn run(setup: impl Fn(Pace) -> World, act: impl Fn(&mut World), check: impl Fn(&World), same: bool) {
    let mut expected = None;
    for pace in paces() {
        let origin = setup(pace);
        let mut once = |kill_after: Option<usize>| {
            let mut world = origin.fork();
            world.settle();
            world.mark();
            // Every other driver lists the kinds in the opposite order.
            world.events_first = kill_after.is_some_and(|after| after % 2 == 1);
            world.kill_after = kill_after;
            act(&mut world);
            world.settle();
            check(&world);
            let digest = world.digest();
            let first = expected.get_or_insert_with(|| digest.clone());
            let words = || format!("{pace:?}, killed after {kill_after:?}; {}", world.last_words(60));
            assert!(!same || *first == digest, "{first}\nor\n{digest}\n{}", words());
            world.writes
        };
        let writes = once(None);
        let step = match pace {
            Pace::Eager => 1,
            Pace::Lazy => 2,
            Pace::Stale | Pace::Shuffled(_) => continue,
        };
        for after in (1..=writes).step_by(step) {
            once(Some(after));
        }
    }
}
