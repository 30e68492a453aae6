//! One seed, one history: run, replayed, shrunk.

use crate::chance::Chance;
use crate::planted::Saboteur;
use crate::profile::{Profile, Script, Setup};
use crate::world::World;
use crate::world::env::Violation;

/// A history that can be run any number of times.
#[derive(Clone, Debug)]
pub struct History {
    pub seed: u64,
    pub setup: Setup,
    pub script: Script,
    /// Decides the order in which everybody works.
    pub order: u64,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    pub steps: u64,
    pub digest: u64,
    pub violation: Option<Violation>,
    pub story: Vec<String>,
}

impl History {
    pub fn of(seed: u64, profile: Option<Profile>) -> Self {
        let mut chance = Chance::of(seed.wrapping_mul(0x9e37_79b9).wrapping_add(7));
        let setup = Setup::of(profile.unwrap_or_else(|| Profile::of(seed)), &mut chance);
        let script = Script::of(&setup, &mut chance);
        Self { seed, setup, script, order: chance.bits() }
    }

    /// Runs it, with or without a story. A panic of a model or a brain is a violation too.
    pub fn run(&self, tell: bool, saboteur: Saboteur) -> Ended {
        let mut world = World::new(&self.setup, self.script.clone(), self.order, saboteur);
        if tell {
            world.env.story.get_or_insert_default();
        }
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run()));
        let violation = ran.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let words = text.unwrap_or("a panic without words").to_owned();
            Some(Violation { law: "nothing panics", words })
        });
        Ended {
            steps: world.steps,
            digest: world.env.digest,
            violation,
            story: world.env.story.take().unwrap_or_default(),
        }
    }

    /// Which entries of the script can be left out so that the same law is still broken: halves first, then single
    /// ones, until nothing more can go.
    pub fn shrink(&self, law: &str, saboteur: &Saboteur) -> Vec<usize> {
        let count = self.script.entries.len();
        let fails = |dropped: &[usize]| {
            let shorter = Self { script: self.script.without(dropped), ..self.clone() };
            shorter.run(false, saboteur.clone()).violation.is_some_and(|violation| violation.law == law)
        };
        let mut dropped: Vec<usize> = Vec::new();
        let mut size = count.div_ceil(2).max(1);
        loop {
            let before = dropped.len();
            let mut from = 0;
            while from < count {
                let mut tried = dropped.clone();
                tried.extend((from..count.min(from + size)).filter(|at| !dropped.contains(at)));
                if tried.len() > dropped.len() && fails(&tried) {
                    dropped = tried;
                }
                from += size;
            }
            if size == 1 && dropped.len() == before {
                dropped.sort_unstable();
                return dropped;
            }
            size = size.div_ceil(2).max(1);
        }
    }
}
