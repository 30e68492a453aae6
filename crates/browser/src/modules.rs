//! What npm brings: installed once for each lock file, and kept.

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

const MANIFEST: &str = include_str!("../npm/package.json");
const LOCK: &str = include_str!("../npm/package-lock.json");

/// The folder that has `node_modules`; npm is asked for them where they are not there yet. Blocks.
pub(crate) fn ensure() -> Result<PathBuf> {
    let cache = devcluster::cache_folder()?;
    let slot = cache.join(format!("browser-{}", key()));
    if slot.is_dir() {
        return Ok(slot);
    }
    std::fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
    let lock = slot.with_extension("lock");
    let lock = File::create(&lock).with_context(|| format!("creating {}", lock.display()))?;
    lock.lock().context("waiting for another process that asks npm")?;
    if !slot.is_dir() {
        install(&slot)?;
    }
    Ok(slot)
}

fn install(slot: &Path) -> Result<()> {
    println!("npm ci: playwright-core and axe-core (only the first run does)");
    let partial = slot.with_extension("partial");
    if partial.exists() {
        std::fs::remove_dir_all(&partial).with_context(|| format!("clearing {}", partial.display()))?;
    }
    std::fs::create_dir_all(&partial).with_context(|| format!("creating {}", partial.display()))?;
    for (name, text) in [("package.json", MANIFEST), ("package-lock.json", LOCK)] {
        let path = partial.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    let status = std::process::Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"])
        .current_dir(&partial)
        .stdin(Stdio::null())
        .status()
        .context("running npm (on Debian: apt-get install nodejs npm)")?;
    if !status.success() {
        bail!("npm ci in {}: {status}", partial.display());
    }
    // The rename is what makes the slot exist: half of it is never taken for the whole.
    std::fs::rename(&partial, slot).with_context(|| format!("moving into {}", slot.display()))
}

/// Sixteen hex digits over what is installed.
fn key() -> String {
    let hash = Sha256::new().chain_update(MANIFEST).chain_update([0]).chain_update(LOCK).finalize();
    hash.iter().take(8).fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_exact_and_names_no_host() {
        let lock: serde_json::Value = serde_json::from_str(LOCK).unwrap();
        let packages = lock["packages"].as_object().unwrap();
        let wanted: serde_json::Value = serde_json::from_str(MANIFEST).unwrap();
        for (name, version) in wanted["dependencies"].as_object().unwrap() {
            assert_eq!(&packages[&format!("node_modules/{name}")]["version"], version, "{name}");
        }
        for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
            assert!(package["integrity"].is_string(), "{name} has no checksum");
        }
        assert!(!LOCK.contains("://"), "npm install --package-lock-only --omit-lockfile-registry-resolved");
    }
}
