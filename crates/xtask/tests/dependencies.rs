//! The dependency rule: `api <- plan <- {binder, metallb}`, brains without I/O, mains with one brain each.
//!
//! `cargo tree` is asked crate by crate, because `cargo metadata` shows one resolution of all members together, in
//! which a feature that any tool turns on is turned on for the brains too.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use cargo_metadata::MetadataCommand;

/// What a crate of ours may depend on among the others.
enum Rule {
    /// On these, and on no others.
    Only(&'static [&'static str]),
    /// On any: it is not shipped.
    Tool,
}

const RULES: &[(&str, Rule)] = &[
    ("api", Rule::Only(&[])),
    ("plan", Rule::Only(&["api"])),
    ("binder", Rule::Only(&["api", "plan"])),
    ("metallb", Rule::Only(&["api", "plan"])),
    ("runtime", Rule::Only(&["api", "plan"])),
    ("address-controller", Rule::Only(&["api", "plan", "binder", "runtime"])),
    ("metallb-iad", Rule::Only(&["api", "plan", "metallb", "runtime"])),
    ("address-dashboard", Rule::Only(&["api", "plan", "runtime"])),
    ("dashboard", Rule::Only(&["api", "plan", "runtime"])),
    ("sim", Rule::Only(&["api", "plan", "binder", "metallb"])),
    ("devcluster", Rule::Only(&[])),
    ("browser", Rule::Only(&["devcluster"])),
    ("e2e", Rule::Tool),
    ("fuzzing", Rule::Tool),
    ("xtask", Rule::Tool),
];

/// Crates that decide and do nothing else.
const PURE: &[&str] = &["api", "plan", "binder", "metallb"];

/// What gives a crate a network, a runtime or a source of chance.
const IMPURE: &[&str] = &[
    "async-std",
    "fastrand",
    "getrandom",
    "hyper",
    "kube-client",
    "kube-runtime",
    "mio",
    "rand",
    "rand_core",
    "reqwest",
    "socket2",
    "tokio",
];

/// Mains, with the brain each must have.
const MAINS: &[(&str, &str)] = &[("address-controller", "binder"), ("metallb-iad", "metallb")];

fn members() -> BTreeSet<String> {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    metadata.workspace_packages().iter().map(|package| package.name.to_string()).collect()
}

/// The names of everything that is in a crate's shipped build.
fn shipped_with(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", package, "--edges", "normal", "--target", "all", "--prefix", "none"])
        .args(["--format", "{p}"])
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .filter(|name| name != package)
        .collect()
}

#[test]
fn crates_see_only_what_they_may() {
    let members = members();
    for member in &members {
        let rule = RULES.iter().find(|(name, _)| name == member).map(|(_, rule)| rule);
        let Some(rule) = rule else { panic!("{member} has no rule: give it one in {}", file!()) };
        let Rule::Only(allowed) = rule else { continue };
        let seen = shipped_with(member);
        let forbidden: Vec<_> =
            seen.intersection(&members).filter(|name| !allowed.contains(&name.as_str())).collect();
        assert!(forbidden.is_empty(), "{member} must not depend on {forbidden:?}");
    }
}

#[test]
fn what_decides_does_no_io_and_knows_no_chance() {
    for pure in PURE {
        let seen = shipped_with(pure);
        let impure: Vec<_> = IMPURE.iter().filter(|name| seen.contains(**name)).collect();
        assert!(
            impure.is_empty(),
            "{pure} must stay free of {impure:?}: `cargo tree -p {pure} -i NAME` shows why"
        );
    }
}

#[test]
fn each_main_has_its_brain_and_the_runtime() {
    for (main, brain) in MAINS {
        let seen = shipped_with(main);
        for needed in [*brain, "runtime"] {
            assert!(seen.contains(needed), "{main} does not use {needed}");
        }
    }
}

/// The dashboard may use the runtime's feeds and what is around a process, and nothing that writes.
#[test]
fn the_dashboard_cannot_write() {
    const WRITERS: &[&str] =
        &["Hand", "runtime::run", "runtime::start", "runtime::once", "plan::Action", "Execution"];
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboard/src")];
    let mut read = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let found = text.split(|c| !is_word(c)).find(|word| WRITERS.contains(word));
            assert!(found.is_none(), "{} uses {found:?}", path.display());
            read += 1;
        }
    }
    assert!(read > 0);
}
