//! Building the flake: from nixpkgs, or with this machine's own tools in its place (`nixos/hostpkgs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use devcluster::{Component, binaries};

use crate::{tools, workspace};

/// The system that this machine builds for.
pub const SYSTEM: &str = if cfg!(target_arch = "aarch64") { "aarch64-linux" } else { "x86_64-linux" };

/// How each package or check would be built, by its name: what comes of all its inputs, down to the last byte.
pub type Recipes = BTreeMap<String, String>;

/// A nix that builds outputs of the flake.
pub struct Nix {
    program: PathBuf,
    env: Vec<(&'static str, PathBuf)>,
}

impl Nix {
    /// The one on PATH, which takes nixpkgs from where the lock file says.
    pub fn real() -> Self {
        Self { program: "nix".into(), env: Vec::new() }
    }

    /// One that needs no nixpkgs and no network: compilers and programs are this machine's.
    pub fn of_host_tools() -> Result<Self> {
        ensure!(
            tools::is_root(),
            "nixos/hostpkgs builds as root only: run this as root, in a container if need be"
        );
        let helm = tokio::runtime::Runtime::new()?.block_on(binaries::ensure(Component::Helm))?;
        let mut env = vec![("HOSTPKGS_BIN", helm.parent().map(Path::to_path_buf).unwrap_or_default())];
        if !has_namespaces() {
            println!(
                "note: no namespaces here, so builds are not shut off from this machine's files and network"
            );
            env.push(("HOSTPKGS_SANDBOX", "false".into()));
        }
        Ok(Self { program: workspace::root().join("nixos/hostpkgs/nix"), env })
    }

    /// Runs it in a checkout, with its output where ours goes.
    pub fn run(&self, flake: &Path, args: &[&str]) -> Result<()> {
        let status = self.command(flake, args).status().context("running nix")?;
        ensure!(status.success(), "`nix {}`: {status}", args.join(" "));
        Ok(())
    }

    /// Builds one output of a checkout, and returns where it is.
    pub fn build(&self, flake: &Path, output: &str) -> Result<PathBuf> {
        let built: serde_json::Value =
            serde_json::from_slice(&printed(&mut self.command_to_build(flake, &[output], &["--json"]))?)?;
        let path = built[0]["outputs"]["out"].as_str();
        path.map(PathBuf::from).with_context(|| format!("nix built {output} and did not say where it is"))
    }

    /// Builds outputs of a checkout, with these further flags.
    pub fn build_all(&self, flake: &Path, outputs: &[&str], flags: &[&str]) -> Result<()> {
        printed(&mut self.command_to_build(flake, outputs, flags)).map(|_| ())
    }

    fn command_to_build(&self, flake: &Path, outputs: &[&str], flags: &[&str]) -> Command {
        let installables: Vec<String> = outputs.iter().map(|output| format!(".#{output}")).collect();
        let mut args = [&["build", "--no-link", "--option", "log-lines", "50"], flags].concat();
        args.extend(installables.iter().map(String::as_str));
        let mut command = self.command(flake, &args);
        command.stderr(Stdio::inherit());
        command
    }

    /// How each of the `packages` or `checks` of a checkout would be built.
    pub fn recipes(&self, flake: &Path, outputs: &str) -> Result<Recipes> {
        let apply = "outputs: builtins.mapAttrs (_: output: output.drvPath) outputs";
        let args = ["eval", "--json", &format!(".#{outputs}.{SYSTEM}"), "--apply", apply];
        Ok(serde_json::from_slice(&printed(&mut self.command(flake, &args))?)?)
    }

    fn command(&self, flake: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(flake).stdin(Stdio::null());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// What nix writes to standard output. What it says besides is shown if it fails.
fn printed(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.stdout(Stdio::piped()).output().context("running nix")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "nix: {}: {said}", output.status);
    Ok(output.stdout)
}

/// Whether builds can be shut off here as nix does it.
fn has_namespaces() -> bool {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "true"]);
    unshare.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
