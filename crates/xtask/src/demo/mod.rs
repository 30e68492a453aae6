//! `cargo demo`: the flagship flow, told step by step with the real objects, on a real control plane, contended.

mod scene;
mod story;
mod trace;
mod traffic;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result};
use devcluster::{Cluster, Controller, Controllers, DashboardOptions, Options, RunOptions};

use scene::Scene;

/// Shows the whole promise on a real control plane: an address is reserved, handed to a Service, kept when that is
/// deleted, and handed to the next, while others wait to take it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// End when the story is told: with 0 only if every step held.
    #[arg(long)]
    pub(crate) exit: bool,
    /// Run the programs of this folder, each by its name, and build none.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) binaries: Option<PathBuf>,
    /// Install the packaged charts of this folder, NAME-VERSION.tgz, and not those of this tree.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) charts: Option<PathBuf>,
    /// Run Jaeger too, and show the trace of each handoff.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Show it with packets instead: requests a second by who answers them, while the workload behind the address is rebuilt.
    /// Needs root, or `unshare --user --map-root-user` before it.
    #[arg(long, conflicts_with = "trace")]
    pub(crate) traffic: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        if self.traffic {
            return traffic::run(&self);
        }
        tokio::runtime::Runtime::new()?.block_on(self.tell())
    }

    async fn tell(self) -> Result<()> {
        let started = Instant::now();
        println!("== a real control plane: etcd, kube-apiserver, kube-controller-manager, MetalLB");
        println!(
            "   (built from source at first use, which takes about 20 minutes on 2 cores; then seconds)"
        );
        let controllers = Controllers::of(self.binaries.as_deref(), false).await?;
        let options = Options { charts: self.charts.clone(), ..Options::default() };
        let cluster = Cluster::start(options).await?;
        cluster.install_charts(&[], &[]).await?;
        let jaeger = if self.trace { Some(cluster.run_jaeger().await?) } else { None };
        for controller in [Controller::Core, Controller::Driver] {
            let env = jaeger.as_ref().map(trace::variables).unwrap_or_default();
            let options = RunOptions { env, ..RunOptions::default() };
            cluster.run_controller(&controllers, controller, options).await?;
        }
        cluster.install_dashboard(&[]).await?;
        let args = jaeger.as_ref().map(|jaeger| format!("--trace-url-template={}", jaeger.url("{trace_id}")));
        let options = DashboardOptions { args: args.into_iter().collect(), ..DashboardOptions::default() };
        let dashboard = cluster.run_dashboard(&controllers, options).await?;
        println!("   up after {:.0} s, all charts installed by helm", started.elapsed().as_secs_f32());
        println!("   watch it in a browser: {}/\n", dashboard.url);

        let mut scene = Scene::set(&cluster, jaeger).await?;
        let told = story::tell(&mut scene).await;
        keep_if_failed(&cluster, &told);
        if !self.exit {
            stay(&cluster, &dashboard.url).await?;
        }
        told.context("a step of the story did not hold")
    }
}

/// Leaves the logs of every part where they are if a story did not hold, and says where.
fn keep_if_failed(cluster: &Cluster, told: &Result<()>) {
    if let Err(error) = told {
        cluster.keep();
        println!("\nFAILED: {error:#}\nlogs of every part: {}", cluster.run_dir().display());
    }
}

async fn stay(cluster: &Cluster, dashboard: &str) -> Result<()> {
    let kubeconfig = cluster.admin_kubeconfig();
    println!(
        "\nThe cluster stays up until Ctrl-C, and so does the dashboard: {dashboard}/\n\
         Try, in another terminal:\n\
         \n  export KUBECONFIG={}\
         \n  kubectl get ipaddresses.local.sdn.cozystack.io,ipaddressclaims.local.sdn.cozystack.io,services -A\
         \n  kubectl -n tenant describe service web-b\
         \n  kubectl -n tenant annotate service web-b local.sdn.cozystack.io/ip-address-claim-\
         \n  kubectl -n {} delete services --all   # every hold comes back\n",
        kubeconfig.display(),
        Controller::Driver.namespace(),
    );
    tokio::signal::ctrl_c().await.context("waiting for Ctrl-C")
}
