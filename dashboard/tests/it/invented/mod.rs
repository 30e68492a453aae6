//! Clusters that never were: a small one with everything that can be shown, and one of any size.

mod clusters;

use std::sync::Arc;

use dashboard::world::{About, Source, World};
use dashboard::{Live, follow};
use k8s_openapi::api::core::v1;
use kube::core::DynamicObject;
use plan::{Change, Kind, Object};
use serde_json::{Value, json};

pub use clusters::{large, small};

/// The namespace of the placeholders.
pub const HOME: &str = "address-system";
/// The moment at which the invented clusters are looked at.
pub const NOW: &str = "2026-11-30T14:02:31Z";

const PIN: &str = "metallb.io/loadBalancerIPs";
const CLAIM: &str = "local.sdn.cozystack.io/ip-address-claim";
pub const DRIVER: &str = "metallb.drivers.local.sdn.cozystack.io";

/// A moment so many seconds before [`NOW`].
pub fn ago(seconds: i64) -> String {
    let now: jiff::Timestamp = NOW.parse().unwrap();
    (now - jiff::SignedDuration::from_secs(seconds)).to_string()
}

/// Objects to be fed to an index.
#[derive(Default)]
pub struct Invented(Vec<(Source, Object)>);

fn micro(seconds: i64) -> String {
    ago(seconds).replace('Z', ".000000Z")
}

pub fn condition(kind: &str, status: bool, reason: &str, message: &str, seconds: i64) -> Value {
    let status = if status { "True" } else { "False" };
    json!({ "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": ago(seconds) })
}

pub fn meta(namespace: Option<&str>, name: &str, seconds: i64) -> Value {
    let mut meta = json!({ "name": name, "uid": format!("uid-{name}"), "creationTimestamp": ago(seconds) });
    if let Some(namespace) = namespace {
        meta["namespace"] = json!(namespace);
        meta["uid"] = json!(format!("uid-{namespace}-{name}"));
    }
    meta
}

/// An object of a kind, from its text.
pub fn object(kind: Kind, value: Value) -> Object {
    match kind {
        Kind::Class => Object::Class(Arc::new(serde_json::from_value(value).unwrap())),
        Kind::Address => Object::Address(Arc::new(serde_json::from_value(value).unwrap())),
        Kind::Claim => Object::Claim(Arc::new(serde_json::from_value(value).unwrap())),
        Kind::Service => Object::Service(Arc::new(serde_json::from_value(value).unwrap())),
        Kind::Pool => Object::Pool(Arc::new(serde_json::from_value::<DynamicObject>(value).unwrap())),
        other => panic!("{other} is not invented"),
    }
}

impl Invented {
    pub fn add(&mut self, kind: Kind, value: Value) {
        self.0.push((Source::Kind(kind), object(kind, value)));
    }

    pub fn event(
        &mut self,
        about: About,
        namespace: &str,
        name: &str,
        reason: &str,
        note: &str,
        seconds: i64,
    ) {
        let event: v1::Event = serde_json::from_value(json!({
            "metadata": { "namespace": if namespace.is_empty() { "default" } else { namespace },
                "name": format!("{name}.{reason}.{seconds}") },
            "involvedObject": { "kind": about.kind(), "namespace": namespace, "name": name },
            "type": "Warning", "reason": reason, "message": note, "eventTime": micro(seconds),
            "reportingComponent": "metallb-iad",
        }))
        .unwrap();
        self.0.push((Source::Events(about), Object::Event(Arc::new(event))));
    }

    pub fn pool(&mut self, name: &str, addresses: &[&str], auto_assign: bool) {
        self.add(
            Kind::Pool,
            json!({ "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": meta(Some("metallb-system"), name, 9_000_000),
                "spec": { "addresses": addresses, "autoAssign": auto_assign } }),
        );
    }

    pub fn class(&mut self, name: &str, pool: &str, refusal: Option<(&str, &str)>) {
        let (accepted, reason, message) = match refusal {
            None => (true, "Accepted", format!("new addresses are drawn from IPAddressPool {pool}")),
            Some((reason, message)) => (false, reason, message.to_owned()),
        };
        let conditions =
            ["Accepted", "Ready"].map(|kind| condition(kind, accepted, reason, &message, 8_000_000));
        self.add(
            Kind::Class,
            json!({ "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClass", "metadata": meta(None, name, 9_000_000),
                "spec": { "provisioner": DRIVER, "reclaimPolicy": "Retain", "parameters": { "pool": pool } },
                "status": { "pool": pool, "conditions": conditions } }),
        );
    }

    pub fn default_class(&mut self, name: &str, pool: &str) {
        self.class(name, pool, None);
        if let Some((_, Object::Class(class))) = self.0.last_mut() {
            let annotations = Arc::get_mut(class).unwrap().metadata.annotations.get_or_insert_default();
            annotations
                .insert("ipaddressclass.local.sdn.cozystack.io/is-default-class".into(), "true".into());
        }
    }

    pub fn claim(&mut self, namespace: &str, name: &str, class: &str, ips: &[&str], seconds: i64) {
        let addresses: Vec<_> =
            ips.iter().map(|ip| json!({ "name": object_name(ip), "address": ip })).collect();
        let family = match ips {
            [_, _] => "Dual",
            [ip] if ip.contains(':') => "IPv6",
            _ => "IPv4",
        };
        let bound =
            ["Bound", "Ready"].map(|kind| condition(kind, true, "Bound", "every family is bound", seconds));
        self.add(
            Kind::Claim,
            json!({ "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClaim",
                "metadata": with(meta(Some(namespace), name, seconds), "annotations", json!({ "local.sdn.cozystack.io/provisioner": DRIVER })),
                "spec": { "className": class, "family": family },
                "status": { "phase": "Bound", "className": class, "addresses": addresses, "conditions": bound } }),
        );
    }

    pub fn waiting(
        &mut self,
        namespace: &str,
        name: &str,
        class: Option<&str>,
        conditions: &[Value],
        seconds: i64,
    ) {
        self.waiting_as(namespace, name, class, conditions, seconds, |_| ());
    }

    /// The same; `edit` changes the object before it is fed.
    pub fn waiting_as(
        &mut self,
        namespace: &str,
        name: &str,
        class: Option<&str>,
        conditions: &[Value],
        seconds: i64,
        edit: impl FnOnce(&mut Value),
    ) {
        let mut spec = json!({ "family": "IPv4" });
        let mut meta = meta(Some(namespace), name, seconds);
        if let Some(class) = class {
            spec["className"] = json!(class);
            meta["annotations"] = json!({ "local.sdn.cozystack.io/provisioner": DRIVER });
        }
        let mut claim = json!({ "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClaim", "metadata": meta, "spec": spec,
            "status": { "phase": "Pending", "className": class, "conditions": conditions } });
        edit(&mut claim);
        self.add(Kind::Claim, claim);
    }

    /// An address; `edit` changes the object before it is fed.
    pub fn address(
        &mut self,
        ip: &str,
        class: &str,
        phase: &str,
        claim: Option<(&str, &str)>,
        seconds: i64,
        edit: impl FnOnce(&mut Value),
    ) {
        let mut object = json!({
            "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
            "metadata": with(meta(None, &object_name(ip), seconds), "finalizers", json!([format!("{DRIVER}/teardown")])),
            "spec": { "className": class, "address": ip, "source": { "fromClass": {} } },
            "status": { "phase": phase, "conditions": [condition("Held", true, "Held", "the placeholder holds the address", seconds)] },
        });
        if let Some((namespace, name)) = claim {
            object["spec"]["claimRef"] =
                json!({ "namespace": namespace, "name": name, "uid": format!("uid-{namespace}-{name}") });
        }
        edit(&mut object);
        self.add(Kind::Address, object);
    }

    pub fn attached(&mut self, ip: &str, class: &str, claim: (&str, &str), service: &str, seconds: i64) {
        let (namespace, name) = claim;
        self.address(ip, class, "Bound", Some(claim), seconds + 60, |object| {
            let uid = format!("uid-{namespace}-{service}");
            object["status"]["associatedTo"] = json!({ "kind": "Service", "namespace": namespace, "name": service, "uid": uid });
            object["status"]["associationHistory"] =
                json!([{ "namespace": namespace, "name": service, "uid": uid, "since": micro(seconds) }]);
            object["status"]["lastHandoff"] = json!({
                "direction": "Associate", "mode": "Overlap", "from": format!("{HOME}/iad-{}", object_name(ip)),
                "to": format!("{namespace}/{service}"), "startedAt": micro(seconds), "finishedAt": micro(seconds - 1),
                "unheldMilliseconds": 0, "traceID": "4bf92f3577b34da6a3ce929d0e0e4736" });
            object["status"]["conditions"] = json!([
                condition("Associated", true, "Associated", &format!("Service {namespace}/{service} has the address"), seconds),
                condition("Held", true, "Associated", &format!("Service {namespace}/{service} holds the address"), seconds)]);
        });
        self.service(
            namespace,
            service,
            &[ip],
            json!({ CLAIM: name, PIN: ip, format!("{DRIVER}/pinned"): "true" }),
            seconds,
        );
    }

    pub fn reserved(
        &mut self,
        ip: &str,
        class: &str,
        phase: &str,
        claim: Option<(&str, &str)>,
        seconds: i64,
    ) {
        self.address(ip, class, phase, claim, seconds, |_| ());
        self.hold(ip, seconds);
    }

    pub fn hold(&mut self, ip: &str, seconds: i64) {
        let name = object_name(ip);
        let labels = json!({ format!("{DRIVER}/placeholder"): "true", format!("{DRIVER}/ip-address"): name });
        self.add(
            Kind::Service,
            json!({ "metadata": with(meta(Some(HOME), &format!("iad-{name}"), seconds), "labels", labels),
                "spec": { "type": "LoadBalancer", "ports": [{ "port": 65535, "protocol": "TCP" }] },
                "status": { "loadBalancer": { "ingress": [{ "ip": ip }] } } }),
        );
    }

    pub fn service(&mut self, namespace: &str, name: &str, ips: &[&str], annotations: Value, seconds: i64) {
        let ingress: Vec<_> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
        self.add(
            Kind::Service,
            json!({ "metadata": with(meta(Some(namespace), name, seconds), "annotations", annotations),
                "spec": { "type": "LoadBalancer", "ports": [{ "port": 443, "protocol": "TCP" }] },
                "status": { "loadBalancer": { "ingress": ingress } } }),
        );
    }

    /// Tells an index of these objects, one by one.
    pub fn feed(self, live: &Live) {
        for (source, object) in self.0 {
            live.edit().take_in(source, Change::Applied(object));
        }
    }

    /// A Service that takes IPs, by MetalLB or past it.
    pub fn taker(
        &mut self,
        namespace: &str,
        name: &str,
        ingress: &[&str],
        external: &[&str],
        annotations: Value,
        lb_ip: Option<&str>,
    ) {
        let ingress: Vec<_> = ingress.iter().map(|ip| json!({ "ip": ip })).collect();
        self.add(
            Kind::Service,
            json!({ "metadata": with(meta(Some(namespace), name, 30), "annotations", annotations),
                "spec": { "type": if ingress.is_empty() { "ClusterIP" } else { "LoadBalancer" }, "externalIPs": external,
                    "loadBalancerIP": lb_ip },
                "status": { "loadBalancer": { "ingress": ingress } } }),
        );
    }

    /// The index that these objects make.
    pub fn world(self) -> World {
        let mut world = World::new(HOME);
        for (source, feed) in follow::feeds("metallb-system") {
            world.take_in(source, Change::ListBegins(feed.kind()));
        }
        for (source, object) in self.0 {
            world.take_in(source, Change::InList(object));
        }
        for (source, feed) in follow::feeds("metallb-system") {
            world.take_in(source, Change::Listed(feed.kind()));
        }
        world
    }

    /// The same, to be served.
    pub fn live(self) -> Arc<Live> {
        let live = Live::new(self.world());
        live.tell();
        live
    }
}

pub fn with(mut object: Value, field: &str, value: Value) -> Value {
    object[field] = value;
    object
}

pub fn object_name(ip: &str) -> String {
    let ip: api::Ip = ip.parse().unwrap();
    ip.object_name().to_string()
}
