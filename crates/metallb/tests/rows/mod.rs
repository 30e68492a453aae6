//! The contract, row by row.

mod c10_hand_edits;
mod c10_holding;
mod c11_fights;
mod c11_foreign_edits;
mod c11_foreign_keys;
mod c11_forward;
mod c11_gap;
mod c11_refusals;
mod c11_reverse;
mod c11_switched;
mod c11_unserved;
mod c11_upheavals;
mod c12_adopt;
mod c12_auto_claim;
mod c12_conflicts;
mod c12_inventory;
mod c12_robbed;
mod c12_teardown;
mod c14_measured;
mod c14_traces;
mod c8_classes;
mod c9_reservation;
mod c9_waiting;
mod c9_withdrawal;
mod d4_allocation;
mod plans;
