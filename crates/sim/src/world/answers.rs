//! What each process was told by answers: its next decision must know of it.

use plan::{Kind, Object, Ref};

use super::env::{Env, Sender};

impl Env {
    /// A process has the answer to a call: from now on its decisions know of it.
    pub fn told(&mut self, sender: Sender, object: &Object) {
        let now = self.number();
        let version = object.meta().resource_version.clone().unwrap_or_default();
        self.answers.insert(object.reference(), (sender, version, now));
    }

    /// A process took in a complete list, which may be older than an answer: an object that the list does not have yet
    /// comes back by the watch, in the versions that it had.
    pub fn listed_anew(&mut self, sender: Sender, kind: Kind) {
        self.answers.retain(|reference, (to, ..)| reference.kind != kind || *to != sender);
    }

    /// A write was refused as stale: not for the sake of a version that its own process was told of before it decided.
    pub(super) fn law_of_answers(&mut self, sender: Sender, decided: u64, reference: &Ref) {
        let current = self.server.get(reference).and_then(|object| object.meta().resource_version.clone());
        let own = self.answers.get(reference).is_some_and(|(to, version, at)| {
            *to == sender && Some(version) == current.as_ref() && *at < decided
        });
        if own {
            let words = format!("{reference}: a write knows nothing of the one before");
            self.violated("§3 f: a decision never fights an answer that its own process has", words);
        }
    }
}
