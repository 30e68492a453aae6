//! One operation: the root of its trace, and what hangs below it.

use std::collections::BTreeMap;

use api::IPAddressClaim;
use api::wellknown::{TRACEPARENT, TRACEPARENT_KUBERNETES};
use jiff::Timestamp;
use kube::ResourceExt;

use super::{Attribute, Context, Sampler, Span, SpanId, Timing, TraceId};
use crate::Action;

/// The name of the trace of a reservation; its context stands on the claim.
const RESERVE: &str = "claim.reserve";

/// An operation that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    name: &'static str,
    /// The root.
    pub context: Context,
    /// The user's span above the root.
    parent: Option<SpanId>,
    /// The user's span beside the root.
    link: Option<Context>,
}

impl Operation {
    /// An operation that begins; none if it is not traced. `subject` tells it from all others of its name: a uid, and
    /// when it began. A user's context that is sampled is the parent; one that is not is a link.
    pub fn begin(
        sampler: Option<Sampler>,
        name: &'static str,
        subject: &[&str],
        user: Option<Context>,
    ) -> Option<Self> {
        // Asked first: without one, not even an id is made.
        let sampler = sampler?;
        let above = user.filter(|user| user.sampled);
        let trace = above.map_or_else(|| TraceId::of(&words(name, subject)), |user| user.trace);
        let wanted = sampler.admits(trace, above.map(|user| user.sampled));
        wanted.then(|| Self::resume(trace, name, subject, user))
    }

    /// An operation that began earlier, in a trace that is known.
    pub fn resume(trace: TraceId, name: &'static str, subject: &[&str], user: Option<Context>) -> Self {
        let context = Context { trace, span: root(trace, name, subject), sampled: true };
        let above = user.filter(|user| user.sampled && user.trace == trace && user.span != context.span);
        let beside = user.filter(|user| user.trace != trace);
        Self { name, context, parent: above.map(|user| user.span), link: beside }
    }

    /// An operation whose root this context is; none if it is another's.
    pub fn of_context(
        context: Context,
        name: &'static str,
        subject: &[&str],
        user: Option<Context>,
    ) -> Option<Self> {
        let ours = context.sampled && context.span == root(context.trace, name, subject);
        ours.then(|| Self::resume(context.trace, name, subject, user))
    }

    /// The same, linked to another trace if it has no link yet.
    #[must_use]
    pub fn linked(self, other: Option<Context>) -> Self {
        Self { link: self.link.or(other), ..self }
    }

    /// The trace's id, as it stands on objects.
    pub fn trace_id(&self) -> String {
        self.context.trace.to_string()
    }

    /// A step or a wait. `subject` tells it from others of its name below the same root.
    pub fn step(
        &self,
        name: &'static str,
        subject: &str,
        timing: Timing,
        attributes: Vec<(&'static str, Attribute)>,
    ) -> Action {
        let span = SpanId::of(&["span", &self.context.span.to_string(), name, subject]);
        Action::Trace(Span {
            name,
            context: Context { span, ..self.context },
            parent: Some(self.context.span),
            link: None,
            timing,
            attributes,
        })
    }

    /// The root, when the operation is over.
    pub fn end(
        &self,
        since: Timestamp,
        until: Option<Timestamp>,
        attributes: Vec<(&'static str, Attribute)>,
    ) -> Action {
        Action::Trace(Span {
            name: self.name,
            context: self.context,
            parent: self.parent,
            link: self.link,
            timing: Timing::Whole { since, until },
            attributes,
        })
    }
}

fn words<'a>(name: &'a str, subject: &[&'a str]) -> Vec<&'a str> {
    ["trace", name].into_iter().chain(subject.iter().copied()).collect()
}

fn root(trace: TraceId, name: &str, subject: &[&str]) -> SpanId {
    let trace = trace.to_string();
    let words: Vec<_> = ["root", &trace, name].into_iter().chain(subject.iter().copied()).collect();
    SpanId::of(&words)
}

/// The context that a user put on an object, by either annotation.
pub fn user_context(annotations: &BTreeMap<String, String>) -> Option<Context> {
    let read = |name: &str| annotations.get(name).and_then(|text| Context::parse(text));
    read(TRACEPARENT).or_else(|| read(TRACEPARENT_KUBERNETES))
}

/// The reservation of a claim: core and driver find the same one. The claim carries its context, or the user's.
pub fn of_claim(sampler: Option<Sampler>, claim: &IPAddressClaim) -> Option<Operation> {
    let sampler = sampler?;
    let uid = claim.metadata.uid.as_deref()?;
    let read = |name: &str| claim.annotations().get(name).and_then(|text| Context::parse(text));
    let (own, foreign) = (read(TRACEPARENT), read(TRACEPARENT_KUBERNETES));
    let resumed = own.and_then(|own| Operation::of_context(own, RESERVE, &[uid], foreign));
    resumed.or_else(|| Operation::begin(Some(sampler), RESERVE, &[uid], own.or(foreign)))
}
