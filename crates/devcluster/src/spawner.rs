//! One thread that starts every child.
//!
//! The kernel's parent-death signal fires when the *thread* that spawned a child ends, not when the process does.
//! Tests and runtimes end threads all the time, so children are spawned by a thread that lives as long as the process.

use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::{Error, Result};

struct Job {
    command: Command,
    reply: Sender<std::io::Result<Child>>,
}

static SPAWNER: LazyLock<Mutex<Option<Sender<Job>>>> = LazyLock::new(|| {
    let (sender, jobs) = channel();
    let thread = std::thread::Builder::new().name("devcluster-spawner".into()).spawn(move || run(&jobs));
    Mutex::new(thread.is_ok().then_some(sender))
});

fn run(jobs: &Receiver<Job>) {
    while let Ok(mut job) = jobs.recv() {
        let _ = job.reply.send(job.command.spawn());
    }
}

/// Spawns a child from the long-lived thread.
pub(crate) fn spawn(command: Command) -> Result<Child> {
    let what = format!("starting {}", command.get_program().to_string_lossy());
    let (reply, answer) = channel();
    SPAWNER
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .as_ref()
        .and_then(|sender| sender.send(Job { command, reply }).ok())
        .ok_or(Error::WorkerGone("spawner"))?;
    answer.recv().map_err(|_| Error::WorkerGone("spawner"))?.map_err(Error::io(what))
}
