//! A checkout of this tree, as it stands now, elsewhere.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};

use crate::workspace;

/// A copy of the files that git has or would take, in a repository of its own.
pub struct Checkout(PathBuf);

impl Checkout {
    /// Makes one, all of whose files are of one time, in seconds.
    pub fn new(folder: &Path, time: u64) -> Result<Self> {
        let root = workspace::root();
        let mut list = Command::new("git");
        // Whoever owns the tree: nothing of it is run.
        list.args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let output = list.current_dir(&root).output().context("running git")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "git does not list the files of {}: {said}", root.display());
        let names = String::from_utf8(output.stdout).context("a file's name is not UTF-8")?;
        // One that is deleted and not yet committed is listed, and not there.
        for name in names.split('\0').filter(|name| root.join(name).is_file()) {
            let copy = folder.join(name);
            fs::create_dir_all(copy.parent().unwrap_or(folder))?;
            fs::copy(root.join(name), &copy).with_context(|| format!("copying {name}"))?;
            File::options()
                .write(true)
                .open(&copy)?
                .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(time))?;
        }
        for args in [&["init", "--quiet"][..], &["add", "--all"]] {
            let status =
                Command::new("git").args(args).current_dir(folder).status().context("running git")?;
            ensure!(status.success(), "`git {}` in {}: {status}", args.join(" "), folder.display());
        }
        Ok(Self(folder.to_owned()))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes something to the end of a file.
    pub fn append(&self, file: &str, text: &str) -> Result<()> {
        let path = self.0.join(file);
        let mut opened = OpenOptions::new()
            .append(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        opened.write_all(text.as_bytes()).with_context(|| format!("writing {}", path.display()))
    }
}
