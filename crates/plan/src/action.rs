//! Actions, their preconditions, and the plan they make up.

use std::time::Duration;

use serde_json::Value;

use crate::trace::Span;
use crate::{Event, Object, Ref};

/// The object a write is meant for: exactly this incarnation, in exactly the version that was decided on, or
/// in the version that an earlier action of the same plan made of it (contract §3 f).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The object's name.
    pub reference: Ref,
    /// The uid the object must have.
    pub uid: String,
    /// The `resourceVersion` the object must have.
    pub resource_version: String,
}

impl Target {
    /// The object as the index knows it.
    pub fn of(object: &Object) -> Self {
        let meta = object.meta();
        Self {
            reference: object.reference(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
        }
    }
}

/// What to tell, and whom, when the API server refuses a write for good (quota, invalid, forbidden).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The event; the server's words are appended to its note.
    pub event: Event,
}

/// One write, or one read that must hold before the writes after it.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates an object. One of that name that exists already is a lost race: the plan ends and the key is
    /// decided anew.
    Create {
        /// The object.
        object: Object,
        /// What to tell if the server refuses.
        refused: Option<Guard>,
    },
    /// A JSON merge patch with uid and resourceVersion as preconditions.
    Patch {
        /// The object to patch.
        target: Target,
        /// Whether the status subresource is patched.
        status: bool,
        /// The merge patch, without the preconditions.
        body: Value,
        /// What to tell if the server refuses.
        refused: Option<Guard>,
        /// Whether it is sent without waiting for the answer to the patch before it, which is of another object: either may arrive
        /// first, and either may fail alone.
        at_once: bool,
    },
    /// Deletes an object, with uid and resourceVersion as preconditions.
    Delete {
        /// The object to delete.
        target: Target,
    },
    /// A live read: the object must be absent, or of another uid than the one given. If it is there, the
    /// plan ends and the key is decided anew (contract §3 g).
    ConfirmAbsent {
        /// The object.
        reference: Ref,
        /// The uid of the incarnation that must be gone; without it, any.
        uid: Option<String>,
    },
    /// Tells of something that has just been done by the actions before this one.
    Emit(Event),
    /// A span about what has just been done by the actions before this one, or is over with it.
    Trace(Span),
}

impl Action {
    /// A patch of metadata and spec.
    pub fn patch(target: Target, body: Value) -> Self {
        Self::Patch { target, status: false, body, refused: None, at_once: false }
    }

    /// The same patch, sent at once with the one before it.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        if let Self::Patch { at_once, .. } = &mut self {
            *at_once = true;
        }
        self
    }

    /// The same patch, with what to tell if the server refuses it.
    #[must_use]
    pub fn or_tell(mut self, event: Event) -> Self {
        if let Self::Patch { refused, .. } = &mut self {
            *refused = Some(Guard { event });
        }
        self
    }

    /// A patch of the status subresource; `body` is the content of `status`.
    pub fn patch_status(target: Target, body: Value) -> Self {
        Self::Patch { target, status: true, body: status_body(body), refused: None, at_once: false }
    }

    /// A creation.
    pub fn create(object: impl Into<Object>) -> Self {
        Self::Create { object: object.into(), refused: None }
    }

    /// The deletion of an object.
    pub fn delete(object: &Object) -> Self {
        Self::Delete { target: Target::of(object) }
    }

    /// Whether the action changes anything in the cluster but events.
    pub const fn is_write(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::Patch { .. } | Self::Delete { .. })
    }
}

fn status_body(status: Value) -> Value {
    Value::Object(std::iter::once(("status".to_owned(), status)).collect())
}

/// What is to be done about one key. At rest it is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Done in order; the first failure ends the plan.
    pub actions: Vec<Action>,
    /// What is wrong, or waited for, at this moment. Told when it is new for this key, not at each pass.
    pub standing: Vec<Event>,
    /// When to decide anew without a change to the cluster.
    pub again_after: Option<Duration>,
}

impl Plan {
    /// Whether nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Appends an action.
    pub fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Asks for another decision after `delay`, or sooner if that was asked for already.
    pub fn retry(&mut self, delay: Duration) {
        self.again_after = Some(self.again_after.map_or(delay, |old| old.min(delay)));
    }

    /// Appends everything of another plan.
    pub fn append(&mut self, other: Self) {
        self.actions.extend(other.actions);
        self.standing.extend(other.standing);
        if let Some(delay) = other.again_after {
            self.retry(delay);
        }
    }
}
