//! What a customer's client sees of an address: requests on a [`crate::Network`], and the workloads that answer them.
//!
//! [`Traffic`] opens a new connection every 5 ms, whatever became of those before, and keeps one long connection. Each
//! answer names who gave it, so that an answer of somebody else's workload is told from a right one. [`Report`] says which
//! requests failed and for how long.

mod client;
mod line;
mod report;
mod workload;

pub use client::{EVERY, Fault, PATIENCE, Sample, Traffic};
pub use line::Line;
pub use report::{Outage, Report};
pub use workload::Workload;

/// The port that workloads answer at.
pub const PORT: u16 = 80;
/// The path at which a workload says its name again and again, for as long as the connection lasts.
const LINE: &str = "/line";
