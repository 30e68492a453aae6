//! The flake: what it builds is the same from any checkout, and works.
//!
//! Packages, images and charts are really built, by the compilers of this machine in the place of nixpkgs' (see
//! `nixos/hostpkgs`), and the images' own programs walk through the demo on a real control plane. docs/packaging.md says
//! what this proves and what it does not.

mod checkout;
mod image;

use std::collections::BTreeSet;
use std::path::Path;

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
    edits(&nix, &second, recipes, &checks)?;

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
fn edits(nix: &Nix, checkout: &Checkout, packages: Recipes, checks: &Recipes) -> Result<()> {
    let mut before = packages;
    for edit in EDITS {
        checkout.append(edit.file, edit.adds)?;
        let after = nix.recipes(checkout.path(), "packages")?;
        edit.compare(&before, &after)?;
        before = after;
        if edit.file == DOCUMENT {
            let after = nix.recipes(checkout.path(), "checks")?;
            ensure!(*checks == after, "a change of {DOCUMENT} rebuilds checks");
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
        image.says_its_version(program)?;
    }
    let all = Image::open(&release.join(archive("address-controller-all")), &scratch.join("all"))?;
    all.check(MOST)?;
    for program in PROGRAMS {
        all.says_its_version(program)?;
    }
    Ok(all)
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
}

/// One that no test reads.
const DOCUMENT: &str = "docs/performance.md";

const EDITS: &[Edit] = &[
    Edit { file: DOCUMENT, adds: "\nMore.\n", felt_by: &["docs"] },
    Edit { file: "docs/operations.md", adds: "\nMore.\n", felt_by: &["docs"] },
    Edit { file: "crates/e2e/tests/flagship.rs", adds: "// More.\n", felt_by: &[] },
    Edit { file: "crates/xtask/src/main.rs", adds: "// More.\n", felt_by: &[] },
    Edit { file: "crates/sim/src/lib.rs", adds: "// More.\n", felt_by: &[] },
    Edit { file: "flake.nix", adds: "# More.\n", felt_by: &[] },
    Edit {
        file: "chart/metallb-iad/values.yaml",
        adds: "# More.\n",
        felt_by: &["charts", "release", "release-multiarch"],
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
    },
];

impl Edit {
    /// Compares the recipes from before the change with those from after.
    fn compare(&self, before: &Recipes, after: &Recipes) -> Result<()> {
        let differs = |(name, recipe): &(&String, &String)| before.get(*name) != Some(*recipe);
        let felt: BTreeSet<&str> = after.iter().filter(differs).map(|(name, _)| name.as_str()).collect();
        let expected: BTreeSet<&str> = self.felt_by.iter().copied().collect();
        ensure!(
            felt == expected,
            "a change of {} rebuilds {felt:?}, and was to rebuild {expected:?}",
            self.file
        );
        println!("{}: rebuilds {} of {} packages", self.file, felt.len(), after.len());
        Ok(())
    }
}
