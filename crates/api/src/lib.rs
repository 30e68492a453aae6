//! The kinds of local.sdn.cozystack.io, the well-known names, canonical addresses. No I/O.
