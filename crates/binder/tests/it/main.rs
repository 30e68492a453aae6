//! The binder on a tiny cluster, run to rest. Names begin with the section of the contract, or the case.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test ends so")]

mod addresses;
mod claims;
mod crash;
mod lab;
mod measured;
mod plans;
mod random;
mod reclaim;
mod restore;
mod rivals;
mod traces;
mod world;
