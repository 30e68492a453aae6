//! The claims, their addresses, and the Services that come and go.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use api::address::{Handoff, HandoffDirection};
use api::claim::ClaimPhase;
use api::conditions::{find, types};
use api::wellknown::CLAIM;
use api::{IPAddress, IPAddressClaim, Ip};
use devcluster::{Cluster, Holders};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::json;

use super::super::load::{self, AT_ONCE, object};
use super::super::rest::Rest;
use super::Pace;

const TENANT: &str = "tenant";
/// What other claims are named by; no Service comes for them.
const OTHER: &str = "other-";
/// 198.18.0.0/15 is set aside for benchmarks.
const FIRST: u32 = 0xc612_0001;
/// How many addresses of the pool stay free.
const SPARE: u32 = 32;

/// Everything is bound and held.
pub(super) struct Scene {
    claims: Api<IPAddressClaim>,
    addresses: Api<IPAddress>,
    services: Api<Service>,
    /// How many addresses there are.
    count: usize,
    /// The IPs by number of claim and Service.
    ips: Vec<Ip>,
    rest: Rest,
}

/// What was asked for.
pub(super) struct Asked {
    /// When each Service was.
    pub(super) at: Vec<Instant>,
    /// For how long MetalLB was at work for each; nothing where that is not told apart.
    pub(super) work: Vec<Duration>,
}

fn name(number: usize) -> String {
    format!("web-{number:05}")
}

fn is_held(address: &IPAddress) -> bool {
    let held = address.status.as_ref().and_then(|status| find(&status.conditions, types::HELD));
    held.is_some_and(|held| held.status == "True") && address.associated_to().is_none()
}

fn handoff(address: &IPAddress) -> Option<&Handoff> {
    address.status.as_ref()?.last_handoff.as_ref().filter(|handoff| handoff.finished_at.is_some())
}

/// Whether the address went where it was to go, and the ledger has closed the matter.
fn has_gone(address: &IPAddress, forth: bool) -> bool {
    let direction = if forth { HandoffDirection::Associate } else { HandoffDirection::Disassociate };
    handoff(address).is_some_and(|handoff| handoff.direction == direction) && (forth || is_held(address))
}

impl Scene {
    /// Makes the class, its pool and the claims, and waits until all are bound and held.
    pub(super) async fn set(cluster: &Cluster, services: u32, holds: u32, rest: Rest) -> Result<Self> {
        let client = cluster.admin();
        let last = FIRST + services + holds + SPARE - 1;
        let range = format!("{}-{}", Ipv4Addr::from(FIRST), Ipv4Addr::from(last));
        load::class(cluster, "bench", &range).await?;
        load::namespace(&client, TENANT).await?;
        let mut scene = Self {
            claims: Api::namespaced(client.clone(), TENANT),
            addresses: Api::all(client.clone()),
            services: Api::namespaced(client, TENANT),
            count: usize::try_from(services + holds)?,
            ips: Vec::new(),
            rest,
        };
        let named =
            (0..services as usize).map(name).chain((0..holds).map(|number| format!("{OTHER}{number:05}")));
        let claim = |name: String| object("IPAddressClaim", &name, json!({ "className": "bench" }));
        load::create_all(&scene.claims, named.map(claim).collect::<Result<_>>()?).await?;
        load::all(&scene.addresses, "held addresses", scene.count, is_held).await?;
        load::all(&scene.claims, "bound claims", scene.count, |claim| claim.phase() == ClaimPhase::Bound)
            .await?;
        for claim in scene.claims.list(&ListParams::default()).await?.items {
            if !claim.name_any().starts_with(OTHER) {
                let bound = claim.status.and_then(|status| status.addresses.into_iter().next());
                scene.ips.push(bound.context("a bound claim without an address")?.address.parse()?);
            }
        }
        Ok(scene)
    }

    /// The IPs that come and go.
    pub(super) fn ips(&self) -> impl Iterator<Item = String> {
        self.ips.iter().map(Ip::to_string)
    }

    /// Makes the Services, or deletes them, and waits until every handoff is over.
    pub(super) async fn change(&self, pace: Pace, forth: bool) -> Result<Asked> {
        let mut work = Vec::new();
        let at: Vec<Instant> = match pace {
            Pace::AtOnce => {
                let ask = |number| self.ask(number, forth);
                stream::iter(0..self.ips.len()).map(ask).buffered(AT_ONCE).try_collect().await?
            }
            Pace::AtRest => {
                let mut at = Vec::new();
                self.rest.wait(Instant::now()).await?;
                for (number, ip) in self.ips.iter().enumerate() {
                    let asked = self.ask(number, forth).await?;
                    let gone = |address: Option<&IPAddress>| address.is_some_and(|it| has_gone(it, forth));
                    await_condition(self.addresses.clone(), ip.object_name().as_str(), gone).await?;
                    work.push(self.rest.wait(asked).await?);
                    at.push(asked);
                }
                at
            }
            Pace::Every(pause) => {
                let mut ticks = tokio::time::interval(pause);
                let mut at = Vec::new();
                for number in 0..self.ips.len() {
                    ticks.tick().await;
                    at.push(self.ask(number, forth).await?);
                }
                at
            }
        };
        let others = |address: &IPAddress| {
            address.spec.claim_ref.as_ref().is_some_and(|claim| claim.name.starts_with(OTHER))
        };
        let done = |address: &IPAddress| others(address) || has_gone(address, forth);
        load::all(&self.addresses, "finished handoffs", self.count, done).await?;
        let left = if forth { self.ips.len() } else { 0 };
        load::all(&self.services, "Services", left, |_| true).await?;
        Ok(Asked { at, work })
    }

    async fn ask(&self, number: usize, forth: bool) -> Result<Instant> {
        let name = name(number);
        let asked = Instant::now();
        if forth {
            // There are fewer node ports than Services.
            let service: Service = serde_json::from_value(json!({
                "metadata": { "name": name, "annotations": { CLAIM: name } },
                "spec": {
                    "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{ "port": 80 }],
                },
            }))?;
            self.services.create(&PostParams::default(), &service).await?;
        } else {
            self.services.delete(&name, &DeleteParams::default()).await?;
        }
        Ok(asked)
    }

    /// The last handoff of each address, as the ledger has it.
    pub(super) async fn handoffs(&self) -> Result<Vec<Handoff>> {
        let addresses = self.addresses.list(&ListParams::default()).await?.items;
        Ok(addresses.iter().filter_map(handoff).cloned().collect())
    }

    /// How long each took from being asked for until the status of a Service showed it: until the tenant's had the IP,
    /// or until a placeholder alone had it again.
    pub(super) fn waits(
        &self,
        asked: &[Instant],
        timelines: &BTreeMap<String, Vec<Holders>>,
        forth: bool,
    ) -> Result<Vec<Duration>> {
        let wait = |(number, (ip, asked)): (usize, (&Ip, &Instant))| {
            let tenant = format!("{TENANT}/{}", name(number));
            let line = timelines.get(&ip.to_string()).map(Vec::as_slice).unwrap_or_default();
            let there = |holders: &&Holders| {
                holders.at >= *asked
                    && holders.services.contains(&tenant) == forth
                    && !holders.services.is_empty()
            };
            let there =
                line.iter().find(there).with_context(|| format!("{tenant} and {ip} never changed hands"))?;
            Ok(there.at.duration_since(*asked))
        };
        self.ips.iter().zip(asked).enumerate().map(wait).collect()
    }
}
