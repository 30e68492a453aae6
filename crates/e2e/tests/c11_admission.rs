//! Contract §11, the serviceability check against the real MetalLB: whom a pool serves, over a table of pools and Services.

mod table;

use std::collections::{BTreeMap, BTreeSet};

use devcluster::Cluster;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Event, Namespace, Service};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Client, ResourceExt};
use metallb::parse::pool::Pool;
use metallb::parse::service::View;
use serde_json::{Value, json};

use crate::rig::{create, eventually, ingress, load_balancer};
use crate::shared;

/// The pair of a pool and a Service that asks it for an address.
struct Pair {
    service: Value,
    namespace: &'static str,
    pool: String,
    expected: bool,
}

impl Pair {
    fn name(&self) -> &str {
        self.service["metadata"]["name"].as_str().unwrap()
    }
}

/// A pool and a Service meet as the table says, on the real MetalLB and in our check.
#[test]
fn c11_service_allocation_as_metallb_does() {
    shared::run(async |cluster| {
        for asker in table::askers() {
            let namespace =
                json!({ "metadata": { "name": asker.namespace, "labels": asker.namespace_labels } });
            create(&Api::<Namespace>::all(cluster.admin()), namespace).await;
        }
        let (pools, pairs) = pairs();
        assert!(pairs.len() >= 40, "{} pairs", pairs.len());
        make_pools(cluster, &pools).await;
        join_all(pairs.iter().map(|pair| {
            let api: Api<Service> = Api::namespaced(cluster.admin(), pair.namespace);
            async move { create(&api, pair.service.clone()).await }
        }))
        .await;
        let served = verdicts(cluster, pairs.len()).await;
        let ours = our_verdicts(cluster, &pairs).await;
        let expected = pairs.iter().filter(|pair| pair.expected).map(|pair| pair.name().to_owned());
        assert_same("MetalLB and the table differ", &served, &expected.collect());
        assert_same("MetalLB and our check differ", &served, &ours);
    });
}

/// The pools of both tables by name, and the pairs. The Services are dressed as ours are: a pin and a label.
fn pairs() -> (BTreeMap<String, Value>, Vec<Pair>) {
    let mut pools = BTreeMap::new();
    let mut pairs = Vec::new();
    let askers = table::askers();
    for (number, (name, allocation, served)) in table::allocations().into_iter().enumerate() {
        let spec = json!({
            "addresses": [format!("198.18.{number}.0/30")], "autoAssign": false, "serviceAllocation": allocation,
        });
        pools.insert(name.to_owned(), spec);
        for (host, (asker, verdict)) in askers.iter().zip(served.chars()).enumerate() {
            let pin = json!({ api::wellknown::metallb::PIN: format!("198.18.{number}.{host}") });
            let mut service = load_balancer(&format!("{name}-{host}"), pin);
            service["metadata"]["labels"] = asker.labels.clone();
            pairs.push(Pair {
                service,
                namespace: asker.namespace,
                pool: name.to_owned(),
                expected: verdict != '-',
            });
        }
    }
    for shape in table::shapes() {
        pools.insert(shape.name.to_owned(), shape.spec);
        for (number, (annotations, expected)) in shape.asks.into_iter().enumerate() {
            let mut service = load_balancer(&format!("{}-{number}", shape.name), annotations);
            service["metadata"]["labels"] = askers[0].labels.clone();
            if service.to_string().contains("2001:") {
                service["spec"]["ipFamilies"] = json!(["IPv6"]);
            }
            pairs.push(Pair {
                service,
                namespace: askers[0].namespace,
                pool: shape.name.to_owned(),
                expected,
            });
        }
    }
    (pools, pairs)
}

fn pool_api(client: Client) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("metallb.io", "v1beta1", "IPAddressPool"));
    Api::namespaced_with(client, "metallb-system", &kind)
}

/// Makes the pools and waits until MetalLB counts the addresses of each: it has read them all then.
async fn make_pools(cluster: &Cluster, pools: &BTreeMap<String, Value>) {
    let api = pool_api(cluster.admin());
    join_all(pools.iter().map(|(name, spec)| {
        let pool = json!({
            "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": { "name": name }, "spec": spec,
        });
        let api = &api;
        async move { api.create(&PostParams::default(), &serde_json::from_value(pool).unwrap()).await.unwrap() }
    }))
    .await;
    eventually("MetalLB to count the addresses of every pool", async || {
        let listed = api.list(&ListParams::default()).await.unwrap();
        let counted = |pool: &&DynamicObject| {
            let status = &pool.data["status"];
            status["availableIPv4"].as_u64().unwrap_or(0) + status["availableIPv6"].as_u64().unwrap_or(0) > 0
        };
        (listed.iter().filter(counted).count() >= pools.len()).then_some(())
    })
    .await;
}

/// The Services that MetalLB serves, when it has served or refused each.
async fn verdicts(cluster: &Cluster, count: usize) -> BTreeSet<String> {
    let namespaces: Vec<_> = table::askers().iter().map(|asker| asker.namespace).collect();
    eventually("a verdict on every Service", async || {
        let (mut served, mut refused) = (BTreeSet::new(), BTreeSet::new());
        for namespace in &namespaces {
            let services: Api<Service> = Api::namespaced(cluster.admin(), namespace);
            let services = services.list(&ListParams::default()).await.unwrap();
            served.extend(services.iter().filter(|one| !ingress(one).is_empty()).map(ResourceExt::name_any));
            let events: Api<Event> = Api::namespaced(cluster.admin(), namespace);
            let failed = ListParams::default().fields("reason=AllocationFailed");
            let events = events.list(&failed).await.unwrap();
            refused.extend(events.into_iter().filter_map(|event| event.involved_object.name));
        }
        if served.len() + refused.len() < count {
            return None;
        }
        let both: Vec<_> = served.intersection(&refused).collect();
        assert!(both.is_empty(), "refused, then served: {both:?}");
        Some(served)
    })
    .await
}

/// The Services of which we think that MetalLB serves them.
async fn our_verdicts(cluster: &Cluster, pairs: &[Pair]) -> BTreeSet<String> {
    let namespaces = Api::<Namespace>::all(cluster.admin()).list(&ListParams::default()).await.unwrap();
    let labels: BTreeMap<_, _> =
        namespaces.iter().map(|namespace| (namespace.name_any(), namespace.labels())).collect();
    let pools = pool_api(cluster.admin()).list(&ListParams::default()).await.unwrap();
    let view = |pool: &DynamicObject| Pool::of(pool).among(labels.values().copied());
    let pools: BTreeMap<_, _> = pools.iter().map(|pool| (pool.name_any(), view(pool))).collect();
    let serves = |pair: &&Pair| {
        let service: Service = serde_json::from_value(pair.service.clone()).unwrap();
        let pool = &pools[&pair.pool];
        service.pin().unwrap().iter().all(|ip| pool.contains(*ip))
            && pool.admits(pair.namespace, labels[pair.namespace], service.labels()).is_ok()
    };
    pairs.iter().filter(serves).map(|pair| pair.name().to_owned()).collect()
}

/// Fails with what is in one set and not in the other.
fn assert_same(words: &str, left: &BTreeSet<String>, right: &BTreeSet<String>) {
    let differ: Vec<_> = left.symmetric_difference(right).collect();
    assert!(differ.is_empty(), "{words} about {differ:?}");
}
