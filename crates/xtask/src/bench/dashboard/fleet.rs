//! What stands in the ledger: as many addresses, claims and Services, spread over tenants as in a real cluster.

use std::net::Ipv4Addr;

use api::Ip;
use api::wellknown::{self, driver};
use serde_json::{Value, json};

/// Where the placeholders are.
pub(super) const PLACEHOLDERS: &str = "metallb-iad-system";
const VERSION: &str = "local.sdn.cozystack.io/v1alpha1";
const BEGAN: &str = "2026-01-02T03:04:05Z";
/// How many claims a tenant has.
const PER_TENANT: u32 = 40;

/// The objects, by number.
#[derive(Clone, Debug)]
pub(super) struct Fleet {
    count: u32,
}

/// A kind of objects, as its path on the API server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Many {
    Addresses,
    Claims,
    Services,
    Classes,
    Pools,
    Events,
    /// Events about what has none.
    Nothing,
}

/// What becomes of an address: seven of ten are attached, two are held, one is nobody's.
fn is_attached(number: u32) -> bool {
    number % 10 < 7
}

fn is_claimed(number: u32) -> bool {
    number % 10 < 9
}

fn ip(number: u32) -> Ip {
    // 198.18.0.0/15 is set aside for benchmarks; every fourth IP stays free.
    Ip::from(Ipv4Addr::from(0xc612_0001 + number + number / 3))
}

fn tenant(number: u32) -> String {
    format!("tenant-{:04}", number / PER_TENANT)
}

fn uid(kind: u32, number: u32) -> String {
    format!("{kind:08x}-0000-4000-8000-{number:012x}")
}

fn condition(kind: &str, reason: &str) -> Value {
    json!({
        "type": kind, "status": "True", "reason": reason, "message": "as it should be", "lastTransitionTime": BEGAN,
        "observedGeneration": 1,
    })
}

impl Fleet {
    pub(super) fn new(count: u32) -> Self {
        Self { count }
    }

    /// How many of a kind there are.
    pub(super) fn len(&self, many: Many) -> u32 {
        match many {
            Many::Addresses | Many::Claims | Many::Services => self.count,
            Many::Events => 500.min(self.count),
            Many::Classes | Many::Pools => 2,
            Many::Nothing => 0,
        }
    }

    /// One of them.
    pub(super) fn object(many: Many, number: u32, version: u64) -> Value {
        let mut object = match many {
            Many::Addresses => address(number, false),
            Many::Claims => claim(number),
            Many::Services => service(number),
            Many::Classes => class(number),
            Many::Pools => pool(number),
            Many::Events | Many::Nothing => event(number),
        };
        object["metadata"]["resourceVersion"] = version.to_string().into();
        object["metadata"]["creationTimestamp"] = BEGAN.into();
        object
    }

    /// An address after its hold was checked anew.
    pub(super) fn changed(number: u32, version: u64) -> Value {
        let mut object = address(number, version.is_multiple_of(2));
        object["metadata"]["resourceVersion"] = version.to_string().into();
        object["metadata"]["creationTimestamp"] = BEGAN.into();
        object
    }

    /// Every kind of page, many of each.
    pub(super) fn pages(&self) -> Vec<(&'static str, Vec<String>)> {
        let some = |make: &dyn Fn(u32) -> String| -> Vec<String> {
            (0..97).map(|step| make((step * 7_919) % self.count)).collect()
        };
        vec![
            ("/", some(&|_| "/".to_owned())),
            ("/addresses", some(&|number| format!("/addresses?page={}", 1 + number % 100))),
            ("/addresses?q=IP", some(&|number| format!("/addresses?q={}", ip(number)))),
            (
                "/addresses?q=CIDR&gaps",
                some(&|number| format!("/addresses?q=198.18.{}.0/24&gaps=1", number % 90)),
            ),
            (
                "/addresses?q=TEXT&sort",
                some(&|number| format!("/addresses?q=web-{}&sort=-since", number % 100)),
            ),
            ("/addresses?gaps", some(&|number| format!("/addresses?gaps=1&page={}", 1 + number % 100))),
            ("/addresses/NAME", some(&|number| format!("/addresses/{}", ip(number).object_name()))),
            ("/addresses.json", some(&|number| format!("/addresses.json?page={}", 1 + number % 100))),
            ("/claims", some(&|number| format!("/claims?page={}", 1 + number % 100))),
            ("/claims?q=TENANT", some(&|number| format!("/claims?q={}", tenant(number)))),
            ("/claims/NS/NAME", some(&|number| format!("/claims/{}/claim-{number}", tenant(number)))),
            ("/services", some(&|number| format!("/services?page={}", 1 + number % 100))),
            ("/services?q=TEXT", some(&|number| format!("/services?q=web-{}", number % 100))),
            (
                "/services?sort=origin",
                some(&|number| format!("/services?sort=origin&page={}", 1 + number % 100)),
            ),
            ("/classes", some(&|_| "/classes".to_owned())),
            ("/classes/NAME", some(&|number| format!("/classes/class-{}", number % 2))),
            ("/associations", some(&|_| "/associations".to_owned())),
            ("/conflicts", some(&|_| "/conflicts".to_owned())),
            ("/ip/IP", some(&|number| format!("/ip/198.18.{}.{}", number % 90, number % 251))),
        ]
    }
}

fn address(number: u32, stirred: bool) -> Value {
    let ip = ip(number);
    let reason = if stirred { "Held" } else { "Checked" };
    let mut status = json!({
        "phase": if is_claimed(number) { "Bound" } else { "Available" },
        "conditions": [condition("Held", reason), condition("Valid", "Valid")], "observedGeneration": 1,
    });
    let mut spec = json!({
        "className": format!("class-{}", number % 2), "address": ip.to_string(), "reclaimPolicy": "Retain",
        "source": { "fromClass": {} },
    });
    let tenant = tenant(number);
    if is_claimed(number) {
        let name = format!("claim-{number}");
        spec["claimRef"] = json!({ "namespace": tenant, "name": name, "uid": uid(2, number) });
    }
    if is_attached(number) {
        let name = format!("web-{number}");
        let uid = uid(3, number);
        status["associatedTo"] = json!({ "kind": "Service", "namespace": tenant, "name": name, "uid": uid });
        status["lastHandoff"] = json!({
            "direction": "Associate", "mode": "Overlap", "to": format!("{tenant}/{name}"),
            "from": format!("{PLACEHOLDERS}/iad-{}", ip.object_name()),
            "startedAt": BEGAN, "finishedAt": BEGAN, "unheldMilliseconds": 0,
        });
        status["associationHistory"] =
            json!([{ "namespace": tenant, "name": name, "uid": uid, "since": BEGAN }]);
    }
    json!({
        "apiVersion": VERSION, "kind": "IPAddress",
        "metadata": { "name": ip.object_name().to_string(), "uid": uid(1, number), "generation": 1,
                      "finalizers": [driver::TEARDOWN] },
        "spec": spec, "status": status,
    })
}

fn claim(number: u32) -> Value {
    let bound = is_claimed(number);
    let addresses = if bound {
        json!([{ "name": ip(number).object_name().to_string(), "address": ip(number).to_string() }])
    } else {
        json!([])
    };
    json!({
        "apiVersion": VERSION, "kind": "IPAddressClaim",
        "metadata": { "name": format!("claim-{number}"), "namespace": tenant(number), "uid": uid(2, number), "generation": 1 },
        "spec": { "className": format!("class-{}", number % 2), "family": "IPv4" },
        "status": { "phase": if bound { "Bound" } else { "Pending" }, "addresses": addresses,
                    "conditions": [condition("Bound", if bound { "Bound" } else { "WaitingForProvisioning" })] },
    })
}

fn service(number: u32) -> Value {
    let attached = is_attached(number);
    let ip = ip(number);
    let (namespace, name, metadata) = if attached {
        let claim = format!("claim-{number}");
        (tenant(number), format!("web-{number}"), json!({ "annotations": { wellknown::CLAIM: claim } }))
    } else {
        let labels = json!({ driver::PLACEHOLDER: "true", driver::IP_ADDRESS: ip.object_name().to_string() });
        (PLACEHOLDERS.to_owned(), format!("iad-{}", ip.object_name()), json!({ "labels": labels }))
    };
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80, "protocol": "TCP" }], "ipFamilies": ["IPv4"],
                  "ipFamilyPolicy": "SingleStack", "externalTrafficPolicy": "Cluster" },
        "status": { "loadBalancer": { "ingress": [{ "ip": ip.to_string(), "ipMode": "VIP" }] } },
    });
    service["metadata"]["name"] = name.into();
    service["metadata"]["namespace"] = namespace.into();
    service["metadata"]["uid"] = uid(3, number).into();
    service
}

fn class(number: u32) -> Value {
    json!({
        "apiVersion": VERSION, "kind": "IPAddressClass",
        "metadata": { "name": format!("class-{number}"), "uid": uid(4, number), "generation": 1 },
        "spec": { "provisioner": driver::PROVISIONER, "reclaimPolicy": "Retain",
                  "parameters": { "pool": format!("pool-{number}") } },
        "status": { "pool": format!("pool-{number}"),
                    "conditions": [condition("Accepted", "Accepted"), condition("Ready", "Accepted")] },
    })
}

fn pool(number: u32) -> Value {
    json!({
        "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
        "metadata": { "name": format!("pool-{number}"), "namespace": "metallb-system", "uid": uid(5, number) },
        "spec": { "addresses": [format!("198.{}.0.0/16", 18 + number)], "autoAssign": false },
    })
}

fn event(number: u32) -> Value {
    let (namespace, name) = (tenant(number), format!("web-{number}"));
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": format!("{name}.{number}"), "namespace": namespace, "uid": uid(6, number) },
        "involvedObject": { "kind": "Service", "namespace": namespace, "name": name, "uid": uid(3, number) },
        "reason": "Associated", "message": "it has its address", "type": "Normal",
        "firstTimestamp": BEGAN, "lastTimestamp": BEGAN, "count": 1, "source": { "component": "metallb-iad" },
    })
}
