//! The read-only dashboard: which Service holds which IP.
//!
//! Feeds ([`follow`]) fill an index in memory ([`world`]); a request is a look at it by somebody ([`view::Eye`]), made
//! into markup, JSON or CSV ([`web`]).
//!
//! *Invariants.* Nothing is written to the cluster. No request waits for the cluster. What a visitor may not see is left
//! out of the views, so that no way out can show it. No markup is made but by templates, which escape.

pub mod args;
pub mod auth;
pub mod follow;
mod live;
pub mod query;
mod scope;
pub mod view;
pub mod web;
pub mod world;

pub use live::Live;
pub use scope::{Scope, Visitor};
