//! A deterministic world: a model of the API server and one of MetalLB, as far as the controllers can tell them from the
//! real ones, and both controllers over them.
//!
//! - [`server`], [`metallb`], [`books`], [`pools`]: the models; [`conform`]: the scripts that hold them against the real ones;
//! - [`world`]: the processes, their network, their lease, and the scheduler that picks what happens next;
//! - [`users`]: what tenants, admins, thieves and hands do, and what goes wrong;
//! - [`law`]: what must hold, at each step and at rest;
//! - [`profile`]: which of all that a seed draws from; [`history`]: running, replaying and shrinking one seed.
//!
//! Nothing here is part of a release: a model that is asked for what it cannot do ends by a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc, missing_docs)]

pub mod books;
pub mod chance;
pub mod conform;
mod converge;
mod defaults;
pub mod history;
pub mod law;
pub mod metallb;
pub mod planted;
pub mod pools;
pub mod profile;
mod rules;
pub mod server;
pub mod users;
pub mod world;
