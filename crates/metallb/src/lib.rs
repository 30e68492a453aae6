//! The MetalLB driver's decisions: reservation, holding, handoff. No I/O.
