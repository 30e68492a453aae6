//! Building one component with `go build`, into the cache.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cache::Slot;
use crate::components::{Extra, Recipe};
use crate::progress::Progress;
use crate::{Error, Result};

const POLL: Duration = Duration::from_millis(200);
const TAIL_LINES: usize = 15;

/// Returns the folder with the recipe's binary, building it first when the cache has none. Blocks.
pub(crate) fn ensure(recipe: &'static Recipe) -> Result<PathBuf> {
    let slot = Slot::of(recipe)?;
    if slot.dir.is_dir() {
        return Ok(slot.dir);
    }
    let mut progress = Progress::start(format!("building {} (only the first run does)", recipe.name));
    let lock = slot.lock(|| progress.note("waiting for another process that builds it"))?;
    if slot.dir.is_dir() {
        progress.finish("done by another process");
        return Ok(slot.dir);
    }
    let outcome = build(recipe, &slot, &mut progress);
    progress.finish(if outcome.is_ok() { "done" } else { "failed" });
    drop(lock);
    outcome.map(|()| slot.dir)
}

fn build(recipe: &Recipe, slot: &Slot, progress: &mut Progress) -> Result<()> {
    let partial = slot.beside("partial");
    let source = slot.beside("source");
    for dir in [&partial, &source] {
        if dir.exists() {
            std::fs::remove_dir_all(dir).map_err(Error::io(format!("clearing {}", dir.display())))?;
        }
        std::fs::create_dir_all(dir).map_err(Error::io(format!("creating {}", dir.display())))?;
    }
    for (name, text) in [("go.mod", recipe.go_mod), ("go.sum", recipe.go_sum)] {
        let path = source.join(name);
        std::fs::write(&path, text).map_err(Error::io(format!("writing {}", path.display())))?;
    }
    let mut go = Go { recipe, source: &source, log: slot.beside("log"), progress };
    if !recipe.package.is_empty() {
        let binary = partial.join(recipe.name);
        let binary = binary.to_string_lossy();
        go.run(&["build", "-trimpath", "-ldflags", recipe.ldflags, "-o", &binary, recipe.package])?;
    }
    for extra in recipe.extras {
        go.copy_extra(extra, &partial.join(extra.to))?;
    }
    // The rename is what makes the slot exist: a build that was killed half-way is never taken for a whole one.
    std::fs::rename(&partial, &slot.dir).map_err(Error::io(format!("moving into {}", slot.dir.display())))?;
    let _ = std::fs::remove_dir_all(&source);
    Ok(())
}

/// The `go` command, in our pinned module.
struct Go<'a> {
    recipe: &'a Recipe,
    source: &'a Path,
    log: PathBuf,
    progress: &'a mut Progress,
}

impl Go<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("go");
        command
            .args(args)
            .current_dir(self.source)
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off")
            .env("GOFLAGS", flags(std::env::var("GOFLAGS").ok()))
            .stdin(Stdio::null());
        command
    }

    fn run(&mut self, args: &[&str]) -> Result<()> {
        let log = File::create(&self.log).map_err(Error::io(format!("creating {}", self.log.display())))?;
        let errors = log.try_clone().map_err(Error::io(format!("opening {}", self.log.display())))?;
        let mut child = self.spawn(self.command(args).stdout(log).stderr(errors))?;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(Error::io("waiting for go"))? {
                break status;
            }
            std::thread::sleep(POLL);
            self.progress.tick();
        };
        if status.success() { Ok(()) } else { Err(self.failed()) }
    }

    fn spawn(&self, command: &mut Command) -> Result<Child> {
        command.spawn().map_err(|error| {
            if error.kind() == std::io::ErrorKind::NotFound {
                Error::GoMissing { component: self.recipe.name }
            } else {
                Error::io("running go")(error)
            }
        })
    }

    fn copy_extra(&mut self, extra: &Extra, to: &Path) -> Result<()> {
        self.run(&["mod", "download", extra.module])?;
        let mut command = self.command(&["list", "-m", "-f", "{{.Dir}}", extra.module]);
        let child = self.spawn(command.stdout(Stdio::piped()).stderr(Stdio::inherit()))?;
        let output = child.wait_with_output().map_err(Error::io("waiting for go list"))?;
        if !output.status.success() {
            return Err(self.failed());
        }
        let from = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).join(extra.from);
        std::fs::create_dir_all(to).map_err(Error::io(format!("creating {}", to.display())))?;
        let entries = std::fs::read_dir(&from).map_err(Error::io(format!("listing {}", from.display())))?;
        for entry in entries {
            let path = entry.map_err(Error::io(format!("listing {}", from.display())))?.path();
            if let Some(name) = path.file_name().filter(|_| path.is_file()) {
                // Read and write, not `copy`: files of the module cache are read-only, ours must be removable.
                let bytes = std::fs::read(&path).map_err(Error::io(format!("reading {}", path.display())))?;
                std::fs::write(to.join(name), bytes)
                    .map_err(Error::io(format!("writing {}", to.display())))?;
            }
        }
        Ok(())
    }

    fn failed(&self) -> Error {
        Error::Build { component: self.recipe.name, log: self.log.clone(), tail: tail(&self.log) }
    }
}

/// The caller's GOFLAGS (parallelism, proxies), plus what a reproducible build needs.
fn flags(inherited: Option<String>) -> String {
    let mut flags: Vec<String> = inherited
        .unwrap_or_default()
        .split_whitespace()
        .filter(|flag| !flag.starts_with("-mod=") && !flag.starts_with("-buildvcs"))
        .map(str::to_owned)
        .collect();
    flags.extend(["-mod=readonly".into(), "-buildvcs=false".into()]);
    flags.join(" ")
}

/// The last lines of a log, for an error message.
pub(crate) fn tail(log: &Path) -> String {
    let text =
        std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_keep_the_callers_and_pin_ours() {
        assert_eq!(flags(None), "-mod=readonly -buildvcs=false");
        assert_eq!(flags(Some("-p=2 -mod=mod -buildvcs=true".into())), "-p=2 -mod=readonly -buildvcs=false");
    }
}
