//! Traces as plain data (contract §14): what a brain says about the steps of an operation. No I/O, no OpenTelemetry.
//!
//! Every id is made of what the cluster shows: of the object's uid and of when the operation began. So whoever
//! goes on with an operation, after a crash or in another process, finds the same trace and the same parent.

mod context;
mod operation;
mod sampler;

use jiff::Timestamp;

pub use context::{Context, SpanId, TraceId};
pub use operation::{Operation, of_claim, user_context};
pub use sampler::Sampler;

/// One span of a trace. It is closed: nothing is held open for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its name, part of the public interface.
    pub name: &'static str,
    /// Its own ids.
    pub context: Context,
    /// The span above it; none for the root of a trace.
    pub parent: Option<SpanId>,
    /// Another trace that has to do with it.
    pub link: Option<Context>,
    /// From when to when.
    pub timing: Timing,
    /// What it is about.
    pub attributes: Vec<(&'static str, Attribute)>,
}

/// From when to when a span goes. A brain knows when it decides, not when its writes are done: that is filled in by
/// whoever carries the plan out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// The actions of the plan before this one, back to the step before, or to the decision.
    Step,
    /// A wait: from the last step of the same parent, as far as this process did it, else from `since`.
    Wait {
        /// What the objects say about its beginning.
        since: Timestamp,
        /// Its end; none: now.
        until: Option<Timestamp>,
    },
    /// The whole operation.
    Whole {
        /// Its beginning.
        since: Timestamp,
        /// Its end; none: now.
        until: Option<Timestamp>,
    },
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

#[cfg(test)]
mod tests;
