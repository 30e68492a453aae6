//! Watches: where a process stands in the server's history of a kind.

use plan::Object;

/// Where a watch stands.
#[derive(Clone, Debug)]
pub enum Stream {
    /// A complete list is due.
    Cut,
    /// The list was made, and is on its way.
    Listing { objects: Vec<Object>, cursor: usize },
    /// What comes next in the history of the kind.
    At(usize),
}

/// What the feeds bring of the Events.
pub fn is_heard(object: &Object) -> bool {
    match object {
        Object::Event(event) => {
            event.reason.as_deref() == Some("AllocationFailed")
                && event.involved_object.kind.as_deref() == Some("Service")
        }
        _ => true,
    }
}
