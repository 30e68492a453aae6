//! The project commands: gen, demo, verify, soak, load, up, down, bench, release.
//!
//! A command is a module with an `Args` (its flags, documented for `--help`) that has a `run`. To add one: its `mod`
//! line and one line in [`commands!`].

mod bench;
mod demo;
mod generate;
mod load;
mod nix;
mod release;
mod soak;
mod tools;
mod up;
mod verify;
mod workspace;

use clap::{Parser, Subcommand};

/// Makes the enum of commands and their dispatch from one list.
macro_rules! commands {
    ($($name:ident => $args:path,)*) => {
        #[derive(Subcommand)]
        enum Command {
            $($name($args),)*
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
    Bench => bench::Args,
    Demo => demo::Args,
    Down => up::Down,
    Gen => generate::Args,
    Load => load::Args,
    Release => release::Args,
    Soak => soak::Args,
    Start => up::Start,
    Stop => up::Stop,
    Up => up::Up,
    Screenshots => verify::Screenshots,
    Verify => verify::Args,
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
