//! Events: what is said to people.

use crate::trace::{Operation, TraceId};
use crate::{Object, Ref};

/// Whether somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// All is well.
    Normal,
    /// Something stands in the way.
    Warning,
}

impl EventType {
    /// The text of the field `type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// One sentence about one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The object the event is about.
    pub regarding: Ref,
    /// The uid of that object.
    pub uid: String,
    /// Whether somebody should look.
    pub kind: EventType,
    /// The reason, in `CamelCase`: part of the public interface.
    pub reason: &'static str,
    /// What was being done, in `CamelCase`.
    pub action: &'static str,
    /// The sentence: names the object, the field and the way out.
    pub note: String,
    /// The trace it belongs to.
    pub trace: Option<TraceId>,
}

impl Event {
    /// A normal event about `object`.
    pub fn normal(
        object: &Object,
        reason: &'static str,
        action: &'static str,
        note: impl Into<String>,
    ) -> Self {
        Self::new(object, EventType::Normal, reason, action, note.into())
    }

    /// A warning about `object`.
    pub fn warning(
        object: &Object,
        reason: &'static str,
        action: &'static str,
        note: impl Into<String>,
    ) -> Self {
        Self::new(object, EventType::Warning, reason, action, note.into())
    }

    /// The same, as part of an operation that is traced.
    #[must_use]
    pub fn traced(self, operation: Option<&Operation>) -> Self {
        Self { trace: operation.map(|operation| operation.context.trace), ..self }
    }

    fn new(
        object: &Object,
        kind: EventType,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) -> Self {
        Self {
            regarding: object.reference(),
            uid: object.meta().uid.clone().unwrap_or_default(),
            kind,
            reason,
            action,
            note,
            trace: None,
        }
    }
}
