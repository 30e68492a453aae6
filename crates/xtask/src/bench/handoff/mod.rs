//! How addresses go from their holds to N Services, and back.

mod laps;
mod scene;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use api::address::Handoff;
use devcluster::{Cluster, Controllers, Holders, Options, Part, Witness};
use serde_json::{Value, json};

use super::meter::{self, rounded};
use super::rest::Rest;
use laps::Meters;
use scene::Scene;

/// N claims bound and held, N Services that name them, all served, all deleted, all held again.
#[derive(clap::Args)]
pub(super) struct Args {
    /// How many Services.
    #[arg(long, value_name = "N", default_value_t = 500)]
    services: u32,
    /// How many other claims are bound and held meanwhile. The Services then come one after another: each when the
    /// handoff before it is over and MetalLB is at rest again.
    #[arg(long, value_name = "H")]
    holds: Option<u32>,
    /// How many Services come in a second, whether or not the handoffs before them are over and MetalLB is at rest.
    #[arg(long, value_name = "R")]
    rate: Option<f64>,
    /// Take MetalLB as it is, with a client that asks for at most 20 changes a second (until v0.15; k8s 1.30 and newer
    /// make it need one for each Service at each of its walks).
    #[arg(long)]
    throttled: bool,
    /// The folder for the logs of every part; a temporary one without it.
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
}

/// When the next handoff begins.
#[derive(Clone, Copy)]
enum Pace {
    AtOnce,
    AtRest,
    Every(Duration),
}

impl Args {
    fn pace(&self) -> Pace {
        match (self.rate, self.holds) {
            (Some(rate), _) => Pace::Every(Duration::from_secs_f64(1.0 / rate.max(0.001))),
            (None, Some(_)) => Pace::AtRest,
            (None, None) => Pace::AtOnce,
        }
    }

    pub(super) async fn run(self) -> Result<()> {
        let controllers = Controllers::build(true).await?;
        // No audit log: it would cost the API server more than the driver does.
        let options = Options {
            dir: self.dir.clone(),
            metallb_unthrottled: !self.throttled,
            apiserver_args: vec!["--audit-log-path=".into()],
            ..Options::default()
        };
        let cluster = Cluster::start(options).await?;
        cluster.install_charts(&[], &[]).await?;
        let meters = Meters::start(&cluster, &controllers).await?;
        let (services, holds, pace) = (self.services, self.holds.unwrap_or(0), self.pace());

        eprintln!("binding {} claims", services + holds);
        let lap = meters.lap().await?;
        let rest = Rest::of(cluster.process(Part::Metallb)?.log_path().to_owned());
        let scene = Scene::set(&cluster, services, holds, rest).await?;
        let bind = meters.end(&lap).await?;

        eprintln!("bound and held in {:.2} s; making {services} Services", bind.seconds);
        let mut witness = Witness::start(cluster.admin()).await?;
        let lap = meters.lap().await?;
        let asked = scene.change(pace, true).await?;
        let associate = meters.end(&lap).await?;
        let mut ledger = scene.handoffs().await?;

        eprintln!("served in {:.2} s; deleting them", associate.seconds);
        let lap = meters.lap().await?;
        let deleted = scene.change(pace, false).await?;
        let disassociate = meters.end(&lap).await?;
        ledger.extend(scene.handoffs().await?);

        let timelines = witness.timelines().await?;
        let both = associate.and(&disassociate);
        let line = json!({
            "bench": "handoff",
            "n": services,
            "holds": holds,
            "throttled": self.throttled,
            "bind": bind.told(services + holds),
            "associate": associate.told(services),
            "disassociate": disassociate.told(services),
            "both": both.told(services),
            "annotation_to_ip_ms": meter::spread(scene.waits(&asked.at, &timelines, true)?),
            "deletion_to_hold_ms": meter::spread(scene.waits(&deleted.at, &timelines, false)?),
            "metallb_at_work_ms": { "associate": meter::spread(asked.work), "disassociate": meter::spread(deleted.work) },
            "unheld_ms": { "ledger": told_unheld(&ledger)?, "watch": seen_unheld(&scene, &timelines) },
            "rss_mb": rounded(meter::peak_rss_mb(meters.driver.pid)?),
        });
        println!("{line}");
        Ok(())
    }
}

/// What the ledger says about how long nobody had an address.
fn told_unheld(ledger: &[Handoff]) -> Result<Value> {
    let told = |handoff: &Handoff| {
        let milliseconds =
            handoff.unheld_milliseconds.context("a finished handoff without unheldMilliseconds")?;
        Ok(Duration::from_millis(u64::try_from(milliseconds)?))
    };
    Ok(meter::spread(ledger.iter().map(told).collect::<Result<_>>()?))
}

/// How long the statuses of all Services showed an address of ours nowhere.
fn seen_unheld(scene: &Scene, timelines: &BTreeMap<String, Vec<Holders>>) -> Value {
    let now = Instant::now();
    let gaps = |ip: String| {
        let line = timelines.get(&ip).map(Vec::as_slice).unwrap_or_default();
        let until = line.iter().skip(1).map(|next| next.at).chain([now]);
        let gap = |(holders, until): (&Holders, Instant)| {
            holders.services.is_empty().then(|| until.duration_since(holders.at))
        };
        line.iter().zip(until).filter_map(gap).sum::<Duration>()
    };
    meter::spread(scene.ips().map(gaps).collect())
}
