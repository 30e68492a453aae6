//! `/metrics` for those who may: by HTTPS, to whoever brings a token of the cluster whose owner may `get` the path `/metrics`.

mod certificates;
mod listener;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::args::MetricsSecurity;
use crate::auth::{self, Access, Denied, Memory};
pub use certificates::CertificateError;
use certificates::Certificates;

/// How long it is believed that somebody may.
const TRUSTED: Duration = Duration::from_secs(60);
/// How long whoever may not is not asked about again.
const REFUSED: Duration = Duration::from_secs(5);
/// How many tokens are asked about at a time.
const AT_ONCE: usize = 8;
const PATH: &str = "/metrics";

/// What stands before the metrics.
#[derive(Clone)]
pub struct Door(Arc<Parts>);

struct Parts {
    client: Client,
    certificates: Certificates,
    known: Memory<Verdict>,
    turns: Semaphore,
}

struct Verdict {
    at: Instant,
    word: Word,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Nobodys,
    MayNot,
    May,
}

impl Verdict {
    fn holds(&self) -> bool {
        self.at.elapsed() < if self.word == Word::May { TRUSTED } else { REFUSED }
    }
}

impl Door {
    /// The door that the flags ask for, if they ask for one; who may is asked by this client.
    ///
    /// # Errors
    /// When the certificate cannot be used.
    pub async fn of(flags: &MetricsSecurity, client: &Client) -> Result<Option<Self>, CertificateError> {
        if !flags.metrics_secure {
            return Ok(None);
        }
        let folder = flags.metrics_cert_path.as_deref().filter(|folder| !folder.as_os_str().is_empty());
        let certificates = Certificates::open(folder).await?;
        let client = client.clone();
        let turns = Semaphore::new(AT_ONCE);
        Ok(Some(Self(Arc::new(Parts { client, certificates, known: Memory::default(), turns }))))
    }

    fn guarded(&self, page: Router) -> Router {
        page.layer(middleware::from_fn_with_state(self.clone(), guard))
    }

    async fn word(&self, token: &str) -> Result<Word, Denied> {
        if !auth::is_token(token) {
            return Ok(Word::Nobodys);
        }
        let slot = self.0.known.slot(token);
        let word = slot.believed(Verdict::holds, self.ask(token)).await?.word;
        slot.saw(word == Word::Nobodys);
        Ok(word)
    }

    async fn ask(&self, token: &str) -> Result<Verdict, Denied> {
        let at = Instant::now();
        let _turn = self.0.turns.acquire().await;
        let owner = match auth::owner(&self.0.client, token).await {
            Ok(owner) => owner,
            Err(Denied::Unknown) => return Ok(Verdict { at, word: Word::Nobodys }),
            Err(error) => return Err(error),
        };
        let may = auth::may(&self.0.client, &owner, Access::Path(PATH)).await?;
        Ok(Verdict { at, word: if may { Word::May } else { Word::MayNot } })
    }
}

/// Serves the metrics until the process ends: to everybody, or behind a door.
///
/// # Errors
/// When the address cannot be served any more.
pub async fn serve(listener: TcpListener, page: Router, door: Option<Door>) -> io::Result<()> {
    match door {
        None => axum::serve(listener, page).await,
        Some(door) => {
            let page = door.guarded(page);
            axum::serve(listener::Tls::new(listener, door), page).await
        }
    }
}

async fn guard(State(door): State<Door>, request: Request, next: Next) -> Response {
    let word = match auth::bearer(request.headers()) {
        Some(token) => door.word(token).await,
        None => Ok(Word::Nobodys),
    };
    match word {
        Ok(Word::May) => next.run(request).await,
        Ok(Word::MayNot) => {
            let words =
                "whose this token is may not get /metrics: bind them to a ClusterRole that lets them\n";
            (StatusCode::FORBIDDEN, words).into_response()
        }
        Ok(Word::Nobodys) => {
            let words = "give a token of this cluster: Authorization: Bearer TOKEN\n";
            let bearer = [(header::WWW_AUTHENTICATE, "Bearer realm=\"metrics\"")];
            (StatusCode::UNAUTHORIZED, bearer, words).into_response()
        }
        Err(error) => {
            tracing::warn!("nobody gets the metrics: {error}");
            // What the API server said is for who runs this.
            let words = "the API server cannot be asked whose this token is; try again in a moment\n";
            (StatusCode::SERVICE_UNAVAILABLE, words).into_response()
        }
    }
}
