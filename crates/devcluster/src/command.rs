//! What is run: a program with its arguments, environment and log.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything needed to run a part, now or again later from `state.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// The part's name.
    pub name: String,
    /// The binary.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment, apart from PATH: nothing is inherited, so that a run is the same wherever it is started.
    pub env: BTreeMap<String, String>,
    /// The file that standard output and error are appended to.
    pub log: PathBuf,
    /// An address that answers 200 once the part is ready.
    pub ready_url: Option<String>,
    /// What the answer has to contain besides.
    #[serde(default)]
    pub ready_text: Option<String>,
}

impl CommandSpec {
    /// The port it answers on, if it has a ready address.
    pub fn port(&self) -> Option<u16> {
        self.ready_url.as_deref()?.parse::<hyper::Uri>().ok()?.port_u16()
    }
}

/// One of our own controllers, run on the host beside the control plane.
#[derive(Clone, Debug, Default)]
pub struct ControllerSpec {
    /// The name it is stopped and started by, such as `core` or `driver`.
    pub name: String,
    /// The binary.
    pub binary: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment; `KUBECONFIG` and PATH are added, nothing else is inherited.
    pub env: BTreeMap<String, String>,
    /// The kubeconfig it runs with, as from [`crate::Cluster::kubeconfig_for`].
    pub kubeconfig: PathBuf,
    /// An address that answers 200 once it is ready; without one it counts as started once it runs.
    pub ready_url: Option<String>,
}

impl ControllerSpec {
    /// The command, with its log in the given folder.
    pub(crate) fn into_command(mut self, logs: &std::path::Path) -> CommandSpec {
        self.env.insert("KUBECONFIG".into(), self.kubeconfig.to_string_lossy().into_owned());
        let log = logs.join(format!("{}.log", self.name));
        CommandSpec {
            name: self.name,
            program: self.binary,
            args: self.args,
            env: self.env,
            log,
            ready_url: self.ready_url,
            ready_text: None,
        }
    }
}
