//! Claims, addresses and placeholders, as a driver and MetalLB leave them.

use std::collections::HashSet;
use std::ops::Range;

use anyhow::{Context as _, Result, bail};
use api::address::HandoffDirection;
use api::wellknown::{CLAIM, driver, metallb};
use api::{IPAddress, IPAddressClaim, Ip};
use devcluster::{Cluster, Controller, Controllers};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::super::load::{self, AT_ONCE, object};
use super::super::meter::{self, rounded};
use super::standin::Standin;
use super::subject::Subject;

const TENANT: &str = "tenant";
/// 198.18.0.0/15 is set aside for benchmarks.
const FIRST: u32 = 0xc612_0001;

/// The objects of one cluster.
pub(super) struct Fleet {
    claims: Api<IPAddressClaim>,
    addresses: Api<IPAddress>,
    placeholders: Api<Service>,
    services: Api<Service>,
}

impl Fleet {
    /// The class and its pool.
    pub(super) async fn of(cluster: &Cluster) -> Result<Self> {
        let client: Client = cluster.admin();
        load::class(cluster, "bench", "198.18.0.0-198.19.255.255").await?;
        load::namespace(&client, TENANT).await?;
        Ok(Self {
            claims: Api::namespaced(client.clone(), TENANT),
            addresses: Api::all(client.clone()),
            placeholders: Api::namespaced(client.clone(), Controller::Driver.namespace()),
            services: Api::namespaced(client, TENANT),
        })
    }

    /// Makes the holds of these numbers.
    pub(super) async fn grow(&self, numbers: Range<u32>) -> Result<()> {
        stream::iter(numbers).map(|number| self.add(number)).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn add(&self, number: u32) -> Result<()> {
        let ip = Ip::from(std::net::Ipv4Addr::from(FIRST + number));
        let claim: IPAddressClaim =
            object("IPAddressClaim", &claim_name(number), json!({ "className": "bench" }))?;
        let claim = self.claims.create(&PostParams::default(), &claim).await?;
        let uid = claim.uid().context("a claim without uid")?;
        let placeholder = placeholder(&uid, &claim.name_any(), ip)?;
        let name = placeholder.name_any();
        self.placeholders.create(&PostParams::default(), &placeholder).await?;
        let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": ip.to_string() }] } } });
        self.placeholders.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        let spec = json!({
            "className": "bench", "address": ip.to_string(), "source": { "fromClass": {} },
            "claimRef": { "namespace": TENANT, "name": claim.name_any(), "uid": uid },
        });
        let mut address: IPAddress = object("IPAddress", ip.object_name().as_str(), spec)?;
        address.metadata.finalizers = Some(vec![driver::TEARDOWN.to_owned()]);
        self.addresses.create(&PostParams::default(), &address).await?;
        Ok(())
    }

    /// Both controllers at work on handoffs in a fleet of that size.
    pub(super) async fn hand_over(
        &self,
        cluster: &Cluster,
        controllers: &Controllers,
        handoffs: u32,
        holds: u32,
    ) -> Result<Value> {
        let core = Subject::start(cluster, controllers, Controller::Core).await?;
        let driver = Subject::start(cluster, controllers, Controller::Driver).await?;
        core.rest().await?;
        driver.rest().await?;
        let mut standin = tokio::spawn(Standin::run(cluster.admin()));
        let before = (meter::cpu_seconds(core.pid)?, meter::cpu_seconds(driver.pid)?);
        let writes = meter::own_writes(&driver.metrics).await?;
        eprintln!("{handoffs} handoffs there and back");
        tokio::select! {
            done = self.there_and_back(handoffs, holds) => done?,
            ended = &mut standin => bail!("the stand-in for MetalLB ended: {ended:?}"),
        }
        core.rest().await?;
        driver.rest().await?;
        standin.abort();
        let each = f64::from(handoffs.max(1));
        let writes = meter::difference(&writes, &meter::own_writes(&driver.metrics).await?);
        let writes = f64::from(u32::try_from(writes.values().sum::<u64>())?);
        let line = json!({
            "bench": "fleet",
            "holds": holds,
            "handoffs": handoffs,
            "driver_cpu_ms_each": rounded((meter::cpu_seconds(driver.pid)? - before.1) * 1000.0 / each),
            "core_cpu_ms_each": rounded((meter::cpu_seconds(core.pid)? - before.0) * 1000.0 / each),
            "driver_writes_each": rounded(writes / each),
            "driver_rss_mb": rounded(meter::peak_rss_mb(driver.pid)?),
            "core_rss_mb": rounded(meter::peak_rss_mb(core.pid)?),
        });
        core.stop().await;
        driver.stop().await;
        Ok(line)
    }

    async fn there_and_back(&self, handoffs: u32, holds: u32) -> Result<()> {
        // All over the fleet, not at one end of it.
        let chosen: Vec<String> =
            (0..handoffs).map(|number| claim_name(number * (holds / handoffs.max(1)))).collect();
        let services = chosen.iter().map(|claim| service(claim)).collect::<Result<_>>()?;
        load::create_all(&self.services, services).await?;
        self.wait_for(&chosen, HandoffDirection::Associate).await?;
        load::delete_all(&self.services, chosen.clone()).await?;
        self.wait_for(&chosen, HandoffDirection::Disassociate).await
    }

    /// Waits until the addresses of these claims went that way.
    async fn wait_for(&self, claims: &[String], direction: HandoffDirection) -> Result<()> {
        let claims: HashSet<&String> = claims.iter().collect();
        let others = |address: &IPAddress| {
            address.spec.claim_ref.as_ref().is_none_or(|claim| !claims.contains(&claim.name))
        };
        let gone = |address: &IPAddress| {
            let handoff = address.status.as_ref().and_then(|status| status.last_handoff.as_ref());
            handoff.is_some_and(|handoff| handoff.direction == direction && handoff.finished_at.is_some())
        };
        let count = self.addresses.list_metadata(&ListParams::default()).await?.items.len();
        load::all(&self.addresses, "finished handoffs", count, |address| others(address) || gone(address))
            .await
    }
}

fn claim_name(number: u32) -> String {
    format!("claim-{number:05}")
}

/// The Service that names a claim, and is called as it is.
fn service(claim: &str) -> Result<Service> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": claim, "annotations": { CLAIM: claim } },
        "spec": { "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{ "port": 80 }] },
    }))?)
}

/// As the driver leaves one.
fn placeholder(uid: &str, claim: &str, ip: Ip) -> Result<Service> {
    let key = format!("iad-{:032x}", u128::from_str_radix(&uid.replace('-', ""), 16)?);
    let words = format!(
        "Keeps an IP address reserved for IPAddressClaim {TENANT}/{claim}. Without endpoints by design: do not delete; \
         metallb-iad makes it anew."
    );
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": format!("iad-{uid}-v4"),
            "labels": { driver::PLACEHOLDER: "true", driver::IP_ADDRESS: ip.object_name().as_str() },
            "annotations": {
                driver::DESCRIPTION: words, driver::CLAIM_NAMESPACE: TENANT, driver::CLAIM_NAME: claim,
                metallb::POOL: "bench", metallb::SHARE: key, metallb::PIN: ip.to_string(),
                "metallb.io/ip-allocated-from-pool": "bench",
            },
        },
        "spec": {
            "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "externalTrafficPolicy": "Cluster",
            "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"],
            "ports": [{ "name": "placeholder", "port": 65535, "protocol": "TCP" }],
        },
    }))?)
}
