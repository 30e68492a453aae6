//! What is known of tokens. The tokens themselves are not kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use tokio::sync::{MappedMutexGuard, MutexGuard};
use tokio::time::Instant;

use super::Denied;

/// How many tokens are remembered.
const REMEMBERED: usize = 1_000;

/// What stands for a token wherever it is remembered.
pub type Digested = [u8; 32];

/// The digest of a token, or of a session's name.
pub fn digest(text: &str) -> Digested {
    Sha256::digest(text.as_bytes()).into()
}

/// What is known of so many tokens, and of no more.
pub struct Memory<V>(Mutex<HashMap<Digested, Arc<Slot<V>>>>);

/// What is known of one token; whoever asks at the same time waits for the same answer.
pub struct Slot<V> {
    verdict: tokio::sync::Mutex<Option<V>>,
    /// When it was asked about last, and whether it was nobody's.
    last: Mutex<Option<(Instant, bool)>>,
}

impl<V> Default for Memory<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V> Memory<V> {
    /// The place of a token.
    pub fn slot(&self, token: &str) -> Arc<Slot<V>> {
        let key = digest(token);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED && !known.contains_key(&key) {
            make_room(&mut known);
        }
        let empty = || Slot { verdict: tokio::sync::Mutex::new(None), last: Mutex::new(None) };
        Arc::clone(known.entry(key).or_insert_with(|| Arc::new(empty())))
    }
}

impl<V> Slot<V> {
    /// What is known, for one at a time; asked for anew unless it holds still.
    ///
    /// # Errors
    /// When it cannot be asked for. Nothing is known then: nobody is let in on old news.
    pub async fn believed(
        &self,
        holds: impl FnOnce(&V) -> bool,
        ask: impl Future<Output = Result<V, Denied>>,
    ) -> Result<MappedMutexGuard<'_, V>, Denied> {
        let mut known = self.verdict.lock().await;
        let verdict = match known.take().filter(holds) {
            Some(verdict) => verdict,
            None => ask.await?,
        };
        Ok(MutexGuard::map(known, |known| known.insert(verdict)))
    }

    /// It was asked about, and was somebody's or nobody's.
    pub fn saw(&self, nobodys: bool) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), nobodys));
    }

    /// What goes first when there is no room: what is nobody's, then what was asked about longest ago.
    fn worth(&self) -> (bool, Option<Instant>) {
        match *self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((at, nobodys)) => (!nobodys, Some(at)),
            None => (false, None),
        }
    }
}

/// Forgets a tenth, so that this is rarely done.
fn make_room<V>(known: &mut HashMap<Digested, Arc<Slot<V>>>) {
    let mut order: Vec<_> = known.iter().map(|(key, slot)| (slot.worth(), *key)).collect();
    order.sort_unstable();
    for (_, key) in order.into_iter().take(REMEMBERED / 10) {
        known.remove(&key);
    }
}
