//! Programs of Debian packages that are wanted without the service that their package brings.

use std::path::{Path, PathBuf};

use crate::{Result, cache_folder};

/// Where the files of such packages are, as they would be below the root of a machine.
pub fn folder() -> Result<PathBuf> {
    Ok(cache_folder()?.join("debian"))
}

/// Where a program is: on PATH, or among those files.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let taken_apart = folder().ok().map(|folder| folder.join("usr/bin"));
    let mut folders = std::env::split_paths(&path).chain(taken_apart);
    folders.find_map(|folder| Some(folder.join(name)).filter(|file| Path::is_file(file)))
}
