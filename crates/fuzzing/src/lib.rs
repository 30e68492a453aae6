//! What must hold for any input. Each function here is the body of a fuzz target (`fuzz/fuzz_targets`), and needs no
//! fuzzer: the recorded corpora (`fuzz/corpus`) are replayed through it by a test.
//!
//! Nothing here is part of a release: what does not hold ends by a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

mod addresses;
mod annotations;
mod brains;
mod histories;
mod objects;
mod parameters;
mod pools;
mod shadow;
mod shapes;
mod traceparent;
mod wire;

/// A property that must hold for any input.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("addresses", addresses::hold),
    ("annotations", annotations::hold),
    ("histories", histories::hold),
    ("objects", objects::hold),
    ("parameters", parameters::hold),
    ("pools", pools::hold),
    ("traceparent", traceparent::hold),
];

/// Runs the target of that name; the name must be among [`TARGETS`].
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = target.unwrap_or_else(|| panic!("there is no fuzz target {name:?}"));
    target(data);
}
