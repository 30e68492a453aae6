//! What the pinned MetalLB does, as far as the driver relies on it: its pool status and its words.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::time::{Duration, Instant};

use devcluster::{Cluster, Options};
use k8s_openapi::api::core::v1::{Event, Service};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(30);
const POOL: &str = "metallb.io/address-pool";
const PIN: &str = "metallb.io/loadBalancerIPs";
const KEY: &str = "metallb.io/allow-shared-ip";

struct World(Cluster);

impl World {
    fn services(&self) -> Api<Service> {
        Api::namespaced(self.0.admin(), "default")
    }

    async fn ask(&self, name: &str, annotations: Value) {
        let service = json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
        });
        let service: Service = serde_json::from_value(service).unwrap();
        self.services().create(&PostParams::default(), &service).await.unwrap();
    }

    async fn delete(&self, name: &str) {
        self.services().delete(name, &DeleteParams::default()).await.unwrap();
    }

    async fn assigned(&self, name: &str) -> String {
        let service =
            async || self.services().get(name).await.unwrap().status?.load_balancer?.ingress?.pop()?.ip;
        self.until(&format!("{name} having an address"), service).await
    }

    async fn pool_status(&self, name: &str, expected: Value) {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("metallb.io", "v1beta1", "IPAddressPool"));
        let pools: Api<DynamicObject> = Api::namespaced_with(self.0.admin(), "metallb-system", &kind);
        let holds = async || (pools.get(name).await.unwrap().data["status"] == expected).then_some(());
        self.until(&format!("the status of {name} being {expected}"), holds).await;
    }

    /// Waits for an event of a Service and returns its message.
    async fn told(&self, name: &str, kind: &str, reason: &str) -> String {
        let events: Api<Event> = Api::namespaced(self.0.admin(), "default");
        let fields =
            format!("involvedObject.name={name},involvedObject.kind=Service,type={kind},reason={reason}");
        let params = ListParams::default().fields(&fields);
        let event = async || events.list(&params).await.unwrap().items.pop();
        let event = self.until(&format!("{reason} of {name}"), event).await;
        assert_eq!(event.source.unwrap().component.as_deref(), Some("metallb-controller"));
        event.message.unwrap()
    }

    async fn until<T>(&self, what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            assert!(started.elapsed() < DEADLINE, "not in time: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn counts(assigned: u32, available: u32) -> Value {
    json!({ "assignedIPv4": assigned, "assignedIPv6": 0, "availableIPv4": available, "availableIPv6": 0 })
}

#[tokio::test]
async fn pools_are_counted_and_outcomes_are_told() {
    let world = World(Cluster::start(Options::default()).await.unwrap());
    world.0.create_pool("public", &["203.0.113.0/31"], false).await.unwrap();
    world.pool_status("public", counts(0, 2)).await;

    world.ask("a", json!({ POOL: "public" })).await;
    assert_eq!(world.assigned("a").await, "203.0.113.0");
    assert_eq!(world.told("a", "Normal", "IPAllocated").await, r#"Assigned IP ["203.0.113.0"]"#);
    world.pool_status("public", counts(1, 1)).await;

    // An exhausted pool is not told by that word: the pool yields no IP, and that nothing is refused as foreign.
    world.ask("b", json!({ POOL: "public" })).await;
    world.assigned("b").await;
    world.pool_status("public", counts(2, 0)).await;
    world.ask("c", json!({ POOL: "public" })).await;
    let exhausted = r#"Failed to allocate IP for "default/c": ["<nil>"] is not allowed in config"#;
    assert_eq!(world.told("c", "Warning", "AllocationFailed").await, exhausted);

    world.ask("pinned", json!({ POOL: "public", PIN: "203.0.113.0" })).await;
    let used = r#"Failed to allocate IP for "default/pinned": can't change sharing key for "default/pinned", address also in use by default/a"#;
    assert_eq!(world.told("pinned", "Warning", "AllocationFailed").await, used);

    world.ask("nowhere", json!({ POOL: "nope" })).await;
    let unknown = r#"Failed to allocate IP for "default/nowhere": unknown pool "nope""#;
    assert_eq!(world.told("nowhere", "Warning", "AllocationFailed").await, unknown);

    world.ask("foreign", json!({ PIN: "198.51.100.1" })).await;
    let foreign = r#"Failed to allocate IP for "default/foreign": ["198.51.100.1"] is not allowed in config"#;
    assert_eq!(world.told("foreign", "Warning", "AllocationFailed").await, foreign);

    // The same key shares an IP, but not a port of it.
    world.0.create_pool("shared", &["192.0.2.0/32"], false).await.unwrap();
    world.ask("first", json!({ PIN: "192.0.2.0", KEY: "k" })).await;
    world.assigned("first").await;
    world.ask("second", json!({ PIN: "192.0.2.0", KEY: "k" })).await;
    let port = r#"Failed to allocate IP for "default/second": port TCP/80 is already in use on "192.0.2.0""#;
    assert_eq!(world.told("second", "Warning", "AllocationFailed").await, port);

    // A freed IP goes to whoever waits, without being asked again.
    world.delete("b").await;
    assert_eq!(world.assigned("c").await, "203.0.113.1");
    world.delete("a").await;
    assert_eq!(world.assigned("pinned").await, "203.0.113.0");
}
