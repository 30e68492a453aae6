//! Carries out plans: each call with a deadline and under the lease, each answer told to the index at once. Which calls, in
//! which order, and what their answers mean, is [`plan::Execution`]'s.

mod outcome;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{Status, request};
use plan::{Action, Call, Change, Execution, Kind, Object, Outcome, Ref, Reply, Verdict};
use serde_json::Value;

use crate::events::Writer;
use crate::leader::Leadership;
use crate::metrics::Metrics;
use crate::trace::{Clock, Traces};
use crate::wire;
pub(crate) use outcome::{judge, namespace_terminates};

/// How long one call may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Takes in what the server answered.
pub(crate) trait Absorb: Sync {
    /// Takes in a change.
    fn absorb(&self, change: Change);
}

/// So much later is sent what does not wait for the answer to another call: mostly they are done in that order then.
const MOMENT: Duration = Duration::from_millis(2);

/// Carries out plans under one name.
pub(crate) struct Applier {
    client: Client,
    manager: String,
    leadership: Leadership,
    metrics: Arc<Metrics>,
    events: Arc<Writer>,
    traces: Traces,
    deadline: Duration,
}

/// Why a call was not done, or not understood.
enum Stop {
    Api(kube::Error),
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

impl From<serde_json::Error> for Stop {
    fn from(error: serde_json::Error) -> Self {
        Self::Failed(format!("the answer cannot be understood: {error}"))
    }
}

impl Stop {
    fn verdict(self, create: bool) -> Verdict {
        match self {
            Self::Api(error) => judge(&error, create),
            Self::Failed(words) => Verdict::Failed(words, Duration::ZERO),
        }
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
        let (manager, traces) = (manager.to_owned(), Traces::default());
        Self { client, manager, leadership, metrics, events, traces, deadline: DEADLINE }
    }

    /// The same, with somewhere for spans to go.
    pub(crate) fn traced(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Carries out the actions in order, up to the first that fails.
    pub(crate) async fn carry_out(&self, actions: Vec<Action>, index: &dyn Absorb) -> Outcome {
        let mut execution = Execution::new(actions);
        let mut clock = Clock::start();
        while let Some(call) = execution.call() {
            let others = std::iter::from_fn(|| execution.also());
            let others: Vec<_> = others.map(|call| self.a_moment_later(call)).collect();
            let (first, others) = tokio::join!(self.reply_to(call, &mut clock), join_all(others));
            for reply in std::iter::once(first).chain(others) {
                if let Some(change) = execution.answer(reply) {
                    index.absorb(change);
                }
            }
        }
        execution.outcome()
    }

    async fn a_moment_later(&self, call: Call) -> Reply {
        tokio::time::sleep(MOMENT).await;
        self.reply_to(call, &mut Clock::start()).await
    }

    async fn reply_to(&self, call: Call, clock: &mut Clock) -> Reply {
        let create = matches!(call, Call::Create(_));
        self.make(call, clock).await.unwrap_or_else(|stop| Reply::Failed(stop.verdict(create)))
    }

    async fn make(&self, call: Call, clock: &mut Clock) -> Result<Reply, Stop> {
        match call {
            Call::Create(object) => self.create(&object).await,
            Call::Patch { reference, status, body } => self.patch(&reference, status, body).await,
            Call::Delete { reference, uid, resource_version } => {
                self.delete(&reference, uid, resource_version).await
            }
            Call::Read(reference) => self.read(&reference).await,
            Call::Tell(event) => {
                self.events.tell(&event).await;
                Ok(Reply::Told)
            }
            Call::Trace(span) => {
                self.traces.take(span, clock);
                Ok(Reply::Told)
            }
        }
    }

    async fn create(&self, object: &Object) -> Result<Reply, Stop> {
        let reference = object.reference();
        let body = serde_json::to_vec(object).map_err(|error| Stop::Failed(error.to_string()))?;
        let parameters = PostParams { field_manager: Some(self.manager.clone()), ..PostParams::default() };
        let request = wire::collection_of(&reference).create(&parameters, body)?;
        let text = self.write(request).await?;
        self.metrics.wrote("create", reference.kind.plural());
        self.written(&reference, &text)
    }

    async fn patch(&self, reference: &Ref, status: bool, body: Value) -> Result<Reply, Stop> {
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
        self.written(reference, &text)
    }

    async fn delete(&self, reference: &Ref, uid: String, resource_version: String) -> Result<Reply, Stop> {
        let preconditions = Preconditions { uid: Some(uid), resource_version: Some(resource_version) };
        let parameters = DeleteParams::background().preconditions(preconditions);
        let request = wire::collection_of(reference).delete(&reference.name, &parameters)?;
        let text = self.write(request).await?;
        self.metrics.wrote("delete", reference.kind.plural());
        let answer: wire::Answer = serde_json::from_str(&text)?;
        if answer.is_gone() { Ok(Reply::Gone) } else { self.written(reference, &text) }
    }

    /// The object that a write left.
    fn written(&self, reference: &Ref, text: &str) -> Result<Reply, Stop> {
        let object = wire::decode(reference.kind, text)?;
        let resource_version = object.meta().resource_version.as_deref().unwrap_or_default();
        tracing::debug!(manager = self.manager, object = %reference, resource_version, "written");
        Ok(Reply::Object(object))
    }

    async fn read(&self, reference: &Ref) -> Result<Reply, Stop> {
        let request = wire::collection_of(reference).get(&reference.name, &GetParams::default())?;
        match self.call(request, self.deadline).await {
            Ok(text) => Ok(Reply::Object(wire::decode(reference.kind, &text)?)),
            Err(Stop::Api(kube::Error::Api(status))) if says_absent(&status, reference) => Ok(Reply::Absent),
            Err(stop) => Err(stop),
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
