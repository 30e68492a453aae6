//! The commands of the driver's binary that an admin runs once.

use std::path::Path;
use std::process::Stdio;

use devcluster::Controller;

use super::Rig;

/// What a command said, and how it ended.
#[derive(Clone, Debug)]
pub struct Said {
    /// Whether it ended with exit code 0.
    pub well: bool,
    /// The lines of its standard output.
    pub lines: Vec<String>,
    /// Its standard error.
    pub error: String,
}

impl Said {
    /// Its lines, if it ended well.
    pub fn lines(&self) -> Vec<&str> {
        assert!(self.well, "{self:#?}");
        self.lines.iter().map(String::as_str).collect()
    }

    /// Its standard error, if it was refused with the exit code 1.
    pub fn refused(&self) -> &str {
        assert!(!self.well, "{self:#?}");
        &self.error
    }
}

impl Rig {
    /// Runs `metallb-iad ARGS` as the administrator.
    pub async fn errand(&self, args: &[&str]) -> Said {
        self.errand_as(&self.cluster.admin_kubeconfig(), args).await
    }

    /// Runs `metallb-iad ARGS` as who is in a kubeconfig.
    pub async fn errand_as(&self, kubeconfig: &Path, args: &[&str]) -> Said {
        let mut command = tokio::process::Command::new(self.controllers.binary(Controller::Driver));
        command.args(args).arg("--kubeconfig").arg(kubeconfig);
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let said = Said {
            well: output.status.success(),
            lines: text(&output.stdout).lines().map(str::to_owned).collect(),
            error: text(&output.stderr),
        };
        // Kept for the documentation, and for who reads a failed test.
        println!("$ metallb-iad {}\n{}{}", args.join(" "), text(&output.stdout), said.error);
        assert!(said.well || output.status.code() == Some(1), "{:?}: {said:#?}", output.status);
        said
    }
}
