//! Traces by OTLP (contract §14): takes the closed spans of carried out plans, and hands them to a collector.
//!
//! *Invariant.* Nothing waits for a collector: a span goes into a bounded queue that a thread of its own empties, and
//! one that finds the queue full is lost. Without an endpoint there is no queue, no thread, and brains say nothing.

mod env;
mod export;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor};
use plan::trace::{Attribute, Context, Sampler, Span, Timing};

pub use env::EnvError;
use env::Limits;

/// How long the last spans may take when the process ends.
const FAREWELL: Duration = Duration::from_secs(3);
/// Of how many operations under way it is known when their last step was done.
const REMEMBERED: usize = 4096;

/// Where spans go; nowhere by default.
#[derive(Clone, Default)]
pub struct Traces {
    at_work: Option<Arc<Exporting>>,
}

struct Exporting {
    sampler: Sampler,
    limits: Limits,
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
    /// By the parent: when its last step was done.
    steps: Mutex<HashMap<plan::trace::SpanId, Timestamp>>,
}

/// The times of the steps of one plan.
pub(crate) struct Clock {
    last: Timestamp,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { last: Timestamp::now() }
    }
}

impl Traces {
    /// What the environment asks for (`OTEL_*`). To be called inside of the runtime that is to do the I/O.
    ///
    /// # Errors
    /// When what it asks for cannot be understood.
    pub fn from_env(service: &'static str, instance: &str) -> Result<Self, EnvError> {
        let asked_for = RefCell::new(BTreeSet::new());
        let traces = Self::of(service, instance, &|name| {
            asked_for.borrow_mut().insert(name.to_owned());
            std::env::var(name).ok()
        })?;
        if traces.at_work.is_none() {
            return Ok(traces);
        }
        let all = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().unwrap_or_default()))
        });
        let unheeded = env::unheeded(&asked_for.into_inner(), all).into_iter().collect::<Vec<_>>().join(", ");
        if !unheeded.is_empty() {
            tracing::warn!("variables of OpenTelemetry that do nothing here: {unheeded}");
        }
        Ok(traces)
    }

    fn of(
        service: &str,
        instance: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, EnvError> {
        let Some(asked) = env::read(variable)? else { return Ok(Self::default()) };
        let processor = export::processor(&asked, &asked.resource(service, instance))?;
        tracing::info!(endpoint = asked.endpoint, protocol = asked.protocol.as_str(), "traces are exported");
        Ok(Self {
            at_work: Some(Arc::new(Exporting {
                sampler: asked.sampler,
                limits: asked.limits,
                processor,
                scope: InstrumentationScope::builder("address-controller")
                    .with_version(env!("CARGO_PKG_VERSION"))
                    .build(),
                steps: Mutex::default(),
            })),
        })
    }

    /// Which operations are traced; none if no spans are exported.
    pub fn sampler(&self) -> Option<Sampler> {
        self.at_work.as_ref().map(|exporting| exporting.sampler)
    }

    /// Takes a span of a plan that is being carried out.
    pub(crate) fn take(&self, span: Span, clock: &mut Clock) {
        let Some(exporting) = &self.at_work else { return };
        let (start, end) = exporting.times(&span, clock);
        if matches!(span.timing, Timing::Whole { .. }) {
            let took = i64::try_from(end.duration_since(start).as_millis()).unwrap_or(i64::MAX);
            tracing::info!(trace_id = %span.context.trace, milliseconds = took, "{} is over", span.name);
        } else {
            tracing::debug!(trace_id = %span.context.trace, "{}", span.name);
        }
        exporting.processor.on_end(data(span, start, end, exporting.limits, exporting.scope.clone()));
    }

    /// The last spans are handed over, or lost: the process is about to end.
    pub(crate) async fn shut_down(self) {
        let Some(exporting) = self.at_work else { return };
        let gone = tokio::task::spawn_blocking(move || exporting.processor.shutdown_with_timeout(FAREWELL));
        let gone = tokio::time::timeout(FAREWELL + Duration::from_secs(1), gone).await;
        if !matches!(gone, Ok(Ok(Ok(())))) {
            let seconds = FAREWELL.as_secs();
            tracing::warn!("the last traces may be lost: no collector took them in {seconds} s");
        }
    }
}

impl Exporting {
    fn times(&self, span: &Span, clock: &mut Clock) -> (Timestamp, Timestamp) {
        let now = Timestamp::now();
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        match span.timing {
            Timing::Step => {
                let start = std::mem::replace(&mut clock.last, now);
                if let Some(parent) = span.parent {
                    // What was forgotten costs a wait its exact beginning, and no more.
                    if steps.len() >= REMEMBERED {
                        steps.clear();
                    }
                    steps.insert(parent, now);
                }
                (start.min(now), now)
            }
            Timing::Wait { since, until } => {
                let end = until.unwrap_or(now);
                let start = span.parent.and_then(|parent| steps.get(&parent).copied()).unwrap_or(since);
                if let Some(parent) = span.parent {
                    steps.insert(parent, end);
                }
                (start.min(end), end)
            }
            Timing::Whole { since, until } => {
                steps.remove(&span.context.span);
                let end = until.unwrap_or(now);
                (since.min(end), end)
            }
        }
    }
}

/// A span as the SDK has it, no more of it than is asked for.
fn data(
    span: Span,
    start: Timestamp,
    end: Timestamp,
    limits: Limits,
    scope: InstrumentationScope,
) -> SpanData {
    let mut links = SpanLinks::default();
    let link = span.link.map(|link| Link::new(context_of(link, true), Vec::new(), 0));
    links.dropped_count = u32::from(link.is_some() && limits.links == 0);
    links.links.extend(link.filter(|_| limits.links > 0));
    let dropped = span.attributes.len().saturating_sub(limits.attributes);
    let attributes = span.attributes.into_iter().take(limits.attributes);
    SpanData {
        span_context: context_of(span.context, false),
        parent_span_id: span
            .parent
            .map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.bits().to_be_bytes())),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: span.name.into(),
        start_time: SystemTime::from(start),
        end_time: SystemTime::from(end),
        attributes: attributes.map(|one| attribute(one, limits.length)).collect(),
        dropped_attributes_count: u32::try_from(dropped).unwrap_or(u32::MAX),
        events: SpanEvents::default(),
        links,
        status: Status::Unset,
        instrumentation_scope: scope,
    }
}

fn context_of(context: Context, remote: bool) -> SpanContext {
    let flags = if context.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    SpanContext::new(
        TraceId::from_bytes(context.trace.bits().to_be_bytes()),
        SpanId::from_bytes(context.span.bits().to_be_bytes()),
        flags,
        remote,
        TraceState::default(),
    )
}

fn attribute((name, value): (&'static str, Attribute), length: Option<usize>) -> KeyValue {
    match value {
        Attribute::Text(text) => match length {
            Some(length) => KeyValue::new(name, text.chars().take(length).collect::<String>()),
            None => KeyValue::new(name, text),
        },
        Attribute::Number(number) => KeyValue::new(name, number),
    }
}

#[cfg(test)]
mod tests;
