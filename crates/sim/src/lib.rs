//! A deterministic world: a model of the API server and one of MetalLB, as far as the controllers can tell them from the
//! real ones.
//!
//! Nothing here is part of a release: a world that is not as it must be ends by a panic that tells its story.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc, missing_docs)]

pub mod books;
pub mod chance;
mod defaults;
pub mod metallb;
pub mod server;
