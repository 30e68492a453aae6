//! `soak`: the deterministic world, for as long as one likes.

use crate::tools::cargo;

/// Run ever more histories of the deterministic world (docs/simulator.md), each of another seed, until one breaks the
/// law or the time is over.
#[derive(clap::Args)]
pub struct Args {
    /// For how long.
    #[arg(long, value_name = "M")]
    minutes: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1_000_000)]
    from: u64,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let (minutes, from) = (self.minutes.to_string(), self.from.to_string());
        cargo(&["run", "--release", "--package", "sim", "--", "soak", "--minutes", &minutes, "--from", &from])
    }
}
