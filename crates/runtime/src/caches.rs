//! Which caches are complete: nothing is decided before all of them are (contract §3 g).

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use plan::Kind;
use tokio::sync::watch;

/// The kinds whose first complete list is still to come.
#[derive(Debug)]
pub(crate) struct Caches {
    waiting: Mutex<BTreeSet<Kind>>,
    complete: watch::Sender<bool>,
}

impl Caches {
    pub(crate) fn new(kinds: impl IntoIterator<Item = Kind>) -> Self {
        let waiting: BTreeSet<Kind> = kinds.into_iter().collect();
        let complete = watch::Sender::new(waiting.is_empty());
        Self { waiting: Mutex::new(waiting), complete }
    }

    /// A complete list of this kind has come.
    pub(crate) fn listed(&self, kind: Kind) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.remove(&kind) && waiting.is_empty() {
            self.complete.send_replace(true);
        }
    }

    /// The kinds that are waited for.
    pub(crate) fn waiting(&self) -> Vec<Kind> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// Waits until all caches are complete.
    pub(crate) async fn complete(&self) {
        // The sender is `self`: it cannot be gone while we wait.
        let mut complete = self.complete.subscribe();
        let _complete = complete.wait_for(|complete| *complete).await;
    }
}
