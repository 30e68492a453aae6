//! Who a token lets in, remembered for a short time.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Client;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::review::{self, Denied};
use crate::{Live, Scope, Visitor};

/// How long the API server's word is taken for true: a right that was taken away ends after that.
const TRUSTED: Duration = Duration::from_secs(20);
/// How long a token that nobody knows is not asked about again.
const REFUSED: Duration = Duration::from_secs(5);
/// How many tokens are remembered.
const REMEMBERED: usize = 1_000;
/// How many visitors are asked about at a time.
const AT_ONCE: usize = 8;
/// A token longer than this is none.
const LONGEST: usize = 16 * 1024;

/// What stands for a token wherever it is remembered.
pub(super) type Digested = [u8; 32];

/// The digest of a token, or of a session's name.
pub(super) fn digest(text: &str) -> Digested {
    Sha256::digest(text.as_bytes()).into()
}

/// Decides who is let in, and what they see.
pub struct Gate {
    client: Client,
    live: Arc<Live>,
    known: Mutex<HashMap<Digested, Arc<Slot>>>,
    turns: Semaphore,
}

/// What is known of one token; whoever asks at the same time waits for the same answer.
#[derive(Default)]
struct Slot {
    verdict: tokio::sync::Mutex<Option<Verdict>>,
    /// When it was asked about last, and whether it was nobody's.
    last: Mutex<Option<(Instant, bool)>>,
}

struct Verdict {
    at: Instant,
    /// None if the token is nobody's.
    guest: Option<Guest>,
}

struct Guest {
    user: UserInfo,
    all: bool,
    /// The namespaces that were asked about: others may have come since.
    asked: HashSet<String>,
    visitor: Visitor,
}

impl Verdict {
    fn holds(&self) -> bool {
        self.at.elapsed() < if self.guest.is_some() { TRUSTED } else { REFUSED }
    }
}

impl Gate {
    /// A gate that asks by this client, about the namespaces of this index.
    pub fn new(client: Client, live: Arc<Live>) -> Self {
        Self { client, live, known: Mutex::default(), turns: Semaphore::new(AT_ONCE) }
    }

    /// Who comes with a token, and what they may see.
    ///
    /// # Errors
    /// When it is nobody's, or the API server cannot be asked.
    pub async fn visitor(&self, token: &str) -> Result<Visitor, Denied> {
        let plain = |byte: u8| byte.is_ascii_graphic();
        if token.is_empty() || token.len() > LONGEST || !token.bytes().all(plain) {
            return Err(Denied::Unknown);
        }
        let slot = self.slot(digest(token));
        let mut verdict = slot.verdict.lock().await;
        if !verdict.as_ref().is_some_and(Verdict::holds) {
            // Forgotten first: if the API server cannot be asked, nobody is let in on old news.
            *verdict = None;
            *verdict = Some(self.ask(token).await?);
        }
        let guest = verdict.as_mut().and_then(|verdict| verdict.guest.as_mut());
        slot.saw(guest.is_none());
        let guest = guest.ok_or(Denied::Unknown)?;
        self.complete(guest).await?;
        Ok(guest.visitor.clone())
    }

    async fn ask(&self, token: &str) -> Result<Verdict, Denied> {
        let _turn = self.turns.acquire().await;
        let at = Instant::now();
        let user = match review::owner(&self.client, token).await {
            Ok(user) => user,
            Err(Denied::Unknown) => return Ok(Verdict { at, guest: None }),
            Err(error) => return Err(error),
        };
        let all = review::may_list(&self.client, &user, None).await?;
        let scope = if all { Scope::All } else { Scope::only(Vec::<String>::new()) };
        let visitor = Visitor { scope, name: user.username.clone() };
        Ok(Verdict { at, guest: Some(Guest { user, all, asked: HashSet::new(), visitor }) })
    }

    /// Asks about the namespaces that were not asked about yet.
    async fn complete(&self, guest: &mut Guest) -> Result<(), Denied> {
        if guest.all {
            return Ok(());
        }
        let unknown: Vec<String> = {
            let world = self.live.world();
            // Namespaces are never forgotten there, so their number tells whether one came.
            if world.namespace_count() == guest.asked.len() {
                return Ok(());
            }
            let fresh = world.namespaces().filter(|name| !guest.asked.contains(&***name));
            fresh.map(ToString::to_string).collect()
        };
        let found = review::listable(&self.client, &guest.user, unknown.clone()).await?;
        if let Scope::Only(old) = &guest.visitor.scope
            && !found.is_empty()
        {
            let both: BTreeSet<String> = old.iter().cloned().chain(found).collect();
            guest.visitor.scope = Scope::only(both);
        }
        guest.asked.extend(unknown);
        Ok(())
    }

    fn slot(&self, key: Digested) -> Arc<Slot> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED && !known.contains_key(&key) {
            make_room(&mut known);
        }
        Arc::clone(known.entry(key).or_default())
    }
}

impl Slot {
    fn saw(&self, nobodys: bool) {
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
fn make_room(known: &mut HashMap<Digested, Arc<Slot>>) {
    let mut order: Vec<_> = known.iter().map(|(key, slot)| (slot.worth(), *key)).collect();
    order.sort_unstable();
    for (_, key) in order.into_iter().take(REMEMBERED / 10) {
        known.remove(&key);
    }
}
