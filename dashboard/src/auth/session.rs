//! Who has signed in: the cookie holds a name of chance, the token stays in this process.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use runtime::auth::{Digested, digest};
use tokio::time::Instant;

/// How long a session lasts, at most.
pub(super) const LASTS: Duration = Duration::from_secs(8 * 3600);
/// How many there are, at most; the oldest goes.
const MOST: usize = 1_000;
/// How many one visitor has, at most: nobody signs others out by signing in again and again.
const MOST_OF_ONE: usize = 10;

/// The sessions, in memory alone: a restart signs everybody out.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<Digested, Session>>);

struct Session {
    token: String,
    who: Option<String>,
    began: Instant,
}

impl Sessions {
    /// Begins one and returns its name, which only the visitor's browser is told.
    pub(super) fn begin(&self, token: &str, who: Option<String>) -> String {
        let name = rand::random::<[u8; 32]>().iter().fold(String::new(), |mut name, byte| {
            let _ = write!(name, "{byte:02x}");
            name
        });
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| session.began.elapsed() < LASTS);
        while let Some(key) = surplus(&sessions, who.as_deref()) {
            sessions.remove(&key);
        }
        // By its digest: comparing takes as long whatever is right of a guess.
        sessions.insert(digest(&name), Session { token: token.to_owned(), who, began: Instant::now() });
        name
    }

    /// The token of a session that has not run out.
    pub(super) fn token(&self, name: &str) -> Option<String> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get(&digest(name)).filter(|session| session.began.elapsed() < LASTS);
        session.map(|session| session.token.clone())
    }

    /// Ends one.
    pub(super) fn end(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&digest(name));
    }
}

/// The session that has to go before this visitor gets another, if any.
fn surplus(sessions: &HashMap<Digested, Session>, who: Option<&str>) -> Option<Digested> {
    let oldest = |of_one: bool| {
        let all = sessions.iter().filter(|(_, session)| !of_one || session.who.as_deref() == who);
        all.min_by_key(|(_, session)| session.began).map(|(key, _)| *key)
    };
    let own = sessions.values().filter(|session| session.who.as_deref() == who).count();
    if own >= MOST_OF_ONE {
        return oldest(true);
    }
    if sessions.len() >= MOST { oldest(false) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_known_by_its_name_until_it_ends() {
        let sessions = Sessions::default();
        let name = sessions.begin("token", Some("ann".into()));
        assert_eq!((name.len(), sessions.token(&name).as_deref()), (64, Some("token")));
        assert_eq!(sessions.token("token"), None);
        sessions.end(&name);
        assert_eq!(sessions.token(&name), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_runs_out_and_is_forgotten() {
        let sessions = Sessions::default();
        let name = sessions.begin("token", Some("ann".into()));
        let begun = Instant::now();
        tokio::time::advance(Duration::from_secs(8 * 3600 - 1)).await;
        assert_eq!(sessions.token(&name).as_deref(), Some("token"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(begun.elapsed(), LASTS);
        assert_eq!(sessions.token(&name), None);
        sessions.begin("other", Some("bob".into()));
        assert_eq!(sessions.0.lock().unwrap().len(), 1, "its token is kept in memory");
    }

    #[test]
    fn one_visitor_signs_nobody_else_out() {
        let sessions = Sessions::default();
        let ann = sessions.begin("a", Some("ann".into()));
        let first = sessions.begin("b", Some("bob".into()));
        let rest: Vec<_> = (0..MOST_OF_ONE).map(|_| sessions.begin("b", Some("bob".into()))).collect();
        assert_eq!(sessions.token(&first), None, "the oldest goes");
        assert!(rest.iter().chain([&ann]).all(|name| sessions.token(name).is_some()));
    }

    #[test]
    fn there_are_never_more_than_the_most() {
        let sessions = Sessions::default();
        let names: Vec<_> =
            (0..=MOST).map(|number| sessions.begin("t", Some(format!("visitor-{number}")))).collect();
        assert_eq!(sessions.token(&names[0]), None);
        assert!(sessions.token(&names[MOST]).is_some());
        assert_eq!(sessions.0.lock().unwrap().len(), MOST);
    }
}
