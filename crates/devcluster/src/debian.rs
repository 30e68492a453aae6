//! Programs of Debian packages that are wanted without the service that their package brings.

use std::path::{Path, PathBuf};

use crate::{Result, binaries, cache_folder};

/// Where the files of such packages are, as they would be below the root of a machine.
pub fn folder() -> Result<PathBuf> {
    Ok(cache_folder()?.join("debian"))
}

/// Where a program is: on PATH, or among those files.
pub fn program(name: &str) -> Option<PathBuf> {
    let taken_apart = || Some(folder().ok()?.join("usr/bin").join(name)).filter(|file| Path::is_file(file));
    binaries::on_path(name).or_else(taken_apart)
}
