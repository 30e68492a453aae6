//! Carrying out a plan, without doing any I/O: which call comes next, and what its answer means.
//!
//! The runtime makes the calls over the network, the simulator on its own API server, and both by this one order of
//! steps. After every answer the caller takes in the change it brings, so that the next decision never fights a
//! cache that is behind (contract §3 f).

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};

use crate::trace::Span;
use crate::{Action, Change, Event, Guard, Object, Ref, Target};

/// One call to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Creates an object.
    Create(Object),
    /// A merge patch, with uid and resourceVersion in its metadata as preconditions.
    Patch {
        /// The object.
        reference: Ref,
        /// Whether the status subresource is patched.
        status: bool,
        /// The patch.
        body: Value,
    },
    /// Deletes an object of this uid and version.
    Delete {
        /// The object.
        reference: Ref,
        /// Its uid.
        uid: String,
        /// Its version.
        resource_version: String,
    },
    /// Reads an object.
    Read(Ref),
    /// Writes an Event. No plan fails for want of one.
    Tell(Event),
    /// Exports a span. No plan fails for want of one.
    Trace(Span),
}

impl Call {
    /// Whether the call changes anything in the cluster but events.
    pub const fn is_write(&self) -> bool {
        matches!(self, Self::Create(_) | Self::Patch { .. } | Self::Delete { .. })
    }
}

/// What a call led to.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The object as the write left it, or as it was read.
    Object(Object),
    /// The object is gone by this delete.
    Gone,
    /// There is no such object.
    Absent,
    /// The Event is written, or could not be; the span is taken.
    Told,
    /// The call failed, or nobody knows.
    Failed(Verdict),
}

/// What a failed call means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Somebody else was faster: decide anew.
    Stale(String),
    /// The server will not have it.
    Refused {
        /// The server's words.
        words: String,
        /// Whether nobody need be told: the namespace is about to go.
        quiet: bool,
    },
    /// It could not be done now, as far as is known; not again before this time.
    Failed(String, Duration),
}

/// How carrying out a plan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every action was done.
    Done,
    /// Somebody else was faster: decide anew.
    Stale(String),
    /// The server will not have it.
    Refused {
        /// The server's words.
        words: String,
        /// What to tell, and whom.
        tell: Option<Event>,
    },
    /// It could not be done now.
    Failed {
        /// Why.
        words: String,
        /// Not again before this time.
        wait: Duration,
    },
}

/// A plan being carried out: [`call`](Self::call), then [`answer`](Self::answer), until there is no call left; then
/// [`outcome`](Self::outcome). Calls that [`also`](Self::also) may be made before the answer to the first has come are answered
/// after it, in their order.
#[derive(Clone, Debug)]
pub struct Execution {
    actions: VecDeque<Action>,
    /// What was called for and not answered yet, with the uid that the call names.
    doing: VecDeque<(Action, String)>,
    /// The versions that the actions have made so far.
    written: HashMap<Ref, Version>,
    state: State,
}

#[derive(Clone, Debug)]
struct Version {
    uid: String,
    resource_version: String,
}

#[derive(Clone, Debug)]
enum State {
    /// The next action may begin.
    Ready,
    /// An object is not as the index thinks: it is read, so that the next decision need not wait for the watch.
    Looking {
        reference: Ref,
        uid: Option<String>,
        outcome: Outcome,
    },
    Over(Outcome),
}

impl Execution {
    /// Begins before the first action.
    pub fn new(actions: Vec<Action>) -> Self {
        let doing = VecDeque::new();
        Self { actions: actions.into(), doing, written: HashMap::new(), state: State::Ready }
    }

    /// The next call to make; none when the plan is carried out or given up. To be asked for once before each
    /// [`answer`](Self::answer).
    pub fn call(&mut self) -> Option<Call> {
        if matches!(self.state, State::Ready) {
            let Some(action) = self.actions.pop_front() else {
                self.state = State::Over(Outcome::Done);
                return None;
            };
            match self.call_of(&action) {
                Ok((call, uid)) => {
                    self.doing.push_back((action, uid));
                    return Some(call);
                }
                Err(verdict) => self.give_up(&action, verdict),
            }
        }
        match &self.state {
            State::Looking { reference, .. } => Some(Call::Read(reference.clone())),
            State::Ready | State::Over(_) => None,
        }
    }

    /// A further call that need not wait for the answers that are still to come.
    pub fn also(&mut self) -> Option<Call> {
        let Some(Action::Patch { target, at_once: true, .. }) = self.actions.front() else { return None };
        let is_other = |(action, _): &(Action, String)| match action {
            Action::Patch { target: earlier, .. } => earlier.reference != target.reference,
            _ => false,
        };
        if self.doing.is_empty() || !self.doing.iter().all(is_other) {
            return None;
        }
        let action = self.actions.pop_front()?;
        let Ok((call, uid)) = self.call_of(&action) else {
            // It fails in its turn.
            self.actions.push_front(action);
            return None;
        };
        self.doing.push_back((action, uid));
        Some(call)
    }

    fn call_of(&self, action: &Action) -> Result<(Call, String), Verdict> {
        Ok(match action {
            Action::Create { object, .. } => (Call::Create(object.clone()), String::new()),
            Action::Patch { target, status, body, .. } => {
                let Version { uid, resource_version } = self.version_for(target)?;
                let mut body = body.clone();
                let metadata = body.as_object_mut();
                let metadata = metadata.map(|fields| fields.entry("metadata").or_insert_with(|| json!({})));
                let Some(metadata) = metadata.and_then(Value::as_object_mut) else {
                    let words = "the patch, or its metadata, is not an object".to_owned();
                    return Err(Verdict::Failed(words, Duration::ZERO));
                };
                metadata.insert("uid".to_owned(), uid.as_str().into());
                metadata.insert("resourceVersion".to_owned(), resource_version.into());
                (Call::Patch { reference: target.reference.clone(), status: *status, body }, uid)
            }
            Action::Delete { target } => {
                let Version { uid, resource_version } = self.version_for(target)?;
                let reference = target.reference.clone();
                (Call::Delete { reference, uid: uid.clone(), resource_version }, uid)
            }
            Action::ConfirmAbsent { reference, .. } => (Call::Read(reference.clone()), String::new()),
            Action::Emit(event) => (Call::Tell(event.clone()), String::new()),
            Action::Trace(span) => (Call::Trace(span.clone()), String::new()),
        })
    }

    /// The uid and version that a write must find.
    fn version_for(&self, target: &Target) -> Result<Version, Verdict> {
        let version = match self.written.get(&target.reference) {
            Some(version) if target.uid.is_empty() || target.uid == version.uid => version.clone(),
            _ => Version { uid: target.uid.clone(), resource_version: target.resource_version.clone() },
        };
        // Empty ones would be no precondition at all.
        if version.uid.is_empty() || version.resource_version.is_empty() {
            return Err(Verdict::Stale("its uid and resourceVersion are not known".to_owned()));
        }
        Ok(version)
    }

    /// Takes in what the call led to, and tells what the index is to learn of it.
    pub fn answer(&mut self, reply: Reply) -> Option<Change> {
        if let Some((action, uid)) = self.doing.pop_front() {
            return self.done(&action, uid, reply);
        }
        match std::mem::replace(&mut self.state, State::Ready) {
            State::Looking { reference, uid, outcome } => {
                self.state = State::Over(outcome);
                match (reply, uid) {
                    (Reply::Object(object), _) => Some(Change::Applied(object)),
                    (Reply::Absent, Some(uid)) if !uid.is_empty() => Some(Change::Gone { reference, uid }),
                    _ => None,
                }
            }
            state => {
                self.state = state;
                None
            }
        }
    }

    fn done(&mut self, action: &Action, named: String, reply: Reply) -> Option<Change> {
        match (action, reply) {
            (_, Reply::Failed(verdict)) => {
                let refused = refused(action, &verdict);
                self.give_up(action, verdict);
                refused
            }
            (Action::ConfirmAbsent { uid, .. }, Reply::Object(object)) => {
                if uid.is_none() || object.meta().uid == *uid {
                    self.give_up(action, Verdict::Stale("it is there after all".to_owned()));
                }
                Some(Change::Applied(object))
            }
            (Action::Patch { target, .. } | Action::Delete { target }, Reply::Gone) => {
                self.written.remove(&target.reference);
                Some(Change::Gone { reference: target.reference.clone(), uid: named })
            }
            (_, Reply::Object(object)) => Some(self.wrote(object)),
            (_, Reply::Gone | Reply::Absent | Reply::Told) => None,
        }
    }

    /// Takes in the object that a write left.
    fn wrote(&mut self, object: Object) -> Change {
        let reference = object.reference();
        let meta = object.meta();
        let uid = meta.uid.clone().unwrap_or_default();
        if was_the_last_write(&object) {
            self.written.remove(&reference);
            return Change::Gone { reference, uid };
        }
        let resource_version = meta.resource_version.clone().unwrap_or_default();
        self.written.insert(reference, Version { uid, resource_version });
        Change::Applied(object)
    }

    fn give_up(&mut self, action: &Action, verdict: Verdict) {
        // The first failure says how the plan ended.
        if !matches!(self.state, State::Ready) {
            return;
        }
        let outcome = match verdict {
            Verdict::Stale(words) => Outcome::Stale(about(action, &words)),
            Verdict::Failed(words, wait) => Outcome::Failed { words: about(action, &words), wait },
            Verdict::Refused { words, quiet } => Outcome::Refused {
                tell: guard(action).filter(|_| !quiet).map(|guard| with_words(guard, &words)),
                words: about(action, &words),
            },
        };
        let look = match (&outcome, action) {
            (Outcome::Stale(_), Action::Create { object, .. }) => Some((object.reference(), None)),
            (Outcome::Stale(_), Action::Patch { target, .. } | Action::Delete { target }) => {
                Some((target.reference.clone(), Some(target.uid.clone())))
            }
            _ => None,
        };
        self.state = match look {
            Some((reference, uid)) => State::Looking { reference, uid, outcome },
            None => State::Over(outcome),
        };
    }

    /// How it ended. One that is asked before its end was cut short.
    pub fn outcome(self) -> Outcome {
        match self.state {
            State::Over(outcome) | State::Looking { outcome, .. } => outcome,
            State::Ready => {
                Outcome::Failed { words: "the plan was cut short".to_owned(), wait: Duration::ZERO }
            }
        }
    }
}

/// Whether a write left nothing of the object: it was being deleted and lost its last finalizer.
pub fn was_the_last_write(object: &Object) -> bool {
    let meta = object.meta();
    meta.deletion_timestamp.is_some()
        && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
        && meta.deletion_grace_period_seconds.unwrap_or_default() == 0
}

/// What an index learns of an object that the server will not have.
fn refused(action: &Action, verdict: &Verdict) -> Option<Change> {
    match (action, verdict) {
        (Action::Create { object, .. }, Verdict::Refused { words, quiet: false }) => {
            Some(Change::Refused { object: object.clone(), words: words.clone() })
        }
        _ => None,
    }
}

const fn guard(action: &Action) -> Option<&Guard> {
    match action {
        Action::Create { refused, .. } | Action::Patch { refused, .. } => refused.as_ref(),
        Action::Delete { .. } | Action::ConfirmAbsent { .. } | Action::Emit(_) | Action::Trace(_) => None,
    }
}

fn with_words(guard: &Guard, words: &str) -> Event {
    let mut event = guard.event.clone();
    event.note = format!("{}: {words}", event.note);
    event
}

fn about(action: &Action, words: &str) -> String {
    match action {
        Action::Create { object, .. } => format!("create {}: {words}", object.reference()),
        Action::Patch { target, .. } => format!("patch {}: {words}", target.reference),
        Action::Delete { target } => format!("delete {}: {words}", target.reference),
        Action::ConfirmAbsent { reference, .. } => format!("get {reference}: {words}"),
        Action::Emit(event) => format!("tell {}: {words}", event.regarding),
        Action::Trace(span) => format!("trace {}: {words}", span.name),
    }
}

#[cfg(test)]
mod tests;
