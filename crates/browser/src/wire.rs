//! Requests to the driver and its answers, one JSON object a line.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;

/// The way to a driver that runs; it ends when the last of these is gone.
#[derive(Clone, Debug)]
pub(crate) struct Wire(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    input: tokio::sync::Mutex<ChildStdin>,
    waiting: Arc<Waiting>,
    // Not killed: it closes the browser when its input ends.
    _driver: Child,
}

/// Who waits for an answer; none once the driver has ended.
#[derive(Debug)]
struct Waiting(Mutex<Option<Pending>>);

#[derive(Debug, Default)]
struct Pending {
    last: u64,
    answers: HashMap<u64, oneshot::Sender<Value>>,
}

impl Wire {
    pub(crate) async fn start(script: &str, modules: &Path, chromium: &Path) -> Result<Self> {
        let mut driver = Command::new("node")
            .args(["--input-type=module", "--eval", script, "--"])
            .args([modules, chromium])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("running node (on Debian: apt-get install nodejs)")?;
        let input = driver.stdin.take().context("the driver has no input")?;
        let output = driver.stdout.take().context("the driver has no output")?;
        let mut lines = BufReader::new(output).lines();
        // The first line says that the browser is up.
        if lines.next_line().await?.is_none() {
            bail!("the browser did not start; what it said is on standard error");
        }
        let waiting = Arc::new(Waiting(Mutex::new(Some(Pending::default()))));
        tokio::spawn(listen(lines, waiting.clone()));
        Ok(Self(Arc::new(Inner { input: tokio::sync::Mutex::new(input), waiting, _driver: driver })))
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn ask(&self, mut request: Value) -> Result<Value> {
        let (id, answer) = self.0.waiting.expect()?;
        request["id"] = id.into();
        let line = format!("{request}\n");
        self.0.input.lock().await.write_all(line.as_bytes()).await.context("asking the browser")?;
        let answer = answer.await.context("the browser has ended")?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(anyhow!("{error}")),
            None => Ok(answer.get("value").cloned().unwrap_or_default()),
        }
    }
}

async fn listen(mut lines: Lines<BufReader<ChildStdout>>, waiting: Arc<Waiting>) {
    while let Ok(Some(line)) = lines.next_line().await {
        if let Ok(answer) = serde_json::from_str::<Value>(&line) {
            waiting.answered(answer);
        }
    }
    waiting.end();
}

impl Waiting {
    fn expect(&self) -> Result<(u64, oneshot::Receiver<Value>)> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = pending.as_mut().context("the browser has ended")?;
        pending.last += 1;
        let (sender, receiver) = oneshot::channel();
        pending.answers.insert(pending.last, sender);
        Ok((pending.last, receiver))
    }

    fn answered(&self, answer: Value) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = answer.get("id").and_then(Value::as_u64).unwrap_or_default();
        if let Some(sender) = pending.as_mut().and_then(|pending| pending.answers.remove(&id)) {
            // Who asked may have given up.
            let _ = sender.send(answer);
        }
    }

    fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
