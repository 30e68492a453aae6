//! What a client sees when one Service takes an address over from another: for how long nobody answers.

mod scene;

use std::time::Duration;

use anyhow::Result;
use devcluster::traffic::{Outage, Report};
use devcluster::{Cluster, Controller, Controllers, Network, Options, Process, RunOptions, binaries};
use serde_json::json;

use super::meter::spread;
use scene::{Flip, Scene};

/// N times each: the claim moves from one Service to another, a waiting Service takes over (by overlap and by a gap), and beside
/// it MetalLB without this project: a Service is deleted and another made with a pin. Needs root, or `unshare --user
/// --map-root-user` before it.
#[derive(clap::Args)]
pub(super) struct Args {
    /// How often each.
    #[arg(long, value_name = "N", default_value_t = 50)]
    runs: u32,
    /// Take MetalLB as it is, with a client that asks for at most 20 changes a second (until v0.15).
    #[arg(long)]
    throttled: bool,
    /// Measure only the ways whose names have this in them.
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// Let another Service change 20 times a second meanwhile, so that kube-proxy syncs as often as it can.
    #[arg(long)]
    busy: bool,
    /// Run the controllers of this folder, each by its name, and build none.
    #[arg(long, value_name = "FOLDER")]
    binaries: Option<std::path::PathBuf>,
    /// The folder for the logs of every part; a temporary one without it.
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
}

/// What is measured: how the driver hands over, and how the Services change.
const PARTS: [(&str, Option<&str>, Flip); 5] = [
    ("plain MetalLB, deleted and made anew", None, Flip::Anew),
    ("overlap, claim moved", Some("auto"), Flip::Moved),
    ("overlap, waiting Service", Some("auto"), Flip::Waiting),
    ("gap, claim moved", Some("gap"), Flip::Moved),
    ("gap, waiting Service", Some("gap"), Flip::Waiting),
];

impl Args {
    pub(super) fn run(self) -> Result<()> {
        let options = Options {
            metallb_unthrottled: !self.throttled,
            dir: self.dir.clone(),
            apiserver_args: vec!["--audit-log-path=".into()],
            ..Options::default()
        };
        // From inside nothing can be fetched.
        let controllers = tokio::runtime::Runtime::new()?.block_on(async {
            binaries::ensure_for_network(&options).await?;
            Controllers::of(self.binaries.as_deref(), true).await
        })?;
        let network = Network::create()?;
        let options = Options { network: Some(network.clone()), ..options };
        network.runtime()?.block_on(self.measure(&network, options, &controllers))
    }

    async fn measure(&self, network: &Network, options: Options, controllers: &Controllers) -> Result<()> {
        let cluster = Cluster::start(options).await?;
        cluster.install_charts(&[], &[]).await?;
        cluster.run_controller(controllers, Controller::Core, RunOptions::default()).await?;
        let mut scene = Scene::set(&cluster, network).await?;
        if self.busy {
            scene::keep_busy(&cluster).await?;
        }
        let mut driver: Option<(Process, &str)> = None;
        let only = self.only.as_deref().unwrap_or_default();
        for (name, handoff, flip) in PARTS.into_iter().filter(|(name, ..)| name.contains(only)) {
            if driver.as_ref().map(|(_, handoff)| *handoff) != handoff {
                if let Some((process, _)) = driver.take() {
                    process.stop().await;
                }
                if let Some(handoff) = handoff {
                    let args = vec![format!("--handoff={handoff}")];
                    let options = RunOptions { args, ..RunOptions::default() };
                    let process = cluster.run_controller(controllers, Controller::Driver, options).await?;
                    driver = Some((process, handoff));
                }
            }
            eprintln!("{name}");
            self.tell(name, &mut scene, flip).await?;
        }
        Ok(())
    }

    async fn tell(&self, name: &str, scene: &mut Scene, flip: Flip) -> Result<()> {
        scene.begin(flip).await?;
        let (mut outages, mut between, mut reports) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..self.runs {
            let taken = scene.flip(flip, run).await?;
            outages.push(total(&taken.seen));
            between.push(taken.between);
            reports.push(taken.seen);
        }
        let line = scene.end().await?;
        let line = json!({
            "bench": "cutover",
            "way": name,
            "metallb": if self.throttled { "v0.15.2 as released" } else { "v0.15.2, client not held back" },
            "busy": self.busy,
            "runs": self.runs,
            "runs_without_outage": outages.iter().filter(|outage| outage.is_zero()).count(),
            "outage_ms": spread(outages),
            "failed_requests": reports.iter().map(Report::failed).sum::<usize>(),
            "requests": reports.iter().map(|report| report.samples.len()).sum::<usize>(),
            "between_statuses_ms": spread(between),
            "long_connection": line.to_string(),
        });
        println!("{line}");
        Ok(())
    }
}

/// For how long nobody answered, all in all.
fn total(seen: &Report) -> Duration {
    seen.outages().iter().map(Outage::length).sum()
}
