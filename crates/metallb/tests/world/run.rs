//! Runs the world to rest: the driver's plans carried out as the runtime does it, with everybody else acting in
//! between.

use std::collections::BTreeSet;

use ::metallb::Key;
use jiff::SignedDuration;
use plan::{Action, Brain, Call, Change, Event, Execution, Kind, Moment, Outcome, Reply};

use super::law::Law;
use super::{Pace, World, core, is_heard, render};
use sim::server::Answer;

impl World {
    /// Everybody acts until nobody has anything left to do, and the rest is a real one.
    pub fn settle(&mut self) {
        for _ in 0..4000 {
            if !self.turn() {
                self.assert_rest();
                return;
            }
        }
        panic!("the world does not come to rest:\n{}", self.last_words(60));
    }

    /// At most so many pieces of work.
    pub fn turns(&mut self, turns: usize) {
        for _ in 0..turns {
            if !self.turn() {
                return;
            }
        }
    }

    pub fn last_words(&self, lines: usize) -> String {
        let from = self.story.len().saturating_sub(lines);
        self.story[from..].join("\n")
    }

    /// One piece of somebody's work. Says whether there was any.
    fn turn(&mut self) -> bool {
        if self.killed {
            self.restart();
            return true;
        }
        match self.pace {
            Pace::Eager => {
                self.ripple();
                self.hear_all();
                self.pass_one()
            }
            Pace::Lazy => {
                self.run_core();
                self.hear_all();
                self.pass_one() || self.step_metallb()
            }
            Pace::Stale => {
                self.ripple();
                self.pass_one() || self.hear_one()
            }
            Pace::Shuffled(_) => {
                let first = self.chance.below(4);
                (0..4).any(|offset| match (first + offset) % 4 {
                    0 => self.pass_one(),
                    1 => self.step_metallb(),
                    2 => self.hear_one(),
                    _ => self.run_core(),
                })
            }
        }
    }

    /// What follows at once from any write, by the pace.
    pub fn ripple(&mut self) {
        self.notice();
        self.check();
        if matches!(self.pace, Pace::Eager | Pace::Stale) {
            while self.step_metallb() || self.run_core() {}
        }
    }

    /// MetalLB hears of what was written.
    fn notice(&mut self) {
        for reference in std::mem::take(&mut self.server.touched) {
            self.core_has_work |= matches!(reference.kind, Kind::Class | Kind::Claim | Kind::Address);
            self.metallb.notice(&reference);
        }
    }

    pub fn step_metallb(&mut self) -> bool {
        self.notice();
        let said = self.metallb.step(&mut self.server);
        let worked = said.is_some();
        if let Some(said) = said {
            self.story.push(format!("    metallb {said}"));
            self.notice();
            self.check();
        }
        worked
    }

    fn run_core(&mut self) -> bool {
        self.notice();
        if !std::mem::take(&mut self.core_has_work) {
            return false;
        }
        core::run(&mut self.server);
        let worked = !self.server.touched.is_empty();
        self.notice();
        self.core_has_work = false;
        if worked {
            self.check();
        }
        worked
    }

    /// The driver hears of all that was, and does nothing yet.
    pub fn hear_all(&mut self) {
        while self.hear_one() {}
    }

    fn hear_one(&mut self) -> bool {
        let Some(change) = self.server.watch.pop_front() else { return false };
        let heard = match &change {
            Change::Applied(object) | Change::Deleted(object) => is_heard(object),
            _ => true,
        };
        if heard {
            self.absorb(change);
        }
        true
    }

    fn absorb(&mut self, change: Change) {
        let dirty = self.driver.apply(change);
        self.seen.extend(dirty.iter().cloned());
        self.enqueue(dirty);
    }

    /// The driver decides about one key, and does it.
    fn pass_one(&mut self) -> bool {
        let Some((_, _, key)) = self.queue.pop_first() else { return false };
        self.queued.remove(&key);
        self.seen.insert(key.clone());
        self.server.pass(SignedDuration::from_millis(10));
        let moment = Moment { now: self.server.now(), entropy: self.entropy() };
        let plan = self.driver.decide(&key, &moment);
        if !plan.actions.is_empty() {
            self.story.push(format!("driver decides about {key}"));
        }
        let outcome = self.carry_out(&plan.actions);
        self.driver.settle(&key);
        let mut standing = plan.standing;
        match outcome {
            _ if self.killed => {}
            Outcome::Done => {
                self.tell_standing(&key, standing);
                match plan.again_after {
                    Some(delay) => {
                        let at = self.server.now() + SignedDuration::try_from(delay).unwrap();
                        self.timers.insert(key, at);
                    }
                    None => drop(self.timers.remove(&key)),
                }
            }
            Outcome::Stale(words) => {
                self.story.push(format!("    stale: {words}"));
                self.enqueue(vec![key]);
            }
            Outcome::Refused { words, tell } => {
                self.story.push(format!("    refused: {words}"));
                standing.extend(tell);
                self.tell_standing(&key, standing);
                self.timers.insert(key, self.server.now() + SignedDuration::from_secs(5));
            }
            Outcome::Failed { words, .. } => panic!("{key}: {words}"),
        }
        true
    }

    /// Carries out the actions as the runtime does, up to the first that fails or to the driver's death.
    fn carry_out(&mut self, actions: &[Action]) -> Outcome {
        let mut execution = Execution::new(actions.to_vec());
        let mut actions = actions.iter();
        let mut failed = false;
        while let Some(call) = execution.call() {
            // After a failure nothing is carried out any more: the call is a look.
            let action = if failed { None } else { actions.next() };
            if let Some(action) = action {
                Law::judge(&self.server, &self.config, action);
            }
            let reply = self.make(&call, action);
            failed = matches!(reply, Reply::Failed(_));
            if call.is_write() && !failed {
                self.writes += 1;
                if self.is_killed_now() {
                    self.ripple();
                    break;
                }
            }
            if let Some(change) = execution.answer(reply) {
                self.absorb(change);
            }
            if call.is_write() && !failed {
                self.ripple();
            }
        }
        execution.outcome()
    }

    /// One call, and the line that people read of it.
    fn make(&mut self, call: &Call, action: Option<&Action>) -> Reply {
        let reply = match (self.server.write(call), call) {
            (Some(Ok(Answer::Object(object))), _) => Reply::Object(object),
            (Some(Ok(Answer::Gone { .. })), _) => Reply::Gone,
            (Some(Err(refusal)), _) => return Reply::Failed(refusal.into()),
            (None, Call::Read(reference)) => return self.server.read(reference),
            (None, Call::Tell(event)) => {
                self.told.push(event.clone());
                self.emitted += 1;
                Reply::Told
            }
            (None, Call::Trace(span)) => {
                self.spans.push(span.clone());
                Reply::Told
            }
            (None, call) => unreachable!("{call:?}"),
        };
        self.story.extend(action.map(|action| format!("  {}", render::line(action))));
        reply
    }

    fn is_killed_now(&mut self) -> bool {
        match &mut self.kill_after {
            Some(1) => {
                self.kill_after = None;
                self.killed = true;
            }
            Some(left) => *left -= 1,
            None => {}
        }
        self.killed
    }

    fn tell_standing(&mut self, key: &Key, events: Vec<Event>) {
        let inherited = self.inherited.remove(key);
        let before = self.standing.insert(key.clone(), events.clone()).unwrap_or_default();
        for event in events {
            let known = before.contains(&event) || (inherited && self.told.contains(&event));
            if !known && !self.told.last().is_some_and(|last| *last == event) {
                self.story.push(format!("    told {}: {} {}", event.regarding, event.reason, event.note));
                self.told.push(event);
            }
        }
    }

    /// Deciding about every key anew, by this driver and by one just started, writes nothing.
    fn assert_rest(&mut self) {
        let mut fresh = ::metallb::Driver::new(self.config.clone());
        for kind in super::KINDS {
            for change in Change::list(kind, self.heard(kind).cloned()) {
                fresh.apply(change);
            }
        }
        let waiting: BTreeSet<Key> = self.timers.keys().cloned().collect();
        let keys: BTreeSet<Key> =
            self.driver.keys().into_iter().chain(fresh.keys()).chain(self.seen.clone()).collect();
        let moment = Moment { now: self.server.now(), entropy: self.entropy() };
        for key in keys {
            for (name, brain) in [("this", &mut self.driver), ("a fresh", &mut fresh)] {
                let plan = brain.decide(&key, &moment);
                let lines: Vec<_> = plan.actions.iter().map(render::line).collect();
                assert!(
                    lines.is_empty() || waiting.contains(&key),
                    "not at rest: {name} driver, {key}:\n{}\nafter\n{}",
                    lines.join("\n"),
                    self.story.join("\n"),
                );
            }
        }
        self.check();
    }
}
