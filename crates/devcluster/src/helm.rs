//! Installing charts with helm.

use std::process::{Output, Stdio};

use crate::cluster::Cluster;
use crate::{Component, Error, Result, binaries};

impl Cluster {
    /// Runs helm as the administrator, with its homes inside the run folder. An exit other than 0 is an error that
    /// carries what helm wrote. Built at its first use.
    pub async fn helm(&self, args: &[&str]) -> Result<Output> {
        let home = self.run_dir().join("helm");
        let mut command = tokio::process::Command::new(binaries::ensure(Component::Helm).await?);
        command
            .args(args)
            .env("KUBECONFIG", self.admin_kubeconfig())
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_DATA_HOME", home.join("data"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = command.output().await.map_err(Error::io("running helm"))?;
        if output.status.success() {
            return Ok(output);
        }
        Err(Error::Helm {
            args: args.join(" "),
            status: output.status.to_string(),
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }
}
