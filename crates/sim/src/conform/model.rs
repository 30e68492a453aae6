//! A sequence run against the models.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Kind, Object, Ref};
use serde_json::json;

use super::{Action, Moment, Outcome, Place, Sequence, Snapshot, owned_by, seen};
use crate::chance::Chance;
use crate::metallb::{MetalLb, NAMESPACE};
use crate::server::{Answer, Refusal, Server, decode, encode};
use crate::world::manager;

/// In how many orders MetalLB works.
const ORDERS: u64 = 11;

/// The models, and what of them a sequence is about.
struct Run {
    server: Server,
    metallb: MetalLb,
    objects: Vec<Ref>,
    before: Snapshot,
    /// Whether MetalLB looks at everything once more before each rest.
    nudged: bool,
}

/// All that the models may answer, one moment an action: one transcript for each way in which orders matter.
pub fn transcripts(sequence: &Sequence, place: &Place, nudged: bool) -> Vec<Vec<Moment>> {
    let orders = std::iter::once(MetalLb::default()).chain((0..ORDERS).map(MetalLb::shuffled));
    let mut all: Vec<Vec<Moment>> = Vec::new();
    for metallb in orders {
        let transcript = Run::begin(sequence, place, metallb, nudged).all(sequence, place);
        if !all.contains(&transcript) {
            all.push(transcript);
        }
    }
    all
}

impl Run {
    fn begin(sequence: &Sequence, place: &Place, metallb: MetalLb, nudged: bool) -> Self {
        let mut server = Server::new();
        for name in [NAMESPACE.to_owned(), place.home()] {
            let namespace = json!({ "metadata": { "name": name } });
            server.create(&decode(Kind::Namespace, &namespace)).unwrap();
        }
        // So that there is a pool at any time, as in the real cluster.
        let pool = json!({
            "apiVersion": Kind::Pool.api_version(), "kind": Kind::Pool.as_str(),
            "metadata": { "name": "sentinels", "namespace": NAMESPACE },
            "spec": { "addresses": ["198.19.0.0/24"], "autoAssign": false },
        });
        server.create(&decode(Kind::Pool, &pool)).unwrap();
        let mut run =
            Self { server, metallb, objects: sequence.objects(place), before: Snapshot::new(), nudged };
        run.rest();
        run
    }

    fn all(mut self, sequence: &Sequence, place: &Place) -> Vec<Moment> {
        let actions = (sequence.actions)(place).into_iter();
        actions.map(|action| self.moment(action)).collect()
    }

    fn moment(&mut self, action: Action) -> Moment {
        let outcome = self.act(action);
        self.rest();
        let now = self.snapshot();
        let world = seen(&self.objects, &self.before, &now, &self.events());
        self.before = now;
        Moment { outcome, world }
    }

    fn act(&mut self, action: Action) -> Outcome {
        let is_patch = matches!(action, Action::Patch { .. } | Action::Own { .. });
        let answer = match action {
            Action::Create(reference, value) => {
                let made = self.server.create(&decode(reference.kind, &value));
                made.map(Answer::Object)
            }
            Action::Patch { of, status, body, when } => {
                let expected = when.of(self.server.value(&of));
                let expected = expected.as_ref().map(|(uid, version)| (uid.as_str(), version.as_str()));
                self.server.patch(&of, status, &body, expected)
            }
            Action::Delete { of, when } => {
                let expected = when.of(self.server.value(&of));
                let expected = expected.as_ref().map(|(uid, version)| (uid.as_str(), version.as_str()));
                self.server.delete(&of, expected)
            }
            Action::Own { of, owners } => {
                let uid = |owner: &Ref| self.server.get(owner).and_then(|object| object.meta().uid.clone());
                let body = owned_by(owners.iter().map(|owner| (owner, uid(owner))));
                self.server.patch(&of, false, &body, None)
            }
            Action::Stop => {
                self.metallb.down = true;
                return Outcome::Done;
            }
            Action::Start => {
                self.metallb.restart(&mut self.server);
                return Outcome::Done;
            }
        };
        match answer {
            Ok(Answer::Object(_)) => Outcome::Done,
            Ok(Answer::Gone { .. }) => Outcome::Gone,
            Err(Refusal::Stale(words)) if words.ends_with("not found") => Outcome::Refused(404),
            // Somebody else's uid is an immutable field changed, in a patch.
            Err(Refusal::Stale(words)) if is_patch && words.contains("another one") => Outcome::Refused(422),
            Err(Refusal::Stale(_)) => Outcome::Refused(409),
            Err(Refusal::Refused(words)) if words.contains("being terminated") => Outcome::Refused(403),
            Err(Refusal::Refused(_)) => Outcome::Refused(422),
        }
    }

    fn rest(&mut self) {
        self.settle();
        if self.nudged {
            self.metallb.look_again();
            self.settle();
        }
    }

    fn settle(&mut self) {
        for _ in 0..1000 {
            for reference in std::mem::take(&mut self.server.touched) {
                self.metallb.notice(&reference);
            }
            let mut worked = self.metallb.step(&mut self.server).is_some();
            if !worked && manager::has_work(&self.server) {
                manager::step(&mut self.server, &mut Chance::of(0));
                worked = true;
            }
            if !worked && self.server.touched.is_empty() {
                return;
            }
        }
        panic!("the models do not come to rest");
    }

    fn snapshot(&self) -> Snapshot {
        let there = self.objects.iter().filter_map(|of| Some((of, self.server.value(of)?)));
        there.map(|(of, value)| (of.clone(), value.clone())).collect()
    }

    fn events(&self) -> BTreeMap<Ref, BTreeSet<String>> {
        let mut events: BTreeMap<Ref, BTreeSet<String>> = BTreeMap::new();
        for object in self.server.all(Kind::Event) {
            let event = encode(object);
            let about = &event["involvedObject"];
            let text = |name: &str| about[name].as_str().map(str::to_owned);
            let of = Ref {
                kind: Kind::Service,
                namespace: text("namespace"),
                name: text("name").unwrap_or_default(),
            };
            let is = |object: &Object| object.meta().uid == text("uid");
            if event["reason"] == "AllocationFailed" && self.server.get(&of).is_some_and(is) {
                let words = event["message"].as_str().unwrap_or_default().to_owned();
                events.entry(of).or_default().insert(words);
            }
        }
        events
    }
}
