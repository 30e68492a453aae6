//! The parts of `verify`, in the order they run: the quick ones first.

use super::{deny, e2e, nix};
use crate::tools::{BROWSER, NETWORK, NIX, Tool, cargo, run_self};

/// One part.
pub struct Part {
    /// What `--only` calls it.
    pub name: &'static str,
    /// What it checks.
    pub about: &'static str,
    /// Programs it cannot do without.
    pub needs: &'static [Tool],
    /// The check.
    pub run: fn() -> anyhow::Result<()>,
}

/// Every part. A further check is one more row.
pub const PARTS: &[Part] = &[
    Part { name: "fmt", about: "the code is formatted", needs: &[], run: fmt },
    Part { name: "clippy", about: "no lint speaks, in any target", needs: &[Tool::Cc], run: clippy },
    Part { name: "gen", about: "generated files are what the types say", needs: &[], run: generated },
    Part { name: "deps", about: "no crate depends on what it must not", needs: &[Tool::Cc], run: deps },
    Part {
        name: "deny",
        about: "licences, bans and sources of dependencies",
        needs: &[Tool::Cc],
        run: deny::run,
    },
    Part { name: "unit", about: "tests that need no control plane", needs: &[Tool::Cc], run: unit },
    Part {
        name: "sim",
        about: "13,000 histories of a deterministic world, and bugs planted in it",
        needs: &[Tool::Cc],
        run: sim,
    },
    Part { name: "devcluster", about: "the control plane itself", needs: &[Tool::Go], run: devcluster },
    Part {
        name: "charts",
        about: "charts lint and render as recorded, and their alerts fire when they are to",
        needs: &[Tool::Go, Tool::Promtool],
        run: charts,
    },
    Part {
        name: "e2e",
        about: "everything together, on a real control plane",
        needs: &[Tool::Go, Tool::Prometheus, Tool::Jq],
        run: e2e::run,
    },
    Part {
        name: "dataplane",
        about: "what a client sees of an address across handoffs, with packets, and the demo of it",
        needs: NETWORK,
        run: e2e::dataplane,
    },
    Part {
        name: "browser",
        about: "the dashboard as people see it, in Chromium, on a real control plane",
        needs: BROWSER,
        run: e2e::browser,
    },
    Part {
        name: "nix",
        about: "the flake: reproducible images and charts, and the demo by what is in them",
        needs: NIX,
        run: nix::run,
    },
    Part {
        name: "demo",
        about: "the walk through the README, with the trace of each handoff",
        needs: &[Tool::Go],
        run: demo,
    },
];

fn fmt() -> anyhow::Result<()> {
    cargo(&["fmt", "--all", "--check"])
}

fn clippy() -> anyhow::Result<()> {
    cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])
}

fn generated() -> anyhow::Result<()> {
    run_self(&["gen", "--check"])
}

fn deps() -> anyhow::Result<()> {
    test(&["--workspace", "--test", "dependencies"])
}

fn unit() -> anyhow::Result<()> {
    test(&["--workspace", "--exclude", "e2e", "--exclude", "devcluster"])
}

/// The histories that no release may break, and the bugs that must be found: all with one build.
fn sim() -> anyhow::Result<()> {
    let run = ["run", "--release", "--package", "sim", "--features", "planted", "--"];
    cargo(&[&run[..], &["run", "--hostile", "--seeds", "0..13336"]].concat())?;
    cargo(&[&run[..], &["bugs"]].concat())
}

fn devcluster() -> anyhow::Result<()> {
    test(&["--package", "devcluster"])
}

fn charts() -> anyhow::Result<()> {
    test(&["--workspace", "--test", "charts", "--test", "alerts", "--", "--ignored"])
}

fn demo() -> anyhow::Result<()> {
    run_self(&["demo", "--exit", "--trace"])
}

/// Runs tests, all of them. One test binary is picked by its name out of the whole workspace and not by its package:
/// picking a package also picks other features for what it depends on, which is then compiled once more.
fn test(args: &[&str]) -> anyhow::Result<()> {
    cargo(&[&["test", "--no-fail-fast"], args].concat())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_name_means_one_part() {
        let names: BTreeSet<_> = PARTS.iter().map(|part| part.name).collect();
        assert_eq!(names.len(), PARTS.len());
    }
}
