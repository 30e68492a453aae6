//! Two Services with a workload each, and a client at the address that one of them has.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use api::IPAddressClaim;
use api::claim::ClaimPhase;
use api::wellknown::{CLAIM, metallb};
use devcluster::traffic::{Line, Report, Traffic, Workload};
use devcluster::{Cluster, Holders, Network, Witness};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::json;

use super::super::load::{self, object};

const TENANT: &str = "tenant";
const NAMES: [&str; 2] = ["blue", "green"];
const CLAIM_NAME: &str = "web-ip";
/// The address that is pinned where this project does not run; nobody claims it.
const PINNED: &str = "203.0.113.14";
/// How long the control plane is left alone before a Service takes over: longer than a sync of kube-proxy.
const REST: Duration = Duration::from_millis(1200);
/// How often the Service changes that keeps kube-proxy busy.
const CHANGES_EVERY: Duration = Duration::from_millis(50);
/// How long anything may take.
const WITHIN: Duration = Duration::from_secs(120);

/// How one Service takes over from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flip {
    /// The claim is taken off the one and put on the other, by two edits one after the other.
    Moved,
    /// The other names the claim already; it is taken off the one.
    Waiting,
    /// The one is deleted, the other made with a pin to the same address.
    Anew,
}

/// One Service has taken over.
pub(super) struct Taken {
    /// What the client saw.
    pub(super) seen: Report,
    /// From the status of the one losing the address to the status of the other showing it.
    pub(super) between: Duration,
}

pub(super) struct Scene {
    network: Network,
    services: Api<Service>,
    claims: Api<IPAddressClaim>,
    witness: Witness,
    traffic: Option<Traffic>,
    ip: String,
    /// Which of the two has the address.
    at: usize,
    _workloads: Vec<Workload>,
}

impl Scene {
    pub(super) async fn set(cluster: &Cluster, network: &Network) -> Result<Self> {
        let client = cluster.admin();
        load::class(cluster, "bench", "203.0.113.0/28").await?;
        load::namespace(&client, TENANT).await?;
        let mut workloads = Vec::new();
        for name in NAMES {
            workloads.push(cluster.run_workload(TENANT, name, &[name]).await?);
        }
        Ok(Self {
            network: network.clone(),
            services: Api::namespaced(client.clone(), TENANT),
            claims: Api::namespaced(client.clone(), TENANT),
            witness: Witness::start(client).await?,
            traffic: None,
            ip: PINNED.to_owned(),
            at: 0,
            _workloads: workloads,
        })
    }

    /// Makes the Services as they are to begin with, and begins to ask.
    pub(super) async fn begin(&mut self, flip: Flip) -> Result<()> {
        self.at = 0;
        PINNED.clone_into(&mut self.ip);
        match flip {
            Flip::Anew => self.make(0, json!({ metallb::PIN: PINNED })).await?,
            Flip::Moved | Flip::Waiting => {
                self.ip = self.claim().await?;
                self.make(0, json!({ CLAIM: CLAIM_NAME })).await?;
                self.make(1, json!({})).await?;
            }
        }
        self.traffic = Some(Traffic::start(&self.network, self.ip.parse().context("the IP")?)?);
        self.steady().await
    }

    /// Lets the other Service take over, when all is at rest; in each run at another moment of kube-proxy's time.
    pub(super) async fn flip(&mut self, flip: Flip, run: u32) -> Result<Taken> {
        let (from, to) = (self.at, 1 - self.at);
        if flip != Flip::Anew {
            // A new object, as for a new release: MetalLB's events about one that it refused often are dropped, and by gap the
            // driver waits for such an event.
            self.delete(to).await?;
            let named = flip == Flip::Waiting;
            self.make(to, if named { json!({ CLAIM: CLAIM_NAME }) } else { json!({}) }).await?;
        }
        tokio::time::sleep(REST + Duration::from_millis(u64::from(run * 137 % 1000))).await;
        // What was asked until now was answered, and is not of this.
        self.seen();
        match flip {
            Flip::Moved => {
                self.name_claim(from, false).await?;
                self.name_claim(to, true).await?;
            }
            Flip::Waiting => self.name_claim(from, false).await?,
            Flip::Anew => {
                self.services.delete(NAMES[from], &DeleteParams::default()).await?;
                self.make(to, json!({ metallb::PIN: PINNED })).await?;
            }
        }
        self.at = to;
        self.steady().await?;
        let timeline = self.witness.timeline(&self.ip).await?;
        Ok(Taken { seen: self.seen(), between: between(&timeline, from, to)? })
    }

    /// Ends the asking and takes the Services away; what became of the long connection.
    pub(super) async fn end(&mut self) -> Result<Line> {
        let report = self.traffic.take().context("nothing was asked")?.stop().await?;
        for number in 0..NAMES.len() {
            self.delete(number).await?;
        }
        Ok(report.line)
    }

    /// Deletes a Service if it is there, and waits until it is gone.
    async fn delete(&self, number: usize) -> Result<()> {
        let name = NAMES[number];
        if self.services.get_opt(name).await?.is_some() {
            self.services.delete(name, &DeleteParams::default()).await?;
        }
        let gone = |service: Option<&Service>| service.is_none();
        await_condition(self.services.clone(), name, gone).await?;
        Ok(())
    }

    async fn claim(&self) -> Result<String> {
        if self.claims.get_opt(CLAIM_NAME).await?.is_none() {
            let claim: IPAddressClaim =
                object("IPAddressClaim", CLAIM_NAME, json!({ "className": "bench" }))?;
            self.claims.create(&PostParams::default(), &claim).await?;
        }
        let bound =
            |claim: Option<&IPAddressClaim>| claim.is_some_and(|claim| claim.phase() == ClaimPhase::Bound);
        let claim = await_condition(self.claims.clone(), CLAIM_NAME, bound).await?;
        let status = claim.and_then(|claim| claim.status).unwrap_or_default();
        Ok(status.addresses.into_iter().next().context("a bound claim without an address")?.address)
    }

    async fn make(&self, number: usize, annotations: serde_json::Value) -> Result<()> {
        let name = NAMES[number];
        let service: Service = serde_json::from_value(json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "type": "LoadBalancer", "selector": { "app": name }, "ports": [{ "port": 80 }] },
        }))?;
        self.services.create(&PostParams::default(), &service).await?;
        Ok(())
    }

    async fn name_claim(&self, number: usize, named: bool) -> Result<()> {
        let claim = named.then_some(CLAIM_NAME);
        let patch = json!({ "metadata": { "annotations": { CLAIM: claim } } });
        self.services.patch(NAMES[number], &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Waits until nobody but the workload of the Service that has the address answers.
    async fn steady(&self) -> Result<()> {
        let workload = format!("{TENANT}/{}", NAMES[self.at]);
        let traffic = self.traffic.as_ref().context("nothing is asked")?;
        let deadline = Instant::now() + WITHIN;
        while !traffic.is_steady(&workload) {
            if Instant::now() > deadline {
                bail!("waited {} s for {workload} to answer at {}", WITHIN.as_secs(), self.ip);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// What the client saw since this was asked last.
    fn seen(&mut self) -> Report {
        let mut samples = self.traffic.as_mut().map(Traffic::news).unwrap_or_default();
        samples.sort_by_key(|sample| sample.due);
        Report { samples, line: Line::default() }
    }
}

/// From the last change at which the one lost the address to the next at which the other had it.
fn between(timeline: &[Holders], from: usize, to: usize) -> Result<Duration> {
    let [from, to] = [from, to].map(|number| format!("{TENANT}/{}", NAMES[number]));
    let had = timeline.iter().rposition(|holders| holders.services.contains(&from));
    let lost = timeline.get(had.context("nobody had the address")? + 1).context("it was not lost")?;
    let has = timeline.iter().filter(|holders| holders.at >= lost.at);
    let has = has.into_iter().find(|holders| holders.services.contains(&to)).context("nobody took over")?;
    Ok(has.at.duration_since(lost.at))
}

/// Changes a Service that has nothing to do with anything again and again, until the program ends.
pub(super) async fn keep_busy(cluster: &Cluster) -> Result<()> {
    let services: Api<Service> = Api::namespaced(cluster.admin(), TENANT);
    let service = json!({ "metadata": { "name": "busy" }, "spec": { "ports": [{ "port": 8000 }] } });
    services.create(&PostParams::default(), &serde_json::from_value(service)?).await?;
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(CHANGES_EVERY);
        for port in (8000..9000).cycle() {
            ticks.tick().await;
            let patch = json!({ "spec": { "ports": [{ "port": port }] } });
            let patched = services.patch("busy", &PatchParams::default(), &Patch::Merge(patch)).await;
            if let Err(error) = patched {
                eprintln!("the Service that is to change did not: {error}");
            }
        }
    });
    Ok(())
}
