//! The end-to-end parts: all tests at once, and the few that failed once more, each by itself.
//!
//! On two cores with ten control planes a deadline can run out though nothing is wrong, and a test can look a moment too
//! early. A test that failed may therefore try again by itself: once if only a wait ran out, and three times, all of which
//! must pass, if it saw something that it did not expect. It is named in the output. A broken promise (an IP with nobody, or
//! with a thief) is final at once.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use devcluster::cargo_command;

use crate::tools::{self, is_root};
use crate::workspace;

/// More than these are not bad luck.
const AGAIN_AT_MOST: usize = 3;
/// What a test says that saw a promise broken, or that judges all the others and would find nothing by itself.
const FINAL: [&str; 4] = ["a hold was broken: ", "denied: ", "never used: ", "from elsewhere: "];
/// What a test says that waited too long: for something to be so, or for rest.
const RAN_OUT: [&str; 2] = ["waited ", "still written at rest"];

/// Runs those of the controllers.
pub fn run() -> anyhow::Result<()> {
    // All begin at once, and the rig says how many work at a time on which control plane: else those that take turns
    // on one of their own stand in the way of all that come after them.
    run_binary(E2E, &["--test-threads=1000"])
}

/// Runs those of the dashboard, which take turns by themselves.
pub fn browser() -> anyhow::Result<()> {
    run_binary(BROWSER, &[])
}

/// Runs those of packets, which take turns by themselves, and shows what the client saw; then the demo of the same.
pub fn dataplane() -> anyhow::Result<()> {
    run_binary(DATAPLANE, &["--show-output"])?;
    let mut demo = DATAPLANE.cargo();
    tools::run(demo.args(["run", "--quiet", "--package", "xtask", "--", "demo", "--traffic"]))
}

const E2E: Binary = Binary { name: "e2e", makes_networks: false };
const BROWSER: Binary = Binary { name: "browser", makes_networks: false };
const DATAPLANE: Binary = Binary { name: "dataplane", makes_networks: true };

/// A test binary.
struct Binary {
    name: &'static str,
    /// Whether it makes networks, which takes root; anybody is that in a user namespace of their own.
    makes_networks: bool,
}

impl Binary {
    fn cargo(&self) -> Command {
        let cargo = cargo_command();
        if !self.makes_networks || is_root() {
            return cargo;
        }
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user"]).arg(cargo.get_program());
        for (name, _) in cargo.get_envs() {
            command.env_remove(name);
        }
        command
    }
}

fn run_binary(binary: Binary, args: &[&str]) -> anyhow::Result<()> {
    let binary = &binary;
    let (passed, output) = test(binary, args)?;
    if passed {
        return Ok(());
    }
    let failures = failures(&output);
    let broken = failures.iter().any(|failure| failure.kind == Kind::Broken);
    if failures.is_empty() || failures.len() > AGAIN_AT_MOST || broken {
        bail!("{} tests failed", failures.len());
    }
    for Failure { test: name, kind } in &failures {
        let times = kind.tries();
        println!("UNSTABLE: {name} failed ({kind:?}); it has to pass by itself, {times} times");
        for _ in 0..times {
            if !test(binary, &["--exact", name])?.0 {
                bail!("{name} failed again");
            }
        }
    }
    Ok(())
}

/// Runs a binary with these arguments and shows what it prints; returns whether it passed, and what it printed.
fn test(binary: &Binary, args: &[&str]) -> anyhow::Result<(bool, String)> {
    // Picked by its name out of the whole workspace: see `parts::test`.
    let mut command = binary.cargo();
    command.args(["test", "--no-fail-fast", "--workspace", "--test", binary.name, "--"]).args(args);
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
    kind: Kind,
}

/// What a failed test says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Only that it waited too long.
    WaitRanOut,
    /// That something was not as expected.
    Unexpected,
    /// That a promise was broken.
    Broken,
}

impl Kind {
    fn of(words: &str) -> Self {
        if FINAL.iter().any(|broken| words.contains(broken)) {
            Self::Broken
        } else if RAN_OUT.iter().any(|ran_out| words.starts_with(ran_out)) {
            Self::WaitRanOut
        } else {
            Self::Unexpected
        }
    }

    /// How often it has to pass by itself.
    fn tries(self) -> usize {
        if self == Self::WaitRanOut { 1 } else { 3 }
    }
}

/// The failed tests of a run, by what the test harness prints of each.
fn failures(output: &str) -> Vec<Failure> {
    let mut failures: Vec<Failure> = Vec::new();
    let mut panicked = false;
    // What is shown of tests that passed comes before.
    for line in output.lines().skip_while(|line| *line != "failures:") {
        let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            failures.push(Failure { test: name.to_owned(), kind: Kind::Unexpected });
        } else if panicked {
            // The panic's own words; one that comes after it, while the test unwinds, does not make it a wait.
            if let Some(failure) = failures.last_mut().filter(|failure| failure.kind != Kind::Broken) {
                failure.kind = Kind::of(line);
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

successes:

---- a::fine stdout ----
what the client saw

failures:

---- a::slow stdout ----

thread 'a::slow' (7) panicked at crates/e2e/tests/rig/wait.rs:73:9:
waited 60 s for the thief to have the address
stack backtrace:

---- b::wrong stdout ----

thread 'b::wrong' (8) panicked at crates/e2e/tests/b.rs:1:1:
assertion failed: left == right

failures:
    a::slow
    b::wrong

test result: FAILED. 1 passed; 2 failed
";

    #[test]
    fn a_broken_promise_is_final_and_a_wait_is_bad_luck() {
        let failed = |test: &str, kind| Failure { test: test.to_owned(), kind };
        assert_eq!(
            failures(PRINTED),
            [failed("a::slow", Kind::WaitRanOut), failed("b::wrong", Kind::Unexpected)]
        );
        assert_eq!(Kind::of("a hold was broken: nobody had 192.0.2.1"), Kind::Broken);
        assert_eq!(Kind::of("never used: ["), Kind::Broken);
        let compared = "assertion `left == right` failed: a hold was broken: late was served";
        assert_eq!(Kind::of(compared), Kind::Broken);
    }

    #[test]
    fn a_run_that_did_not_build_names_no_test() {
        assert_eq!(failures("error: could not compile `e2e`"), []);
    }
}
