//! `cargo demo --traffic`: who answers at the address, second by second, while the workload behind it is rebuilt.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use api::wellknown::{CLAIM, metallb};
use devcluster::traffic::{Report, Traffic, Workload};
use devcluster::{Cluster, Controller, Controllers, Network, Options, RunOptions, binaries};
use serde_json::json;

use super::scene::Scene;
use super::{Args, keep_if_failed, story};

const TENANT: &str = "tenant";
const THIEF: &str = "thief";
const CLAIM_NAME: &str = "web-ip";
/// How many seconds a Service may take to be reached.
const WITHIN: u32 = 60;

/// Sets the stage and shows it. What is built is built first: from inside the network nothing can be fetched.
pub(super) fn run(args: &Args) -> Result<()> {
    println!(
        "== a real control plane in a network of its own: etcd, kube-apiserver, kube-controller-manager, MetalLB with its"
    );
    println!(
        "   speaker, kube-proxy; a client that opens a connection every 5 ms, and servers behind the Services"
    );
    let options = Options { charts: args.charts.clone(), ..Options::default() };
    let controllers = tokio::runtime::Runtime::new()?.block_on(async {
        binaries::ensure_for_network(&options).await?;
        Controllers::of(args.binaries.as_deref(), false).await
    })?;
    let network = Network::create()?;
    let options = Options { network: Some(network.clone()), ..options };
    network.runtime()?.block_on(async {
        let cluster = Cluster::start(options).await?;
        cluster.install_charts(&[], &[]).await?;
        for controller in [Controller::Core, Controller::Driver] {
            cluster.run_controller(&controllers, controller, RunOptions::default()).await?;
        }
        let told = tell(&cluster, &network).await;
        keep_if_failed(&cluster, &told);
        told
    })
}

async fn tell(cluster: &Cluster, network: &Network) -> Result<()> {
    let scene = Scene::set(cluster, None).await?;
    scene.claim(CLAIM_NAME).await?;
    let ip = scene.bound(CLAIM_NAME).await?;
    let mut workloads = Vec::<Workload>::new();
    for (namespace, name) in [(TENANT, "blue"), (TENANT, "green"), (THIEF, "grab")] {
        workloads.push(cluster.run_workload(namespace, name, &[name]).await?);
    }
    let mut shown = Shown::begin(network, &ip)?;

    story::step(1, "Service blue names the claim");
    scene.service(TENANT, "blue", json!({ CLAIM: CLAIM_NAME })).await?;
    shown.until("blue").await?;

    story::step(2, "a thief with a server of its own pins a Service to the address, at the same port");
    scene.service(THIEF, "grab", json!({ metallb::PIN: ip })).await?;
    scene.event(THIEF, "grab", "AllocationFailed").await?;
    shown.watch(2).await;

    story::step(3, "Service green is made and names the claim, too: it waits its turn; then blue lets go");
    scene.service(TENANT, "green", json!({ CLAIM: CLAIM_NAME })).await?;
    scene.event(TENANT, "green", "AssociationRejected").await?;
    scene.annotate(TENANT, "blue", json!({ CLAIM: null })).await?;
    shown.until("green").await?;
    shown.watch(2).await;

    story::step(4, "Service green is deleted, with nobody waiting: the address is held, and nobody answers");
    scene.delete_service(TENANT, "green").await?;
    shown.watch(4).await;

    story::step(5, "blue names the claim again");
    scene.annotate(TENANT, "blue", json!({ CLAIM: CLAIM_NAME })).await?;
    shown.until("blue").await?;
    shown.watch(2).await;
    let report = shown.traffic.stop().await?.since_the_first_answer();
    println!("\n== {report}");
    judge(&report)
}

/// No answer was the thief's.
fn judge(report: &Report) -> Result<()> {
    let answers = report.answers();
    let foreign = answers.keys().find(|name| name.starts_with(THIEF));
    ensure!(foreign.is_none(), "{foreign:?} answered at an address that is held for another");
    println!("== whoever answered was the claim's own");
    Ok(())
}

/// A client whose seconds are shown.
struct Shown {
    traffic: Traffic,
}

impl Shown {
    fn begin(network: &Network, ip: &str) -> Result<Self> {
        let ip = ip.parse().context("the IP of the claim")?;
        Ok(Self { traffic: Traffic::start(network, ip)? })
    }

    /// Shows one second.
    async fn second(&mut self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for sample in self.traffic.news() {
            *counts.entry(sample.answer.unwrap_or_else(|_| "nobody".to_owned())).or_default() += 1;
        }
        let counts: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}/s")).collect();
        println!("     {:5.1} s  {}", self.traffic.elapsed().as_secs_f64(), counts.join("  "));
    }

    /// Shows so many seconds.
    async fn watch(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.second().await;
        }
    }

    /// Shows seconds until nobody but this workload of the tenant answers.
    async fn until(&mut self, name: &str) -> Result<()> {
        let workload = format!("{TENANT}/{name}");
        for _ in 0..WITHIN {
            self.second().await;
            if self.traffic.is_steady(&workload) {
                return Ok(());
            }
        }
        bail!("waited {WITHIN} s for {workload} to answer")
    }
}
