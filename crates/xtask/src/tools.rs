//! Other programs: running them, and saying which one is missing and how to get it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use devcluster::binaries::on_path;
use devcluster::{cargo_command, debian};

use crate::workspace;

/// The oldest Node.js that playwright-core takes.
const NODE: u32 = 20;

/// A program that a check cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// The C compiler, which links every test and builds the cryptography.
    Cc,
    /// The Go toolchain, which builds the control plane.
    Go,
    /// What runs the driver of the browser.
    Node,
    /// What brings that driver.
    Npm,
    /// The browser that looks at the dashboard.
    Chromium,
    /// What scrapes the metrics.
    Prometheus,
    /// What tests the alerts.
    Promtool,
    /// What lists the files of this tree.
    Git,
    /// What builds the flake.
    Nix,
    /// What reads images, and makes them what a registry holds.
    Skopeo,
    /// What reads the digests of images in the flake, and Services in the operations guide.
    Jq,
    /// What packs the layers of images where nixpkgs is not.
    Python,
    /// What makes networks of our own.
    Ip,
    /// What kube-proxy leads packets with.
    Nft,
}

/// What tests in a browser need besides the control plane.
pub const BROWSER: &[Tool] = &[Tool::Go, Tool::Node, Tool::Npm, Tool::Chromium];

/// What a network needs in which packets flow.
pub const NETWORK: &[Tool] = &[Tool::Go, Tool::Ip, Tool::Nft];

/// What the flake is built with by this machine's own tools.
pub const NIX: &[Tool] = &[Tool::Cc, Tool::Go, Tool::Git, Tool::Nix, Tool::Skopeo, Tool::Jq, Tool::Python];

impl Tool {
    #[cfg(test)]
    const ALL: [Self; 14] = [
        Self::Cc,
        Self::Go,
        Self::Node,
        Self::Npm,
        Self::Chromium,
        Self::Prometheus,
        Self::Promtool,
        Self::Git,
        Self::Nix,
        Self::Skopeo,
        Self::Jq,
        Self::Python,
        Self::Ip,
        Self::Nft,
    ];

    const fn program(self) -> &'static str {
        match self {
            Self::Cc => "cc",
            Self::Go => "go",
            Self::Node => "node",
            Self::Npm => "npm",
            Self::Chromium => "chromium",
            Self::Prometheus => "prometheus",
            Self::Promtool => "promtool",
            Self::Git => "git",
            Self::Nix => "nix",
            Self::Skopeo => "skopeo",
            Self::Jq => "jq",
            Self::Python => "python3",
            Self::Ip => "ip",
            Self::Nft => "nft",
        }
    }

    /// The Debian packages that bring it, where they are recent enough.
    const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Cc => &["gcc", "libc6-dev"],
            Self::Go => &[],
            Self::Node => &["nodejs"],
            Self::Npm => &["npm"],
            Self::Chromium => &["chromium"],
            Self::Prometheus | Self::Promtool => &["prometheus"],
            Self::Git => &["git"],
            // The certificates go into images.
            Self::Nix => &["nix-bin", "ca-certificates"],
            Self::Skopeo => &["skopeo"],
            Self::Jq => &["jq"],
            Self::Python => &["python3"],
            Self::Ip => &["iproute2"],
            Self::Nft => &["nftables"],
        }
    }

    /// Whether its package brings a service that the machine would start, and is therefore taken apart and not installed.
    const fn brings_a_service(self) -> bool {
        matches!(self, Self::Prometheus | Self::Promtool)
    }

    /// Whether it is there, and recent enough where that is known to matter.
    fn is_there(self) -> bool {
        debian::program(self.program()).is_some() && (self != Self::Node || node_is_recent())
    }

    fn way_out(self) -> String {
        match self {
            Self::Node => format!(
                "install Node.js {NODE} or later: the package nodejs from Debian 13 on, else from https://nodejs.org/"
            ),
            Self::Go => "install Go 1.26 or later from https://go.dev/dl/".to_owned(),
            _ => format!("on Debian: apt-get install {}", self.packages().join(" ")),
        }
    }
}

/// Installs which of these are missing where that is possible without asking, and says which are still.
pub fn preflight(tools: &[Tool]) -> anyhow::Result<()> {
    let manifest = workspace::root().join("Cargo.toml");
    ensure!(manifest.is_file(), "{} is gone: this program belongs to another checkout", manifest.display());
    let missing: BTreeSet<Tool> = tools.iter().copied().filter(|tool| !tool.is_there()).collect();
    let (apart, whole): (Vec<&Tool>, Vec<&Tool>) = missing.iter().partition(|tool| tool.brings_a_service());
    if let Some(tool) = apart.first()
        && on_path("apt-get").is_some()
        && let Err(error) = tool.packages().iter().try_for_each(|package| take_apart(package))
    {
        println!("warning: {error:#}");
    }
    let packages: Vec<&str> = whole.iter().flat_map(|tool| tool.packages()).copied().collect();
    if !packages.is_empty() && is_root() && on_path("apt-get").is_some() {
        println!("installing {}", packages.join(" "));
        // A machine that was never asked has no list of packages, or one of packages that are gone.
        let outcome = run(Command::new("apt-get").args(["update", "--quiet=2"])).and_then(|()| {
            let mut install = Command::new("apt-get");
            install.args(["install", "--yes", "--quiet=2", "--no-install-recommends"]).args(&packages);
            run(install.env("DEBIAN_FRONTEND", "noninteractive"))
        });
        if let Err(error) = outcome {
            println!("warning: {error:#}");
        }
    }
    for tool in missing.into_iter().filter(|tool| !tool.is_there()) {
        println!("warning: {} is missing or too old: {}", tool.program(), tool.way_out());
    }
    Ok(())
}

/// Puts the files of a Debian package among those of [`debian::folder`], and runs nothing of it.
fn take_apart(package: &str) -> anyhow::Result<()> {
    println!("fetching the programs of {package}");
    let folder = debian::folder()?;
    let fetched = folder.with_extension("fetched");
    std::fs::create_dir_all(&fetched).with_context(|| format!("creating {}", fetched.display()))?;
    let script = format!("cd \"$1\" && rm -f {package}_*.deb && apt-get download --quiet=2 {package}");
    let fetch = || run(Command::new("sh").args(["-c", &script, "sh"]).arg(&fetched));
    if let Err(error) = fetch() {
        // A machine that was never asked has no list of packages.
        if !is_root() {
            return Err(error);
        }
        run(Command::new("apt-get").args(["update", "--quiet=2"]))?;
        fetch()?;
    }
    let script = format!("dpkg-deb -x \"$1\"/{package}_*.deb \"$2\"");
    run(Command::new("sh").args(["-c", &script, "sh"]).arg(&fetched).arg(&folder))
}

/// Fails with the name of the first of these that is missing, and the way to get it.
pub fn all_present(tools: &[Tool]) -> anyhow::Result<()> {
    for tool in tools {
        if !tool.is_there() {
            bail!("{} is missing or too old: {}", tool.program(), tool.way_out());
        }
    }
    Ok(())
}

/// Whether Node.js runs what drives the browser.
fn node_is_recent() -> bool {
    let output = Command::new(Tool::Node.program()).arg("--version").output();
    output.is_ok_and(|output| is_recent(&String::from_utf8_lossy(&output.stdout)))
}

/// Whether `node --version` said a version that is recent enough.
fn is_recent(version: &str) -> bool {
    let major = version.trim().trim_start_matches('v').split('.').next();
    major.and_then(|major| major.parse().ok()).is_some_and(|major: u32| major >= NODE)
}

/// Runs cargo in the workspace, with its output where ours goes.
pub fn cargo(args: &[&str]) -> anyhow::Result<()> {
    run(cargo_command().args(args))
}

/// Runs another command of this program.
pub fn run_self(args: &[&str]) -> anyhow::Result<()> {
    // By cargo and not by path: a part before may have built this program anew.
    cargo(&[&["run", "--quiet", "--package", "xtask", "--"], args].concat())
}

/// Runs a command in the workspace's folder; an exit other than 0 is an error that shows the command.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = shown(command);
    let status = command
        .current_dir(workspace::root())
        .status()
        .with_context(|| format!("running {}", command.get_program().display()))?;
    if status.success() {
        return Ok(());
    }
    bail!("`{shown}`: {status}");
}

/// A command as one would type it.
pub fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or_else(|| command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Whether everything on this machine may be done.
pub fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_is_shown_as_one_would_type_it() {
        let error = run(Command::new("/bin/sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 3`: exit status: 3");
    }

    #[test]
    fn a_missing_command_is_named() {
        let error = run(&mut Command::new("no-such-program")).unwrap_err();
        assert_eq!(error.to_string(), "running no-such-program");
    }

    #[test]
    fn every_tool_has_a_way_out() {
        for tool in Tool::ALL {
            assert!(tool.way_out().contains("install"), "{tool:?}");
        }
    }
    #[test]
    fn an_old_node_is_told_from_a_new_one() {
        assert!(is_recent("v20.0.0\n") && is_recent("v26.1.0"));
        assert!(!is_recent("v18.19.0\n") && !is_recent(""));
    }
}
