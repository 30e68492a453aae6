//! `state.json`: what another process needs to look after the parts of a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::command::CommandSpec;
use crate::process::{self, Process};
use crate::{Error, Result};

const FILE: &str = "state.json";

/// The recorded run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The API server's address.
    pub(crate) server_url: String,
    /// The administrator's kubeconfig.
    pub(crate) admin_kubeconfig: PathBuf,
    /// The parts, by name.
    pub(crate) parts: BTreeMap<String, PartState>,
}

/// One recorded part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartState {
    /// How it is run.
    pub(crate) command: CommandSpec,
    /// The port it answers on, if it is known to have one.
    #[serde(default)]
    pub(crate) port: Option<u16>,
    /// Its pid, while it runs.
    pub(crate) pid: Option<u32>,
    /// The start time of that pid, in clock ticks since boot: a pid alone may come to mean another process.
    pub(crate) birth: Option<u64>,
}

impl PartState {
    pub(crate) fn of(process: &Process) -> Self {
        let running = process.running();
        Self {
            port: process.spec().port(),
            command: process.spec().clone(),
            pid: running.as_ref().map(|running| running.pid),
            birth: running.and_then(|running| running.birth),
        }
    }

    /// Whether the recorded process still lives.
    pub(crate) fn lives(&self) -> bool {
        self.pid.is_some_and(|pid| process::lives(pid, self.birth))
    }

    pub(crate) fn adopt(&self, detached: bool) -> Process {
        match self.pid {
            Some(pid) => Process::adopt(self.command.clone(), detached, pid, self.birth),
            None => Process::new(self.command.clone(), detached),
        }
    }
}

impl State {
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        let text =
            std::fs::read_to_string(&path).map_err(Error::io(format!("reading {}", path.display())))?;
        serde_json::from_str(&text).map_err(|error| Error::Malformed { path, message: error.to_string() })
    }

    /// Writes the file whole: a reader never sees half of it.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join(FILE);
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::Malformed { path: path.clone(), message: error.to_string() })?;
        let failed = || Error::io(format!("writing {}", path.display()));
        let mut file = tempfile::NamedTempFile::new_in(dir).map_err(failed())?;
        std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed())?;
        file.persist(&path).map_err(|error| failed()(error.error))?;
        Ok(())
    }

    pub(crate) fn remove(dir: &Path) {
        let _ = std::fs::remove_file(dir.join(FILE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let command = CommandSpec {
            name: "core".into(),
            program: "/bin/true".into(),
            args: vec!["-v".into()],
            env: [("A".into(), "b".into())].into(),
            log: dir.path().join("core.log"),
            ready_url: None,
            ready_text: None,
        };
        let state = State {
            server_url: "https://127.0.0.1:1".into(),
            admin_kubeconfig: dir.path().join("admin.kubeconfig"),
            parts: [("core".into(), PartState { command, port: None, pid: Some(1), birth: Some(2) })].into(),
        };
        state.write(dir.path()).unwrap();
        assert_eq!(State::read(dir.path()).unwrap(), state);
    }
}
