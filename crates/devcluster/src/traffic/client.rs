//! The client: a new connection every 5 ms, whatever became of those before.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::PORT;
use super::line::{self, Line};
use super::report::Report;
use crate::network::Network;
use crate::{Error, Result};

/// How often a request is due.
pub const EVERY: Duration = Duration::from_millis(5);
/// How long a request may take. Less than the second after which the kernel repeats a packet that was lost: a request that
/// fell into an outage is to fail, not to be late.
pub const PATIENCE: Duration = Duration::from_millis(250);
/// How many answers in a row count as steady. They take longer than [`PATIENCE`], so that none before them is under way.
const STEADY: usize = 100;

/// Why a request had no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Nobody listened.
    Refused,
    /// No way there: no answer by ARP, or a router knew none.
    Unreachable,
    /// The connection ended before the answer.
    Broken,
    /// No answer within [`PATIENCE`].
    Late,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken off",
            Self::Late => "without an answer",
        })
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::Unreachable,
            io::ErrorKind::TimedOut => Self::Late,
            _ => Self::Broken,
        }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was due, from the start of the traffic on.
    pub due: Duration,
    /// Who answered, or why nobody did.
    pub answer: std::result::Result<String, Fault>,
}

/// Requests under way. They end when this is dropped.
#[derive(Debug)]
pub struct Traffic {
    started: Instant,
    samples: Arc<Mutex<Vec<Sample>>>,
    /// How many of them were told as news.
    told: usize,
    stop: oneshot::Sender<()>,
    done: oneshot::Receiver<Report>,
}

impl Traffic {
    /// Begins to send requests from the client of a network to an address of the cluster.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(network: &Network, to: IpAddr) -> Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (report, done) = oneshot::channel();
        let samples: Arc<Mutex<Vec<Sample>>> = Arc::default();
        let started = Instant::now();
        let log = Arc::clone(&samples);
        let to = SocketAddr::new(to, PORT);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::io("starting the client's runtime"))?;
        // Nobody waits for the thread: it ends when this is told to stop, or dropped.
        network.client().thread("client", move || {
            let seen = runtime.block_on(send(to, started, &log, stopped));
            let mut samples = std::mem::take(&mut *lock(&log));
            samples.sort_by_key(|sample| sample.due);
            let _ = report.send(Report { samples, line: seen });
        })?;
        Ok(Self { started, samples, told: 0, stop, done })
    }

    /// Whether the newest hundred answers are all of one workload; a request that failed is no answer.
    pub fn is_steady(&self, workload: &str) -> bool {
        let samples = lock(&self.samples);
        let answers = samples.iter().rev().filter_map(|sample| sample.answer.as_deref().ok());
        let newest: Vec<_> = answers.take(STEADY).collect();
        newest.len() == STEADY && newest.iter().all(|name| *name == workload)
    }

    /// How long it has been going on.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The requests that ended since this was asked last, in that order.
    pub fn news(&mut self) -> Vec<Sample> {
        let news: Vec<_> = lock(&self.samples).iter().skip(self.told).cloned().collect();
        self.told += news.len();
        news
    }

    /// Ends it, and tells what was seen.
    ///
    /// # Errors
    /// When the client has ended by itself; a bug.
    pub async fn stop(self) -> Result<Report> {
        let _ = self.stop.send(());
        self.done.await.map_err(|_| Error::WorkerGone("client"))
    }
}

async fn send(
    to: SocketAddr,
    started: Instant,
    log: &Arc<Mutex<Vec<Sample>>>,
    mut stopped: oneshot::Receiver<()>,
) -> Line {
    let line: Arc<Mutex<Line>> = Arc::default();
    let listening = tokio::spawn(line::listen(to, started, Arc::clone(&line)));
    let mut under_way = JoinSet::new();
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        // The moment at which it was due, not the one at which the machine came to it.
        let due = tokio::select! {
            due = ticks.tick() => due.into_std().saturating_duration_since(started),
            _ = &mut stopped => break,
        };
        let log = Arc::clone(log);
        under_way.spawn(async move {
            let answer = tokio::time::timeout(PATIENCE, ask(to)).await.unwrap_or(Err(Fault::Late));
            lock(&log).push(Sample { due, answer });
        });
        while under_way.try_join_next().is_some() {}
    }
    while under_way.join_next().await.is_some() {}
    listening.abort();
    let _ = listening.await;
    let seen = line.lock().unwrap_or_else(PoisonError::into_inner);
    seen.clone()
}

/// One request on a connection of its own.
async fn ask(to: SocketAddr) -> std::result::Result<String, Fault> {
    let mut stream = TcpStream::connect(to).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: client\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let body = answer.rsplit_once("\r\n\r\n").and_then(|(_, body)| body.strip_suffix('\n'));
    body.map(str::to_owned).ok_or(Fault::Broken)
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
