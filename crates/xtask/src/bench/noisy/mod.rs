//! What one tenant's rubbish costs another tenant: handoffs before, while it is made, and when it lies there.

mod pins;
mod rubbish;
mod tenant;

use std::time::Duration;

use anyhow::Result;
use devcluster::{Cluster, Controller, Controllers, Options, Part, Process, RunOptions};
use serde_json::json;

use super::meter::{self, cpu_seconds, rounded};
use super::rest::Rest;
use rubbish::{Kinds, Rubbish};
use tenant::{Laps, Lull, Tenant};

/// How long one handoff is after another with `--at-rest`, while others are at work.
const PAUSE: Duration = Duration::from_secs(2);

/// One tenant makes claims that can never be bound, and Services that can never have an address; another hands over one address after
/// the other.
#[derive(clap::Args)]
pub(super) struct Args {
    /// How many objects the noisy tenant makes, half of them claims and half Services.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    objects: usize,
    /// How many handoffs the other tenant has before, and when all of them are there.
    #[arg(long, value_name = "H", default_value_t = 20)]
    handoffs: usize,
    /// Begin each of those, there and back, when MetalLB is at rest, and those in between 2 s after one another.
    #[arg(long)]
    at_rest: bool,
    /// Hand over by MetalLB alone, from one Service that names the IP to another: what it takes with nobody's help.
    #[arg(long)]
    alone: bool,
    /// Let MetalLB and the driver serve only Services of this `spec.loadBalancerClass`, which the other tenant's carry.
    #[arg(long, value_name = "CLASS")]
    lb_class: Option<String>,
    #[command(flatten)]
    kinds: Kinds,
    /// Take the controllers as tests build them, not optimised.
    #[arg(long)]
    unoptimised: bool,
}

impl Args {
    pub(super) async fn run(self) -> Result<()> {
        let controllers = Controllers::build(!self.unoptimised).await?;
        // No audit log: it would cost the API server more than the controllers do.
        let options = Options {
            metallb_unthrottled: true,
            metallb_class: self.lb_class.clone(),
            apiserver_args: vec!["--audit-log-path=".into()],
            ..Options::default()
        };
        let cluster = Cluster::start(options).await?;
        cluster.install_charts(&[], &[]).await?;
        let core = cluster.run_controller(&controllers, Controller::Core, RunOptions::default()).await?;
        let args = self.lb_class.iter().map(|class| format!("--lb-class={class}")).collect();
        let options = RunOptions { args, ..RunOptions::default() };
        let driver = cluster.run_controller(&controllers, Controller::Driver, options).await?;
        let cpu = || Ok::<_, anyhow::Error>((cpu(&core)?, cpu(&driver)?));

        let rest = Rest::of(cluster.process(Part::Metallb)?.log_path().to_owned());
        let (lull, pause) =
            if self.at_rest { (Lull::Rest(&rest), Lull::Pause(PAUSE)) } else { (Lull::None, Lull::None) };
        let tenant = Tenant::settle(&cluster, self.alone, self.lb_class.as_deref()).await?;
        let start = cpu()?;
        let before = tenant.laps(self.handoffs, lull).await?;
        let calm = cpu()?;

        let rubbish = Rubbish::of(&cluster, self.kinds).await?;
        eprintln!("making {} objects", self.objects);
        let mut during = Laps::default();
        let making = rubbish.make(self.objects);
        tokio::pin!(making);
        loop {
            tokio::select! {
                made = &mut making => break made?,
                lap = tenant.lap(pause) => during.push(lap?),
            }
        }
        let made = cpu()?;
        // The lap that was cut off is finished, and what the rubbish leads to is done with.
        tenant.calm().await?;
        rubbish.told(self.objects).await?;
        let told = cpu()?;
        let after = tenant.laps(self.handoffs, lull).await?;
        let end = cpu()?;

        let spent = |from: (f64, f64), to: (f64, f64)| json!({ "core": rounded(to.0 - from.0), "driver": rounded(to.1 - from.1) });
        println!(
            "{}",
            json!({
                "bench": "noisy",
                "objects": self.objects,
                "load_balancers": self.kinds.load_balancers,
                "plain": self.kinds.plain,
                "pace": self.kinds.pace,
                "at_rest": self.at_rest,
                "alone": self.alone,
                "lb_class": self.lb_class,
                "unoptimised": self.unoptimised,
                "before_ms": before.told(),
                "during_ms": during.told(),
                "after_ms": after.told(),
                "cpu_s": {
                    "before": spent(start, calm), "making": spent(calm, made), "telling": spent(made, told),
                    "after": spent(told, end),
                },
                "rss_mb": {
                    "core": rounded(meter::peak_rss_mb(pid(&core)?)?), "driver": rounded(meter::peak_rss_mb(pid(&driver)?)?),
                },
            })
        );
        Ok(())
    }
}

fn pid(process: &Process) -> Result<u32> {
    process.pid().ok_or_else(|| anyhow::anyhow!("{} does not run", process.name()))
}

fn cpu(process: &Process) -> Result<f64> {
    cpu_seconds(pid(process)?)
}
