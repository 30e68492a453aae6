//! Every input of the recorded corpora is replayed: what once was wrong must not come back.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot read its inputs has failed")]

use std::fs;
use std::path::{Path, PathBuf};

use fuzzing::TARGETS;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_corpus_is_replayed() {
    for (name, target) in TARGETS {
        let corpus = files(&root().join("corpus").join(name));
        assert!(corpus.len() >= 5, "the corpus of {name} has {} inputs", corpus.len());
        for input in corpus {
            println!("{}", input.display());
            target(&fs::read(&input).unwrap());
        }
    }
}

#[test]
fn every_target_has_a_program_and_every_program_a_target() {
    let programs: Vec<_> = files(&root().join("fuzz_targets"))
        .iter()
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(programs, names);
}
