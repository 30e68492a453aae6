//! The vocabulary of writes: actions, preconditions, plans, keys. No I/O.
