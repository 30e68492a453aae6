//! The end of a history: faults and users stop, and everything comes to rest, as the law has it.

use std::collections::BTreeSet;

use ::metallb::Driver;
use binder::Binder;
use plan::{Action, Brain, Change, Kind, Moment};

use super::env::{Env, Side};
use super::replica::Replica;
use super::schedule::Millis;
use super::stream::is_heard;
use super::{CORE_KINDS, DRIVER_KINDS, World};
use crate::law;

/// With faults and users stopped, a world must be at rest after so many steps.
const BOUND: u64 = 12_000;
/// So long without a write is rest, though something is to be looked at again later: longer than the longest delay.
const QUIET: Millis = 700_000;

const LIVENESS: &str =
    "with faults and users stopped, everything comes to rest within a bounded number of steps";
const EMPTY: &str = "§3 e: at rest the plan of every key is empty";

impl World {
    pub(super) fn finish(&mut self) {
        self.env.say(|| "-- faults and users stop --".to_owned());
        self.stop_faults();
        let limit = self.steps + BOUND;
        let (mut since, mut news) = (self.env.now(), self.env.news);
        while self.env.violation.is_none() {
            if self.steps > limit {
                let words = format!("still at work after {BOUND} steps");
                return self.env.violated(LIVENESS, words);
            }
            if !self.env.elections_over && self.both_led() {
                self.end_elections();
            }
            if self.step() {
                continue;
            }
            if news != self.env.news {
                (since, news) = (self.env.now(), self.env.news);
            }
            if self.env.elections_over && (self.env.now() - since >= QUIET || self.next_due().is_none()) {
                break;
            }
        }
        if self.env.violation.is_none() {
            self.at_rest();
        }
    }

    fn stop_faults(&mut self) {
        self.env.call_faults.clear();
        self.env.unstick();
        for replica in &mut self.core {
            replica.wake();
        }
        for replica in &mut self.driver {
            replica.wake();
        }
        self.env.server.full_namespaces.clear();
        if self.env.metallb.down {
            self.env.metallb.restart(&mut self.env.server);
        }
        self.changed();
    }

    /// Nothing can cost a leader its lease any more; who was overtaken ends at once.
    fn end_elections(&mut self) {
        self.env.elections_over = true;
        for number in 0..self.core.len() {
            let replica = &self.core[number];
            if replica.elector.leads() && self.env.lease(Side::Core).holder != Some(replica.identity()) {
                self.crash(Side::Core, number, "it lost the lease");
            }
            let replica = &self.driver[number];
            if replica.elector.leads() && self.env.lease(Side::Driver).holder != Some(replica.identity()) {
                self.crash(Side::Driver, number, "it lost the lease");
            }
        }
    }

    fn both_led(&mut self) -> bool {
        let (core, driver) = (*self.env.lease(Side::Core), *self.env.lease(Side::Driver));
        let leads = self.core.iter().any(|one| one.is_deciding() && core.holder == Some(one.identity()));
        leads && self.driver.iter().any(|one| one.is_deciding() && driver.holder == Some(one.identity()))
    }

    fn at_rest(&mut self) {
        let moment = Moment { now: self.env.server.now(), entropy: self.env.entropy() };
        let core = plans(&mut self.core, fresh(&self.env, Binder::new(), &CORE_KINDS), &moment);
        let driver = Driver::new(self.env.config.clone());
        let driver = plans(&mut self.driver, fresh(&self.env, driver, &DRIVER_KINDS), &moment);
        let found: Vec<_> = core.into_iter().chain(driver).collect();
        if !found.is_empty() {
            self.env.violated(EMPTY, found.join("\n    "));
        }
        law::check(&mut self.env);
        law::rest::check(&mut self.env);
    }
}

fn fresh<B: Brain>(env: &Env, mut brain: B, kinds: &[Kind]) -> B {
    for kind in kinds {
        for change in Change::list(*kind, env.server.all(*kind).filter(|object| is_heard(object)).cloned()) {
            drop(brain.apply(change));
        }
    }
    brain
}

/// What a process that decides, one that stands by and one just started would do, but for what waits for its time.
fn plans<B: Brain>(replicas: &mut [Replica<B>], mut fresh: B, moment: &Moment) -> Vec<String> {
    let mut keys: BTreeSet<B::Key> = fresh.keys().into_iter().collect();
    for replica in replicas.iter() {
        keys.extend(replica.brain.iter().flat_map(Brain::keys));
    }
    let mut found = Vec::new();
    for key in keys {
        if replicas.iter().any(|replica| replica.is_deciding() && replica.queue.is_due_later(&key)) {
            continue;
        }
        let mut look = |name: String, brain: &mut B| {
            let plan = brain.decide(&key, moment);
            brain.settle(&key);
            if !plan.actions.is_empty() {
                found.push(format!("{name}, {key}: {}", lines(&plan.actions)));
            }
        };
        for replica in replicas.iter_mut() {
            let name = format!("{:?} {} (decides: {})", replica.side, replica.number, replica.is_deciding());
            if let Some(brain) = &mut replica.brain {
                look(name, brain);
            }
        }
        look("a process just started".to_owned(), &mut fresh);
    }
    found
}

fn lines(actions: &[Action]) -> String {
    let line = |action: &Action| match action {
        Action::Create { object, .. } => format!("create {}", object.reference()),
        Action::Patch { target, body, .. } => format!("patch {} {body}", target.reference),
        Action::Delete { target } => format!("delete {}", target.reference),
        Action::ConfirmAbsent { reference, .. } => format!("confirm that {reference} is gone"),
        Action::Trace(span) => format!("trace {}", span.name),
        Action::Emit(event) => format!("tell {} {}", event.regarding, event.reason),
    };
    actions.iter().map(line).collect::<Vec<_>>().join("; ")
}
