//! Conditions: their types and reasons, and one way to set them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Condition types (contract §2, §10, §11).
pub mod types {
    /// On claims: the class was found.
    pub const CLASS_RESOLVED: &str = "ClassResolved";
    /// On claims: every family asked for is bound.
    pub const BOUND: &str = "Bound";
    /// On claims and classes: the verdict generic tools read.
    pub const READY: &str = "Ready";
    /// On addresses: the text is valid and no older object has the IP.
    pub const VALID: &str = "Valid";
    /// On addresses: MetalLB really has the IP assigned to the placeholder.
    pub const HELD: &str = "Held";
    /// On addresses: a Service has the address and is served by it.
    pub const ASSOCIATED: &str = "Associated";
    /// On addresses: a Service has the address that the binding does not give it to.
    pub const CONFLICT: &str = "Conflict";
    /// On classes: new reservations are made.
    pub const ACCEPTED: &str = "Accepted";

    /// On classes: whether there can be addresses of a family at all; there only while there cannot.
    pub const fn available(family: crate::Family) -> &'static str {
        match family {
            crate::Family::IPv4 => "IPv4Available",
            crate::Family::IPv6 => "IPv6Available",
        }
    }
}

/// Sets the condition `kind` and says whether anything but the time changed. The transition time moves only
/// when the status does; an equal condition is left as it is, so that a pass at rest writes nothing.
pub fn set(
    conditions: &mut Vec<Condition>,
    now: jiff::Timestamp,
    generation: Option<i64>,
    kind: &str,
    status: bool,
    reason: &str,
    message: &str,
) -> bool {
    let status = if status { "True" } else { "False" };
    if let Some(old) = conditions.iter_mut().find(|condition| condition.type_ == kind) {
        let same = old.status == status && old.reason == reason && old.message == message;
        if same && old.observed_generation == generation {
            return false;
        }
        if old.status != status {
            old.last_transition_time = Time(now);
        }
        status.clone_into(&mut old.status);
        reason.clone_into(&mut old.reason);
        message.clone_into(&mut old.message);
        old.observed_generation = generation;
        return true;
    }
    conditions.push(Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(now),
        observed_generation: generation,
    });
    true
}

/// Removes the condition `kind` and says whether it was there.
pub fn clear(conditions: &mut Vec<Condition>, kind: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != kind);
    conditions.len() != before
}

/// The condition `kind`, if it is there.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}
