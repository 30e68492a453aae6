//! The tenant who is measured: one address that goes to a Service and back, again and again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use api::conditions::{find, types};
use api::wellknown::CLAIM;
use api::{IPAddress, IPAddressClaim};
use devcluster::{Cluster, Controller};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::super::load::{self, object};
use super::super::meter::spread;
use super::super::rest::Rest;
use super::pins::Pins;

pub(super) const NAMESPACE: &str = "quiet";
/// The class that all draw from who get something.
const CLASS: &str = "bench";
const NAME: &str = "web";
/// How long one handoff may take.
const WITHIN: Duration = Duration::from_secs(600);

/// How long handoffs took, there and back.
#[derive(Default)]
pub(super) struct Laps {
    there: Vec<Duration>,
    back: Vec<Duration>,
    gone: Vec<Duration>,
}

/// One handoff there and back.
pub(super) struct Lap {
    pub(super) there: Duration,
    /// Until its placeholder, or who waits for it, has the address.
    pub(super) back: Duration,
    /// Until nothing is left of the Service that had it.
    pub(super) gone: Duration,
}

impl Laps {
    pub(super) fn push(&mut self, lap: Lap) {
        self.there.push(lap.there);
        self.back.push(lap.back);
        self.gone.push(lap.gone);
    }

    pub(super) fn told(self) -> Value {
        let count = self.there.len();
        json!({
            "handoffs": count, "annotation_to_ip": spread(self.there), "deletion_to_hold": spread(self.back),
            "deletion_to_gone": spread(self.gone),
        })
    }
}

/// Whoever is measured.
pub(super) enum Tenant {
    /// By a claim, as this project has it.
    Claim(Box<Claim>),
    /// By two Services that name one IP, as MetalLB has it with nobody's help.
    Pins(Box<Pins>),
}

impl Tenant {
    pub(super) async fn settle(cluster: &Cluster, alone: bool, lb_class: Option<&str>) -> Result<Self> {
        load::namespace(&cluster.admin(), NAMESPACE).await?;
        Ok(if alone {
            Self::Pins(Box::new(Pins::settle(cluster, lb_class).await?))
        } else {
            Self::Claim(Box::new(Claim::settle(cluster, lb_class).await?))
        })
    }

    /// Ends what is under way.
    pub(super) async fn calm(&self) -> Result<()> {
        match self {
            Self::Claim(claim) => claim.calm().await,
            Self::Pins(pins) => pins.calm().await,
        }
    }

    pub(super) async fn laps(&self, count: usize, lull: Lull<'_>) -> Result<Laps> {
        let mut laps = Laps::default();
        for _ in 0..count {
            laps.push(self.lap(lull).await?);
        }
        Ok(laps)
    }

    /// An address goes to a Service and back. Each of the two waits for that lull.
    pub(super) async fn lap(&self, lull: Lull<'_>) -> Result<Lap> {
        match self {
            Self::Claim(claim) => claim.lap(lull).await,
            Self::Pins(pins) => pins.lap(lull).await,
        }
    }
}

/// What a handoff waits for before it begins.
#[derive(Clone, Copy)]
pub(super) enum Lull<'a> {
    /// Nothing.
    None,
    /// MetalLB is at rest.
    Rest(&'a Rest),
    /// So long, where others never leave MetalLB at rest.
    Pause(Duration),
}

impl Lull<'_> {
    pub(super) async fn wait(self) -> Result<()> {
        match self {
            Self::None => Ok(()),
            Self::Rest(rest) => rest.wait(Instant::now()).await.map(drop),
            Self::Pause(pause) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
        }
    }
}

/// A namespace with a claim that is bound and held.
pub(super) struct Claim {
    services: Api<Service>,
    addresses: Api<IPAddress>,
    address: String,
    holds: Api<Service>,
    lb_class: Option<String>,
}

fn is_held(address: Option<&IPAddress>) -> bool {
    let held = address.and_then(|address| find(&address.status.as_ref()?.conditions, types::HELD));
    held.is_some_and(|held| held.status == "True") && address.is_some_and(|one| one.associated_to().is_none())
}

pub(super) fn has_ip(service: Option<&Service>) -> bool {
    let status = service.and_then(|service| service.status.as_ref()?.load_balancer.as_ref());
    status.and_then(|status| status.ingress.as_ref()).is_some_and(|ingress| !ingress.is_empty())
}

impl Claim {
    async fn settle(cluster: &Cluster, lb_class: Option<&str>) -> Result<Self> {
        let client = cluster.admin();
        load::class(cluster, CLASS, "198.18.0.1-198.18.0.9").await?;
        let claims: Api<IPAddressClaim> = Api::namespaced(client.clone(), NAMESPACE);
        let claim = object("IPAddressClaim", NAME, json!({ "className": CLASS }))?;
        claims.create(&PostParams::default(), &claim).await?;
        let bound = |claim: Option<&IPAddressClaim>| {
            claim.and_then(|claim| claim.status.as_ref()).is_some_and(|status| !status.addresses.is_empty())
        };
        let claim = wait(&claims, NAME, bound).await?.context("the claim is gone")?;
        let address = claim.status.and_then(|status| status.addresses.into_iter().next());
        let address = address.context("a bound claim without an address")?.name;
        let claim = Self {
            services: Api::namespaced(client.clone(), NAMESPACE),
            addresses: Api::all(client.clone()),
            address,
            holds: Api::namespaced(client, Controller::Driver.namespace()),
            lb_class: lb_class.map(str::to_owned),
        };
        claim.calm().await?;
        Ok(claim)
    }

    /// The Service goes, and the address is held.
    async fn calm(&self) -> Result<()> {
        if self.services.get_opt(NAME).await?.is_some() {
            self.services.delete(NAME, &DeleteParams::default()).await?;
        }
        wait(&self.services, NAME, |service: Option<&Service>| service.is_none()).await?;
        wait(&self.addresses, &self.address, is_held).await?;
        Ok(())
    }

    /// A Service that names the claim is made and served; it is deleted, and its address is held again.
    async fn lap(&self, lull: Lull<'_>) -> Result<Lap> {
        let service: Service = serde_json::from_value(json!({
            "metadata": { "name": NAME, "annotations": { CLAIM: NAME } },
            "spec": {
                "type": "LoadBalancer", "loadBalancerClass": self.lb_class, "selector": { "app": NAME }, "ports": [{ "port": 80 }],
            },
        }))?;
        lull.wait().await?;
        let served = Watch::over(&self.services, NAME, has_ip).await;
        let began = Instant::now();
        self.services.create(&PostParams::default(), &service).await?;
        let there = served.since(began).await?;
        let handed = |address: Option<&IPAddress>| {
            let handoff = address.and_then(|address| address.status.as_ref()?.last_handoff.as_ref());
            handoff.is_some_and(|handoff| handoff.finished_at.is_some())
                && address.is_some_and(|address| address.associated_to().is_some())
        };
        wait(&self.addresses, &self.address, handed).await?;
        lull.wait().await?;
        let held = Watch::over(&self.holds, &format!("iad-{}", self.address), has_ip).await;
        let gone = Watch::over(&self.services, NAME, |service: Option<&Service>| service.is_none()).await;
        let told = Watch::over(&self.addresses, &self.address, is_held).await;
        let began = Instant::now();
        self.services.delete(NAME, &DeleteParams::default()).await?;
        let back = held.since(began).await?;
        let gone = gone.since(began).await?.max(told.since(began).await?);
        Ok(Lap { there, back, gone })
    }
}

/// When an object becomes what is waited for. It is looked at from the start: a look that begins only after a change may itself take as
/// long as the change.
pub(super) struct Watch(JoinHandle<Result<Instant>>);

impl Watch {
    /// Returns when the object has been looked at once, or cannot be.
    pub(super) async fn over<K, F>(api: &Api<K>, name: &str, is: F) -> Self
    where
        K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + Sync + 'static,
        F: Fn(Option<&K>) -> bool + Send + Sync + 'static,
    {
        let looked = Arc::new(Notify::new());
        let (api, name, looks) = (api.clone(), name.to_owned(), Arc::clone(&looked));
        let task = tokio::spawn(async move {
            let is = |object: Option<&K>| {
                looks.notify_one();
                is(object)
            };
            let found = wait(&api, &name, is).await;
            looks.notify_one();
            found.map(|_| Instant::now())
        });
        looked.notified().await;
        Self(task)
    }

    /// How long after this moment.
    pub(super) async fn since(self, began: Instant) -> Result<Duration> {
        Ok(self.0.await??.duration_since(began))
    }
}

pub(super) async fn wait<K>(api: &Api<K>, name: &str, is: impl Fn(Option<&K>) -> bool) -> Result<Option<K>>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let found = tokio::time::timeout(WITHIN, await_condition(api.clone(), name, is)).await;
    Ok(found.with_context(|| format!("{name} took longer than {} s", WITHIN.as_secs()))??)
}
