//! Tests against the real control plane.
