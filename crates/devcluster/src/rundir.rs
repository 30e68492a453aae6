//! The folder with everything of one run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use crate::options::Options;
use crate::parts::{AUDIT_LOG, ETCD_DATA};
use crate::state::State;
use crate::{Error, Result};

/// The run folder.
#[derive(Debug)]
pub(crate) struct RunDir {
    pub(crate) path: PathBuf,
    temporary: Option<TempDir>,
    keep: AtomicBool,
}

impl RunDir {
    pub(crate) fn create(options: &Options) -> Result<Self> {
        let (path, temporary) = if let Some(dir) = &options.dir {
            std::fs::create_dir_all(dir).map_err(Error::io(format!("creating {}", dir.display())))?;
            let path = dir.canonicalize().map_err(Error::io(format!("finding {}", dir.display())))?;
            clear(&path)?;
            (path, None)
        } else {
            let made = tempfile::Builder::new().prefix("devcluster-").tempdir();
            let dir = made.map_err(Error::io("creating a run folder"))?;
            (dir.path().to_owned(), Some(dir))
        };
        // A detached run outlives this process, and so does its folder.
        Ok(Self { path, temporary, keep: AtomicBool::new(options.detached) })
    }

    pub(crate) fn existing(path: PathBuf) -> Self {
        Self { path, temporary: None, keep: AtomicBool::new(true) }
    }

    pub(crate) fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let temporary = self.temporary.take();
        let keep = self.keep.load(Ordering::Relaxed) || std::thread::panicking();
        if let Some(dir) = temporary.filter(|_| keep) {
            eprintln!("devcluster: the run folder is kept: {}", dir.keep().display());
        }
    }
}

/// Clears what an earlier run has left in a folder: its data would not fit the new certificates, its logs would be
/// taken for the new ones.
fn clear(dir: &Path) -> Result<()> {
    let Ok(state) = State::read(dir) else { return Ok(()) };
    if state.parts.values().any(crate::state::PartState::lives) {
        return Err(Error::AlreadyUp { dir: dir.to_owned() });
    }
    let removed = |path: &Path, outcome: std::io::Result<()>| match outcome {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("clearing {}", path.display()))(error))
        }
        _ => Ok(()),
    };
    let data = dir.join(ETCD_DATA);
    removed(&data, std::fs::remove_dir_all(&data))?;
    let logs = state.parts.values().map(|part| part.command.log.clone()).filter(|log| log.starts_with(dir));
    for log in logs.chain([dir.join(AUDIT_LOG)]) {
        removed(&log, std::fs::remove_file(&log))?;
    }
    State::remove(dir);
    Ok(())
}
