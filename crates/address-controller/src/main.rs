//! The core controller: binds claims to addresses.

use std::process::ExitCode;

use binder::Binder;
use clap::Parser;
use plan::Kind;
use runtime::Feed;

/// Binds claims to addresses.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    common: runtime::args::Common,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    runtime::start("address-controller", &cli.common, |settings| {
        let binder = Binder::new().traced(settings.traces.sampler());
        (binder, [Kind::Class, Kind::Address, Kind::Claim].map(Feed::of).into())
    })
}
