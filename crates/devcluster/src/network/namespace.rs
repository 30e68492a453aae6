//! A network namespace without a name: nothing of it is left when the last who holds it is gone, however that happens.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::{Error, Result, os};

/// The calling thread's own network.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network of its own; it is gone with its last handle, thread and process.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<OwnedFd>);

impl Namespace {
    /// Makes one with nothing in it but a loopback that is up.
    pub(crate) fn create() -> Result<Self> {
        let thread = std::thread::spawn(|| {
            os::leave_network()?;
            File::open(OWN)
        });
        let made = thread.join().map_err(|_| Error::WorkerGone("network"))?;
        let file = made.map_err(|error| Error::Network {
            words: format!(
                "making a network namespace: {error}; that needs root, or: unshare --user --map-root-user COMMAND"
            ),
        })?;
        let namespace = Self(Arc::new(file.into()));
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Moves the calling thread into it, for good.
    ///
    /// # Errors
    /// Without the right to.
    pub fn enter(&self) -> Result<()> {
        os::enter_network(&self.0).map_err(Error::io("entering a network namespace"))
    }

    /// Whether the calling thread is in it.
    pub(crate) fn is_mine(&self) -> bool {
        let held = std::fs::metadata(self.path()).map(|it| (it.dev(), it.ino()));
        let own = std::fs::metadata(OWN).map(|it| (it.dev(), it.ino()));
        matches!((held, own), (Ok(held), Ok(own)) if held == own)
    }

    /// Runs work on a thread of its own inside.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn thread(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
        let namespace = self.clone();
        let inside = move || {
            if let Err(error) = namespace.enter() {
                eprintln!("devcluster: {error}");
                return;
            }
            work();
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(inside);
        thread.map_err(Error::io(format!("starting the thread {name}")))
    }

    /// Makes a command run inside.
    pub(crate) fn take(&self, command: &mut Command) {
        os::run_in(command, &self.0);
    }

    /// How other programs find it, while this one runs.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Lets `ip` do something inside, one command a line.
    pub(crate) fn ip(&self, lines: &str) -> Result<()> {
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        self.take(&mut command);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::Network {
                words: "`ip` was not found on PATH: on Debian: apt-get install iproute2".to_owned(),
            },
            _ => Error::io("running ip")(error),
        })?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(lines.as_bytes()).map_err(Error::io("telling ip what to do"))?;
        }
        let output = child.wait_with_output().map_err(Error::io("waiting for ip"))?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::Network { words: format!("{lines:?}: {words}") })
    }
}
