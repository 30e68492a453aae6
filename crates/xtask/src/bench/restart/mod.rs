//! How a controller starts in a fleet that is at rest: how soon it decides, and how much memory and CPU it takes.

mod chart;
mod fleet;
mod standin;
mod subject;

use anyhow::{Result, ensure};
use devcluster::{Cluster, Controller, Controllers, Options};
use serde_json::{Value, json};

use fleet::Fleet;
use subject::Subject;

/// Fleets of N claims, N addresses bound to them and N placeholders that hold them, made by hand as a driver and MetalLB
/// leave them. Both controllers write what is still missing; then each is started once more, and has nothing to do but to
/// see that. One cluster, which grows from size to size.
#[derive(clap::Args)]
pub(super) struct Args {
    /// How many holds; each size is measured in turn.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [2_000, 6_667, 10_000])]
    holds: Vec<u32>,
    /// How many times each controller is started again; the middle one counts in the chart.
    #[arg(long, value_name = "N", default_value_t = 3)]
    times: u32,
    /// How many of the addresses then go to Services and come back, all at once. A stand-in does MetalLB's part.
    #[arg(long, value_name = "N", default_value_t = 500)]
    handoffs: u32,
    /// Record the lines in docs/memory.jsonl and draw docs/memory.svg from them.
    #[arg(long)]
    record: bool,
    /// Measure nothing: draw docs/memory.svg from the lines recorded.
    #[arg(long, conflicts_with = "record")]
    draw: bool,
    /// The folder for the logs of every part; a temporary one without it.
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
}

impl Args {
    pub(super) async fn run(mut self) -> Result<()> {
        if self.draw {
            return chart::draw();
        }
        self.holds.sort_unstable();
        let controllers = Controllers::build(true).await?;
        // MetalLB has no part in this: the placeholders show their addresses already.
        let options = Options {
            dir: self.dir.clone(),
            metallb: false,
            apiserver_args: vec!["--audit-log-path=".into()],
            ..Options::default()
        };
        let cluster = Cluster::start(options).await?;
        cluster.install_charts(&[], &[]).await?;
        let fleet = Fleet::of(&cluster).await?;
        let (mut lines, mut have) = (Vec::new(), 0);
        for holds in self.holds.clone() {
            eprintln!("making claims, addresses and placeholders: {have} to {holds}");
            fleet.grow(have..holds).await?;
            have = holds;
            settle(&cluster, &controllers, holds).await?;
            self.measure(&cluster, &controllers, holds, &mut lines).await?;
            if self.handoffs > 0 {
                let line = fleet.hand_over(&cluster, &controllers, self.handoffs.min(holds), holds).await?;
                println!("{line}");
                lines.push(line);
            }
        }
        if self.record { chart::record(&lines) } else { Ok(()) }
    }

    async fn measure(
        &self,
        cluster: &Cluster,
        controllers: &Controllers,
        holds: u32,
        lines: &mut Vec<Value>,
    ) -> Result<()> {
        for controller in [Controller::Core, Controller::Driver] {
            for _ in 0..self.times {
                let subject = Subject::start(cluster, controllers, controller).await?;
                let mut line = subject.told(objects(controller, holds)).await?;
                subject.stop().await;
                line["bench"] = json!("restart");
                line["controller"] = json!(controller.part());
                line["holds"] = json!(holds);
                line["objects"] = json!(objects(controller, holds));
                println!("{line}");
                ensure!(line["writes"] == 0, "the fleet was not at rest: a controller that started wrote");
                lines.push(line);
            }
        }
        Ok(())
    }
}

/// How many objects a controller knows: a claim and an address of each hold, and the driver a placeholder too.
fn objects(controller: Controller, holds: u32) -> u32 {
    match controller {
        Controller::Core => 2 * holds,
        Controller::Driver => 3 * holds,
    }
}

/// Lets each controller write what is missing, until none has anything to write.
async fn settle(cluster: &Cluster, controllers: &Controllers, holds: u32) -> Result<()> {
    for controller in [Controller::Core, Controller::Driver, Controller::Core] {
        eprintln!("the {} makes everything as it is to be", controller.part());
        let subject = Subject::start(cluster, controllers, controller).await?;
        eprintln!("{}", subject.told(objects(controller, holds)).await?);
        subject.stop().await;
    }
    Ok(())
}
