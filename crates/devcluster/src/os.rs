//! What the standard library cannot ask of a new process: to end with its parent, to outlive it, or to be in another
//! network.
//!
//! The only unsafe code of the project lives here.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal, setsid};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Makes the child be killed when the *thread* that spawns it ends; see [`crate::spawner`].
///
/// The child gets a process group of its own, so that a Ctrl-C ends the parent first, which then ends the child in
/// order.
#[expect(
    unsafe_code,
    reason = "pre_exec: between fork and exec only async-signal-safe system calls are made"
)]
pub(crate) fn tie_to_parent(command: &mut Command) {
    let parent = getpid();
    command.process_group(0);
    // SAFETY: the closure makes system calls only; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if getppid() == Some(parent) {
                Ok(())
            } else {
                // The parent ended before the line above: nobody would ever end this child.
                Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()))
            }
        });
    }
}

/// Makes the child a session of its own, which no terminal and no parent ends.
#[expect(
    unsafe_code,
    reason = "pre_exec: between fork and exec only async-signal-safe system calls are made"
)]
pub(crate) fn detach(command: &mut Command) {
    // SAFETY: the closure makes one system call; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(|| {
            setsid()?;
            Ok(())
        });
    }
}

/// Moves the calling thread into a new network namespace with nothing in it.
#[expect(unsafe_code, reason = "unshare: file descriptors stay shared, only the network is new")]
pub(crate) fn leave_network() -> io::Result<()> {
    // SAFETY: `NEWNET` alone; the function is unsafe because of `FILES`.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}

/// Moves the calling thread into a network namespace.
pub(crate) fn enter_network(namespace: &OwnedFd) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Makes the child run in a network namespace.
#[expect(
    unsafe_code,
    reason = "pre_exec: between fork and exec only async-signal-safe system calls are made"
)]
pub(crate) fn run_in(command: &mut Command, namespace: &Arc<OwnedFd>) {
    let namespace = Arc::clone(namespace);
    // SAFETY: the closure makes one system call; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || enter_network(&namespace));
    }
}
