//! The project commands: gen, demo, verify, up, down, bench.
//!
//! A command is a module with an `Args` (its flags, documented for `--help`) that has a `run`. To add one: its `mod`
//! line and one line in [`commands!`].

mod generate;
mod tools;
mod verify;
mod workspace;

use clap::{Parser, Subcommand};

/// Makes the enum of commands and their dispatch from one list.
macro_rules! commands {
    ($($name:ident => $module:ident,)*) => {
        #[derive(Subcommand)]
        enum Command {
            $($name($module::Args),)*
        }

        impl Command {
            fn run(self) -> anyhow::Result<()> {
                match self {
                    $(Self::$name(args) => args.run(),)*
                }
            }
        }
    };
}

commands! {
    Gen => generate,
    Verify => verify,
}

/// The commands of this project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> anyhow::Result<()> {
    Cli::parse().command.run()
}
