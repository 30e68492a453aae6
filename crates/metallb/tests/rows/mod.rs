//! The contract, row by row.

mod c11_forward;
mod c11_reverse;
mod c9_reservation;
