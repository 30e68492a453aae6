//! The driver's decisions against a world in memory: the contract, row by row.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says so by panicking")]

mod rows;
mod world;
