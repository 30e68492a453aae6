//! The flake: what it builds is the same from any checkout, and works.
//!
//! Packages, images and charts are really built, by the compilers of this machine in the place of nixpkgs' (see
//! `nixos/hostpkgs`), and the images' own programs walk through the demo on a real control plane. docs/packaging.md says
//! what this proves and what it does not.

mod checkout;
mod image;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::demo;
use crate::nix::{Nix, Recipes, SYSTEM};
use checkout::Checkout;
use image::Image;

/// What no image may weigh more than, packed.
const MOST: u64 = 40_000_000;
/// All that is cheap to build twice.
const CHEAP: [&str; 9] = [
    "image",
    "image-address-controller",
    "image-metallb-iad",
    "image-address-dashboard",
    "charts",
    "crds",
    "sbom",
    "docs",
    "release",
];
/// The checks of the flake that no other part of `verify` does.
const CHECKS: [&str; 5] = ["fmt", "chart-lint", "charts-reproducible", "multiarch", "sbom"];
/// The programs.
pub const PROGRAMS: [&str; 3] = ["address-controller", "metallb-iad", "address-dashboard"];

pub fn run() -> Result<()> {
    let nix = Nix::of_host_tools()?;
    let scratch = tempfile::tempdir()?;
    // Two folders with other names, whose files have other times.
    let first = Checkout::new(&scratch.path().join("first"), 1_000_000_000)?;
    let second = Checkout::new(&scratch.path().join("another-one"), 1_700_000_000)?;

    println!("-- every output evaluates, for every system");
    nix.run(first.path(), &["flake", "check", "--no-build"])?;
    println!("-- two checkouts are one recipe");
    let recipes = nix.recipes(first.path(), "packages")?;
    let checks = nix.recipes(first.path(), "checks")?;
    for (outputs, one) in [("packages", &recipes), ("checks", &checks)] {
        let another = nix.recipes(second.path(), outputs)?;
        ensure!(*one == another, "another folder or other times make other recipes of {outputs}");
    }

    println!("-- built from the first checkout, and again, by force, from the second");
    let release = nix.build(first.path(), "release")?;
    nix.build(first.path(), "docs")?;
    nix.build_all(second.path(), &CHEAP, &["--rebuild"])?;
    let again = nix.build(second.path(), "release")?;
    for (checkout, folder) in [(&first, &release), (&second, &again)] {
        println!("{}:", checkout.path().file_name().unwrap_or_default().display());
        for file in ["images.txt", "SHA256SUMS"] {
            print!("{}", std::fs::read_to_string(folder.join(file)).context("reading the release")?);
        }
    }
    ensure!(release == again, "{} and {} differ", release.display(), again.display());

    println!("-- the checks of the flake");
    let wanted = CHECKS.map(|name| format!("checks.{SYSTEM}.{name}"));
    nix.build_all(first.path(), &wanted.each_ref().map(String::as_str), &[])?;
    println!("-- a change rebuilds only what is made of it");
    edits(&nix, &second, recipes, checks)?;

    println!("-- the images");
    let all = images(&release, scratch.path())?;
    println!(
        "-- the demo, by the programs of the image, each in a root of its own, and by the charts of the flake"
    );
    let binaries = scratch.path().join("bin");
    for program in PROGRAMS {
        all.wrap(program, &binaries)?;
    }
    demo::Args { exit: true, binaries: Some(binaries), charts: Some(release), trace: false, traffic: false }
        .run()
}

/// Edits a checkout, file after file, and looks at what would be built anew.
fn edits(nix: &Nix, checkout: &Checkout, mut packages: Recipes, mut checks: Recipes) -> Result<()> {
    for edit in EDITS {
        checkout.append(edit.file, edit.adds)?;
        let after = nix.recipes(checkout.path(), "packages")?;
        compare(edit.file, "packages", &packages, &after, edit.felt_by)?;
        packages = after;
        if let Some(feels) = edit.checked_by {
            let after = nix.recipes(checkout.path(), "checks")?;
            compare(edit.file, "checks", &checks, &after, feels)?;
            checks = after;
        }
    }
    Ok(())
}

/// Looks at every image, runs its programs, and returns the one that has all.
fn images(release: &Path, scratch: &Path) -> Result<Image> {
    for program in PROGRAMS {
        let image = Image::open(&release.join(archive(program)), &scratch.join(program))?;
        image.check(MOST)?;
        ensure!(image.entrypoint() == [format!("/bin/{program}")], "{program} does not start {program}");
        let pinned = pinned(release, program)?;
        ensure!(
            pinned == image.digest(),
            "chart {program} is pinned to {pinned}, and its image is {}",
            image.digest()
        );
        image.says_its_version(program)?;
    }
    let all = Image::open(&release.join(archive("address-controller-all")), &scratch.join("all"))?;
    all.check(MOST)?;
    for program in PROGRAMS {
        all.says_its_version(program)?;
    }
    Ok(all)
}

/// The digest of the image that a packaged chart asks for.
fn pinned(release: &Path, chart: &str) -> Result<String> {
    let archive = release.join(format!("{chart}-{}.tgz", env!("CARGO_PKG_VERSION")));
    let mut tar = Command::new("tar");
    let output =
        tar.arg("-xzOf").arg(&archive).arg(format!("{chart}/values.yaml")).output().context("running tar")?;
    ensure!(output.status.success(), "{} has no values.yaml", archive.display());
    let values: serde_json::Value = serde_yaml_ng::from_slice(&output.stdout)?;
    let digest = values["image"]["digest"].as_str();
    digest.map(str::to_owned).with_context(|| format!("{} says no digest of its image", archive.display()))
}

/// The archive of an image in the folder of a release.
fn archive(name: &str) -> String {
    format!("{name}-{}-image.tar", env!("CARGO_PKG_VERSION"))
}

/// A change to one file, and the packages that are made of it.
struct Edit {
    file: &'static str,
    /// A comment, or what comes nearest to one.
    adds: &'static str,
    felt_by: &'static [&'static str],
    /// The checks that are made of it, where that is looked at.
    checked_by: Option<&'static [&'static str]>,
}

const EDITS: &[Edit] = &[
    // No test reads it.
    Edit { file: "docs/performance.md", adds: "\nMore.\n", felt_by: &["docs"], checked_by: Some(&[]) },
    Edit { file: "docs/operations.md", adds: "\nMore.\n", felt_by: &["docs"], checked_by: Some(&["unit"]) },
    Edit { file: "crates/e2e/tests/flagship.rs", adds: "// More.\n", felt_by: &[], checked_by: None },
    Edit { file: "crates/xtask/src/main.rs", adds: "// More.\n", felt_by: &[], checked_by: None },
    Edit {
        file: "crates/sim/src/lib.rs",
        adds: "// More.\n",
        felt_by: &[],
        checked_by: Some(&["clippy", "fmt", "sim", "unit"]),
    },
    Edit { file: "flake.nix", adds: "# More.\n", felt_by: &[], checked_by: Some(&[]) },
    Edit {
        file: "chart/metallb-iad/values.yaml",
        adds: "# More.\n",
        felt_by: &["charts", "release", "release-multiarch"],
        checked_by: None,
    },
    Edit {
        file: "crates/api/src/lib.rs",
        adds: "// More.\n",
        felt_by: &[
            "address-controller",
            "address-dashboard",
            "charts",
            "default",
            "image",
            "image-address-controller",
            "image-address-dashboard",
            "image-metallb-iad",
            "metallb-iad",
            "release",
            "release-multiarch",
        ],
        checked_by: None,
    },
];

/// Compares the recipes from before a change with those from after.
fn compare(file: &str, outputs: &str, before: &Recipes, after: &Recipes, expected: &[&str]) -> Result<()> {
    let differs = |(name, recipe): &(&String, &String)| before.get(*name) != Some(*recipe);
    let felt: BTreeSet<&str> = after.iter().filter(differs).map(|(name, _)| name.as_str()).collect();
    let expected: BTreeSet<&str> = expected.iter().copied().collect();
    ensure!(
        felt == expected,
        "a change of {file} rebuilds the {outputs} {felt:?}, and was to rebuild {expected:?}"
    );
    println!("{file}: rebuilds {} of {} {outputs}", felt.len(), after.len());
    Ok(())
}
