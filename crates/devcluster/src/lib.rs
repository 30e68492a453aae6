//! A real control plane on this machine, built from Go modules.
