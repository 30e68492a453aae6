//! docs/contract.md names the test of each rule: the names must exist.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Names of tests in a text: in backticks, of the form of a test's name.
fn named(text: &str) -> BTreeSet<&str> {
    let is_name = |word: &&str| {
        word.contains('_') && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    text.split('`').skip(1).step_by(2).filter(is_name).collect()
}

#[test]
fn every_test_named_in_the_contract_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let contract = std::fs::read_to_string(root.join("docs/contract.md")).unwrap();
    let mut files = Vec::new();
    for folder in ["crates", "dashboard"] {
        sources(&root.join(folder), &mut files);
    }
    let code: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let missing: Vec<_> =
        named(&contract).into_iter().filter(|name| !code.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "docs/contract.md names tests that do not exist: {missing:#?}");
}
