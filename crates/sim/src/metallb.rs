//! MetalLB's controller (v0.15.2, by what it does): looks at each Service that changes, and at all of them whenever something
//! may have become free.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::ServiceKey;
use api::wellknown::{driver, metallb as names};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Kind, Object, Ref};
use serde_json::{Value, json};

use crate::books::Books;
use crate::chance::Chance;
use crate::converge::{FROM_POOL, converge, key_of};
use crate::pools;
use crate::server::Server;

pub use crate::converge::ingress;

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
    counted: BTreeMap<String, [i64; 4]>,
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
        self.counted.clear();
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

    /// Somebody gives it reason to look at every Service once more.
    pub fn look_again(&mut self) {
        self.all = true;
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
            let has_changed = self.read_pools(server);
            self.counted.clear();
            self.all |= has_changed;
            self.count(server);
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
            self.look_at(&key, server);
            let has = self.books.allocated.get(&key).map(|alloc| alloc.ips.clone()).unwrap_or_default();
            format!("{key} has {has:?}")
        };
        self.count(server);
        Some(said)
    }

    /// Every Service, those that have IPs first.
    fn reload(&mut self, server: &mut Server) {
        self.all = false;
        let mut order: Vec<_> = services(server).map(Arc::clone).collect();
        if let Some(chance) = &mut self.order {
            chance.shuffle(&mut order);
            order.sort_by_key(|service| usize::MAX - ingress(service).len());
        } else {
            let worst = |service: &Service| (usize::MAX - ingress(service).len(), Self::rank(service));
            order.sort_by_cached_key(|service| (worst(service), key_of(service)));
        }
        for service in order {
            self.look_at(&key_of(&service), server);
        }
    }

    fn pick(&mut self, server: &Server) -> Option<ServiceKey> {
        if let Some(chance) = &mut self.order {
            let at = chance.below(self.dirty.len().max(1));
            return self.dirty.iter().nth(at).cloned();
        }
        let rank = |key: &&ServiceKey| {
            let rank = server.service(key).map_or(9, |service| Self::rank(service));
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

    /// Whether its configuration changed: with one pool that cannot be read, it stays as it was.
    fn read_pools(&mut self, server: &Server) -> bool {
        let namespaces: BTreeMap<_, _> =
            server.all(Kind::Namespace).map(|object| (object.reference().name, labels(object))).collect();
        let specs = server.all(Kind::Pool).map(|object| {
            let reference = object.reference();
            let spec = &server.value(&reference).unwrap()["spec"];
            (reference.name, spec)
        });
        match pools::read(specs, &namespaces) {
            Ok(pools) if pools != self.books.pools => {
                self.books.set_pools(pools);
                true
            }
            _ => false,
        }
    }

    fn look_at(&mut self, key: &ServiceKey, server: &mut Server) {
        let Some(service) = server.service(key).map(Arc::clone) else {
            if self.books.allocated.contains_key(key) {
                self.books.unassign(key);
                self.all = true;
            }
            return;
        };
        let class = service.spec.as_ref().and_then(|spec| spec.load_balancer_class.as_ref());
        if class != self.lb_class.as_ref() {
            return;
        }
        let before = self.books.allocated.get(key).cloned();
        let shared_by = self.books.key_of(key);
        let verdict = converge(&mut self.books, &service, self.order.as_mut());
        if let Some((reason, words)) = &verdict.failure {
            tell(server, &service, reason, words);
        }
        self.all |= shared_by != self.books.key_of(key);
        let texts: Vec<_> = verdict.ingress.iter().map(ToString::to_string).collect();
        let mark = service.annotations().get(FROM_POOL);
        if texts == ingress(&service) && mark == verdict.from_pool.as_ref() {
            return;
        }
        // Who lost what is still in a pool left it to others.
        let lost = before.filter(|_| !self.books.allocated.contains_key(key));
        self.all |= lost.is_some_and(|old| self.books.pool_for(&old.ips).is_some());
        let entries: Vec<_> = texts.iter().map(|ip| json!({ "ip": ip })).collect();
        let ingress = if entries.is_empty() { Value::Null } else { json!(entries) };
        let body = json!({
            "metadata": { "annotations": { FROM_POOL: verdict.from_pool } },
            "status": { "loadBalancer": { "ingress": ingress } },
        });
        server.patch(&Ref::service(key), true, &body, None).unwrap();
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
            if counters == [0; 4] && server.value(&reference).unwrap().get("status").is_none() {
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

fn services(server: &Server) -> impl Iterator<Item = &Arc<Service>> {
    server.all(Kind::Service).filter_map(|object| match object {
        Object::Service(service) => Some(service),
        _ => None,
    })
}

fn labels(object: &Object) -> BTreeMap<String, String> {
    object.meta().labels.clone().unwrap_or_default()
}
