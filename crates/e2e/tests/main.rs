//! Everything against the real API server: one binary, so that one control plane serves all tests.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod chart_lifecycle;
mod crd_rules;
mod flagship;
mod rig;
mod shared;
