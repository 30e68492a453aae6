//! What the story needs of the cluster: objects to make, and waits for what they become.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use api::{IPAddress, IPAddressClaim, IPAddressClass};
use devcluster::{Cluster, Jaeger, Witness};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How long any step may take.
const WITHIN: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(25);

pub(crate) struct Scene {
    client: Client,
    pub(crate) witness: Witness,
    pub(crate) jaeger: Option<Jaeger>,
}

impl Scene {
    /// A full pool of one address, its class, and two tenants.
    pub(crate) async fn set(cluster: &Cluster, jaeger: Option<Jaeger>) -> Result<Self> {
        let client = cluster.admin();
        cluster.create_pool("public", &["203.0.113.7/32"], false).await?;
        for name in ["tenant", "thief"] {
            let namespace = json!({ "metadata": { "name": name } });
            Api::<Namespace>::all(client.clone())
                .create(&PostParams::default(), &serde_json::from_value(namespace)?)
                .await?;
        }
        let class: IPAddressClass = serde_json::from_value(json!({
            "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClass",
            "metadata": { "name": "public" },
            "spec": {
                "provisioner": api::wellknown::driver::PROVISIONER,
                "reclaimPolicy": "Retain",
                "parameters": { "pool": "public" },
            },
        }))?;
        Api::all(client.clone()).create(&PostParams::default(), &class).await?;
        Ok(Self { witness: Witness::start(client.clone()).await?, jaeger, client })
    }

    pub(crate) async fn claim(&self, name: &str) -> Result<()> {
        let claim: IPAddressClaim = serde_json::from_value(json!({
            "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClaim",
            "metadata": { "name": name },
            "spec": { "className": "public" },
        }))?;
        self.create("tenant", &claim).await
    }

    pub(crate) async fn service(&self, namespace: &str, name: &str, annotations: Value) -> Result<()> {
        let service: Service = serde_json::from_value(json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": {
                "type": "LoadBalancer", "selector": { "app": name }, "ports": [{ "port": 80 }],
            },
        }))?;
        self.create(namespace, &service).await
    }

    async fn create<K>(&self, namespace: &str, object: &K) -> Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        api.create(&PostParams::default(), object).await?;
        Ok(())
    }

    pub(crate) async fn delete_service(&self, namespace: &str, name: &str) -> Result<()> {
        let api: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        api.delete(name, &DeleteParams::default()).await?;
        let gone = || async { Ok(api.get_opt(name).await?.is_none().then_some(())) };
        wait(&format!("Service {namespace}/{name} to be gone"), gone).await
    }

    pub(crate) async fn annotate(&self, namespace: &str, name: &str, annotations: Value) -> Result<()> {
        let api: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        let patch = json!({ "metadata": { "annotations": annotations } });
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// The IP of a claim, when it is bound.
    pub(crate) async fn bound(&self, name: &str) -> Result<String> {
        let api: Api<IPAddressClaim> = Api::namespaced(self.client.clone(), "tenant");
        wait(&format!("claim {name} to be bound"), || async {
            let status = api.get(name).await?.status.unwrap_or_default();
            let bound = status.phase == Some(api::claim::ClaimPhase::Bound);
            Ok(status.addresses.first().filter(|_| bound).map(|address| address.address.clone()))
        })
        .await
    }

    /// The ledger's object of an IP, when it is as the story needs it.
    pub(crate) async fn address(&self, ip: &str, is: impl Fn(&IPAddress) -> bool) -> Result<IPAddress> {
        let api: Api<IPAddress> = Api::all(self.client.clone());
        let name = ip.parse::<api::Ip>().context("the IP of the claim")?.object_name();
        wait(&format!("IPAddress {name} to say so"), || async {
            Ok(api.get_opt(name.as_str()).await?.filter(|address| is(address)))
        })
        .await
    }

    /// Waits until the status of a Service shows the IP.
    pub(crate) async fn served(&self, namespace: &str, name: &str, ip: &str) -> Result<Duration> {
        let started = Instant::now();
        let api: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        wait(&format!("Service {namespace}/{name} to have {ip}"), || async {
            Ok(ingress(&api.get(name).await?).contains(&ip.to_owned()).then_some(()))
        })
        .await?;
        Ok(started.elapsed())
    }

    /// The IPs of a Service at this moment.
    pub(crate) async fn ingress(&self, namespace: &str, name: &str) -> Result<Vec<String>> {
        let api: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        Ok(ingress(&api.get(name).await?))
    }

    /// Who has the IP in MetalLB's books.
    pub(crate) async fn holders(&self, ip: &str) -> Result<Vec<String>> {
        let services: Api<Service> = Api::all(self.client.clone());
        let list = services.list(&ListParams::default()).await?;
        let holds = |service: &&Service| ingress(service).contains(&ip.to_owned());
        let name =
            |service: &Service| format!("{}/{}", service.namespace().unwrap_or_default(), service.name_any());
        Ok(list.items.iter().filter(holds).map(name).collect())
    }

    /// The words of an event about an object, when it was written.
    pub(crate) async fn event(&self, namespace: &str, about: &str, reason: &str) -> Result<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        wait(&format!("an event {reason} about {about}"), || async {
            let list = events.list(&ListParams::default()).await?;
            let found = list.items.into_iter().find(|event| {
                let regarding = event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
                event.reason.as_deref() == Some(reason) && regarding == Some(about)
            });
            Ok(found.map(|event| event.note.unwrap_or_default()))
        })
        .await
    }
}

fn ingress(service: &Service) -> Vec<String> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref());
    ingress.into_iter().flatten().filter_map(|entry| entry.ip.clone()).collect()
}

async fn wait<T, F>(what: &str, look: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let deadline = Instant::now() + WITHIN;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("waited {} s for {what}", WITHIN.as_secs());
        }
        tokio::time::sleep(EVERY).await;
    }
}
