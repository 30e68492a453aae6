//! Where a sequence plays: namespaces, pools and addresses that no other sequence has.

use plan::{Kind, Ref};
use serde_json::{Value, json};

use super::{Action, When};
use crate::metallb::NAMESPACE;
use crate::server::merge;

/// The names of one sequence.
#[derive(Clone, Debug)]
pub struct Place {
    number: usize,
}

impl Place {
    /// `number`: at most 255.
    pub const fn of(number: usize) -> Self {
        Self { number }
    }

    /// The namespace of its Services and claims.
    pub fn home(&self) -> String {
        format!("conform-{}", self.number)
    }

    /// A second namespace, for those that make it.
    pub fn away(&self) -> String {
        format!("conform-{}-away", self.number)
    }

    /// An address of the subnet.
    pub fn ip(&self, last: u8) -> String {
        format!("198.18.{}.{last}", self.number)
    }

    pub fn ip6(&self, last: u8) -> String {
        format!("2001:db8:{:x}::{last:x}", self.number)
    }

    /// A range as pools name them.
    pub fn range(&self, first: u8, last: u8) -> String {
        format!("{}-{}", self.ip(first), self.ip(last))
    }

    pub fn range6(&self, first: u8, last: u8) -> String {
        format!("{}-{}", self.ip6(first), self.ip6(last))
    }

    /// The name of a cluster-wide object, or of a pool.
    pub fn name(&self, short: &str) -> String {
        format!("c{}-{short}", self.number)
    }

    pub fn service(&self, name: &str) -> Ref {
        Ref { kind: Kind::Service, namespace: Some(self.home()), name: name.to_owned() }
    }

    pub fn claim(&self, name: &str) -> Ref {
        Ref { kind: Kind::Claim, namespace: Some(self.home()), name: name.to_owned() }
    }

    pub fn pool(&self, short: &str) -> Ref {
        Ref { kind: Kind::Pool, namespace: Some(NAMESPACE.to_owned()), name: self.name(short) }
    }

    pub fn address(&self, short: &str) -> Ref {
        Ref { kind: Kind::Address, namespace: None, name: self.name(short) }
    }

    pub fn class(&self, short: &str) -> Ref {
        Ref { kind: Kind::Class, namespace: None, name: self.name(short) }
    }

    pub fn namespace(&self, name: &str) -> Ref {
        Ref { kind: Kind::Namespace, namespace: None, name: name.to_owned() }
    }

    /// The object of that kind and name in the second namespace.
    pub fn there(&self, of: Ref) -> Ref {
        Ref { namespace: Some(self.away()), ..of }
    }

    /// Makes the second namespace.
    pub fn second(&self) -> Action {
        create(self.namespace(&self.away()), json!({}))
    }

    /// A load balancer for port 80.
    pub fn balancer(&self, name: &str, annotations: Value, spec: Value) -> Action {
        let mut whole = json!({
            "metadata": { "annotations": annotations },
            "spec": { "type": "LoadBalancer", "selector": { "app": name }, "ports": [{ "port": 80 }] },
        });
        merge(&mut whole["spec"], &spec);
        create(self.service(name), whole)
    }

    /// A load balancer that draws from a pool.
    pub fn draws(&self, name: &str, pool: &str) -> Action {
        self.balancer(name, json!({ "metallb.io/address-pool": self.name(pool) }), json!({}))
    }

    /// A load balancer that names an address.
    pub fn pinned(&self, name: &str, ip: &str) -> Action {
        self.balancer(name, json!({ "metallb.io/loadBalancerIPs": ip }), json!({}))
    }

    /// One that names an address and may share it, for a port of its own.
    pub fn sharing(&self, name: &str, ip: &str, key: &str, port: u16) -> Action {
        let annotations = json!({ "metallb.io/loadBalancerIPs": ip, "metallb.io/allow-shared-ip": key });
        self.balancer(name, annotations, json!({ "ports": [{ "port": port }] }))
    }

    /// A Service within the cluster.
    pub fn internal(&self, name: &str) -> Action {
        create(self.service(name), json!({ "spec": { "ports": [{ "port": 80 }] } }))
    }

    /// A pool that assigns to whoever names it.
    pub fn reserved(&self, short: &str, ranges: &[&str]) -> Action {
        self.pool_of(short, json!({ "addresses": ranges, "autoAssign": false }))
    }

    pub fn pool_of(&self, short: &str, spec: Value) -> Action {
        create(self.pool(short), json!({ "spec": spec }))
    }

    pub fn address_of(&self, short: &str, spec: Value) -> Action {
        let mut whole = json!({
            "className": "any", "address": self.ip(7), "source": { "providerRef": { "id": "one" } },
        });
        merge(&mut whole, &spec);
        create(self.address(short), json!({ "spec": whole }))
    }

    pub fn claim_of(&self, name: &str, spec: Value) -> Action {
        create(self.claim(name), json!({ "spec": spec }))
    }

    pub fn annotate(&self, service: &str, annotations: Value) -> Action {
        patch(self.service(service), json!({ "metadata": { "annotations": annotations } }))
    }

    /// A patch of a Service's spec.
    pub fn edit(&self, service: &str, spec: Value) -> Action {
        patch(self.service(service), json!({ "spec": spec }))
    }

    /// A patch of a pool's spec.
    pub fn edit_pool(&self, short: &str, spec: Value) -> Action {
        patch(self.pool(short), json!({ "spec": spec }))
    }

    /// Somebody writes what only MetalLB should.
    pub fn forge(&self, service: &str, ips: &[String]) -> Action {
        let ingress: Vec<_> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
        let body = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
        Action::Patch { of: self.service(service), status: true, body, when: When::Any }
    }
}

pub fn create(reference: Ref, object: Value) -> Action {
    let mut whole = json!({
        "apiVersion": reference.kind.api_version(), "kind": reference.kind.as_str(),
        "metadata": { "name": reference.name },
    });
    if let Some(namespace) = &reference.namespace {
        whole["metadata"]["namespace"] = json!(namespace);
    }
    merge(&mut whole, &object);
    Action::Create(reference, whole)
}

pub fn patch(of: Ref, body: Value) -> Action {
    Action::Patch { of, status: false, body, when: When::Any }
}

pub fn patch_when(of: Ref, body: Value, when: When) -> Action {
    Action::Patch { of, status: false, body, when }
}

pub fn patch_status(of: Ref, status: Value) -> Action {
    Action::Patch { of, status: true, body: json!({ "status": status }), when: When::Any }
}

/// It belongs to these.
pub fn own(of: Ref, owners: &[Ref]) -> Action {
    Action::Own { of, owners: owners.to_vec() }
}

pub fn delete(of: Ref) -> Action {
    Action::Delete { of, when: When::Any }
}

pub fn delete_when(of: Ref, when: When) -> Action {
    Action::Delete { of, when }
}

pub fn finalizers(of: Ref, finalizers: &[&str]) -> Action {
    patch(of, json!({ "metadata": { "finalizers": finalizers } }))
}
