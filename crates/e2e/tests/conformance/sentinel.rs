//! A Service that shows that MetalLB has done what was asked of it before.

use std::sync::atomic::{AtomicUsize, Ordering};

use devcluster::Cluster;
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::api::Api;
use serde_json::json;
use tokio::sync::Mutex;

use crate::rig;

const NAMESPACE: &str = "sentinels";
const NAME: &str = "sentinel";
const PIN: &str = "metallb.io/loadBalancerIPs";

/// MetalLB works on one Service after the other: when the sentinel moves, all were looked at that had changed before it was
/// asked to move. Moving, it lets nobody else be looked at again. Whoever asks for a round at the same time shares one.
pub struct Sentinel {
    services: Api<Service>,
    begun: AtomicUsize,
    /// How many rounds are over.
    over: Mutex<usize>,
}

fn ip(round: usize) -> String {
    format!("198.19.0.{}", round % 2)
}

fn shows(service: &Service, ip: &str) -> bool {
    rig::ingress(service).iter().any(|shown| shown == ip)
}

impl Sentinel {
    pub async fn post(cluster: &Cluster) -> Self {
        let namespaces = Api::<Namespace>::all(cluster.admin());
        rig::create(&namespaces, json!({ "metadata": { "name": NAMESPACE } })).await;
        cluster.create_pool("sentinels", &["198.19.0.0/24"], false).await.unwrap();
        let services = Api::<Service>::namespaced(cluster.admin(), NAMESPACE);
        rig::create(&services, rig::load_balancer(NAME, json!({ PIN: ip(0) }))).await;
        Self { services, begun: AtomicUsize::new(0), over: Mutex::new(0) }
    }

    /// Waits until MetalLB has looked at each Service that has changed until now.
    pub async fn round(&self) {
        let begun = self.begun.load(Ordering::SeqCst);
        let mut over = self.over.lock().await;
        if *over > begun {
            return;
        }
        let round = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let ip = ip(round);
        rig::patch(&self.services, NAME, json!({ "metadata": { "annotations": { PIN: ip } } })).await;
        rig::until(&self.services, NAME, "to move", |service| shows(service, &ip)).await;
        *over = round;
    }

    /// Waits until a MetalLB that has just started hears of single Services: until it has looked at all of them once
    /// without reason to look again, it forgets what it hears, and what is deleted then stays in its books.
    pub async fn hears(&self) {
        let mut last = 1;
        rig::eventually("MetalLB to hear of a deletion", async || {
            last += 1;
            let ip = format!("198.19.0.{last}");
            self.serve("first", &ip).await;
            self.end("first").await;
            self.round().await;
            self.round().await;
            let heard = self.serve("second", &ip).await;
            self.end("second").await;
            heard.then_some(())
        })
        .await;
    }

    /// Whether MetalLB gives a new Service the IP that it names.
    async fn serve(&self, name: &str, ip: &str) -> bool {
        rig::create(&self.services, rig::load_balancer(name, json!({ PIN: ip }))).await;
        self.round().await;
        self.round().await;
        shows(&self.services.get(name).await.unwrap(), ip)
    }

    async fn end(&self, name: &str) {
        rig::delete(&self.services, name).await;
        rig::gone(&self.services, name).await;
    }
}
