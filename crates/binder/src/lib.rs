//! The core's decisions: which claim gets which address. No I/O.
