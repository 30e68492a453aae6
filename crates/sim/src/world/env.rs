//! What all processes share: the cluster, the network, the clock, the dice and the law.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use api::wellknown::driver;
use jiff::SignedDuration;
use metallb::Config;
use plan::{Action, Call, Change, Kind, Object, Ref, Reply, Verdict, was_the_last_write};

use super::lease::Lease;
use super::schedule::Millis;
use super::words::{line, outcome};
use crate::chance::Chance;
use crate::law::Law;
use crate::law::writes;
use crate::metallb::MetalLb;
use crate::planted::Saboteur;
use crate::server::{Answer, Refusal, Server};

/// Whose process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Core,
    Driver,
}

/// One life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    pub side: Side,
    pub number: usize,
    pub life: u64,
}

/// What the network or the server does to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// 429 or 503 with a time to wait.
    Throttled,
    /// 500, 502, 504: not done.
    Error,
    /// Done, and the answer never comes as such.
    AnswerLost,
    /// Neither done nor answered before the caller gives up; it may be done later.
    Stuck,
    /// Refused by a webhook or a quota.
    Refused,
}

/// How long a call may be on its way or at work once it was sent.
const AT_MOST: Millis = 60_000;

/// A call between a process and the server.
struct Wire {
    sender: Sender,
    /// When the plan was decided, as a number.
    decided: u64,
    /// When it was sent.
    since: Millis,
    call: Call,
    reply: Option<Reply>,
    /// Nobody waits for the answer.
    orphan: bool,
    stuck: bool,
}

/// What is wrong.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The contract's sentence.
    pub law: &'static str,
    pub words: String,
}

/// The shared part of a world.
pub struct Env {
    pub server: Server,
    pub metallb: MetalLb,
    pub config: Config,
    /// The IPs that users name by number.
    pub named_ips: Vec<String>,
    pub saboteur: Saboteur,
    pub elections_over: bool,
    /// Whether nobody can do anything but wait.
    pub quiet: bool,
    pub law: Law,
    pub violation: Option<Violation>,
    pub chance: Chance,
    /// What the next calls meet.
    pub call_faults: VecDeque<CallFault>,
    pub story: Option<Vec<String>>,
    /// Every step that changed the cluster, in 64 bits: two runs of one seed have the same.
    pub digest: u64,
    /// How many times anything was written, but for Events and for asking MetalLB again (§10), which never ends while it refuses.
    pub news: u64,
    asked: BTreeMap<Ref, String>,
    histories: BTreeMap<Kind, Vec<Change>>,
    /// Who was last told which version of an object by the answer to a write, and when, as a number.
    pub(super) answers: BTreeMap<Ref, (Sender, String, u64)>,
    wires: BTreeMap<u64, Wire>,
    leases: [Lease; 2],
    numbers: u64,
    began: jiff::Timestamp,
}

impl Env {
    pub fn new(config: Config, metallb: MetalLb, seed: u64, law: Law) -> Self {
        let server = Server::new();
        Self {
            began: server.now(),
            server,
            metallb,
            config,
            named_ips: Vec::new(),
            saboteur: Saboteur::default(),
            elections_over: false,
            quiet: false,
            law,
            violation: None,
            chance: Chance::of(seed),
            call_faults: VecDeque::new(),
            story: None,
            digest: 0,
            news: 0,
            asked: BTreeMap::new(),
            histories: BTreeMap::new(),
            answers: BTreeMap::new(),
            wires: BTreeMap::new(),
            leases: [Lease::default(); 2],
            numbers: 0,
        }
    }

    /// Milliseconds since the beginning.
    pub fn now(&self) -> Millis {
        Millis::try_from(self.server.now().duration_since(self.began).as_millis()).unwrap()
    }

    pub fn pass(&mut self, time: Millis) {
        self.server.pass(SignedDuration::from_millis(i64::try_from(time).unwrap()));
    }

    pub fn say(&mut self, words: impl FnOnce() -> String) {
        let now = self.now();
        if let Some(story) = &mut self.story {
            let mut line = String::new();
            write!(line, "{:>8} {}", now, words()).unwrap();
            story.push(line);
        }
    }

    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub fn entropy(&mut self) -> u128 {
        u128::from(self.chance.bits()) << 64 | u128::from(self.chance.bits())
    }

    /// What a plan sends at once arrives in any order.
    pub fn shuffle(&mut self, actions: &mut [Action]) {
        for at in 1..actions.len() {
            if matches!(actions[at], Action::Patch { at_once: true, .. }) && self.entropy().is_multiple_of(2)
            {
                actions.swap(at - 1, at);
            }
        }
    }

    pub fn history(&self, kind: Kind) -> &[Change] {
        self.histories.get(&kind).map_or(&[], Vec::as_slice)
    }

    /// Everything that there ever was of a kind.
    pub fn ever(&self, kind: Kind) -> Vec<Object> {
        let all = self.history(kind).iter().filter_map(|change| match change {
            Change::Applied(object) => Some((object.reference(), object.clone())),
            _ => None,
        });
        all.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    pub fn lease(&mut self, side: Side) -> &mut Lease {
        &mut self.leases[side as usize]
    }

    pub fn violated(&mut self, law: &'static str, words: String) {
        if self.violation.is_none() {
            self.say(|| format!("VIOLATED: {law}: {words}"));
            self.violation = Some(Violation { law, words });
        }
    }

    /// No process writes while another has the lease.
    pub fn law_of_the_lease(&mut self, side: Side, identity: u64) {
        let holder = self.lease(side).holder;
        if holder != Some(identity) {
            let words = format!("a {side:?} process writes while the lease is another's");
            self.violated("§3 f: a process that lost the lease, or was stopped, writes nothing", words);
        }
    }

    /// What was written is told to the watches and to MetalLB.
    pub fn spread(&mut self) {
        for change in std::mem::take(&mut self.server.watch) {
            let (object, deleted) = match &change {
                Change::Applied(object) => (object, false),
                Change::Deleted(object) => (object, true),
                _ => continue,
            };
            let version = object.meta().resource_version.as_deref().unwrap_or_default();
            for byte in version.bytes().chain(object.meta().name.as_deref().unwrap_or_default().bytes()) {
                self.digest = self.digest.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte);
            }
            let reference = object.reference();
            let asked = object.meta().annotations.as_ref().and_then(|all| all.get(driver::ASKED_AGAIN));
            let is_asked = asked.is_some_and(|asked| self.asked.get(&reference) != Some(asked));
            self.news += u64::from(!is_asked && reference.kind != Kind::Event);
            if let Some(asked) = asked.filter(|_| is_asked) {
                self.asked.insert(reference, asked.clone());
            }
            if !super::stream::is_heard(object) {
                continue;
            }
            if let (Some(violation), true) = (self.law.gone(object, &self.server), deleted)
                && self.violation.is_none()
            {
                self.violation = Some(violation);
            }
            self.histories.entry(change.kind()).or_default().push(change);
        }
        for reference in std::mem::take(&mut self.server.touched) {
            self.metallb.notice(&reference);
        }
    }

    pub fn send(&mut self, sender: Sender, decided: u64, call: Call) -> u64 {
        let id = self.number();
        let since = self.now();
        self.wires
            .insert(id, Wire { sender, decided, since, call, reply: None, orphan: false, stuck: false });
        id
    }

    pub fn is_answered(&self, wire: u64) -> bool {
        self.wires.get(&wire).is_some_and(|wire| wire.reply.is_some())
    }

    pub fn answered(&mut self, wire: u64) -> Reply {
        self.wires.remove(&wire).unwrap().reply.unwrap()
    }

    /// Nobody waits for this call any more; it may still be done.
    pub fn orphan(&mut self, wire: u64) {
        if let Some(wire) = self.wires.get_mut(&wire) {
            wire.orphan = true;
            wire.stuck = false;
        }
    }

    /// What was stuck on its way goes on.
    pub fn unstick(&mut self) {
        for wire in self.wires.values_mut() {
            wire.stuck = false;
        }
    }

    /// A process ended: its calls may still be done, or may not.
    pub fn orphan_all(&mut self, side: Side, number: usize) {
        let mut lost = Vec::new();
        for (id, wire) in &mut self.wires {
            if wire.sender.side == side && wire.sender.number == number {
                wire.orphan = true;
                wire.stuck = false;
                if wire.reply.is_some() || self.chance.below(2) == 0 {
                    lost.push(*id);
                }
            }
        }
        for id in lost {
            self.wires.remove(&id);
        }
    }

    /// The calls that may arrive at the server now.
    pub fn under_way(&self) -> impl Iterator<Item = u64> {
        self.wires.iter().filter(|(_, wire)| wire.reply.is_none() && !wire.stuck).map(|(id, _)| *id)
    }

    /// A call arrives at the server.
    pub fn arrive(&mut self, id: u64) {
        let Some(mut wire) = self.wires.remove(&id) else { return };
        // The API server works on nothing for longer.
        if wire.orphan && self.now() - wire.since > AT_MOST {
            self.say(|| format!("  call {id} is lost"));
            return;
        }
        let fault = if wire.orphan { None } else { self.call_faults.pop_front() };
        let failed = |words: &str, wait| Reply::Failed(Verdict::Failed(words.to_owned(), wait));
        let reply = match fault {
            Some(CallFault::Throttled) => failed("429", Duration::from_secs(1)),
            Some(CallFault::Error) => failed("500", Duration::ZERO),
            Some(CallFault::Refused) if matches!(wire.call, Call::Create(_) | Call::Patch { .. }) => {
                Reply::Failed(Verdict::Refused { words: "a webhook says no".to_owned(), quiet: false })
            }
            Some(CallFault::Stuck) => {
                self.say(|| format!("  call {id} is stuck"));
                wire.stuck = true;
                self.wires.insert(id, wire);
                return;
            }
            Some(CallFault::AnswerLost) => {
                drop(self.perform(wire.sender, wire.decided, &wire.call));
                failed("the connection was reset", Duration::ZERO)
            }
            Some(CallFault::Refused) | None => self.perform(wire.sender, wire.decided, &wire.call),
        };
        if let (Some(fault), Some(story)) = (fault, &mut self.story) {
            story.push(format!("           call {id} meets {fault:?}"));
        }
        if !wire.orphan {
            wire.reply = Some(reply);
            self.wires.insert(id, wire);
        }
    }

    fn perform(&mut self, sender: Sender, decided: u64, call: &Call) -> Reply {
        let reference = match call {
            Call::Create(object) => object.reference(),
            Call::Patch { reference, .. } | Call::Delete { reference, .. } | Call::Read(reference) => {
                reference.clone()
            }
            Call::Trace(_) => return Reply::Told,
            Call::Tell(event) => {
                self.say(|| {
                    format!(
                        "    {:?} tells {}: {} {}",
                        sender.side, event.regarding, event.reason, event.note
                    )
                });
                return Reply::Told;
            }
        };
        let before = self.server.value(&reference).cloned();
        let Some(done) = self.server.write(call) else { return self.server.read(&reference) };
        self.say(|| {
            format!(
                "  {}-{} {}: {}",
                format!("{:?}", sender.side).to_lowercase(),
                sender.number,
                line(call, &reference),
                outcome(&done)
            )
        });
        let answer = match done {
            Ok(answer) => answer,
            Err(refusal) => {
                if matches!(refusal, Refusal::Stale(_)) && !matches!(call, Call::Create(_)) {
                    self.law_of_answers(sender, decided, &reference);
                }
                return Reply::Failed(refusal.into());
            }
        };
        if let Err((law, words)) = writes::judge(self, sender.side, call, &reference, before.as_ref()) {
            self.violated(law, words);
        }
        if let (Side::Core, Call::Delete { uid, .. }) = (sender.side, call) {
            self.law.deleted_by_hand(uid.clone());
        }
        if let Call::Create(Object::Address(address)) = call
            && !writes::is_claimed(&self.server, address)
        {
            self.law.recorded_for_nobody(address.key());
        }
        self.spread();
        match answer {
            Answer::Object(object) => {
                debug_assert!(matches!(call, Call::Delete { .. }) || !was_the_last_write(&object));
                Reply::Object(object)
            }
            Answer::Gone { .. } if matches!(call, Call::Delete { .. }) => Reply::Gone,
            Answer::Gone { uid } => self.last_words(&reference, uid),
        }
    }

    /// What the server answers to the write that let an object go: the object, being deleted and held by nothing.
    fn last_words(&self, reference: &Ref, _uid: String) -> Reply {
        match self.history(reference.kind).last() {
            Some(Change::Deleted(object)) => Reply::Object(object.clone()),
            _ => Reply::Gone,
        }
    }
}
