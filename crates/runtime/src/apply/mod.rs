//! Carries out plans: in order, each write with its preconditions and a deadline, each answer told to the
//! index at once.

mod outcome;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{Status, request};
use plan::{Action, Change, Event, Guard, Kind, Object, Ref, Target};
use serde_json::{Value, json};

use crate::events::Writer;
use crate::leader::Leadership;
use crate::metrics::Metrics;
use crate::wire;
pub(crate) use outcome::{Outcome, Verdict, judge, namespace_terminates};

/// How long one call may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Takes in what the server answered.
pub(crate) trait Absorb: Sync {
    /// Takes in a change.
    fn absorb(&self, change: Change);
}

/// Carries out plans under one name.
pub(crate) struct Applier {
    client: Client,
    manager: String,
    leadership: Leadership,
    metrics: Arc<Metrics>,
    events: Arc<Writer>,
    deadline: Duration,
}

/// The versions that the actions of one plan have made so far.
type Written = HashMap<Ref, Version>;

struct Version {
    uid: String,
    resource_version: String,
}

/// Why an action was not done.
enum Stop {
    Api(kube::Error),
    Stale(String),
    Failed(String),
}

impl From<kube::Error> for Stop {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

impl From<request::Error> for Stop {
    fn from(error: request::Error) -> Self {
        Self::Failed(format!("cannot put the request into words: {error}"))
    }
}

impl Applier {
    pub(crate) fn new(
        client: Client,
        manager: &str,
        leadership: Leadership,
        metrics: Arc<Metrics>,
        events: Arc<Writer>,
    ) -> Self {
        Self { client, manager: manager.to_owned(), leadership, metrics, events, deadline: DEADLINE }
    }

    /// Carries out the actions in order, up to the first that fails.
    pub(crate) async fn carry_out(&self, actions: Vec<Action>, index: &dyn Absorb) -> Outcome {
        let mut written = Written::new();
        for action in actions {
            if let Some(outcome) = self.act(action, &mut written, index).await {
                return outcome;
            }
        }
        Outcome::Done
    }

    async fn act(&self, action: Action, written: &mut Written, index: &dyn Absorb) -> Option<Outcome> {
        match action {
            Action::Create { object, refused } => {
                let reference = object.reference();
                let stop = self.create(&object, written, index).await.err()?;
                if let Stop::Api(kube::Error::Api(status)) = &stop
                    && status.is_already_exists()
                {
                    self.look(&reference, None, index).await;
                }
                Some(conclude(stop, "create", &reference, true, refused))
            }
            Action::Patch { target, status, body, refused } => {
                let stop = self.patch(&target, status, body, written, index).await.err()?;
                let outcome = conclude(stop, "patch", &target.reference, false, refused);
                self.look_if_stale(&outcome, &target, index).await;
                Some(outcome)
            }
            Action::Delete { target } => {
                let stop = self.delete(&target, written, index).await.err()?;
                let outcome = conclude(stop, "delete", &target.reference, false, None);
                self.look_if_stale(&outcome, &target, index).await;
                Some(outcome)
            }
            Action::ConfirmAbsent { reference, uid } => {
                let stop = self.confirm_absent(&reference, uid.as_deref(), index).await.err()?;
                Some(conclude(stop, "get", &reference, false, None))
            }
            Action::Emit(event) => {
                self.events.tell(&event).await;
                None
            }
        }
    }

    async fn create(&self, object: &Object, written: &mut Written, index: &dyn Absorb) -> Result<(), Stop> {
        let reference = object.reference();
        let body = wire::encode(object).map_err(|error| Stop::Failed(error.to_string()))?;
        let parameters = PostParams { field_manager: Some(self.manager.clone()), ..PostParams::default() };
        let request = wire::collection_of(&reference).create(&parameters, body)?;
        let text = self.write(request).await?;
        self.metrics.wrote("create", reference.kind.plural());
        self.answered(&reference, &text, written, index)
    }

    async fn patch(
        &self,
        target: &Target,
        status: bool,
        mut body: Value,
        written: &mut Written,
        index: &dyn Absorb,
    ) -> Result<(), Stop> {
        let reference = &target.reference;
        let (uid, resource_version) = version_for(target, written)?;
        let Some(fields) = body.as_object_mut() else {
            return Err(Stop::Failed("the patch is not an object".to_owned()));
        };
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        let Some(metadata) = metadata.as_object_mut() else {
            return Err(Stop::Failed("the patch's metadata is not an object".to_owned()));
        };
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("resourceVersion".to_owned(), resource_version.into());

        let parameters = PatchParams { field_manager: Some(self.manager.clone()), ..PatchParams::default() };
        let patch = Patch::Merge(body);
        let collection = wire::collection_of(reference);
        let request = if status {
            collection.patch_subresource("status", &reference.name, &parameters, &patch)?
        } else {
            collection.patch(&reference.name, &parameters, &patch)?
        };
        let text = self.write(request).await?;
        self.metrics.wrote("patch", resource(reference.kind, status));
        self.answered(reference, &text, written, index)
    }

    async fn delete(&self, target: &Target, written: &mut Written, index: &dyn Absorb) -> Result<(), Stop> {
        let reference = &target.reference;
        let (uid, resource_version) = version_for(target, written)?;
        let preconditions =
            Preconditions { uid: Some(uid.clone()), resource_version: Some(resource_version) };
        let parameters = DeleteParams::background().preconditions(preconditions);
        let request = wire::collection_of(reference).delete(&reference.name, &parameters)?;
        let text = self.write(request).await?;
        self.metrics.wrote("delete", reference.kind.plural());
        let answer: wire::Answer = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
        if answer.is_gone() {
            written.remove(reference);
            index.absorb(Change::Gone { reference: reference.clone(), uid });
            return Ok(());
        }
        self.answered(reference, &text, written, index)
    }

    async fn confirm_absent(
        &self,
        reference: &Ref,
        uid: Option<&str>,
        index: &dyn Absorb,
    ) -> Result<(), Stop> {
        let Some(object) = self.get(reference).await? else { return Ok(()) };
        let is_the_one = uid.is_none() || object.meta().uid.as_deref() == uid;
        index.absorb(Change::Applied(object));
        if is_the_one { Err(Stop::Stale("it is there after all".to_owned())) } else { Ok(()) }
    }

    /// Takes in the object that a write left.
    fn answered(
        &self,
        reference: &Ref,
        text: &str,
        written: &mut Written,
        index: &dyn Absorb,
    ) -> Result<(), Stop> {
        let object = wire::decode(reference.kind, text).map_err(|error| unreadable(&error))?;
        let meta = object.meta();
        let uid = meta.uid.clone().unwrap_or_default();
        let resource_version = meta.resource_version.clone().unwrap_or_default();
        tracing::debug!(manager = self.manager, object = %reference, resource_version, "written");
        if wire::was_the_last_write(&object) {
            written.remove(reference);
            index.absorb(Change::Gone { reference: reference.clone(), uid });
        } else {
            written.insert(reference.clone(), Version { uid, resource_version });
            index.absorb(Change::Applied(object));
        }
        Ok(())
    }

    async fn look_if_stale(&self, outcome: &Outcome, target: &Target, index: &dyn Absorb) {
        if matches!(outcome, Outcome::Stale(_)) {
            self.look(&target.reference, Some(&target.uid), index).await;
        }
    }

    /// Reads an object that is not as the index thinks, so that the next decision need not wait for the
    /// watch.
    async fn look(&self, reference: &Ref, uid: Option<&str>, index: &dyn Absorb) {
        match (self.get(reference).await, uid) {
            (Ok(Some(object)), _) => index.absorb(Change::Applied(object)),
            (Ok(None), Some(uid)) if !uid.is_empty() => {
                index.absorb(Change::Gone { reference: reference.clone(), uid: uid.to_owned() });
            }
            (Ok(None) | Err(_), _) => {}
        }
    }

    async fn get(&self, reference: &Ref) -> Result<Option<Object>, Stop> {
        let request = wire::collection_of(reference).get(&reference.name, &GetParams::default())?;
        match self.call(request, self.deadline).await {
            Ok(text) => wire::decode(reference.kind, &text).map(Some).map_err(|error| unreadable(&error)),
            Err(Stop::Api(kube::Error::Api(status))) if says_absent(&status, reference) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, request: http::Request<Vec<u8>>) -> Result<String, Stop> {
        let Some(left) = self.leadership.allows() else {
            return Err(Stop::Failed("the lease is not ours any more".to_owned()));
        };
        self.call(request, self.deadline.min(left)).await
    }

    async fn call(&self, request: http::Request<Vec<u8>>, deadline: Duration) -> Result<String, Stop> {
        match tokio::time::timeout(deadline, self.client.request_text(request)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Stop::Failed(format!("no answer in {} s", deadline.as_secs_f32()))),
        }
    }
}

/// Whether the server knows that there is no such object. A path it does not serve (yet, or any more) is
/// answered by 404 too, and tells nothing about the object.
fn says_absent(status: &Status, reference: &Ref) -> bool {
    status.code == 404 && status.details.as_ref().is_some_and(|details| details.name == reference.name)
}

/// The uid and version that a write must find.
fn version_for(target: &Target, written: &Written) -> Result<(String, String), Stop> {
    let (uid, resource_version) = match written.get(&target.reference) {
        Some(version) if target.uid.is_empty() || target.uid == version.uid => {
            (version.uid.clone(), version.resource_version.clone())
        }
        _ => (target.uid.clone(), target.resource_version.clone()),
    };
    // Empty ones would be no precondition at all.
    if uid.is_empty() || resource_version.is_empty() {
        return Err(Stop::Stale("its uid and resourceVersion are not known".to_owned()));
    }
    Ok((uid, resource_version))
}

fn conclude(stop: Stop, verb: &str, reference: &Ref, create: bool, guard: Option<Guard>) -> Outcome {
    let about = |words: &str| format!("{verb} {reference}: {words}");
    match stop {
        Stop::Stale(words) => Outcome::Stale(about(&words)),
        Stop::Failed(words) => Outcome::Failed { words: about(&words), wait: Duration::ZERO },
        Stop::Api(error) => match judge(&error, create) {
            Verdict::Stale(words) => Outcome::Stale(about(&words)),
            Verdict::Failed(words, wait) => Outcome::Failed { words: about(&words), wait },
            Verdict::Refused(words) => {
                let quiet = namespace_terminates(&error);
                let tell = guard.filter(|_| !quiet).map(|guard| with_words(guard, &words));
                Outcome::Refused { words: about(&words), tell }
            }
        },
    }
}

fn with_words(guard: Guard, words: &str) -> Event {
    let Guard { mut event } = guard;
    event.note = format!("{}: {words}", event.note);
    event
}

fn unreadable(error: &serde_json::Error) -> Stop {
    Stop::Failed(format!("the answer cannot be understood: {error}"))
}

const fn resource(kind: Kind, status: bool) -> &'static str {
    match (kind, status) {
        (Kind::Class, true) => "ipaddressclasses/status",
        (Kind::Address, true) => "ipaddresses/status",
        (Kind::Claim, true) => "ipaddressclaims/status",
        (Kind::Service, true) => "services/status",
        (kind, _) => kind.plural(),
    }
}

#[cfg(test)]
mod tests;
