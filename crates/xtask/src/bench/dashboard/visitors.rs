//! Who looks at the dashboard: at a fixed rate, whatever the answers take, and those who hear live updates.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, JoinSet};

/// How many connections are kept.
const CONNECTIONS: usize = 32;

struct Connection(BufReader<TcpStream>);

impl Connection {
    async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Asks, and reads the whole answer; returns its status.
    async fn get(&mut self, path: &str) -> Result<u16> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n");
        self.0.write_all(request.as_bytes()).await?;
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("{line:?} is no answer to {path}"))?;
        let mut length = 0;
        loop {
            line.clear();
            self.0.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse()?;
            }
            ensure!(!name.eq_ignore_ascii_case("transfer-encoding"), "{path} is answered in chunks");
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        Ok(status)
    }
}

/// The status of a page.
pub(super) async fn get(address: &str, path: &str) -> Result<u16> {
    Connection::open(address).await?.get(path).await
}

/// Asks for pages, in turn one of each kind, and returns how long each took from the moment it was due.
pub(super) async fn ask(
    address: &str,
    pages: &[(&'static str, Vec<String>)],
    rate: u32,
    seconds: u32,
) -> Result<BTreeMap<String, Vec<Duration>>> {
    let mut free = Vec::new();
    for _ in 0..CONNECTIONS {
        free.push(Connection::open(address).await?);
    }
    let free = Arc::new(Mutex::new(free));
    let mut asked: JoinSet<Result<(&'static str, Duration)>> = JoinSet::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
    for step in 0..(rate * seconds) as usize {
        let due = ticks.tick().await.into_std();
        let (kind, paths) = &pages[step % pages.len()];
        let path = paths[(step / pages.len()) % paths.len()].clone();
        let (free, address, kind) = (Arc::clone(&free), address.to_owned(), *kind);
        asked.spawn(async move {
            let kept = free.lock().await.pop();
            let mut connection = match kept {
                Some(connection) => connection,
                None => Connection::open(&address).await?,
            };
            let status = connection.get(&path).await?;
            let took = due.elapsed();
            if status != 200 {
                bail!("{path} is answered with {status}");
            }
            free.lock().await.push(connection);
            Ok((kind, took))
        });
    }
    let mut answers: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    while let Some(answer) = asked.join_next().await {
        let (kind, took) = answer??;
        answers.entry(kind.to_owned()).or_default().push(took);
    }
    Ok(answers)
}

/// Clients that hear live updates.
pub(super) struct Streams {
    clients: Vec<JoinHandle<()>>,
    heard: Arc<AtomicU32>,
}

impl Streams {
    /// Ends them; returns how many messages they have heard.
    pub(super) fn end(self) -> u32 {
        self.clients.iter().for_each(JoinHandle::abort);
        self.heard.load(Ordering::Relaxed)
    }
}

/// Lets so many clients hear live updates, and waits until each has heard its first.
pub(super) async fn listen(address: &str, count: u32) -> Result<Streams> {
    let heard = Arc::new(AtomicU32::new(0));
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(address).await?;
        stream
            .write_all(b"GET /live HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
            .await?;
        let heard = Arc::clone(&heard);
        clients.push(tokio::spawn(async move {
            let mut lines = BufReader::new(stream).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if line.starts_with("data:") {
                    heard.fetch_add(1, Ordering::Relaxed);
                }
            }
        }));
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    while heard.load(Ordering::Relaxed) < count {
        ensure!(Instant::now() < deadline, "not every client has heard something");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(Streams { clients, heard })
}
