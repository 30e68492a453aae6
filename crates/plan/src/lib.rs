//! The vocabulary of writes: actions, preconditions, plans, keys. No I/O.
//!
//! A brain ([`Brain`]) keeps an index of what the watches told, and answers each dirty key with a [`Plan`].
//! The runtime carries a plan out, action by action, and feeds the API server's answers back. A plan leaves
//! the executor no choice to make.

mod action;
mod brain;
mod event;
mod keep;
mod many;
mod object;
mod store;

pub use action::{Action, Guard, Plan, Target};
pub use brain::{Brain, Moment};
pub use event::{Event, EventType};
pub use keep::{Keep, Kept, take_in};
pub use many::Many;
pub use object::{Change, Kind, Object, Ref};
pub use store::{Store, is_older};
