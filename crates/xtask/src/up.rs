//! `cargo xtask up`, `stop`, `start`, `down`: a control plane that stays, with the project on it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use devcluster::{Cluster, Controller, Controllers, DashboardOptions, Options, RunOptions, workspace};

/// The folder a cluster lives in.
#[derive(clap::Args)]
struct Folder {
    /// The cluster's folder: state.json, logs, kubeconfig, data.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

impl Folder {
    fn path(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| workspace().join(".dev/cluster"))
    }

    async fn attach(&self) -> Result<Cluster> {
        let path = self.path();
        Cluster::attach(&path)
            .await
            .with_context(|| format!("no cluster in {}; start one with: cargo xtask up", path.display()))
    }
}

fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Runtime::new()?.block_on(future)
}

/// Starts a control plane with all charts installed, and both controllers and the dashboard running, and leaves it running.
#[derive(clap::Args)]
pub(crate) struct Up {
    #[command(flatten)]
    folder: Folder,
}

impl Up {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let dir = self.folder.path();
            if runs(&dir).await {
                bail!("a cluster runs in {} already; end it with: cargo xtask down", dir.display());
            }
            let controllers = Controllers::build(false).await?;
            let options = Options { dir: Some(dir), detached: true, ..Options::default() };
            let cluster = Cluster::start(options).await?;
            cluster.install_charts(&[], &[]).await?;
            for controller in [Controller::Core, Controller::Driver] {
                cluster.run_controller(&controllers, controller, RunOptions::default()).await?;
            }
            cluster.install_dashboard(&[]).await?;
            let dashboard = cluster.run_dashboard(&controllers, DashboardOptions::default()).await?;
            println!("# dashboard: {}/", dashboard.url);
            println!("export KUBECONFIG={}", cluster.admin_kubeconfig().display());
            Ok(())
        })
    }
}

async fn runs(dir: &Path) -> bool {
    match Cluster::attach(dir).await {
        Ok(cluster) => {
            let running = |name: &String| cluster.process(name).is_ok_and(|process| process.is_running());
            cluster.part_names().iter().any(running)
        }
        Err(_) => false,
    }
}

/// Ends one part of the running cluster.
#[derive(clap::Args)]
pub(crate) struct Stop {
    /// etcd, apiserver, controller-manager, metallb, core, driver or dashboard.
    part: String,
    #[command(flatten)]
    folder: Folder,
}

impl Stop {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async { Ok(self.folder.attach().await?.stop(&self.part).await?) })
    }
}

/// Starts one part of the running cluster again, as it was.
#[derive(clap::Args)]
pub(crate) struct Start {
    /// etcd, apiserver, controller-manager, metallb, core, driver or dashboard.
    part: String,
    #[command(flatten)]
    folder: Folder,
}

impl Start {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async { Ok(self.folder.attach().await?.start_part(&self.part).await?) })
    }
}

/// Ends the running cluster.
#[derive(clap::Args)]
pub(crate) struct Down {
    #[command(flatten)]
    folder: Folder,
}

impl Down {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async { Ok(self.folder.attach().await?.down().await?) })
    }
}
