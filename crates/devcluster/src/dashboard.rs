//! The dashboard on the cluster: its chart installed, its process run with the chart's service account.

use std::path::PathBuf;

use crate::cluster::Cluster;
use crate::process::Process;
use crate::stack::Controllers;
use crate::{Controller, ControllerSpec, Result, ports};

/// The name of the chart, the binary and the service account.
const NAME: &str = "address-dashboard";
/// The namespace its chart is installed in.
const NAMESPACE: &str = "address-dashboard-system";

/// How the dashboard is to run.
#[derive(Clone, Debug, Default)]
pub struct DashboardOptions {
    /// The part's name, by which it is stopped and started; `dashboard` if empty.
    pub name: String,
    /// Further flags.
    pub args: Vec<String>,
    /// The kubeconfig; that of the chart's service account if none, straight to the API server.
    pub kubeconfig: Option<PathBuf>,
}

/// A dashboard that runs.
#[derive(Clone, Debug)]
pub struct Dashboard {
    /// Its process.
    pub process: Process,
    /// Where its pages are, without a slash at the end.
    pub url: String,
}

impl Cluster {
    /// Installs the dashboard's chart by helm, or upgrades it, with further arguments of helm (`--set` …).
    ///
    /// # Errors
    /// What helm said.
    pub async fn install_dashboard(&self, args: &[&str]) -> Result<()> {
        let chart = self.chart(NAME)?;
        let chart = chart.to_string_lossy();
        let mut all =
            vec!["upgrade", "--install", NAME, &chart, "--namespace", NAMESPACE, "--create-namespace"];
        all.extend(args);
        self.helm(&all).await.map(|_| ())
    }

    /// Runs the dashboard with its chart's service account, and waits until it has seen everything once.
    ///
    /// # Errors
    /// When the chart is not installed, or when it ends before it is ready; the message has its last log lines.
    pub async fn run_dashboard(
        &self,
        controllers: &Controllers,
        options: DashboardOptions,
    ) -> Result<Dashboard> {
        let kubeconfig = match options.kubeconfig {
            Some(kubeconfig) => kubeconfig,
            None => self.kubeconfig_for(NAMESPACE, NAME).await?,
        };
        let (port, metrics) = ports::pair()?;
        let url = format!("http://127.0.0.1:{port}");
        let mut args = vec![
            format!("--bind-address=127.0.0.1:{port}"),
            format!("--metrics-bind-address=127.0.0.1:{metrics}"),
            format!("--placeholder-namespace={}", Controller::Driver.namespace()),
        ];
        args.extend(options.args);
        let spec = ControllerSpec {
            name: if options.name.is_empty() { "dashboard".to_owned() } else { options.name },
            binary: controllers.dashboard().to_owned(),
            args,
            kubeconfig,
            ready_url: Some(format!("{url}/readyz")),
            ..ControllerSpec::default()
        };
        let process = self.spawn_controller(spec).await?;
        Ok(Dashboard { process, url })
    }
}
