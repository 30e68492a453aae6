//! The core controller: binds claims to addresses.

fn main() {}
