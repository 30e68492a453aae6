//! The objects of the reproductions in cases.md, and the worlds they live in.

use ::metallb::Config;
use api::wellknown::{CLAIM, driver, metallb as names};
use api::{ClaimKey, IPAddress, IPAddressClaim, IPAddressClass, ServiceKey};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::core::DynamicObject;
use plan::{Object, Ref};
use serde_json::{Value, json};

use super::{Pace, World};

pub const HOME: &str = "metallb-iad-system";
pub const IP: &str = "192.0.2.0";
pub const IP6: &str = "2001:db8::7";

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub fn namespace(name: &str, labels: Value) -> Namespace {
    read(json!({ "metadata": { "name": name, "labels": labels } }))
}

pub fn pool(name: &str, spec: Value) -> DynamicObject {
    read(json!({
        "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
        "metadata": { "namespace": sim::metallb::NAMESPACE, "name": name }, "spec": spec,
    }))
}

pub fn class(name: &str, policy: &str, parameters: Value) -> IPAddressClass {
    read(json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClass", "metadata": { "name": name },
        "spec": { "provisioner": driver::PROVISIONER, "reclaimPolicy": policy, "parameters": parameters },
    }))
}

pub fn claim(namespace: &str, name: &str, spec: Value) -> IPAddressClaim {
    let mut spec = spec;
    spec.as_object_mut().unwrap().entry("className").or_insert(json!("pub"));
    read(json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClaim",
        "metadata": { "namespace": namespace, "name": name }, "spec": spec,
    }))
}

/// An address that an admin enters by hand.
pub fn static_address(name: &str, ip: &str) -> IPAddress {
    read(json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress", "metadata": { "name": name },
        "spec": { "className": "pub", "address": ip, "source": { "providerRef": { "id": ip } } },
    }))
}

/// A `LoadBalancer` Service of tenant-a on port 80.
pub fn service(name: &str, annotations: Value, spec: Value) -> Service {
    service_in("tenant-a", name, annotations, spec)
}

pub fn service_in(namespace: &str, name: &str, annotations: Value, spec: Value) -> Service {
    let mut whole = json!({
        "type": "LoadBalancer", "selector": { "app": name }, "ports": [{ "port": 80 }],
    });
    sim::server::merge(&mut whole, &spec);
    let meta = json!({ "namespace": namespace, "name": name, "annotations": annotations });
    read(json!({ "metadata": meta, "spec": whole }))
}

/// A Service that names a claim.
pub fn web(claim: &str) -> Service {
    service("web", json!({ CLAIM: claim }), json!({}))
}

pub fn key(name: &str) -> ServiceKey {
    ServiceKey::new("tenant-a", name)
}

pub fn service_ref(name: &str) -> Ref {
    Ref::service(&key(name))
}

pub fn claim_ref(name: &str) -> Ref {
    Ref::claim(&ClaimKey::new("tenant-a", name))
}

pub fn address_ref(name: &str) -> Ref {
    Ref::address(&api::AddressName::new(name))
}

pub fn pool_ref(name: &str) -> Ref {
    let namespace = Some(sim::metallb::NAMESPACE.to_owned());
    Ref { kind: plan::Kind::Pool, namespace, name: name.to_owned() }
}

pub fn home_ref(name: &str) -> Ref {
    Ref::service(&ServiceKey::new(HOME, name))
}

/// The Service of a stranger that waits for whatever becomes free.
pub fn thief_ref() -> Ref {
    Ref::service(&ServiceKey::new("tenant-b", "a-thief"))
}

/// What a world is made with.
#[derive(Clone)]
pub struct Setup {
    pub config: Config,
    pub policy: &'static str,
    pub addresses: Vec<&'static str>,
    pub family: &'static str,
    /// Whether another claim and a stranger's Service wait for an address of the pool.
    pub contended: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            config: Config::default(),
            policy: "Retain",
            addresses: vec!["192.0.2.0/32"],
            family: "IPv4",
            contended: true,
        }
    }
}

impl Setup {
    pub fn dual() -> Self {
        Self { addresses: vec!["192.0.2.0/32", "2001:db8::7/128"], family: "Dual", ..Self::default() }
    }

    pub fn delete() -> Self {
        Self { policy: "Delete", ..Self::default() }
    }

    pub fn roomy() -> Self {
        Self { addresses: vec!["192.0.2.0/29"], contended: false, ..Self::default() }
    }

    /// The same in a cluster that counts, or does not count, as crowded.
    pub fn among(self, crowded: bool) -> Self {
        let crowd = if crowded { 0 } else { usize::MAX };
        Self { config: Config { crowd, ..self.config }, ..self }
    }

    /// Namespaces, the pool and the class; nothing is asked for yet.
    pub fn empty(&self, pace: Pace) -> World {
        let mut world = World::new(self.config.clone(), pace);
        for name in ["tenant-a", "tenant-b", HOME, sim::metallb::NAMESPACE] {
            world.create(namespace(name, json!({ "name": name })));
        }
        world.create(pool("reserved", json!({ "addresses": self.addresses, "autoAssign": false })));
        world.create(class("pub", self.policy, json!({ "pool": "reserved" })));
        world.settle();
        world
    }

    /// The claim `web-ip` is bound, and whoever else wants an address waits.
    pub fn world(&self, pace: Pace) -> World {
        let mut world = self.empty(pace);
        world.create(claim("tenant-a", "web-ip", json!({ "family": self.family })));
        world.settle();
        assert_eq!(world.claim_phase("web-ip"), "Bound", "{}", world.last_words(40));
        if self.contended {
            world.contend();
        }
        world.mark();
        world
    }
}

impl World {
    /// Another claim and a stranger's Service wait for an address of the pool.
    pub fn contend(&mut self) {
        self.create(claim("tenant-b", "late", json!({})));
        let lb_class = self.config.lb_class.clone();
        for (name, family) in [("a-thief", "IPv4"), ("a-thief-6", "IPv6")] {
            let spec = json!({ "ipFamilies": [family], "loadBalancerClass": lb_class });
            self.create(service_in("tenant-b", name, json!({ names::POOL: "reserved" }), spec));
        }
        self.settle();
        self.assert_late_waits();
    }

    /// Nobody of ours took what was free for a moment.
    pub fn assert_late_waits(&self) {
        let late = ClaimKey::new("tenant-b", "late");
        let Some(Object::Claim(late)) = self.server.get(&Ref::claim(&late)) else { panic!() };
        assert_eq!(late.phase(), api::claim::ClaimPhase::Pending, "{}", self.last_words(60));
    }

    /// The stranger's Service waits again.
    pub fn contend_anew(&mut self) {
        let spec = json!({ "ipFamilies": ["IPv4"], "loadBalancerClass": self.config.lb_class });
        self.create(service_in("tenant-b", "a-thief", json!({ names::POOL: "reserved" }), spec));
        self.settle();
    }

    /// Annotations of a Service, set or (by null) removed.
    pub fn annotate(&mut self, name: &str, annotations: Value) {
        self.patch(&service_ref(name), json!({ "metadata": { "annotations": annotations } }));
    }
}
