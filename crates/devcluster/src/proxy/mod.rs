//! A plain-HTTP proxy before the API server that injects faults at exact moments.
//!
//! A controller under test is given a kubeconfig that leads here ([`crate::Cluster::kubeconfig_via`]); its requests are
//! forwarded over TLS with its own bearer token, so the API server sees the same user as without the proxy. Rules
//! ([`Rule`]) delay, refuse or lose requests, or call a closure right before or after the k-th write: exact crash tests.
//!
//! *Invariant*: a write that was forwarded is always seen to its end, also when the client is gone, and the closure
//! of an `after` rule ends before the client gets a single byte of the answer.

mod call;
mod forward;
mod rule;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

pub use self::call::{Call, Verb};
use self::forward::Upstream;
use self::rule::Act;
pub use self::rule::Rule;
use crate::kubeconfig::{self, Credentials, Server};
use crate::{Error, Result};

/// A running proxy; dropping it closes its port and every connection.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    book: Arc<Book>,
    cut: Arc<Notify>,
    server: JoinHandle<()>,
}

/// A counted write and what became of it.
#[derive(Clone, Debug)]
pub struct Write {
    /// The request.
    pub call: Call,
    /// The status the API server answered with; `None` when it has not answered, or never saw the request.
    pub status: Option<u16>,
}

/// What the proxy knows: its rules and what it has seen.
#[derive(Default)]
struct Book(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    rules: Vec<Rule>,
    counts: BTreeMap<(Verb, String), u64>,
    writes: Vec<Write>,
    /// Raised by a reset, so that an answer to an earlier write is not noted down for a later one.
    edition: u64,
}

impl Proxy {
    /// Starts a proxy before an API server, on a free loopback port.
    pub async fn start(server_url: &str, ca_pem: &str) -> Result<Self> {
        let upstream = Arc::new(Upstream::new(server_url, ca_pem)?);
        let listener =
            TcpListener::bind(("127.0.0.1", 0)).await.map_err(Error::io("binding the proxy's port"))?;
        let address = listener.local_addr().map_err(Error::io("asking for the proxy's port"))?;
        let book = Arc::new(Book::default());
        let cut = Arc::new(Notify::new());
        let server = tokio::spawn(serve(listener, upstream, Arc::clone(&book), Arc::clone(&cut)));
        Ok(Self { url: format!("http://{address}"), book, cut, server })
    }

    /// The proxy's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Writes a kubeconfig that leads through the proxy, with a bearer token.
    pub fn write_kubeconfig(&self, path: &Path, user: &str, token: &str) -> Result<()> {
        let server = Server { url: &self.url, ca_pem: None };
        kubeconfig::write(path, &server, user, &Credentials::Token(token))
    }

    /// Adds a rule after those there are.
    pub fn add(&self, rule: Rule) {
        self.book.open().rules.push(rule);
    }

    /// Closes every connection there is, and with them every watch; what was forwarded is seen to its end.
    pub fn cut(&self) {
        self.cut.notify_one();
    }

    /// Removes every rule; faults are over.
    pub fn clear(&self) {
        self.book.open().rules.clear();
    }

    /// Removes every rule and forgets what was counted: the next write is the first again.
    pub fn reset(&self) {
        self.begin_with([]);
    }

    /// As [`reset`](Self::reset), with these rules from the first write on: no write comes between the two.
    pub fn begin_with(&self, rules: impl IntoIterator<Item = Rule>) {
        let mut pages = self.book.open();
        let edition = pages.edition + 1;
        *pages = Pages { edition, rules: rules.into_iter().collect(), ..Pages::default() };
    }

    /// How many requests there were, by verb and resource, refused ones included.
    pub fn counts(&self) -> BTreeMap<(Verb, String), u64> {
        self.book.open().counts.clone()
    }

    /// How many requests of a verb there were to a resource.
    pub fn count(&self, verb: Verb, resource: &str) -> u64 {
        self.book.open().counts.get(&(verb, resource.to_owned())).copied().unwrap_or_default()
    }

    /// The counted writes so far, in order of arrival: the k-th is `writes()[k - 1]`.
    pub fn writes(&self) -> Vec<Write> {
        self.book.open().writes.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Book").finish_non_exhaustive()
    }
}

/// Where the answer to a write is noted down.
#[derive(Clone, Copy)]
struct Entry {
    edition: u64,
    index: usize,
}

impl Book {
    fn open(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request, numbers it if it is a counted write, and says what is to happen to it.
    fn enter(&self, call: &mut Call) -> (Act, Option<Entry>) {
        let mut pages = self.open();
        *pages.counts.entry((call.verb, call.resource.clone())).or_default() += 1;
        let entry = call.is_counted_write().then(|| {
            let index = pages.writes.len();
            call.write = u64::try_from(index + 1).ok();
            pages.writes.push(Write { call: call.clone(), status: None });
            Entry { edition: pages.edition, index }
        });
        let act = pages.rules.iter_mut().find_map(|rule| rule.apply(call)).unwrap_or(Act::Pass);
        (act, entry)
    }

    fn answered(&self, entry: Entry, status: u16) {
        let mut pages = self.open();
        if pages.edition == entry.edition
            && let Some(write) = pages.writes.get_mut(entry.index)
        {
            write.status = Some(status);
        }
    }
}

async fn serve(listener: TcpListener, upstream: Arc<Upstream>, book: Arc<Book>, cut: Arc<Notify>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let _ = stream.set_nodelay(true);
                let (upstream, book) = (Arc::clone(&upstream), Arc::clone(&book));
                let service = service_fn(move |request| forward::handle(request, Arc::clone(&upstream), Arc::clone(&book)));
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
            Some(_) = connections.join_next() => {}
            () = cut.notified() => connections.abort_all(),
        }
    }
}
