//! From the cluster to the index: which feeds, and whether the API server answers.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use plan::Kind;
use runtime::Feed;

use crate::Live;
use crate::world::{About, Source};

/// How often the API server is asked whether it is there.
const PULSE: Duration = Duration::from_secs(5);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is watched, and what the index knows it by.
pub fn feeds(metallb_namespace: &str) -> Vec<(Source, Feed)> {
    let whole = [Kind::Class, Kind::Address, Kind::Claim, Kind::Service];
    let mut feeds: Vec<_> = whole.map(|kind| (Source::Kind(kind), Feed::of(kind))).into();
    feeds.push((Source::Kind(Kind::Pool), Feed::of(Kind::Pool).within(metallb_namespace)));
    for about in About::ALL {
        let fields = format!("involvedObject.kind={}", about.kind());
        feeds.push((Source::Events(about), Feed::of(Kind::Event).with_fields(fields)));
    }
    feeds
}

/// What must have come before a page says anything: without the pools and the events, pages say less and nothing wrong.
pub const NEEDED: [Kind; 4] = [Kind::Class, Kind::Address, Kind::Claim, Kind::Service];

/// Follows one feed for ever.
pub async fn follow(live: Arc<Live>, client: Client, source: Source, feed: Feed) {
    feed.follow(client, move |change| live.edit().take_in(source, change)).await;
}

/// Asks the API server again and again whether it is there, so that pages do not show old news as new.
pub async fn pulse(live: Arc<Live>, client: Client) {
    let mut last = Timestamp::now();
    loop {
        let answer = tokio::time::timeout(PATIENCE, client.apiserver_version()).await;
        // An answer that says no is one.
        let there = matches!(answer, Ok(Ok(_) | Err(kube::Error::Api(_))));
        if there {
            last = Timestamp::now();
        }
        live.hear((!there).then_some(last));
        tokio::time::sleep(PULSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use axum::http::{Request, Response};
    use serde_json::json;

    use super::*;
    use crate::world::World;

    /// What becomes of a question.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fate {
        Answered(u16),
        Refused,
        Unheard,
    }

    fn client(fate: Arc<Mutex<Fate>>) -> Client {
        let service = tower::service_fn(move |_: Request<kube::client::Body>| {
            let fate = *fate.lock().unwrap();
            async move {
                let code = match fate {
                    Fate::Answered(code) => code,
                    Fate::Refused => return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)),
                    Fate::Unheard => std::future::pending().await,
                };
                let version = json!({
                    "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "",
                    "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
                });
                let no = json!({ "kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "Forbidden" });
                let answer = if code == 200 { version } else { no };
                let body = kube::client::Body::from(answer.to_string().into_bytes());
                Ok(Response::builder().status(code).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_does_not_answer_is_silent_and_one_that_says_no_is_not() {
        let fate = Arc::new(Mutex::new(Fate::Unheard));
        let live = Live::new(World::new("home"));
        let pulse = tokio::spawn(pulse(Arc::clone(&live), client(Arc::clone(&fate))));
        for (now, silent) in [
            (Fate::Answered(200), false),
            (Fate::Unheard, true),
            (Fate::Answered(403), false),
            (Fate::Refused, true),
            (Fate::Answered(200), false),
        ] {
            *fate.lock().unwrap() = now;
            // One question may be under way still; the next one is heard of after this.
            tokio::time::sleep(2 * (PULSE + PATIENCE)).await;
            assert_eq!(live.silent().is_some(), silent, "{now:?}");
        }
        pulse.abort();
    }
}
