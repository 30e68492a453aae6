//! The pages over invented clusters, in every form.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod invented;
mod rig;
mod serving;
