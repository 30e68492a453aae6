//! Where built binaries are kept, and under which key.

use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::components::Recipe;
use crate::{Error, Result};

/// The folder of one component in the cache; it exists only once the build is complete.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// The complete build.
    pub(crate) dir: PathBuf,
}

impl Slot {
    /// The slot of a recipe under `$XDG_CACHE_HOME`, or `~/.cache`.
    pub(crate) fn of(recipe: &Recipe) -> Result<Self> {
        let dir = cache_folder()?.join(format!("{}-{}", recipe.name, key(recipe)));
        Ok(Self { dir })
    }

    /// A path beside the slot, on the same file system.
    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.dir.clone().into_os_string();
        path.push(".");
        path.push(suffix);
        path.into()
    }

    /// Takes the slot's lock, held by the returned file, so that two processes never build the same thing at once.
    pub(crate) fn lock(&self, waiting: impl FnOnce()) -> Result<File> {
        let path = self.beside("lock");
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(Error::io(format!("creating {}", parent.display())))?;
        }
        let file = File::create(&path).map_err(Error::io(format!("creating {}", path.display())))?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => waiting(),
            Err(TryLockError::Error(error)) => {
                return Err(Error::io(format!("locking {}", path.display()))(error));
            }
        }
        file.lock().map_err(Error::io(format!("locking {}", path.display())))?;
        Ok(file)
    }
}

/// The folder of what is built or fetched once and kept, shared by every checkout of this user.
pub fn cache_folder() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME").filter(|v| Path::new(v).is_absolute()) {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(std::env::var_os("HOME").ok_or(Error::NoCacheFolder)?).join(".cache"),
    };
    Ok(base.join("address-controller-devcluster"))
}

/// Sixteen hex digits over everything that decides what a binary is: the pinned modules, the flags and
/// the files beside it.
fn key(recipe: &Recipe) -> String {
    let mut hash = Sha256::new();
    let extras = recipe.extras.iter().flat_map(|extra| [extra.module, extra.from, extra.to]);
    for part in [recipe.go_sum, recipe.go_mod, recipe.package, recipe.ldflags].into_iter().chain(extras) {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(8).fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Component;
    use crate::components::Extra;

    #[test]
    fn keys_are_sixteen_hex_digits_and_tell_components_apart() {
        let keys: Vec<_> = Component::ALL.iter().map(|c| key(c.recipe())).collect();
        for key in &keys {
            assert_eq!(key.len(), 16);
            assert!(key.chars().all(|c| c.is_ascii_hexdigit()), "{key}");
        }
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }

    #[test]
    fn the_key_follows_the_pins_and_the_flags() {
        let base = || Recipe {
            name: "x",
            package: "example.org/x",
            go_mod: "module a",
            go_sum: "sum",
            ldflags: "-s",
            extras: &[],
        };
        assert_eq!(key(&base()), key(&base()));
        assert_ne!(key(&base()), key(&Recipe { go_sum: "other", ..base() }));
        assert_ne!(key(&base()), key(&Recipe { go_mod: "module b", ..base() }));
        assert_ne!(key(&base()), key(&Recipe { ldflags: "-w", ..base() }));
        let extras = &[Extra { module: "example.org/x", from: "config", to: "config" }];
        assert_ne!(key(&base()), key(&Recipe { extras, ..base() }));
    }

    #[test]
    fn pins_are_exact() {
        for component in Component::ALL {
            let recipe = component.recipe();
            assert!(recipe.go_mod.contains(recipe.package), "{} is not a tool of its module", recipe.package);
            assert!(!recipe.go_sum.is_empty(), "{} has no checksums", recipe.name);
        }
    }
}
