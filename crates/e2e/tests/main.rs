//! Everything against the real API server: one binary, so that one control plane serves all tests.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod a_spellings;
mod b_races;
mod c10_holding;
mod c11_admission;
mod c11_dual;
mod c11_fights;
mod c11_gap;
mod c11_handoff;
mod c11_refusals;
mod c11_release;
mod c11_shapes;
mod c12_adopt;
mod c12_auto_claim;
mod c12_conflicts;
mod c12_inventory;
mod c13_admission;
mod c14_traces;
mod c16_secure_metrics;
mod c4_static;
mod c6_reclaim;
mod c8_classes;
mod c8_migrate;
mod chart_lifecycle;
mod chart_objects;
mod conformance;
mod crash;
mod crd_rules;
mod d4_allocation;
mod d_pools;
mod faults;
mod flagship;
mod go_migration;
mod hand_edits;
mod helm_test;
mod leader;
mod load;
mod metrics;
mod pool_shapes;
mod quotas;
mod restore;
mod rig;
mod shared;
mod upheavals;
mod zz_audit;
