//! The project commands: gen, demo, verify, up, down, bench.

fn main() {}
