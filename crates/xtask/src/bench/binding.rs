//! How the core binds N waiting claims to N static addresses.

use std::net::Ipv4Addr;
use std::time::Instant;

use anyhow::{Context as _, Result};
use api::address::AddressPhase;
use api::claim::ClaimPhase;
use api::{IPAddress, IPAddressClaim, IPAddressClass, Ip};
use devcluster::{Cluster, Controller, Controllers, Options, RunOptions};
use kube::api::{Api, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::json;

use super::load::object;
use super::meter::rounded;
use super::{load, meter};

/// N static addresses and N claims made with the controller stopped, then started; then all claims deleted.
#[derive(clap::Args)]
pub(super) struct Args {
    /// How many claims.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    claims: u32,
}

impl Args {
    pub(super) async fn run(self) -> Result<()> {
        let count = self.claims as usize;
        let controllers = Controllers::build(true).await?;
        // Neither MetalLB nor an audit log: what is measured is the core and the API server it writes to.
        let options = Options {
            metallb: false,
            apiserver_args: vec!["--audit-log-path=".into()],
            ..Options::default()
        };
        let cluster = Cluster::start(options).await?;
        cluster.install_chart(Controller::Core, &[]).await?;
        let client = cluster.admin();
        eprintln!("making {count} addresses and {count} claims");
        let addresses: Api<IPAddress> = Api::all(client.clone());
        let claims: Api<IPAddressClaim> = Api::namespaced(client.clone(), "tenant");
        load::namespace(&client, "tenant").await?;
        let class: IPAddressClass =
            object("IPAddressClass", "bench", json!({ "provisioner": "bench.example" }))?;
        Api::all(client.clone()).create(&PostParams::default(), &class).await?;
        load::create_all(&addresses, (0..self.claims).map(address).collect::<Result<_>>()?).await?;
        load::create_all(&claims, (0..self.claims).map(claim).collect::<Result<_>>()?).await?;

        eprintln!("binding");
        let before = meter::writes(&client).await?;
        let started = Instant::now();
        let core = cluster.run_controller(&controllers, Controller::Core, RunOptions::default()).await?;
        let pid = core.pid().context("the controller has ended")?;
        // The youngest is looked for first: a watch of all meanwhile would cost the API server more than the core does.
        let youngest = claim_name(self.claims.saturating_sub(1));
        let bound =
            |claim: Option<&IPAddressClaim>| claim.is_some_and(|claim| claim.phase() == ClaimPhase::Bound);
        await_condition(claims.clone(), &youngest, bound).await?;
        load::all(&claims, "bound claims", count, |claim| claim.phase() == ClaimPhase::Bound).await?;
        load::all(&addresses, "bound addresses", count, |address| address.phase() == AddressPhase::Bound)
            .await?;
        let seconds = started.elapsed().as_secs_f64();
        let cpu = meter::cpu_seconds(pid)?;
        let requests = meter::difference(&before, &meter::writes(&client).await?);
        let writes: u64 = requests.values().sum();

        eprintln!("bound in {seconds:.2} s with {cpu:.2} CPU s; reclaiming");
        let started = Instant::now();
        load::delete_all(&claims, (0..self.claims).map(claim_name).collect()).await?;
        load::all(&claims, "claims", 0, |_| true).await?;
        load::all(&addresses, "released addresses", count, |address| {
            address.phase() == AddressPhase::Released
        })
        .await?;
        let reclaim_seconds = started.elapsed().as_secs_f64();
        let line = json!({
            "bench": "binding",
            "n": count,
            "seconds": rounded(seconds),
            "cpu_s": rounded(cpu),
            "cpu_ms_per_claim": rounded(cpu * 1000.0 / f64::from(self.claims)),
            "rss_mb": rounded(meter::peak_rss_mb(pid)?),
            "writes_per_claim": rounded(f64::from(u32::try_from(writes)?) / f64::from(self.claims)),
            "requests": requests,
            "reclaim_seconds": rounded(reclaim_seconds),
            "reclaim_cpu_s": rounded(meter::cpu_seconds(pid)? - cpu),
        });
        println!("{line}");
        Ok(())
    }
}

fn address(number: u32) -> Result<IPAddress> {
    // 198.18.0.0/15 is set aside for benchmarks.
    let ip = Ip::from(Ipv4Addr::from(0xc612_0000 + number));
    let spec = json!({ "className": "bench", "address": ip.to_string(), "source": { "fromClass": {} } });
    object("IPAddress", ip.object_name().as_str(), spec)
}

fn claim_name(number: u32) -> String {
    format!("claim-{number:05}")
}

fn claim(number: u32) -> Result<IPAddressClaim> {
    object("IPAddressClaim", &claim_name(number), json!({ "className": "bench" }))
}
