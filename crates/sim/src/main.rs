//! Runs, replays and soaks the deterministic world.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use sim::history::History;
use sim::planted::Saboteur;
use sim::profile::Profile;

/// A deterministic world of both controllers: one seed, one history.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the histories of a range of seeds.
    Run {
        /// `FIRST..LAST`, without the last.
        #[arg(long, value_parser = range, default_value = "0..10000")]
        seeds: (u64, u64),
        /// Stop after so many failures.
        #[arg(long, default_value_t = 1)]
        failures: u64,
        /// The hostile ones among them as well.
        #[arg(long)]
        hostile: bool,
    },
    /// Runs one history and tells its story.
    Replay {
        #[arg(long)]
        seed: u64,
        /// Which of the operations and faults are left out.
        #[arg(long, value_delimiter = ',')]
        drop: Vec<usize>,
        /// The whole story, not its last lines alone.
        #[arg(long)]
        all: bool,
    },
    /// Plants each bug and tells the first seed that finds it.
    #[cfg(feature = "planted")]
    Bugs {
        /// Every bug must be found within so many seeds.
        #[arg(long, default_value_t = 10_000)]
        within: u64,
    },
    /// Runs ever more seeds for some time.
    Soak {
        #[arg(long)]
        minutes: u64,
        /// The first seed.
        #[arg(long, default_value_t = 1_000_000)]
        from: u64,
        /// The hostile ones among them as well.
        #[arg(long)]
        hostile: bool,
    },
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let parsed =
        text.split_once("..").and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    parsed.ok_or_else(|| "write FIRST..LAST".to_owned())
}

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    match Cli::parse().command {
        Command::Run { seeds: (first, last), failures, hostile } => run(first, last, failures, hostile, None),
        Command::Soak { minutes, from, hostile } => {
            run(from, u64::MAX, 1, hostile, Some(Duration::from_secs(minutes * 60)))
        }
        #[cfg(feature = "planted")]
        Command::Bugs { within } => bugs(within),
        Command::Replay { seed, drop, all } => replay(seed, &drop, all),
    }
}

fn run(first: u64, last: u64, failures: u64, hostile: bool, limit: Option<Duration>) -> ExitCode {
    let began = Instant::now();
    let (next, steps, ran) = (AtomicU64::new(first), AtomicU64::new(0), AtomicU64::new(0));
    let failed = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let over = limit.is_some_and(|limit| began.elapsed() >= limit);
                    let enough = failed.lock().unwrap().len() as u64 >= failures;
                    if seed >= last || over || enough {
                        return;
                    }
                    if Profile::of(seed) == Profile::Hostile && !hostile {
                        continue;
                    }
                    let ended = History::of(seed, None).run(false, Saboteur::default());
                    ran.fetch_add(1, Ordering::Relaxed);
                    steps.fetch_add(ended.steps, Ordering::Relaxed);
                    if let Some(violation) = ended.violation {
                        failed.lock().unwrap().push((seed, violation));
                    }
                }
            });
        }
    });
    let took = began.elapsed();
    let steps = steps.into_inner();
    let rate = u128::from(steps) * 1000 / took.as_millis().max(1);
    let seconds = took.as_secs_f64();
    println!("{} histories, {steps} steps in {seconds:.1} s: {rate} steps/s", ran.into_inner());
    let mut failed = failed.into_inner().unwrap();
    failed.sort_by_key(|(seed, _)| *seed);
    for (seed, violation) in &failed {
        println!("seed {seed}: {}\n    {}", violation.law, violation.words);
    }
    if let Some((seed, violation)) = failed.first() {
        let history = History::of(*seed, None);
        let dropped = history.shrink(violation.law, &Saboteur::default());
        tell(&history, &dropped, 60);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Tells the end of a history's story, and how to see it again.
fn tell(history: &History, dropped: &[usize], lines: usize) {
    println!("{:?}", history.setup);
    let entries = history.script.entries.iter().enumerate();
    for (at, entry) in entries.filter(|(at, _)| !dropped.contains(at)) {
        println!("{at:>3} at {:>5}: {:?}", entry.at, entry.op);
    }
    let shorter = History { script: history.script.without(dropped), ..history.clone() };
    let ended = shorter.run(true, Saboteur::default());
    for line in &ended.story[ended.story.len().saturating_sub(lines)..] {
        println!("{line}");
    }
    println!("{} steps, digest {:016x}", ended.steps, ended.digest);
    if let Some(violation) = ended.violation {
        println!("VIOLATED: {}\n    {}", violation.law, violation.words);
    }
    let drop: Vec<_> = dropped.iter().map(ToString::to_string).collect();
    let drop = if drop.is_empty() { String::new() } else { format!(" --drop {}", drop.join(",")) };
    println!("cargo run --release -p sim -- replay --seed {}{drop}", history.seed);
}

#[cfg(feature = "planted")]
fn bugs(within: u64) -> ExitCode {
    let mut all_found = true;
    for bug in sim::planted::BUGS {
        let (mut steps, mut found) = (0, None);
        for seed in (0..within).filter(|seed| Profile::of(*seed) != Profile::Hostile) {
            let ended = History::of(seed, None).run(false, Saboteur::of(bug));
            steps += ended.steps;
            if let Some(violation) = ended.violation {
                found = Some((seed, violation));
                break;
            }
        }
        if let Some((seed, violation)) = found {
            println!("{:<28} seed {seed:>5} after {steps:>8} steps: {}", format!("{bug:?}"), violation.law);
        } else {
            all_found = false;
            println!("{:<28} NOT FOUND in {within} seeds, {steps} steps", format!("{bug:?}"));
        }
    }
    if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64, dropped: &[usize], all: bool) -> ExitCode {
    let history = History::of(seed, None);
    tell(&history, dropped, if all { usize::MAX } else { 60 });
    let shorter = History { script: history.script.without(dropped), ..history };
    if shorter.run(false, Saboteur::default()).violation.is_some() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
