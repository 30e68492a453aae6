//! The end-to-end parts: all tests at once, and those for which the machine was too slow once more, each by itself.
//!
//! A test that waits gives up after a deadline. On two cores with ten control planes a deadline can run out though nothing is
//! wrong, so a test that failed *only* because a wait ran out may try again, once and alone, and is named as slow in the
//! output. A broken assertion (an IP with nobody, or with a thief) is final at once, and so is a wait that runs out again.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::tools::cargo_command;
use crate::workspace;

/// More than these are not bad luck.
const SLOW_AT_MOST: usize = 3;
/// What a test says that waited too long: for something to be so, or for rest.
const RAN_OUT: [&str; 2] = ["waited ", "still written at rest"];

/// Runs those of the controllers.
pub fn run() -> anyhow::Result<()> {
    // All begin at once, and the rig says how many work at a time on which control plane: else those that take turns
    // on one of their own stand in the way of all that come after them.
    run_binary("e2e", &["--test-threads=1000"])
}

/// Runs those of the dashboard, which take turns by themselves.
pub fn browser() -> anyhow::Result<()> {
    run_binary("browser", &[])
}

fn run_binary(binary: &str, args: &[&str]) -> anyhow::Result<()> {
    let (passed, output) = test(binary, args)?;
    if passed {
        return Ok(());
    }
    let failures = failures(&output);
    let slow = failures.iter().all(|failure| failure.wait_ran_out);
    if failures.is_empty() || failures.len() > SLOW_AT_MOST || !slow {
        bail!("{} tests failed", failures.len());
    }
    for Failure { test: name, .. } in &failures {
        println!("SLOW: a wait of {name} ran out; it runs once more, by itself");
        if !test(binary, &["--exact", name])?.0 {
            bail!("{name} failed twice");
        }
    }
    Ok(())
}

/// Runs a binary with these arguments and shows what it prints; returns whether it passed, and what it printed.
fn test(binary: &str, args: &[&str]) -> anyhow::Result<(bool, String)> {
    // Picked by its name out of the whole workspace: see `parts::test`.
    let mut command: Command = cargo_command();
    command.args(["test", "--no-fail-fast", "--workspace", "--test", binary, "--"]).args(args);
    let mut child = command
        .current_dir(workspace::root())
        .stdout(Stdio::piped())
        .spawn()
        .context("running cargo test")?;
    let mut output = String::new();
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        while stdout.read_until(b'\n', &mut line)? > 0 {
            std::io::stdout().write_all(&line)?;
            output.push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    Ok((child.wait()?.success(), output))
}

/// A test that failed.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    test: String,
    /// Whether all it says is that it waited too long.
    wait_ran_out: bool,
}

/// The failed tests of a run, by what the test harness prints of each.
fn failures(output: &str) -> Vec<Failure> {
    let mut failures: Vec<Failure> = Vec::new();
    let mut panicked = false;
    for line in output.lines() {
        let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            failures.push(Failure { test: name.to_owned(), wait_ran_out: false });
        } else if panicked {
            // The panic's own words; one that comes after it, while the test unwinds, does not make it a wait.
            if let Some(failure) = failures.last_mut() {
                failure.wait_ran_out = RAN_OUT.iter().any(|words| line.starts_with(words));
            }
        }
        panicked = line.starts_with("thread '") && line.contains(" panicked at ");
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
running 3 tests
test a::fine ... ok
test a::slow ... FAILED
test b::wrong ... FAILED

failures:

---- a::slow stdout ----

thread 'a::slow' (7) panicked at crates/e2e/tests/rig/wait.rs:73:9:
waited 60 s for the thief to have the address
stack backtrace:

---- b::wrong stdout ----

thread 'b::wrong' (8) panicked at crates/e2e/tests/b.rs:1:1:
assertion failed: nobody had 192.0.2.1

failures:
    a::slow
    b::wrong

test result: FAILED. 1 passed; 2 failed
";

    #[test]
    fn only_a_wait_that_ran_out_is_bad_luck() {
        let failed = |test: &str, wait_ran_out| Failure { test: test.to_owned(), wait_ran_out };
        assert_eq!(failures(PRINTED), [failed("a::slow", true), failed("b::wrong", false)]);
    }

    #[test]
    fn a_run_that_did_not_build_names_no_test() {
        assert_eq!(failures("error: could not compile `e2e`"), []);
    }
}
