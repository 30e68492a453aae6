//! Who a token lets in, remembered for a short time.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Client;
use runtime::auth::{Denied, Memory, is_token, owner};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::review;
use crate::{Live, Scope, Visitor};

/// How long the API server's word is taken for true: a right that was taken away ends after that.
const TRUSTED: Duration = Duration::from_secs(20);
/// How long a token that nobody knows is not asked about again.
const REFUSED: Duration = Duration::from_secs(5);
/// How many visitors are asked about at a time.
const AT_ONCE: usize = 8;
/// Decides who is let in, and what they see.
pub struct Gate {
    client: Client,
    live: Arc<Live>,
    known: Memory<Verdict>,
    turns: Semaphore,
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
        Self { client, live, known: Memory::default(), turns: Semaphore::new(AT_ONCE) }
    }

    /// Who comes with a token, and what they may see.
    ///
    /// # Errors
    /// When it is nobody's, or the API server cannot be asked.
    pub async fn visitor(&self, token: &str) -> Result<Visitor, Denied> {
        if !is_token(token) {
            return Err(Denied::Unknown);
        }
        let slot = self.known.slot(token);
        let mut verdict = slot.believed(Verdict::holds, self.ask(token)).await?;
        let guest = verdict.guest.as_mut();
        slot.saw(guest.is_none());
        let guest = guest.ok_or(Denied::Unknown)?;
        self.complete(guest).await?;
        Ok(guest.visitor.clone())
    }

    async fn ask(&self, token: &str) -> Result<Verdict, Denied> {
        let _turn = self.turns.acquire().await;
        let at = Instant::now();
        let user = match owner(&self.client, token).await {
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
}
