//! `verify`: every check there is, by one command, the same on a laptop and in continuous integration.

mod deny;
mod e2e;
mod nix;
mod parts;
mod screenshots;

use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;

use crate::tools;
use parts::{PARTS, Part};
pub use screenshots::Args as Screenshots;

/// Run every check: all of them, in order, also after one has failed.
#[derive(clap::Args)]
pub struct Args {
    /// Run this part alone; may be repeated.
    #[arg(long, value_name = "PART", value_parser = PossibleValuesParser::new(PARTS.iter().map(|part| part.name)))]
    only: Vec<String>,
    /// List the parts and run none.
    #[arg(long)]
    list: bool,
    /// Stop at the first part that fails.
    #[arg(long)]
    fail_fast: bool,
}

/// How one part ended.
struct Outcome {
    part: &'static Part,
    passed: bool,
    took: Duration,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        if self.list {
            for part in PARTS {
                println!("{:<12}{}", part.name, part.about);
            }
            return Ok(());
        }
        let needs: Vec<_> = self.wanted().flat_map(|part| part.needs).copied().collect();
        tools::preflight(&needs)?;
        let outcomes = self.run_parts();
        summarize(&outcomes);
        if outcomes.iter().any(|outcome| !outcome.passed) {
            // The count is to be the last line, so this does not end by way of an error that is printed after it.
            std::process::exit(1);
        }
        Ok(())
    }

    fn wanted(&self) -> impl Iterator<Item = &'static Part> {
        let wanted = |part: &&Part| self.only.is_empty() || self.only.iter().any(|name| name == part.name);
        PARTS.iter().filter(wanted)
    }

    fn run_parts(&self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for part in self.wanted() {
            let outcome = run(part);
            let stop = self.fail_fast && !outcome.passed;
            outcomes.push(outcome);
            if stop {
                break;
            }
        }
        outcomes
    }
}

fn run(part: &'static Part) -> Outcome {
    println!("\n==> {}: {}", part.name, part.about);
    let started = Instant::now();
    let result = tools::all_present(part.needs).and_then(|()| (part.run)());
    let took = started.elapsed();
    match &result {
        Ok(()) => println!("<== {}: passed in {}", part.name, seconds(took)),
        Err(error) => println!("<== {}: failed in {}: {error:#}", part.name, seconds(took)),
    }
    Outcome { part, passed: result.is_ok(), took }
}

fn summarize(outcomes: &[Outcome]) {
    println!();
    for outcome in outcomes {
        let verdict = if outcome.passed { "passed" } else { "FAILED" };
        println!("{verdict}  {:<12}{:>9}", outcome.part.name, seconds(outcome.took));
    }
    let passed = outcomes.iter().filter(|outcome| outcome.passed).count();
    println!("{passed} passed, {} failed", outcomes.len() - passed);
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
