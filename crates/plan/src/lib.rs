//! The vocabulary of writes: actions, preconditions, plans, keys. No I/O.
//!
//! A brain ([`Brain`]) keeps an index of what the watches told, and answers each dirty key with a [`Plan`].
//! An [`Execution`] says which calls carry a plan out, action by action, and what their answers mean; the runtime
//! makes the calls and feeds the answers back. A plan leaves the executor no choice to make.

mod action;
mod brain;
mod event;
mod execution;
mod keep;
mod many;
mod measure;
mod object;
mod store;
pub mod trace;

pub use action::{Action, Guard, Plan, Target};
pub use brain::{Brain, Moment};
pub use event::{Event, EventType};
pub use execution::{Call, Execution, Outcome, Reply, Verdict, was_the_last_write};
pub use keep::{Keep, Kept};
pub use many::Many;
pub use measure::{Gauge, Labels, Tally, Timer, Timing, Took, trace_id};
pub use object::{Change, Kind, Object, Ref};
pub use store::{Store, is_older};
