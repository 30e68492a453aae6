//! Scripted sequences that are run against the models and against the real API server and MetalLB, without any controller
//! of ours: what each action returns, and what the world looks like after it, must be the same.
//!
//! A sequence is data ([`Sequence`]): it names no cluster. [`model::transcripts`] gives all that the models may answer; the
//! end-to-end suite runs the same actions for real and holds what it sees against that.

pub mod model;
pub mod place;
pub mod seen;
mod sequences;

use plan::Ref;
use serde_json::{Value, json};

pub use place::Place;
pub use seen::{Snapshot, seen};
pub use sequences::all;

/// One script.
#[derive(Clone, Copy)]
pub struct Sequence {
    pub name: &'static str,
    pub scope: Scope,
    pub actions: fn(&Place) -> Vec<Action>,
}

/// What else may happen in a cluster while a sequence runs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Other sequences: whatever makes MetalLB look at all Services again changes nothing here.
    Shared,
    /// Nothing: it shows that MetalLB does not look again, or draws from a pool for everybody.
    Alone,
    /// Other sequences of this kind: it stops and starts MetalLB once.
    Restart,
}

/// One action. The world comes to rest after each.
#[derive(Clone, Debug)]
pub enum Action {
    /// Of an object with `kind`.
    Create(Ref, Value),
    /// A merge patch, of the status subresource or of everything else.
    Patch {
        of: Ref,
        status: bool,
        body: Value,
        when: When,
    },
    Delete {
        of: Ref,
        when: When,
    },
    /// Its owners are from now on these, as they are now, or as they never were if they are not there.
    Own {
        of: Ref,
        owners: Vec<Ref>,
    },
    /// MetalLB's process ends.
    Stop,
    /// It starts again.
    Start,
}

/// The preconditions of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// None.
    Any,
    /// The uid and version that are there.
    Right,
    /// The right uid, a version of long ago.
    Stale,
    /// The right version, the uid of another incarnation.
    Other,
}

/// The uid of an incarnation that never was.
pub const OTHER_UID: &str = "00000000-0000-4000-8000-999999999999";
/// A version of long ago.
pub const STALE_VERSION: &str = "1";

impl When {
    /// uid and version to name, of an object as it is now.
    pub fn of(self, now: Option<&Value>) -> Option<(String, String)> {
        let text = |name: &str| {
            now.and_then(|now| now["metadata"][name].as_str()).unwrap_or(STALE_VERSION).to_owned()
        };
        match self {
            Self::Any => None,
            Self::Right => Some((text("uid"), text("resourceVersion"))),
            Self::Stale => Some((text("uid"), STALE_VERSION.to_owned())),
            Self::Other => Some((OTHER_UID.to_owned(), text("resourceVersion"))),
        }
    }
}

/// The patch that names owners. `uid`: what the cluster says of each.
pub fn owned_by<'a>(owners: impl Iterator<Item = (&'a Ref, Option<String>)>) -> Value {
    let owners: Vec<_> = owners
        .map(|(owner, uid)| {
            json!({
                "apiVersion": owner.kind.api_version(), "kind": owner.kind.as_str(), "name": owner.name,
                "uid": uid.as_deref().unwrap_or(OTHER_UID),
            })
        })
        .collect();
    json!({ "metadata": { "ownerReferences": owners } })
}

/// What an action returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The object is there.
    Done,
    /// The object is gone.
    Gone,
    /// Refused, with this HTTP status.
    Refused(u16),
}

/// What one action returned and what the world looked like at rest after it.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    pub outcome: Outcome,
    pub world: Value,
}

impl Sequence {
    /// The objects that it makes: those it is about.
    pub fn objects(&self, place: &Place) -> Vec<Ref> {
        let actions = (self.actions)(place).into_iter();
        let mut made: Vec<Ref> = actions
            .filter_map(|action| match action {
                Action::Create(reference, _) => Some(reference),
                _ => None,
            })
            .collect();
        made.sort();
        made.dedup();
        made
    }
}

/// How the nearest of several transcripts differs from what was seen, up to the first moment that does.
pub fn nearest(transcripts: &[Vec<Moment>], seen: &[Moment]) -> String {
    let same = |transcript: &Vec<Moment>| {
        transcript.iter().zip(seen).take_while(|(one, other)| one == other).count()
    };
    let Some(best) = transcripts.iter().max_by_key(|transcript| same(transcript)) else {
        return "no transcript".to_owned();
    };
    let at = same(best);
    let (Some(one), Some(other)) = (best.get(at), seen.get(at)) else { return "none".to_owned() };
    let differences = seen::difference(&one.world, &other.world).join("\n  ");
    format!("action {at}: {:?} | {:?}\n  {differences}", one.outcome, other.outcome)
}

#[cfg(test)]
mod tests;
