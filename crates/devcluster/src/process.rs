//! One process that we started, and everything that may be done to it.

use std::fmt;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::sync::watch;

use crate::command::CommandSpec;
use crate::network::Namespace;
use crate::{Error, Result, os, spawner};

/// How long a process may take to end after SIGTERM, before SIGKILL.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => write!(f, "signal {signal}"),
            (None, None) => f.write_str("how is unknown: it was not our child"),
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        Self { code: status.code(), signal: status.signal() }
    }
}

/// A named process; a cheap handle, every clone means the same one. Dropping it ends nothing.
#[derive(Clone, Debug)]
pub struct Process(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    spec: CommandSpec,
    detached: bool,
    namespace: Option<Namespace>,
    running: Mutex<Option<Running>>,
}

/// One life of the process.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) pid: u32,
    /// The kernel's start time, which tells this process from a later one with the same pid.
    pub(crate) birth: Option<u64>,
    fd: Arc<OwnedFd>,
    exit: watch::Receiver<Option<Exit>>,
}

impl Process {
    pub(crate) fn new(spec: CommandSpec, detached: bool) -> Self {
        Self::within(None, spec, detached)
    }

    /// A process of a network namespace, or of the one that all of this program are in.
    pub(crate) fn within(namespace: Option<Namespace>, spec: CommandSpec, detached: bool) -> Self {
        Self(Arc::new(Inner { spec, detached, namespace, running: Mutex::new(None) }))
    }

    /// A process that an earlier run started, if it is still the same one.
    pub(crate) fn adopt(spec: CommandSpec, detached: bool, pid: u32, birth: Option<u64>) -> Self {
        let process = Self::new(spec, detached);
        if let Some(fd) = open(pid) {
            // Compared after the pidfd is open: from here on the pid cannot come to mean another process.
            if lives(pid, birth) {
                let fd = Arc::new(fd);
                let (sender, exit) = watch::channel(None);
                let watched = Arc::clone(&fd);
                std::thread::spawn(move || {
                    wait_readable(&watched, None);
                    sender.send_replace(Some(Exit { code: None, signal: None }));
                });
                *process.lock() = Some(Running { pid, birth, fd, exit });
            }
        }
        process
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.0.spec.name
    }

    /// What is run.
    pub fn spec(&self) -> &CommandSpec {
        &self.0.spec
    }

    /// The file its output is appended to.
    pub fn log_path(&self) -> &Path {
        &self.0.spec.log
    }

    /// Its pid while it runs (or is paused).
    pub fn pid(&self) -> Option<u32> {
        self.running().map(|running| running.pid)
    }

    /// Whether it runs (or is paused).
    pub fn is_running(&self) -> bool {
        self.running().is_some()
    }

    /// Starts it, again if it ran before: same command, same log. Does not wait for readiness.
    pub fn start(&self) -> Result<()> {
        let mut slot = self.lock();
        if slot.as_ref().is_some_and(|running| running.exit.borrow().is_none()) {
            return Err(Error::NameTaken { name: self.name().to_owned() });
        }
        let mut child = spawner::spawn(self.command()?)?;
        let pid = child.id();
        let Some(fd) = open(pid) else {
            let _ = child.kill();
            return Err(Error::io(format!("opening a pidfd of {}", self.name()))(
                std::io::Error::last_os_error(),
            ));
        };
        let (sender, exit) = watch::channel(None);
        std::thread::spawn(move || {
            let exit = child.wait().map_or(Exit { code: None, signal: None }, Exit::from);
            sender.send_replace(Some(exit));
        });
        *slot = Some(Running { pid, birth: birth_of(pid), fd: Arc::new(fd), exit });
        Ok(())
    }

    /// Sends SIGKILL and returns at once; nothing happens when it does not run.
    pub fn kill_now(&self) {
        let _ = self.signal(Signal::KILL);
    }

    /// Sends SIGKILL and waits until it is gone.
    pub async fn kill(&self) {
        self.kill_now();
        self.wait().await;
    }

    /// Sends SIGTERM, SIGKILL after ten seconds, and waits until it is gone. A paused process is resumed to end.
    pub async fn stop(&self) {
        self.terminate();
        if tokio::time::timeout(PATIENCE, self.wait()).await.is_err() {
            self.kill().await;
        }
    }

    /// Stops every thread of it (SIGSTOP), as a frozen machine would.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a paused process go on.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Stops it if it runs, then starts it. Does not wait for readiness.
    pub async fn restart(&self) -> Result<()> {
        self.stop().await;
        self.start()
    }

    /// Waits until it has ended; `None` when it was never started.
    pub async fn wait(&self) -> Option<Exit> {
        let mut exit = self.lock().as_ref()?.exit.clone();
        exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit)
    }

    /// How it ended, if it was started and has ended.
    pub fn exit(&self) -> Option<Exit> {
        self.lock().as_ref().and_then(|running| *running.exit.borrow())
    }

    pub(crate) fn running(&self) -> Option<Running> {
        self.lock().clone().filter(|running| running.exit.borrow().is_none())
    }

    /// Asks it to end, without waiting.
    pub(crate) fn terminate(&self) {
        let _ = self.signal(Signal::TERM);
        let _ = self.signal(Signal::CONT);
    }

    /// Blocks until it has ended or the deadline is over, then kills it and blocks until it is gone.
    pub(crate) fn end_by(&self, deadline: Instant) {
        let Some(running) = self.running() else { return };
        if !wait_readable(&running.fd, Some(deadline.saturating_duration_since(Instant::now()))) {
            self.kill_now();
            wait_readable(&running.fd, None);
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let gone = || Error::NotRunning { part: self.name().to_owned() };
        let running = self.running().ok_or_else(gone)?;
        pidfd_send_signal(&*running.fd, signal).map_err(|_| gone())
    }

    fn command(&self) -> Result<Command> {
        let spec = &self.0.spec;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&spec.log)
            .map_err(Error::io(format!("opening {}", spec.log.display())))?;
        let errors = log.try_clone().map_err(Error::io(format!("opening {}", spec.log.display())))?;
        let mut command = Command::new(&spec.program);
        command.args(&spec.args).env_clear().envs(&spec.env).stdin(Stdio::null()).stdout(log).stderr(errors);
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        if let Some(namespace) = &self.0.namespace {
            namespace.take(&mut command);
        }
        if self.0.detached {
            os::detach(&mut command);
        } else {
            os::tie_to_parent(&mut command);
        }
        Ok(command)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a process that was recorded once still lives.
pub(crate) fn lives(pid: u32, birth: Option<u64>) -> bool {
    birth.is_some() && birth_of(pid) == birth
}

fn open(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Blocks until the process of the pidfd has ended; false when the time is over first.
fn wait_readable(fd: &OwnedFd, within: Option<Duration>) -> bool {
    let deadline = within.map(|within| Instant::now() + within);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) => return false,
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return true,
        }
    }
}

/// The start time of a process, in clock ticks since boot: field 22 of its stat file.
fn birth_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the name in parentheses, may hold spaces and parentheses itself.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(dir: &Path) -> Process {
        let spec = CommandSpec {
            name: "sleeper".into(),
            program: "/bin/sleep".into(),
            args: vec!["60".into()],
            env: [].into(),
            log: dir.join("sleeper.log"),
            ready_url: None,
            ready_text: None,
        };
        Process::new(spec, false)
    }

    #[tokio::test]
    async fn a_process_lives_and_ends_as_told() {
        let dir = tempfile::tempdir().unwrap();
        let process = sleeper(dir.path());
        assert_eq!(process.wait().await, None, "never started");
        process.start().unwrap();
        assert!(matches!(process.start(), Err(Error::NameTaken { .. })));
        process.pause().unwrap();
        process.stop().await;
        assert_eq!(process.exit().and_then(|e| e.signal), Some(15));
        assert!(matches!(process.pause(), Err(Error::NotRunning { .. })));
        process.restart().await.unwrap();
        process.kill().await;
        assert_eq!(process.exit().and_then(|e| e.signal), Some(9));
    }

    #[tokio::test]
    async fn a_process_is_adopted_only_when_it_is_the_same_one() {
        let dir = tempfile::tempdir().unwrap();
        let process = sleeper(dir.path());
        process.start().unwrap();
        let Running { pid, birth, .. } = process.running().unwrap();
        let other = Process::adopt(process.spec().clone(), false, pid, birth.map(|b| b + 1));
        assert!(!other.is_running());
        let same = Process::adopt(process.spec().clone(), false, pid, birth);
        assert_eq!(same.pid(), Some(pid));
        same.stop().await;
        process.wait().await;
        assert!(!process.is_running());
    }

    #[test]
    fn children_outlive_the_thread_that_asked_for_them() {
        let dir = tempfile::tempdir().unwrap();
        let process = sleeper(dir.path());
        let asked = process.clone();
        std::thread::spawn(move || asked.start().unwrap()).join().unwrap();
        assert!(!wait_readable(&process.running().unwrap().fd, Some(Duration::from_millis(200))));
        process.end_by(Instant::now());
    }
}
