//! One process of one controller: its index, its queue, its plans in flight, its leadership.

use plan::{Brain, Call, Change, Execution, Kind, Moment, Outcome, Reply, Verdict};

use super::env::{Env, Sender, Side};
use super::lease::Elector;
use super::schedule::{After, Millis, Schedule};
use super::stream::{Stream, is_heard};

/// How long one call may take.
const DEADLINE: Millis = 10_000;
/// How many plans are carried out at once.
const WORKERS: usize = 4;
/// The shortest wait before what the server refused is tried again.
const REFUSED: Millis = 1_000;

/// What one process can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Start,
    List(Kind),
    Listed(Kind),
    Hear(Kind),
    Take,
    Send(u64),
    Answer(u64),
    Timeout(u64),
    Elect,
    Elected,
}

/// One plan being carried out.
struct Flight<K> {
    id: u64,
    key: K,
    execution: Execution,
    /// The wire its call is on, and when the caller waits no longer.
    sent: Option<(u64, Millis)>,
    /// Whether the call on the wire is an Event: no plan fails for want of one.
    telling: bool,
    again_after: Option<Millis>,
}

/// One process, running or not.
pub struct Replica<B: Brain> {
    pub side: Side,
    pub number: usize,
    make: fn(&Env) -> B,
    /// None while the process is down.
    pub brain: Option<B>,
    /// Tells this life of the process from earlier ones.
    life: u64,
    pub paused_until: Millis,
    streams: Vec<(Kind, Stream)>,
    /// A watch that died in silence, and when that is noticed.
    silent: Option<(Kind, Millis)>,
    complete: Vec<Kind>,
    pub queue: Schedule<B::Key>,
    deciding: bool,
    flights: Vec<Flight<B::Key>>,
    pub elector: Elector,
}

impl<B: Brain> Replica<B> {
    pub fn new(side: Side, number: usize, kinds: &[Kind], make: fn(&Env) -> B) -> Self {
        Self {
            side,
            number,
            make,
            brain: None,
            life: 0,
            paused_until: 0,
            streams: kinds.iter().map(|kind| (*kind, Stream::Cut)).collect(),
            silent: None,
            complete: Vec::new(),
            queue: Schedule::new(B::lane),
            deciding: false,
            flights: Vec::new(),
            elector: Elector::default(),
        }
    }

    fn name(&self) -> String {
        format!("{:?}-{}", self.side, self.number).to_lowercase()
    }

    /// Under this name this life of the process takes part in the election.
    pub fn identity(&self) -> u64 {
        self.life * 10 + u64::try_from(self.number).unwrap()
    }

    fn sender(&self) -> Sender {
        Sender { side: self.side, number: self.number, life: self.life }
    }

    pub fn is_deciding(&self) -> bool {
        self.deciding
    }

    /// The process ends; what it sent may still arrive.
    pub fn crash(&mut self, env: &mut Env, why: &str) {
        if self.brain.is_none() {
            return;
        }
        env.say(|| format!("{} ends: {why}", self.name()));
        env.orphan_all(self.side, self.number);
        self.brain = None;
        self.life += 1;
        self.paused_until = 0;
        self.silent = None;
        self.complete.clear();
        self.queue = Schedule::new(B::lane);
        self.deciding = false;
        self.flights.clear();
        self.elector = Elector::default();
        self.streams.iter_mut().for_each(|(_, stream)| *stream = Stream::Cut);
    }

    /// A watch is cut, and what it missed is too old to be told: it begins anew.
    pub fn cut(&mut self, kind: Kind) {
        for (of, stream) in &mut self.streams {
            if *of == kind {
                *stream = Stream::Cut;
            }
        }
    }

    /// A watch dies in silence: nothing is heard of the kind until then.
    pub fn silence(&mut self, kind: Kind, until: Millis) {
        self.silent = Some((kind, until));
    }

    /// Nothing is silent or stopped any more.
    pub fn wake(&mut self) {
        self.silent = None;
        self.paused_until = 0;
    }

    /// What can happen next, without waiting.
    pub fn enabled(&self, env: &Env, mut can: impl FnMut(Act)) {
        if self.brain.is_none() {
            return can(Act::Start);
        }
        let now = env.now();
        if now < self.paused_until {
            return;
        }
        for (kind, stream) in &self.streams {
            match stream {
                Stream::Cut => can(Act::List(*kind)),
                Stream::Listing { .. } => can(Act::Listed(*kind)),
                Stream::At(cursor) if *cursor < env.history(*kind).len() => {
                    if self.silent.is_none_or(|(silent, until)| silent != *kind || until <= now) {
                        can(Act::Hear(*kind));
                    }
                }
                Stream::At(_) => {}
            }
        }
        if self.deciding && self.flights.len() < WORKERS && self.queue.has_work(now) {
            can(Act::Take);
        }
        for flight in &self.flights {
            match flight.sent {
                None => can(Act::Send(flight.id)),
                Some((wire, _)) if env.is_answered(wire) => can(Act::Answer(flight.id)),
                Some((_, deadline)) if deadline <= now => can(Act::Timeout(flight.id)),
                Some(_) => {}
            }
        }
        if !env.elections_over {
            if self.elector.is_answered() {
                can(Act::Elected);
            } else if self.elector.is_due(now) {
                can(Act::Elect);
            }
        }
    }

    /// When something will be possible by waiting alone.
    pub fn next_due(&self, env: &Env) -> Option<Millis> {
        self.brain.as_ref()?;
        let timers = self.queue.next_due().filter(|_| self.deciding);
        let deadlines = self.flights.iter().filter_map(|flight| flight.sent.map(|(_, at)| at)).min();
        let election = self.elector.due().filter(|_| !env.elections_over);
        let silence = self.silent.map(|(_, until)| until).filter(|until| *until > env.now());
        let first = [timers, deadlines, election, silence].into_iter().flatten().min();
        first.map(|at| at.max(self.paused_until))
    }

    pub fn act(&mut self, env: &mut Env, act: Act) {
        match act {
            Act::Start => self.start(env),
            Act::List(kind) => {
                let objects = env.server.all(kind).filter(|object| is_heard(object)).cloned().collect();
                let cursor = env.history(kind).len();
                self.set_stream(kind, Stream::Listing { objects, cursor });
                self.absorb(env, Change::ListBegins(kind));
            }
            Act::Listed(kind) => self.listed(env, kind),
            Act::Hear(kind) => self.hear(env, kind),
            Act::Take => self.take(env),
            Act::Send(id) => self.send(env, id),
            Act::Answer(id) => self.answer(env, id),
            Act::Timeout(id) => self.timeout(env, id),
            Act::Elect => {
                if self.elector.elect(env, self.side, self.identity()) {
                    self.crash(env, "it lost the lease");
                }
            }
            Act::Elected => {
                if self.elector.elected(env) {
                    env.say(|| format!("{} leads", self.name()));
                }
                self.begin(env);
            }
        }
    }

    fn start(&mut self, env: &mut Env) {
        env.say(|| format!("{} starts", self.name()));
        self.brain = Some((self.make)(env));
        self.begin(env);
    }

    fn set_stream(&mut self, kind: Kind, new: Stream) {
        if let Some((_, stream)) = self.streams.iter_mut().find(|(of, _)| *of == kind) {
            *stream = new;
        }
    }

    fn listed(&mut self, env: &mut Env, kind: Kind) {
        let Some((_, stream)) = self.streams.iter_mut().find(|(of, _)| *of == kind) else { return };
        let Stream::Listing { mut objects, cursor } = std::mem::replace(stream, Stream::Cut) else { return };
        *stream = Stream::At(cursor);
        env.say(|| format!("  {} has the list of {kind}s", self.name()));
        env.saboteur.list(self.side, &mut objects, || env.ever(kind));
        for object in objects {
            self.absorb(env, Change::InList(object));
        }
        self.absorb(env, Change::Listed(kind));
        env.listed_anew(self.sender(), kind);
        if !self.complete.contains(&kind) {
            self.complete.push(kind);
            self.begin(env);
        }
    }

    fn hear(&mut self, env: &mut Env, kind: Kind) {
        let Some((_, Stream::At(cursor))) = self.streams.iter_mut().find(|(of, _)| *of == kind) else {
            return;
        };
        let change = env.history(kind)[*cursor].clone();
        *cursor += 1;
        self.absorb(env, change);
    }

    /// Every cache is complete and this process leads: everything is looked at once.
    fn begin(&mut self, env: &mut Env) {
        let leads = self.elector.leads();
        let Some(brain) = &self.brain else { return };
        if self.deciding || !leads || self.complete.len() < self.streams.len() {
            return;
        }
        self.deciding = true;
        let keys = brain.keys();
        env.say(|| format!("{} begins to decide", self.name()));
        for key in keys {
            self.queue.add(key);
        }
    }

    fn absorb(&mut self, env: &mut Env, change: Change) {
        let Some(change) = env.saboteur.change(self.side, change) else { return };
        let Some(brain) = &mut self.brain else { return };
        let dirty = brain.apply(change);
        if self.deciding {
            for key in dirty {
                self.queue.add(key);
            }
        }
    }

    fn take(&mut self, env: &mut Env) {
        let Some(key) = self.queue.take(env.now()) else { return };
        let Some(brain) = &mut self.brain else { return };
        let moment = Moment { now: env.server.now(), entropy: env.entropy() };
        let mut plan = brain.decide(&key, &moment);
        env.saboteur.plan(self.side, &mut plan, &env.server, &env.config.placeholder_namespace);
        if !plan.actions.is_empty() {
            env.say(|| format!("{} decides about {key}: {} actions", self.name(), plan.actions.len()));
        }
        env.shuffle(&mut plan.actions);
        let again_after = plan.again_after.map(|delay| Millis::try_from(delay.as_millis()).unwrap());
        let empty = plan.actions.is_empty();
        let mut flight = Flight {
            id: env.number(),
            key,
            execution: Execution::new(plan.actions),
            sent: None,
            telling: false,
            again_after,
        };
        if empty {
            assert!(flight.execution.call().is_none());
            self.land(env, flight);
        } else {
            self.flights.push(flight);
        }
    }

    fn position(&self, id: u64) -> usize {
        self.flights.iter().position(|flight| flight.id == id).unwrap()
    }

    fn send(&mut self, env: &mut Env, id: u64) {
        let at = self.position(id);
        let sender = self.sender();
        let Some(mut call) = self.flights[at].execution.call() else {
            let flight = self.flights.swap_remove(at);
            return self.land(env, flight);
        };
        let now = env.now();
        let telling = matches!(call, Call::Tell(_) | Call::Trace(_));
        if telling && self.elector.allows(env).is_none() {
            self.flights[at].execution.answer(Reply::Told);
            return;
        }
        // Reads need no lease.
        let left = if call.is_write() { self.elector.allows(env) } else { Some(DEADLINE) };
        let left = left.or_else(|| env.saboteur.writes_without_lease().then_some(DEADLINE));
        let Some(left) = left else {
            let words = "the lease is not ours any more".to_owned();
            let failed = Reply::Failed(Verdict::Failed(words, std::time::Duration::ZERO));
            let change = self.flights[at].execution.answer(failed);
            debug_assert!(change.is_none());
            return;
        };
        if call.is_write() {
            env.law_of_the_lease(self.side, self.identity());
        }
        env.saboteur.call(&mut call);
        let wire = env.send(sender, id, call);
        self.flights[at].sent = Some((wire, now + left.min(DEADLINE)));
        self.flights[at].telling = telling;
    }

    fn answer(&mut self, env: &mut Env, id: u64) {
        let at = self.position(id);
        let Some((wire, _)) = self.flights[at].sent.take() else { return };
        let reply = env.answered(wire);
        self.replied(env, at, reply);
    }

    fn timeout(&mut self, env: &mut Env, id: u64) {
        let at = self.position(id);
        let Some((wire, _)) = self.flights[at].sent.take() else { return };
        env.orphan(wire);
        env.say(|| format!("  {} waits no longer for call {wire}", self.name()));
        let failed = Reply::Failed(Verdict::Failed("no answer".to_owned(), std::time::Duration::ZERO));
        self.replied(env, at, failed);
    }

    fn replied(&mut self, env: &mut Env, at: usize, reply: Reply) {
        let reply = if self.flights[at].telling { Reply::Told } else { reply };
        if let Reply::Object(object) = &reply {
            env.told(self.sender(), object);
        }
        if let Some(change) = self.flights[at].execution.answer(reply)
            && !env.saboteur.drops_answers()
        {
            self.absorb(env, change);
        }
    }

    /// The plan ended.
    fn land(&mut self, env: &mut Env, flight: Flight<B::Key>) {
        let Some(brain) = &mut self.brain else { return };
        brain.settle(&flight.key);
        for key in brain.freed() {
            self.queue.add(key);
        }
        let after = match flight.execution.outcome() {
            Outcome::Done => flight.again_after.map_or(After::Rest, After::In),
            Outcome::Stale(words) => {
                env.say(|| format!("    stale: {words}"));
                After::Stale
            }
            Outcome::Refused { words, .. } => {
                env.say(|| format!("    refused: {words}"));
                After::Error(REFUSED)
            }
            Outcome::Failed { words, wait } => {
                env.say(|| format!("    failed: {words}"));
                After::Error(Millis::try_from(wait.as_millis()).unwrap())
            }
        };
        self.queue.done(&flight.key, after, env.now());
    }
}
