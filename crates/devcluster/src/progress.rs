//! What a person sees while something long is going on: a spinner on a terminal, plain lines elsewhere.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

const LINE_EVERY: Duration = Duration::from_secs(15);

/// One long piece of work, told on standard error.
pub(crate) struct Progress {
    what: String,
    started: Instant,
    last_line: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn start(what: impl Into<String>) -> Self {
        let what = what.into();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.set_message(what.clone());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if bar.is_none() {
            eprintln!("{what}");
        }
        let now = Instant::now();
        Self { what, started: now, last_line: now, bar }
    }

    /// Says that the work still goes on, not more often than is useful.
    pub(crate) fn tick(&mut self) {
        if self.bar.is_none() && self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            eprintln!("{}: {} s", self.what, self.started.elapsed().as_secs());
        }
    }

    /// Says that something else is waited for.
    pub(crate) fn note(&self, note: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(format!("{}: {note}", self.what)),
            None => eprintln!("{}: {note}", self.what),
        }
    }

    /// Ends the display with an outcome.
    pub(crate) fn finish(self, outcome: &str) {
        let line = format!("{}: {outcome} after {} s", self.what, self.started.elapsed().as_secs());
        match self.bar {
            Some(bar) => {
                bar.finish_and_clear();
                eprintln!("{line}");
            }
            None => eprintln!("{line}"),
        }
    }
}
