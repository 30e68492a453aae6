//! `cargo xtask bench`: measurements on the real control plane, one JSON line each. Figures stand in
//! docs/performance.md.

mod binding;
mod cutover;
mod dashboard;
mod decide;
mod handoff;
mod load;
mod meter;
mod noisy;
mod rest;
mod restart;

use anyhow::Result;
use clap::Subcommand;

/// Measures the controllers, built optimised, on a control plane of their own.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Binding(binding::Args),
    Cutover(cutover::Args),
    Dashboard(dashboard::Args),
    Decide(decide::Args),
    Handoff(handoff::Args),
    Noisy(noisy::Args),
    Restart(restart::Args),
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        if let What::Cutover(args) = self.what {
            // Brings a runtime of its own, inside its network.
            return args.run();
        }
        tokio::runtime::Runtime::new()?.block_on(async {
            match self.what {
                What::Cutover(args) => args.run(),
                What::Binding(args) => args.run().await,
                What::Dashboard(args) => args.run().await,
                What::Decide(args) => args.run(),
                What::Handoff(args) => args.run().await,
                What::Noisy(args) => args.run().await,
                What::Restart(args) => args.run().await,
            }
        })
    }
}
