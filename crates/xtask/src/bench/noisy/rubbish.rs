//! The noisy tenant: objects that lead to nothing.

use std::num::NonZeroU32;

use anyhow::Result;
use api::IPAddressClaim;
use api::wellknown::CLAIM;
use devcluster::Cluster;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::super::load::{self, object};

const NAMESPACE: &str = "noisy";
/// A class whose pool has one address, which is taken.
const FULL: &str = "full";

/// What the noisy tenant makes.
#[derive(clap::Args, Clone, Copy)]
pub(super) struct Kinds {
    /// Make the noisy Services load balancers that MetalLB has to look at, too.
    #[arg(long)]
    pub(super) load_balancers: bool,
    /// Make config maps in place of claims, and Services that name none: what so many objects cost by themselves, whoever looks at
    /// them.
    #[arg(long)]
    pub(super) plain: bool,
    /// Make so many Services a second, and as many claims; as many as the API server takes, if not given.
    #[arg(long, value_name = "N")]
    pub(super) pace: Option<NonZeroU32>,
}

/// The noisy tenant's namespace.
pub(super) struct Rubbish {
    claims: Api<IPAddressClaim>,
    services: Api<Service>,
    maps: Api<ConfigMap>,
    kinds: Kinds,
}

/// A claim of a class that does not exist, or of a pool that is full.
fn claim(number: usize) -> Result<IPAddressClaim> {
    let class = if number.is_multiple_of(2) { "no-such-class" } else { FULL };
    object("IPAddressClaim", &format!("rubbish-{number:05}"), json!({ "className": class }))
}

/// A Service that names a claim that does not exist, or one that is never bound.
fn service(number: usize, kinds: Kinds) -> Result<Service> {
    let claim =
        if number.is_multiple_of(2) { "no-such-claim".to_owned() } else { format!("rubbish-{number:05}") };
    let mut spec: Value = json!({ "selector": { "app": "x" }, "ports": [{ "port": 80 }] });
    if kinds.load_balancers {
        spec["type"] = json!("LoadBalancer");
        spec["allocateLoadBalancerNodePorts"] = json!(false);
    }
    let mut metadata = json!({ "name": format!("rubbish-{number:05}") });
    if !kinds.plain {
        metadata["annotations"] = json!({ CLAIM: claim });
    }
    Ok(serde_json::from_value(json!({ "metadata": metadata, "spec": spec }))?)
}

fn map(number: usize) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(format!("rubbish-{number:05}"));
    map
}

impl Rubbish {
    pub(super) async fn of(cluster: &Cluster, kinds: Kinds) -> Result<Self> {
        let client = cluster.admin();
        load::class(cluster, FULL, "198.18.1.1/32").await?;
        load::namespace(&client, NAMESPACE).await?;
        let claims: Api<IPAddressClaim> = Api::namespaced(client.clone(), NAMESPACE);
        let first = object("IPAddressClaim", "first", json!({ "className": FULL }))?;
        claims.create(&PostParams::default(), &first).await?;
        load::all(&claims, "bound claim", 1, |claim| claim.phase() == api::claim::ClaimPhase::Bound).await?;
        let services = Api::namespaced(client.clone(), NAMESPACE);
        Ok(Self { claims, services, maps: Api::namespaced(client, NAMESPACE), kinds })
    }

    /// Makes so many, half claims and half Services, both at once.
    pub(super) async fn make(&self, objects: usize) -> Result<()> {
        let pace = self.kinds.pace;
        let services = (0..objects / 2).map(|number| service(number, self.kinds)).collect::<Result<_>>()?;
        let services = load::create_paced(&self.services, services, pace);
        if self.kinds.plain {
            let maps = (0..objects / 2).map(map).collect();
            tokio::try_join!(load::create_paced(&self.maps, maps, pace), services)?;
        } else {
            let claims = (0..objects / 2).map(claim).collect::<Result<_>>()?;
            tokio::try_join!(load::create_paced(&self.claims, claims, pace), services)?;
        }
        Ok(())
    }

    /// Waits until each claim was told what is wrong with it.
    pub(super) async fn told(&self, objects: usize) -> Result<()> {
        if self.kinds.plain {
            return Ok(());
        }
        let told = |claim: &IPAddressClaim| {
            claim.name_any() == "first"
                || claim.status.as_ref().is_some_and(|status| !status.conditions.is_empty())
        };
        load::all(&self.claims, "claims that were told what is wrong", objects / 2 + 1, told).await
    }
}
