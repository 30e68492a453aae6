//! The pages over invented clusters, in every form.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod counts;
mod forms;
mod hostile;
mod invented;
mod lists;
mod openapi;
mod pages;
mod queries;
mod rig;
mod serving;
mod slow;
mod stale;
mod stream;
mod tenants;
mod why;
