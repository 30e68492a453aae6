//! The MetalLB driver: holds addresses in the books of MetalLB and hands them to Services.
//!
//! Without a subcommand it is the controller. A subcommand is an errand: it is done once, under an admin's own rights.

mod errand;
mod trial;

use std::process::ExitCode;

use clap::Parser;
use metallb::{Config, Driver};
use plan::Kind;
use runtime::args::{self, HandoffArg, Inventory};
use runtime::{Feed, Settings};

/// Reserves addresses in MetalLB, holds them, and hands them to Services.
///
/// Without a command it runs as the controller, until it is told to stop. The commands are for an admin's own terminal:
/// each does one thing under the rights of a kubeconfig, says what it does line by line, and ends.
#[derive(Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "COMMAND",
    subcommand_help_heading = "Commands"
)]
struct Cli {
    #[command(flatten)]
    common: args::Common,
    #[command(flatten)]
    driver: args::Driver,
    #[command(subcommand)]
    errand: Option<errand::Errand>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(errand) = cli.errand {
        return errand.run();
    }
    runtime::start("metallb-iad", &cli.common, |settings| {
        let config = config(&cli.driver, settings);
        let feeds = feeds(&config);
        (Driver::new(config).traced(settings.traces.sampler()), feeds)
    })
}

fn config(args: &args::Driver, settings: &Settings) -> Config {
    let placeholders = args.placeholder_namespace.clone().filter(|namespace| !namespace.is_empty());
    Config {
        placeholder_namespace: placeholders.unwrap_or_else(|| settings.namespace.clone()),
        metallb_namespace: args.metallb_namespace.clone(),
        lb_class: args.lb_class(),
        hold_on_delete: args.hold_on_delete,
        gap: args.handoff == HandoffArg::Gap,
        inventory: args.inventory == Inventory::Observe,
        auto_claim: args.auto_claim,
        ..Config::default()
    }
}

fn feeds(config: &Config) -> Vec<Feed> {
    // What MetalLB says when it cannot give a Service an address. Of strangers' Services nothing is kept.
    let refusals = "reason=AllocationFailed,involvedObject.kind=Service";
    vec![
        Feed::of(Kind::Class),
        Feed::of(Kind::Address),
        Feed::of(Kind::Claim),
        Feed::of(Kind::Service),
        Feed::of(Kind::Namespace),
        Feed::of(Kind::Pool).within(&config.metallb_namespace),
        Feed::of(Kind::Event).with_fields(refusals),
    ]
}
