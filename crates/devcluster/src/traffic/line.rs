//! The long connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::LINE;
use super::client::{EVERY, PATIENCE, lock};

/// What became of the long connection; times from the start of the traffic on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// When it was opened, if it ever was.
    pub opened: Option<Duration>,
    /// Who spoke on it: one name, unless packets of one connection went to two workloads.
    pub names: Vec<String>,
    /// When something was heard last.
    pub heard: Duration,
    /// The longest time for which nothing was heard, with something heard after it.
    pub silence: Duration,
    /// When it ended by itself, and why.
    pub ended: Option<(Duration, String)>,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(opened) = self.opened else { return f.write_str("could never be opened") };
        let names = self.names.join(" and then ");
        write!(f, "opened at {:.3} s to {names}", opened.as_secs_f64())?;
        match &self.ended {
            Some((at, why)) => write!(f, ", ended at {:.3} s: {why}", at.as_secs_f64())?,
            None => write!(f, ", heard until {:.3} s", self.heard.as_secs_f64())?,
        }
        write!(f, ", longest silence {} ms", self.silence.as_millis())
    }
}

/// Opens the connection as soon as that can be, and listens until it ends.
pub(super) async fn listen(to: SocketAddr, started: Instant, line: Arc<Mutex<Line>>) {
    let mut stream = loop {
        match tokio::time::timeout(PATIENCE, TcpStream::connect(to)).await {
            Ok(Ok(stream)) => break stream,
            _ => tokio::time::sleep(EVERY).await,
        }
    };
    let now = started.elapsed();
    *lock(&line) = Line { opened: Some(now), heard: now, ..Line::default() };
    let request = format!("GET {LINE} HTTP/1.1\r\nHost: client\r\n\r\n");
    let mut end = stream.write_all(request.as_bytes()).await.err();
    let mut said = BufReader::new(stream).lines();
    while end.is_none() {
        match said.next_line().await {
            Ok(Some(text)) => hear(&mut lock(&line), started.elapsed(), text),
            Ok(None) => break,
            Err(error) => end = Some(error),
        }
    }
    let why = end.map_or_else(|| "closed by the other side".to_owned(), |error| error.to_string());
    lock(&line).ended = Some((started.elapsed(), why));
}

/// A name was said; of what is said first, the head of the answer, only that something was.
fn hear(line: &mut Line, now: Duration, text: String) {
    line.silence = line.silence.max(now.saturating_sub(line.heard));
    line.heard = now;
    if text.contains('/') && !text.contains(' ') && line.names.last() != Some(&text) {
        line.names.push(text);
    }
}
