//! One sequence played for real, action by action, beside what the models say of it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;
use plan::{Kind, Ref};
use serde_json::json;
use sim::conform::{Action, Moment, Place, Sequence, Snapshot, model, nearest, seen};

use super::reality::Reality;
use super::sentinel::Sentinel;
use crate::rig;

/// How long the world may take to come to rest as the models say. The controller manager learns of new kinds twice a
/// minute, and looks at a namespace that something holds every few seconds.
const WITHIN: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(25);

/// How far a sequence is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Up to the end of MetalLB's process.
    Stop,
    /// Up to its start.
    Start,
    /// All of it.
    End,
}

pub struct Play<'a> {
    sequence: Sequence,
    place: Place,
    reality: Reality,
    namespaces: Api<Namespace>,
    sentinel: &'a Sentinel,
    actions: VecDeque<Action>,
    objects: Vec<Ref>,
    /// What the models may still answer, given what was seen.
    transcripts: Vec<Vec<Moment>>,
    seen: Vec<Moment>,
    before: Snapshot,
    begun: bool,
    metallb_is_up: bool,
    failure: Option<String>,
}

impl<'a> Play<'a> {
    pub fn of(client: Client, sentinel: &'a Sentinel, sequence: Sequence, place: Place) -> Self {
        Self {
            sequence,
            reality: Reality::of(client.clone()),
            namespaces: Api::all(client),
            sentinel,
            actions: (sequence.actions)(&place).into(),
            objects: sequence.objects(&place),
            transcripts: model::transcripts(&sequence, &place, false),
            place,
            seen: Vec::new(),
            before: Snapshot::new(),
            begun: false,
            metallb_is_up: true,
            failure: None,
        }
    }

    /// How the models and reality differ, if they do.
    pub fn failure(self) -> Option<String> {
        self.failure
    }

    /// Plays on.
    pub async fn go(&mut self, until: Until) {
        if !self.begun {
            self.begun = true;
            let namespace = json!({ "metadata": { "name": self.place.home() } });
            rig::create(&self.namespaces, namespace).await;
        }
        while self.failure.is_none() {
            match self.actions.front() {
                Some(Action::Stop) if until == Until::Stop => return,
                Some(Action::Start) if until == Until::Start => return,
                Some(_) => {}
                None => break,
            }
            if let Some(action) = self.actions.pop_front() {
                self.play(action).await;
            }
        }
        if until == Until::End {
            self.reality.clear(&self.objects).await;
            self.rest().await;
        }
    }

    async fn play(&mut self, action: Action) {
        self.metallb_is_up = match action {
            Action::Stop => false,
            Action::Start => true,
            _ => self.metallb_is_up,
        };
        let outcome = self.reality.act(action).await;
        let deadline = Instant::now() + WITHIN;
        loop {
            let (now, moment) = self.look(outcome).await;
            if self.is_expected(&moment) {
                self.rest().await;
                // It stays so.
                let (later, again) = self.look(outcome).await;
                if self.is_expected(&again) {
                    self.accept(later, again);
                    return;
                }
            } else if Instant::now() > deadline || !self.is_expected_to_return(&moment) {
                self.seen.push(moment);
                let differs = nearest(&self.transcripts, &self.seen);
                self.failure = Some(format!("{}: {differs}", self.sequence.name));
                self.before = now;
                return;
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    fn is_expected(&self, moment: &Moment) -> bool {
        let at = self.seen.len();
        self.transcripts.iter().any(|transcript| transcript[at] == *moment)
    }

    fn is_expected_to_return(&self, moment: &Moment) -> bool {
        let at = self.seen.len();
        self.transcripts.iter().any(|transcript| transcript[at].outcome == moment.outcome)
    }

    fn accept(&mut self, now: Snapshot, moment: Moment) {
        let at = self.seen.len();
        self.transcripts.retain(|transcript| transcript[at] == moment);
        self.seen.push(moment);
        self.before = now;
    }

    async fn look(&self, outcome: sim::conform::Outcome) -> (Snapshot, Moment) {
        let now = self.reality.snapshot(&self.objects).await;
        let events = self.reality.events(&self.place.home(), &now).await;
        let world = seen(&self.objects, &self.before, &now, &events);
        (now, Moment { outcome, world })
    }

    /// Waits until MetalLB has looked at what was done, and at what it made of that.
    async fn rest(&self) {
        if self.metallb_is_up && self.objects.iter().any(|of| of.kind == Kind::Pool) {
            self.sentinel.round().await;
            self.sentinel.round().await;
        }
    }
}
