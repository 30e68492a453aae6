//! Where things are in this checkout.

use std::path::PathBuf;

/// The folder of the workspace.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    // The crate lies two folders below the workspace; should that change, the paths made from this say so.
    here.ancestors().nth(2).map_or_else(|| here.clone(), PathBuf::from)
}
