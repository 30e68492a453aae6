//! The dashboard as people see it: in Chromium, on the real control plane with the real controllers.
//!
//! One control plane, one browser and two dashboards serve all tests, which take turns: one that is open to all, and one
//! under a path that lets people in by their tokens. What is waited for is always that something can be seen.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed helper is a failed test")]

mod desk;
mod journeys;
mod looks;
#[allow(unused_imports, reason = "the other binary uses the rest")]
#[path = "../rig/mod.rs"]
mod rig;
mod screenshots;
#[allow(dead_code, reason = "the other binary uses the rest")]
#[path = "../shared.rs"]
mod shared;
mod tenants;
