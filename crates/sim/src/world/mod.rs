//! The world: both controllers, two processes each, over one cluster; and a scheduler that picks what happens next.

mod answers;
pub mod env;
pub mod lease;
pub mod manager;
pub mod replica;
pub mod rest;
pub mod schedule;
pub mod stream;
mod words;

use ::metallb::Driver;
use binder::Binder;
use plan::Kind;

use crate::chance::Chance;
use crate::law::{self, Law};
use crate::metallb::MetalLb;
use crate::planted::Saboteur;
use crate::profile::{Script, Setup};
use crate::users;
use env::{Env, Side, Violation};
use replica::{Act, Replica};
use schedule::Millis;

/// What the core watches, as its main has it.
const CORE_KINDS: [Kind; 3] = [Kind::Class, Kind::Address, Kind::Claim];
/// What the driver watches, as its main has it.
const DRIVER_KINDS: [Kind; 7] =
    [Kind::Class, Kind::Address, Kind::Claim, Kind::Service, Kind::Namespace, Kind::Pool, Kind::Event];

/// One thing that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Core(usize, Act),
    Driver(usize, Act),
    /// A call arrives at the server.
    Arrive(u64),
    /// A write of a Lease arrives.
    ArriveLease(Side, usize),
    MetalLb,
    Manager,
    Time,
}

/// How often each sort of step is picked when it can be: each seed has its own.
#[derive(Clone, Debug)]
pub struct Weights {
    hear: [u64; 2],
    take: u64,
    send: u64,
    answer: u64,
    arrive: u64,
    elect: u64,
    list: u64,
    start: u64,
    metallb: u64,
    manager: u64,
    time: u64,
    longest: u64,
}

impl Weights {
    /// Some are fast in this world, and others slow.
    pub fn of(chance: &mut Chance) -> Self {
        let fast = chance.below(2) == 0;
        let mut one = || [1, 4, 16, 64][chance.below(4)];
        Self {
            hear: [one(), one()],
            take: one(),
            send: one(),
            answer: one(),
            arrive: one(),
            elect: one(),
            list: one(),
            start: one(),
            metallb: one(),
            manager: one(),
            time: if fast { 1 } else { 4 },
            longest: [200, 1_000, 4_000][chance.below(3)],
        }
    }

    fn of_act(&self, side: Side, act: Act) -> u64 {
        match act {
            Act::Start => self.start,
            Act::List(_) | Act::Listed(_) => self.list,
            Act::Hear(_) => self.hear[side as usize],
            Act::Take => self.take,
            Act::Send(_) => self.send,
            Act::Answer(_) | Act::Timeout(_) => self.answer,
            Act::Elect | Act::Elected => self.elect,
        }
    }
}

/// The world.
pub struct World {
    pub env: Env,
    pub core: Vec<Replica<Binder>>,
    pub driver: Vec<Replica<Driver>>,
    pub steps: u64,
    weights: Weights,
    script: Script,
    can: Vec<(u64, Step)>,
}

impl World {
    pub fn new(setup: &Setup, script: Script, order: u64, saboteur: Saboteur) -> Self {
        let config = setup.config.clone();
        let mut metallb = MetalLb::shuffled(order);
        metallb.lb_class.clone_from(&config.lb_class);
        let law = Law::new(config.gap || !config.hold_on_delete);
        let mut chance = Chance::of(order ^ 0x5157);
        let weights = Weights::of(&mut chance);
        let mut env = Env::new(config, metallb, chance.bits(), law);
        env.saboteur = saboteur;
        let numbers = 0..setup.replicas;
        let core =
            numbers.clone().map(|number| Replica::new(Side::Core, number, &CORE_KINDS, |_| Binder::new()));
        let driver = numbers.map(|number| {
            Replica::new(Side::Driver, number, &DRIVER_KINDS, |env| Driver::new(env.config.clone()))
        });
        let (core, driver) = (core.collect(), driver.collect());
        let mut world = Self { env, core, driver, steps: 0, weights, script, can: Vec::new() };
        users::found(&mut world.env, setup);
        world
    }

    /// Runs the whole history: the script with everybody's work in between, then to rest. What it broke.
    pub fn run(&mut self) -> Option<Violation> {
        let script = std::mem::take(&mut self.script);
        for entry in &script.entries {
            while self.steps < entry.at && self.env.violation.is_none() {
                // In a world at rest, nobody waits long for the next.
                if !self.step() && self.env.chance.below(4) == 0 {
                    break;
                }
            }
            if self.env.violation.is_some() {
                break;
            }
            users::apply(self, &entry.op);
            self.changed();
        }
        while self.steps < script.end && self.env.violation.is_none() {
            self.step();
        }
        if self.env.violation.is_none() {
            self.finish();
        }
        self.env.violation.clone()
    }

    /// Somebody wrote: the watches learn of it, and the law is looked at.
    pub fn changed(&mut self) {
        self.env.spread();
        law::check(&mut self.env);
    }

    fn collect(&mut self) {
        let mut can = std::mem::take(&mut self.can);
        can.clear();
        let (env, weights) = (&self.env, &self.weights);
        for replica in &self.core {
            let mut add = |act| can.push((weights.of_act(Side::Core, act), Step::Core(replica.number, act)));
            replica.enabled(env, &mut add);
            if replica.elector.is_sent() && !env.elections_over {
                can.push((weights.elect, Step::ArriveLease(Side::Core, replica.number)));
            }
        }
        for replica in &self.driver {
            let mut add =
                |act| can.push((weights.of_act(Side::Driver, act), Step::Driver(replica.number, act)));
            replica.enabled(env, &mut add);
            if replica.elector.is_sent() && !env.elections_over {
                can.push((weights.elect, Step::ArriveLease(Side::Driver, replica.number)));
            }
        }
        can.extend(env.under_way().map(|wire| (weights.arrive, Step::Arrive(wire))));
        if !env.metallb.is_idle() {
            can.push((weights.metallb, Step::MetalLb));
        }
        if manager::has_work(&env.server) {
            can.push((weights.manager, Step::Manager));
        }
        self.can = can;
    }

    /// One step of somebody. Says whether anybody but the clock could do one.
    pub fn step(&mut self) -> bool {
        self.collect();
        let busy = !self.can.is_empty();
        if !busy {
            self.env.quiet = true;
            law::check(&mut self.env);
            self.env.quiet = false;
        }
        self.can.push((self.weights.time, Step::Time));
        let total: u64 = self.can.iter().map(|(weight, _)| weight).sum();
        let mut at = self.env.chance.bits() % total;
        let mut picked = Step::Time;
        for (weight, step) in &self.can {
            if at < *weight {
                picked = *step;
                break;
            }
            at -= weight;
        }
        self.perform(picked, busy);
        busy
    }

    fn perform(&mut self, step: Step, busy: bool) {
        self.steps += 1;
        let time = self.env.chance.bits() % 4;
        self.env.pass(time);
        match step {
            Step::Core(number, act) => self.core[number].act(&mut self.env, act),
            Step::Driver(number, act) => self.driver[number].act(&mut self.env, act),
            Step::Arrive(wire) => {
                self.env.arrive(wire);
                law::check(&mut self.env);
            }
            Step::ArriveLease(Side::Core, number) => {
                let identity = self.core[number].identity();
                self.core[number].elector.arrive(&mut self.env, Side::Core, identity);
            }
            Step::ArriveLease(Side::Driver, number) => {
                let identity = self.driver[number].identity();
                self.driver[number].elector.arrive(&mut self.env, Side::Driver, identity);
            }
            Step::MetalLb => {
                if let Some(said) = self.env.metallb.step(&mut self.env.server) {
                    self.env.say(|| format!("      metallb {said}"));
                }
                self.changed();
            }
            Step::Manager => {
                let said = manager::step(&mut self.env.server, &mut self.env.chance);
                self.env.say(|| format!("      {said}"));
                self.changed();
            }
            Step::Time => {
                let longest = self.weights.longest;
                let time = 1 + self.env.chance.bits() % longest;
                // Nobody can do anything before that.
                let idle = self.next_due().map_or(0, |at| at.saturating_sub(self.env.now()));
                self.env.pass(if busy { time } else { time.max(idle.min(20_000)) });
            }
        }
    }

    fn next_due(&self) -> Option<Millis> {
        let core = self.core.iter().filter_map(|replica| replica.next_due(&self.env));
        core.chain(self.driver.iter().filter_map(|replica| replica.next_due(&self.env))).min()
    }

    pub fn crash(&mut self, side: Side, number: usize, why: &str) {
        match side {
            Side::Core => self.core[number].crash(&mut self.env, why),
            Side::Driver => self.driver[number].crash(&mut self.env, why),
        }
    }
}
