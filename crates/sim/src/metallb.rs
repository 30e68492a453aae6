//! MetalLB's controller (v0.15.2, by what it does): converges each Service, and all of them whenever something
//! may have become free.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::ServiceKey;
use api::wellknown::{driver, metallb as names};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Kind, Object, Ref};
use serde_json::{Value, json};

use crate::books::{Books, Pool, Request};
use crate::chance::Chance;
use crate::server::Server;

/// Where MetalLB and the pools live.
pub const NAMESPACE: &str = "metallb-system";

#[derive(Clone, Default)]
pub struct MetalLb {
    pub books: Books,
    pub lb_class: Option<String>,
    /// Whether the process is down: nothing is done, nothing is forgotten on the objects.
    pub down: bool,
    dirty: BTreeSet<ServiceKey>,
    all: bool,
    pools_changed: bool,
    counted: BTreeMap<String, [usize; 4]>,
    order: Option<Chance>,
}

impl MetalLb {
    /// MetalLB that works on Services in a random order; without a seed, in the worst one: thieves first.
    pub fn shuffled(seed: u64) -> Self {
        Self { order: Some(Chance::of(seed)), ..Self::default() }
    }

    /// The process was restarted: its books are made anew of what the Services show.
    pub fn restart(&mut self, server: &mut Server) {
        self.down = false;
        self.books = Books::default();
        self.read_pools(server);
        self.reload(server);
        self.dirty = services(server).map(|service| key_of(service)).collect();
    }

    pub fn notice(&mut self, reference: &Ref) {
        match reference.kind {
            Kind::Service => {
                let namespace = reference.namespace.clone().unwrap_or_default();
                self.dirty.insert(ServiceKey::new(namespace, &reference.name));
            }
            Kind::Pool | Kind::Namespace => self.pools_changed = true,
            _ => {}
        }
    }

    pub fn is_idle(&self) -> bool {
        self.down || (self.dirty.is_empty() && !self.all && !self.pools_changed)
    }

    /// One piece of work. Says what was done.
    pub fn step(&mut self, server: &mut Server) -> Option<String> {
        if self.is_idle() {
            return None;
        }
        if std::mem::take(&mut self.pools_changed) {
            self.read_pools(server);
            self.counted.clear();
            self.all = true;
            return Some("reads the pools".to_owned());
        }
        // A reload runs before the next single Service, or after all of them.
        let reload_first = self.order.as_mut().is_none_or(|chance| chance.below(2) == 0);
        let said = if self.all && (reload_first || self.dirty.is_empty()) {
            self.reload(server);
            "looks at every Service".to_owned()
        } else {
            let key = self.pick(server)?;
            self.dirty.remove(&key);
            self.converge(&key, server);
            let has = self.books.allocated.get(&key).map(|alloc| alloc.ips.clone()).unwrap_or_default();
            format!("{key} has {has:?}")
        };
        self.count(server);
        Some(said)
    }

    /// Every Service, those that have IPs first.
    fn reload(&mut self, server: &mut Server) {
        self.all = false;
        let mut order: Vec<_> =
            services(server).map(|service| (key_of(service), Arc::clone(service))).collect();
        let assigned = |service: &Service| usize::MAX - ingress(service).len();
        order.sort_by_key(|(key, service)| (assigned(service), Self::rank(service), key.clone()));
        for (key, _) in order {
            self.converge(&key, server);
        }
    }

    fn pick(&mut self, server: &Server) -> Option<ServiceKey> {
        if let Some(chance) = &mut self.order {
            let at = chance.below(self.dirty.len().max(1));
            return self.dirty.iter().nth(at).cloned();
        }
        let rank = |key: &&ServiceKey| {
            let rank = service(server, key).map_or(9, |service| Self::rank(service));
            (rank, (*key).clone())
        };
        self.dirty.iter().min_by_key(rank).cloned()
    }

    /// Who goes first, at worst: strangers that wait, our own that wait for any IP, Services, placeholders.
    fn rank(service: &Service) -> u8 {
        let placeholder = service.labels().contains_key(driver::PLACEHOLDER);
        let pinned = service.annotations().contains_key(names::PIN);
        match (ingress(service).is_empty(), placeholder, pinned) {
            (true, false, false) => 0,
            (true, true, false) => 1,
            (_, false, _) => 2,
            (_, true, _) => 3,
        }
    }

    fn read_pools(&mut self, server: &Server) {
        let namespaces: BTreeMap<_, _> =
            server.all(Kind::Namespace).map(|object| (object.reference().name, labels(object))).collect();
        let pools = server.all(Kind::Pool).map(|object| {
            let value = server.value(&object.reference()).unwrap();
            (object.reference().name, Pool::of(&value["spec"], &namespaces))
        });
        self.books.set_pools(pools.collect());
    }

    fn converge(&mut self, key: &ServiceKey, server: &mut Server) {
        let Some(service) = service(server, key).map(Arc::clone) else {
            if self.books.allocated.contains_key(key) {
                self.books.unassign(key);
                self.all = true;
            }
            return;
        };
        let class = service.spec.as_ref().and_then(|spec| spec.load_balancer_class.clone());
        if class != self.lb_class {
            return;
        }
        let before = self.books.allocated.get(key).cloned();
        let ips = match self.decide(key, &service) {
            Ok(ips) => ips,
            Err(Failure { reason, words }) => {
                if let Some(reason) = reason {
                    tell(server, &service, reason, &format!("Failed to allocate IP for \"{key}\": {words}"));
                }
                Vec::new()
            }
        };
        let after = self.books.allocated.get(key);
        let moved = before.as_ref().map(|alloc| &alloc.key) != after.map(|alloc| &alloc.key);
        let freed =
            before.as_ref().is_some_and(|old| after.is_none() && self.books.pool_for(&old.ips).is_some());
        self.all |= moved || freed;
        let texts: Vec<_> = ips.iter().map(IpAddr::to_string).collect();
        let reference = Ref::service(key);
        if texts != ingress(&service) {
            let list: Vec<_> = texts.iter().map(|ip| json!({ "ip": ip })).collect();
            let ingress = if list.is_empty() { Value::Null } else { json!(list) };
            let body = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
            server.patch(&reference, true, &body, None).unwrap();
        }
        let pool = after.map(|alloc| alloc.pool.clone());
        let marked = service.annotations().get("metallb.io/ip-allocated-from-pool").cloned();
        if marked != pool {
            let body =
                json!({ "metadata": { "annotations": { "metallb.io/ip-allocated-from-pool": pool } } });
            server.patch(&reference, false, &body, None).unwrap();
        }
    }

    /// The IPs the Service has from now on.
    fn decide(&mut self, key: &ServiceKey, service: &Service) -> Result<Vec<IpAddr>, Failure> {
        let spec = service.spec.clone().unwrap_or_default();
        let quiet = || Failure { reason: None, words: String::new() };
        if spec.type_.as_deref() != Some("LoadBalancer") || self.books.pools.is_empty() {
            self.books.unassign(key);
            return Err(quiet());
        }
        let policy = spec.ip_family_policy.clone().unwrap_or_default();
        let families = spec.ip_families.clone().unwrap_or_default();
        let wants = (families.iter().any(|one| one == "IPv4"), families.iter().any(|one| one == "IPv6"));
        let request = Wish::of(key, service);
        let request = request.request();
        let mut ips: Vec<IpAddr> = ingress(service).iter().filter_map(|ip| ip.parse().ok()).collect();
        let has = (ips.iter().any(IpAddr::is_ipv4), ips.iter().any(IpAddr::is_ipv6));
        let tolerated = policy == "PreferDualStack" && wants == (true, true);
        if ips.is_empty() || (has != wants && !tolerated) {
            self.books.unassign(key);
            ips.clear();
        }
        if !ips.is_empty() && self.books.assign(&request, &ips).is_err() {
            self.books.unassign(key);
            ips.clear();
        }
        let wanted_pool = annotation(service, names::POOL, names::POOL_OLD);
        if !ips.is_empty() && !wanted_pool.is_empty() && self.books.pool_of(key) != Some(wanted_pool) {
            self.books.unassign(key);
            ips.clear();
        }
        // What is wrong with the pin is found before anything is cleared for it.
        let desired = match pins(service) {
            Ok(desired) => desired,
            Err(words) if ips.is_empty() => return Err(Failure { reason: Some("AllocationFailed"), words }),
            Err(_) => return Ok(ips),
        };
        let sorted = |ips: &[IpAddr]| ips.iter().copied().collect::<BTreeSet<_>>();
        if !ips.is_empty() && !desired.is_empty() && sorted(&ips) != sorted(&desired) {
            self.books.unassign(key);
            ips.clear();
        }
        let failed = |words: String| Failure { reason: Some("AllocationFailed"), words };
        if ips.len() == 1 && policy == "PreferDualStack" && wants == (true, true) {
            let pool = self.books.pool_of(key).unwrap_or_default().to_owned();
            if let Some(more) = self.books.free(&request, &pool, !ips[0].is_ipv4()) {
                let both = vec![ips[0], more];
                if self.books.assign(&request, &both).is_ok() {
                    ips = both;
                }
            }
        }
        if !ips.is_empty() {
            return Ok(ips);
        }
        if !desired.is_empty() {
            let has = (desired.iter().any(IpAddr::is_ipv4), desired.iter().any(IpAddr::is_ipv6));
            if has != wants {
                let words = format!("requested IP(s) {desired:?} does not match the ipFamily of the service");
                return Err(failed(words));
            }
            self.books.assign(&request, &desired).map_err(failed)?;
            if !wanted_pool.is_empty() && self.books.pool_of(key) != Some(wanted_pool) {
                self.books.unassign(key);
                return Err(failed(format!("not compatible with requested address pool {wanted_pool}")));
            }
            return Ok(desired);
        }
        let pools: Vec<String> = if wanted_pool.is_empty() {
            let open = self.books.pools.iter().filter(|(_, pool)| pool.auto_assign);
            open.map(|(name, _)| name.clone()).collect()
        } else if self.books.pools.contains_key(wanted_pool) {
            vec![wanted_pool.to_owned()]
        } else {
            return Err(failed(format!("unknown pool \"{wanted_pool}\"")));
        };
        for pool in pools {
            let v4 = wants.0.then(|| self.books.free(&request, &pool, true));
            let v6 = wants.1.then(|| self.books.free(&request, &pool, false));
            let found: Vec<_> = [v4, v6].into_iter().flatten().collect();
            let prefer = policy == "PreferDualStack";
            let ips: Vec<_> = found.iter().flatten().copied().collect();
            if !ips.is_empty()
                && (prefer || ips.len() == found.len())
                && self.books.assign(&request, &ips).is_ok()
            {
                return Ok(ips);
            }
        }
        Err(failed("no available IPs".to_owned()))
    }

    fn count(&mut self, server: &mut Server) {
        let names: Vec<_> = server.all(Kind::Pool).map(Object::reference).collect();
        for reference in names {
            let (assigned4, free4) = self.books.counters(&reference.name, true);
            let (assigned6, free6) = self.books.counters(&reference.name, false);
            let counters = [assigned4, free4, assigned6, free6];
            if self.counted.insert(reference.name.clone(), counters) == Some(counters) {
                continue;
            }
            let body = json!({ "status": {
                "assignedIPv4": assigned4, "assignedIPv6": assigned6,
                "availableIPv4": free4, "availableIPv6": free6,
            }});
            let before = server.touched.len();
            server.patch(&reference, true, &body, None).unwrap();
            // Its own counters are no news to it.
            server.touched.truncate(before);
        }
    }
}

struct Failure {
    reason: Option<&'static str>,
    words: String,
}

struct Wish {
    key: ServiceKey,
    labels: BTreeMap<String, String>,
    ports: Vec<(String, i32)>,
    share: (String, String),
}

impl Wish {
    fn of(key: &ServiceKey, service: &Service) -> Self {
        let spec = service.spec.clone().unwrap_or_default();
        let backend = if spec.external_traffic_policy.as_deref() == Some("Local") {
            format!("{:?}", spec.selector.unwrap_or_default())
        } else {
            String::new()
        };
        let ports = spec.ports.into_iter().flatten();
        Self {
            key: key.clone(),
            labels: service.labels().clone(),
            ports: ports.map(|port| (port.protocol.unwrap_or_default(), port.port)).collect(),
            share: (annotation(service, names::SHARE, names::SHARE_OLD).to_owned(), backend),
        }
    }

    fn request(&self) -> Request<'_> {
        Request { service: &self.key, labels: &self.labels, ports: &self.ports, key: &self.share }
    }
}

/// The stable key wins, even when its value is empty.
fn annotation<'a>(service: &'a Service, stable: &str, old: &str) -> &'a str {
    let annotations = service.annotations();
    annotations.get(stable).or_else(|| annotations.get(old)).map_or("", String::as_str)
}

fn pins(service: &Service) -> Result<Vec<IpAddr>, String> {
    let field = service.spec.as_ref().and_then(|spec| spec.load_balancer_ip.clone()).unwrap_or_default();
    let text = annotation(service, names::PIN, names::PIN_OLD);
    let invalid = || format!("invalid {}: {text:?}", names::PIN);
    match (text, field.as_str()) {
        ("", "") => Ok(Vec::new()),
        ("", field) => Ok(vec![field.parse::<IpAddr>().map_err(|_| invalid())?.to_canonical()]),
        (_, "") => {
            let parts = text.split(',').map(|part| part.trim().parse::<IpAddr>());
            let ips: Result<Vec<_>, _> = parts.map(|ip| ip.map(|ip| ip.to_canonical())).collect();
            let families = |ips: &[IpAddr]| ips.iter().map(IpAddr::is_ipv4).collect::<BTreeSet<_>>().len();
            ips.ok().filter(|ips| families(ips) == ips.len()).ok_or_else(invalid)
        }
        _ => Err("service can not have both".to_owned()),
    }
}

/// An Event; one that was told before is counted up.
fn tell(server: &mut Server, service: &Service, reason: &str, message: &str) {
    let namespace = service.namespace().unwrap_or_default();
    let text = format!("{}{reason}{message}", service.uid().unwrap_or_default());
    let hash = text.bytes().fold(5381_u64, |hash, byte| hash.wrapping_mul(33) ^ u64::from(byte));
    let name = format!("{}.{hash:x}", service.name_any());
    let seconds = jiff::Timestamp::from_second(server.now().as_second()).unwrap();
    let reference = Ref { kind: Kind::Event, namespace: Some(namespace.clone()), name: name.clone() };
    if let Some(Object::Event(event)) = server.get(&reference) {
        let body = json!({ "count": event.count.unwrap_or(1) + 1, "lastTimestamp": seconds });
        server.patch(&reference, false, &body, None).unwrap();
        return;
    }
    let event = json!({
        "metadata": { "namespace": namespace, "name": name },
        "involvedObject": {
            "kind": "Service", "namespace": namespace, "name": service.name_any(), "uid": service.uid(),
        },
        "reason": reason, "message": message, "type": "Warning", "count": 1,
        "lastTimestamp": seconds,
    });
    server.create(&crate::server::decode(Kind::Event, &event)).unwrap();
}

pub fn ingress(service: &Service) -> Vec<String> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let entries = status.and_then(|status| status.ingress.as_ref()).into_iter().flatten();
    entries.filter_map(|entry| entry.ip.clone()).collect()
}

fn services(server: &Server) -> impl Iterator<Item = &Arc<Service>> {
    server.all(Kind::Service).filter_map(|object| match object {
        Object::Service(service) => Some(service),
        _ => None,
    })
}

fn service<'a>(server: &'a Server, key: &ServiceKey) -> Option<&'a Arc<Service>> {
    match server.get(&Ref::service(key)) {
        Some(Object::Service(service)) => Some(service),
        _ => None,
    }
}

fn key_of(service: &Service) -> ServiceKey {
    ServiceKey::new(service.namespace().unwrap_or_default(), service.name_any())
}

fn labels(object: &Object) -> BTreeMap<String, String> {
    object.meta().labels.clone().unwrap_or_default()
}
