//! What a handoff takes with nobody's help: two Services name one IP, and it goes from one to the other as the first is deleted.

use std::time::{Duration, Instant};

use anyhow::Result;
use api::wellknown::metallb::PIN;
use devcluster::Cluster;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use super::tenant::{Lap, Lull, NAMESPACE, Watch, has_ip, wait};

/// A pool that no class has.
const POOL: &str = "alone";
const IP: &str = "198.18.2.1";
const BLUE: &str = "blue";
const GREEN: &str = "green";

/// A namespace in which one of the two has the IP.
pub(super) struct Pins {
    services: Api<Service>,
    lb_class: Option<String>,
}

impl Pins {
    pub(super) async fn settle(cluster: &Cluster, lb_class: Option<&str>) -> Result<Self> {
        cluster.create_pool(POOL, &[&format!("{IP}/32")], false).await?;
        let services = Api::namespaced(cluster.admin(), NAMESPACE);
        let pins = Self { services, lb_class: lb_class.map(str::to_owned) };
        pins.create(BLUE).await?;
        pins.calm().await?;
        Ok(pins)
    }

    /// Blue has the IP, and green is not there.
    pub(super) async fn calm(&self) -> Result<()> {
        if self.services.get_opt(BLUE).await?.is_none() {
            self.create(BLUE).await?;
        }
        if self.services.get_opt(GREEN).await?.is_some() {
            self.services.delete(GREEN, &DeleteParams::default()).await?;
        }
        wait(&self.services, BLUE, has_ip).await?;
        Ok(())
    }

    pub(super) async fn lap(&self, lull: Lull<'_>) -> Result<Lap> {
        let (there, _) = self.pass(BLUE, GREEN, lull).await?;
        let (back, gone) = self.pass(GREEN, BLUE, lull).await?;
        Ok(Lap { there, back, gone })
    }

    /// From the deletion of who has the IP to the status of who waits for it, and until nothing is left of the first.
    async fn pass(&self, from: &str, to: &str, lull: Lull<'_>) -> Result<(Duration, Duration)> {
        self.create(to).await?;
        lull.wait().await?;
        let served = Watch::over(&self.services, to, has_ip).await;
        let gone = Watch::over(&self.services, from, |service: Option<&Service>| service.is_none()).await;
        let began = Instant::now();
        self.services.delete(from, &DeleteParams::default()).await?;
        Ok((served.since(began).await?, gone.since(began).await?))
    }

    async fn create(&self, name: &str) -> Result<()> {
        let service: Service = serde_json::from_value(json!({
            "metadata": { "name": name, "annotations": { PIN: IP } },
            "spec": {
                "type": "LoadBalancer", "loadBalancerClass": self.lb_class, "selector": { "app": name }, "ports": [{ "port": 80 }],
            },
        }))?;
        self.services.create(&PostParams::default(), &service).await?;
        Ok(())
    }
}
