//! The licences, duplicates and sources of what we depend on (`deny.toml`), by cargo-deny.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use devcluster::binaries::on_path;
use devcluster::cargo_command;

use crate::tools;

const VERSION: &str = "0.20.2";

pub fn run() -> anyhow::Result<()> {
    let deny = installed()?;
    tools::run(Command::new(&deny).args(["check", "licenses", "bans", "sources"]))?;
    // The database of advisories comes from the network, and changes without our doing: told, never failed on.
    if tools::run(Command::new(&deny).args(["check", "advisories"])).is_err() {
        println!("note: advisories, or no database of them (see above); this does not fail the part");
    }
    Ok(())
}

/// The cargo-deny on PATH, or the one in the cache, which is built if it is not there yet.
fn installed() -> anyhow::Result<PathBuf> {
    if let Some(path) = on_path("cargo-deny") {
        return Ok(path);
    }
    let root = devcluster::cache_folder()?.join(format!("cargo-deny-{VERSION}"));
    let binary = root.join("bin/cargo-deny");
    if !binary.is_file() {
        println!("building cargo-deny {VERSION} (only the first run does; some minutes)");
        let mut install = cargo_command();
        install
            .args(["install", "cargo-deny", "--locked", "--quiet", "--version", VERSION, "--root"])
            .arg(&root);
        tools::run(&mut install).context("cargo-deny is not there and could not be built")?;
    }
    Ok(binary)
}
