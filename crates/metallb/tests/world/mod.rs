//! A small world in memory: an API server, MetalLB, a stand-in for the core, and the driver under test. Single
//! threaded; the same run gives the same world.

pub mod build;
pub mod core;
pub mod crash;
pub mod law;
pub mod look;
pub mod render;
pub mod run;

use std::collections::{BTreeMap, BTreeSet};

use ::metallb::{Config, Driver, Key};
use jiff::{SignedDuration, Timestamp};
use plan::{Brain, Change, Event, Kind, Object, Ref};
use serde_json::Value;

use law::Law;
use sim::chance::Chance;
use sim::metallb::MetalLb;
use sim::server::Server;

/// When MetalLB and the core act, and when the driver hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// MetalLB and the core come to rest after every single write, and the watches tell at once.
    Eager,
    /// MetalLB does nothing before the driver has nothing left to do; then one piece of work at a time.
    Lazy,
    /// The driver sees only the answers to its own writes until it is at rest; then one watch event at a time.
    Stale,
    /// Everybody acts in an order that the seed decides.
    Shuffled(u64),
}

/// The world.
pub struct World {
    pub server: Server,
    pub metallb: MetalLb,
    pub driver: Driver,
    pub config: Config,
    pub pace: Pace,
    pub law: Law,
    /// What was told, and whom: told again only after it went away.
    pub told: Vec<Event>,
    /// What everybody did, for people.
    pub story: Vec<String>,
    /// The driver's actions since the last [`World::mark`], as (writes, events).
    pub writes: usize,
    pub emitted: usize,
    /// The spans that were handed out.
    pub spans: Vec<plan::trace::Span>,
    /// Which operations are traced.
    pub sampler: Option<plan::trace::Sampler>,
    /// The driver dies after this many further writes.
    pub kill_after: Option<usize>,
    /// In which order a driver that starts lists the kinds.
    pub events_first: bool,
    queue: BTreeSet<(u8, u64, Key)>,
    queued: BTreeMap<Key, u64>,
    seen: BTreeSet<Key>,
    standing: BTreeMap<Key, Vec<Event>>,
    inherited: BTreeSet<Key>,
    timers: BTreeMap<Key, Timestamp>,
    serial: u64,
    chance: Chance,
    killed: bool,
    core_has_work: bool,
}

/// All kinds, in the order in which a driver that starts lists them.
const KINDS: [Kind; 7] =
    [Kind::Class, Kind::Address, Kind::Claim, Kind::Service, Kind::Namespace, Kind::Pool, Kind::Event];

impl World {
    pub fn new(config: Config, pace: Pace) -> Self {
        let mut metallb = match pace {
            Pace::Shuffled(seed) => MetalLb::shuffled(seed),
            _ => MetalLb::default(),
        };
        metallb.lb_class.clone_from(&config.lb_class);
        let seed = if let Pace::Shuffled(seed) = pace { seed } else { 7 };
        let mut world = Self {
            server: Server::new(),
            metallb,
            driver: Driver::new(config.clone()),
            config,
            pace,
            law: Law::default(),
            told: Vec::new(),
            story: Vec::new(),
            writes: 0,
            emitted: 0,
            spans: Vec::new(),
            sampler: None,
            kill_after: None,
            events_first: false,
            queue: BTreeSet::new(),
            queued: BTreeMap::new(),
            seen: BTreeSet::new(),
            standing: BTreeMap::new(),
            inherited: BTreeSet::new(),
            timers: BTreeMap::new(),
            serial: 0,
            chance: Chance::of(seed),
            killed: false,
            core_has_work: true,
        };
        world.restart();
        world
    }

    /// The same world again, with a driver just started.
    pub fn fork(&self) -> Self {
        let mut world = Self::new(self.config.clone(), self.pace);
        world.server = self.server.clone();
        world.metallb = self.metallb.clone();
        world.law = self.law.clone();
        world.sampler = self.sampler;
        world.chance = self.chance.clone();
        world.told.clone_from(&self.told);
        world.restart();
        world
    }

    /// Forgets what was done and told until now.
    pub fn mark(&mut self) {
        self.writes = 0;
        self.emitted = 0;
        self.spans.clear();
        self.told.clear();
        self.story.clear();
    }

    /// The driver's process ends, and another begins from what the cluster shows.
    pub fn restart(&mut self) {
        self.story.push("driver starts".to_owned());
        self.driver = Driver::new(self.config.clone()).traced(self.sampler);
        self.killed = false;
        self.queue.clear();
        self.queued.clear();
        self.timers.clear();
        self.standing.clear();
        self.server.watch.clear();
        let mut kinds = KINDS;
        if self.events_first {
            kinds.reverse();
        }
        for kind in kinds {
            let list: Vec<_> = self.heard(kind).cloned().collect();
            for change in Change::list(kind, list) {
                self.driver.apply(change);
            }
        }
        let keys = self.driver.keys();
        self.inherited = keys.iter().cloned().collect();
        self.enqueue(keys);
    }

    /// The objects of a kind that the driver's feeds bring.
    fn heard(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.server.all(kind).filter(|object| is_heard(object))
    }

    /// Time passes, and everybody acts on it.
    pub fn pass(&mut self, seconds: i64) {
        self.server.pass(SignedDuration::from_secs(seconds));
        let now = self.server.now();
        let due: Vec<_> =
            self.timers.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        for key in &due {
            self.timers.remove(key);
        }
        self.enqueue(due);
        self.settle();
    }

    fn enqueue(&mut self, keys: Vec<Key>) {
        for key in keys {
            if !self.queued.contains_key(&key) {
                self.serial += 1;
                self.queued.insert(key.clone(), self.serial);
                self.queue.insert((Driver::lane(&key), self.serial, key));
            }
        }
    }

    fn entropy(&mut self) -> u128 {
        u128::from(self.chance.bits()) << 64 | u128::from(self.chance.bits())
    }

    /// A tenant or an admin creates an object.
    pub fn create(&mut self, object: impl Into<Object>) -> Object {
        let object = object.into();
        self.story.push(format!("somebody creates {}", object.reference()));
        let made = self.server.create(&object).expect("created");
        self.ripple();
        made
    }

    /// A tenant or an admin patches an object.
    pub fn patch(&mut self, reference: &Ref, body: Value) {
        self.story.push(format!("somebody patches {reference}: {body}"));
        self.server.patch(reference, false, &body, None).expect("patched");
        self.ripple();
    }

    /// Somebody writes a status.
    pub fn patch_status(&mut self, reference: &Ref, body: Value) {
        self.server.patch(reference, true, &serde_json::json!({ "status": body }), None).expect("patched");
        self.ripple();
    }

    /// A tenant or an admin deletes an object.
    pub fn delete(&mut self, reference: &Ref) {
        self.story.push(format!("somebody deletes {reference}"));
        self.server.delete(reference, None).expect("deleted");
        self.ripple();
    }
}

fn is_heard(object: &Object) -> bool {
    match object {
        Object::Event(event) => event.reason.as_deref() == Some("AllocationFailed"),
        _ => true,
    }
}
