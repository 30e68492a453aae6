//! The only place that touches the world: feeds, queue, apply, lease, telemetry, admin.
//!
//! [`run`] gives a [`plan::Brain`] a cluster to work on: [`Feed`]s bring it what changes, a queue asks it to
//! decide one key at a time, and its plans are carried out in order, each write with preconditions, each
//! answer told to the brain at once. [`start`] is the `main` around it. [`once`] is the `main` of a command that does one
//! thing and ends; it works by a [`Hand`].
//!
//! *Invariants.* Nothing here knows what a claim or a handoff is. Nothing is decided before every cache is
//! complete. No write leaves without a uid and a resourceVersion, nor without the lease. No decision waits
//! for I/O, and no lock is held across it.

mod admin;
mod apply;
pub mod args;
pub mod auth;
mod caches;
mod events;
mod explain;
#[cfg(test)]
mod fake;
pub mod feed;
pub mod hand;
mod leader;
mod lean;
pub mod logs;
mod metrics;
mod once;
mod queue;
mod run;
pub mod secure;
mod setup;
mod start;
pub mod trace;
mod wire;

pub use admin::{ListenError, OPENMETRICS, listen};
pub use feed::Feed;
pub use hand::{Hand, HandError};
pub use leader::Leadership;
pub use metrics::Requests;
pub use once::{once, once_anywhere};
pub use run::{RunError, run};
pub use setup::{Settings, SetupError, client, cluster, counted_client};
pub use start::{process, start};
