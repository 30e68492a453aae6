//! Live updates: who looks at a page hears that something changed, and asks for the page again.
//!
//! A client is sent a token, at most once a second, and only when something changed for what it may see. It waits on a
//! value that is overwritten, so one that is slow misses versions and holds no memory.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::App;
use super::shell::token;
use crate::{Scope, Visitor};

/// How often a page hears that it is still up to date.
const STILL: Duration = Duration::from_secs(20);
/// After that the client connects anew, and is let in anew: a right that was taken away ends here.
const LONGEST: Duration = Duration::from_secs(300);

struct Client {
    app: App,
    scope: Scope,
    versions: watch::Receiver<u64>,
    sent: Option<u64>,
    until: Instant,
}

/// `/live`
pub async fn live(State(app): State<App>, visitor: Visitor) -> Response {
    let versions = app.live().versions();
    let client = Client { app, scope: visitor.scope, versions, sent: None, until: Instant::now() + LONGEST };
    let no_buffer = [(header::HeaderName::from_static("x-accel-buffering"), "no")];
    (no_buffer, Sse::new(follow(client))).into_response()
}

fn follow(client: Client) -> impl Stream<Item = Result<Event, Infallible>> {
    futures::stream::unfold(client, async |mut client| {
        let event = client.next().await?;
        Some((Ok(event), client))
    })
}

impl Client {
    async fn next(&mut self) -> Option<Event> {
        let quiet = tokio::time::sleep(STILL);
        tokio::pin!(quiet);
        loop {
            let version = self.version();
            if self.sent != Some(version) {
                self.sent = Some(version);
                return Some(self.event("changed", version));
            }
            tokio::select! {
                () = tokio::time::sleep_until(self.until) => return None,
                () = &mut quiet => return Some(self.event("still", version)),
                changed = self.versions.changed() => changed.ok()?,
            }
        }
    }

    /// The version that was told of last, as far as it is for this client.
    fn version(&mut self) -> u64 {
        let told = *self.versions.borrow_and_update();
        if self.scope.is_all() { told } else { self.app.live().world().version_for(&self.scope) }
    }

    fn event(&self, name: &str, version: u64) -> Event {
        let as_of = self.app.live().silent().unwrap_or_else(|| self.app.now());
        let silent = self.app.live().silent().is_some();
        let data = serde_json::json!({ "token": token(&self.app, version), "asOf": as_of, "silent": silent });
        Event::default().event(name).data(data.to_string())
    }
}
