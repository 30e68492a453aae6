//! What a customer's client sees of an address, shown with packets: contract §17.
//!
//! One control plane inside a network of its own serves all tests, which take turns: a node, a client that opens a
//! connection every 5 ms, MetalLB's speaker and kube-proxy, and HTTP servers behind the Services.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod c17_flows;
mod c17_upheavals;
mod flow;
mod leftovers;
mod plane;
#[allow(unused_imports, reason = "the other binaries use the rest")]
#[path = "../rig/mod.rs"]
mod rig;
#[allow(dead_code, reason = "the other binaries use the rest")]
#[path = "../shared.rs"]
mod shared;
