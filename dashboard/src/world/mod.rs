//! The index: everything that pages show, in memory, small.
//!
//! *Invariants.* Rows are built from single objects as they come; no whole list of objects is ever held. A change
//! costs no more when there are more rows. Nothing here knows of visitors: what one may see is decided by the views.

mod digest;
mod events;
mod read;
mod rows;
mod verdict;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use api::{Ip, wellknown};
use plan::{Kind, Object};
use runtime::News;

pub use digest::{Digest, Room, Totals};
pub use rows::{
    About, AddressRow, BoundTo, ClaimRow, ClassRow, ConditionRow, EventRow, HandoffRow, HeldBy, Key, PastRow,
    PoolRow, ServiceRow, Words,
};
pub use verdict::State;

use events::Events;

/// Which of the feeds something came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// All objects of a kind.
    Kind(Kind),
    /// The events about one kind.
    Events(About),
}

/// What is known of a claim besides itself.
#[derive(Debug, Default)]
struct Ties {
    addresses: Vec<Arc<str>>,
    services: Vec<Key>,
}

impl Ties {
    fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.services.is_empty()
    }
}

/// What a list brought so far.
#[derive(Debug, Default)]
struct Listing(HashSet<Key>);

/// The index.
#[derive(Debug, Default)]
pub struct World {
    placeholders: String,
    words: Words,
    addresses: HashMap<Arc<str>, Arc<AddressRow>>,
    by_ip: BTreeMap<(Option<Ip>, Arc<str>), Arc<AddressRow>>,
    claims: BTreeMap<Key, Arc<ClaimRow>>,
    services: BTreeMap<Key, Arc<ServiceRow>>,
    on_ip: BTreeMap<Ip, Vec<Key>>,
    ties: HashMap<Key, Ties>,
    classes: BTreeMap<Arc<str>, Arc<ClassRow>>,
    pools: BTreeMap<Arc<str>, Arc<PoolRow>>,
    events: Events,
    listing: HashMap<Source, Listing>,
    complete: HashSet<Source>,
    version: u64,
    /// The version in which something of a namespace last changed; what is of the cluster stands under "".
    touched: HashMap<Arc<str>, u64>,
    /// The empty text, before any name.
    nothing: Arc<str>,
}

impl World {
    /// An empty index. Only Services of the placeholder namespace are taken for placeholders.
    pub fn new(placeholders: impl Into<String>) -> Self {
        Self { placeholders: placeholders.into(), ..Self::default() }
    }

    /// Takes in what a feed brought.
    pub fn take_in(&mut self, source: Source, news: News) {
        match news {
            News::Began => {
                self.listing.insert(source, Listing::default());
            }
            News::Listed(object) => {
                let key = key_of(&object);
                if let Some(listing) = self.listing.get_mut(&source) {
                    listing.0.insert(key.clone());
                }
                self.put(source, key, &object);
            }
            News::Complete => {
                let listed = self.listing.remove(&source).unwrap_or_default().0;
                for key in self.keys(source) {
                    if !listed.contains(&key) {
                        self.drop(source, &key);
                    }
                }
                self.words.sweep();
                self.complete.insert(source);
                // What pages say of completeness changed.
                self.touch("");
            }
            News::Applied(object) => self.put(source, key_of(&object), &object),
            News::Deleted(object) => self.drop(source, &key_of(&object)),
        }
    }

    /// Whether a complete list of this feed has come.
    pub fn is_complete(&self, source: Source) -> bool {
        self.complete.contains(&source)
    }

    /// Grows with each change.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The version in which something of this namespace last changed; of "" for what is of the cluster.
    pub fn touched(&self, namespace: &str) -> u64 {
        self.touched.get(namespace).copied().unwrap_or(0)
    }

    /// The namespaces in which something was ever seen. None is forgotten: a longer list has names that are new.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.touched.keys().filter(|namespace| !namespace.is_empty())
    }

    /// How many those are.
    pub fn namespace_count(&self) -> usize {
        self.touched.len() - usize::from(self.touched.contains_key(""))
    }

    /// Something changed for whoever sees everything.
    const fn moved(&mut self) {
        self.version += 1;
    }

    /// Something changed for whoever sees this namespace; for everybody, if it is "".
    fn touch(&mut self, namespace: &str) {
        self.moved();
        let namespace = self.words.one(namespace);
        self.touched.insert(namespace, self.version);
    }

    /// An event came or went. What is said of objects of the cluster is for operators.
    fn heard(&mut self, namespace: &str) {
        if namespace.is_empty() {
            self.moved();
        } else {
            self.touch(namespace);
        }
    }

    fn keys(&self, source: Source) -> Vec<Key> {
        let cluster = |name: &Arc<str>| Key::new("", Arc::clone(name));
        match source {
            Source::Kind(Kind::Address) => self.addresses.keys().map(cluster).collect(),
            Source::Kind(Kind::Class) => self.classes.keys().map(cluster).collect(),
            Source::Kind(Kind::Pool) => self.pools.keys().map(cluster).collect(),
            Source::Kind(Kind::Claim) => self.claims.keys().cloned().collect(),
            Source::Kind(Kind::Service) => self.services.keys().cloned().collect(),
            Source::Events(about) => self.events.keys(about),
            Source::Kind(_) => Vec::new(),
        }
    }

    fn put(&mut self, source: Source, key: Key, object: &Object) {
        match object {
            Object::Address(object) => {
                let row = read::address(&mut self.words, object);
                self.set_address(&key.name, Some(row));
            }
            Object::Claim(object) => {
                let row = read::claim(&mut self.words, object);
                self.set_claim(&key, Some(row));
            }
            Object::Service(object) => {
                let row = read::service(&mut self.words, object, &self.placeholders);
                self.set_service(&key, row);
            }
            Object::Class(object) => {
                let row = read::class(&mut self.words, object);
                if self.classes.get(&row.name).is_none_or(|old| **old != row) {
                    self.classes.insert(Arc::clone(&row.name), Arc::new(row));
                    self.touch("");
                }
            }
            Object::Pool(object) => {
                let row = read::pool(&mut self.words, object);
                if self.pools.get(&key.name).is_none_or(|old| **old != row) {
                    self.pools.insert(key.name, Arc::new(row));
                    self.touch("");
                }
            }
            Object::Event(object) => {
                let Some(row) = read::event(&mut self.words, object) else { return };
                if source == Source::Events(row.about) {
                    let namespace = Arc::clone(&row.namespace);
                    self.events.put(key, row);
                    self.heard(&namespace);
                }
            }
            Object::Namespace(_) => {}
        }
    }

    fn drop(&mut self, source: Source, key: &Key) {
        match source {
            Source::Kind(Kind::Address) => self.set_address(&key.name, None),
            Source::Kind(Kind::Claim) => self.set_claim(key, None),
            Source::Kind(Kind::Service) => self.set_service(key, None),
            Source::Kind(Kind::Class) => {
                self.classes.remove(&key.name);
                self.touch("");
            }
            Source::Kind(Kind::Pool) => {
                self.pools.remove(&key.name);
                self.touch("");
            }
            Source::Events(_) => {
                if let Some(row) = self.events.remove(key) {
                    self.heard(&row.namespace);
                }
            }
            Source::Kind(_) => {}
        }
    }

    fn set_address(&mut self, name: &Arc<str>, new: Option<AddressRow>) {
        let old = self.addresses.get(name).cloned();
        if old.as_deref() == new.as_ref() {
            return;
        }
        if let Some(old) = &old {
            self.addresses.remove(name);
            self.by_ip.remove(&(old.ip, Arc::clone(name)));
            if let Some(claim) = &old.claim {
                self.untie(&claim.key, |ties| ties.addresses.retain(|tied| tied != name));
            }
        }
        let row = new.map(Arc::new);
        if let Some(row) = &row {
            let name = Arc::clone(&row.name);
            if let Some(claim) = &row.claim {
                self.ties.entry(claim.key.clone()).or_default().addresses.push(Arc::clone(&name));
            }
            self.by_ip.insert((row.ip, Arc::clone(&name)), Arc::clone(row));
            self.addresses.insert(name, Arc::clone(row));
        }
        self.moved();
        for row in [old, row].into_iter().flatten() {
            for namespace in namespaces_of(&row) {
                self.touch(&namespace);
            }
        }
    }

    fn set_claim(&mut self, key: &Key, new: Option<ClaimRow>) {
        if self.claims.get(key).map(|row| &**row) == new.as_ref() {
            return;
        }
        match new {
            Some(row) => self.claims.insert(row.key.clone(), Arc::new(row)),
            None => self.claims.remove(key),
        };
        self.touch(&key.namespace);
    }

    fn set_service(&mut self, key: &Key, new: Option<ServiceRow>) {
        let old = self.services.get(key).cloned();
        if old.as_deref() == new.as_ref() {
            return;
        }
        if let Some(old) = old {
            self.services.remove(key);
            for ip in old.ingress.iter().chain(&old.external) {
                if let Some(keys) = self.on_ip.get_mut(ip) {
                    keys.retain(|known| known != key);
                    if keys.is_empty() {
                        self.on_ip.remove(ip);
                    }
                }
                self.touch_owner(*ip);
            }
            if let Some(claim) = &old.claim {
                self.untie(claim, |ties| ties.services.retain(|tied| tied != key));
            }
        }
        if let Some(row) = new {
            let key = row.key.clone();
            for ip in row.ingress.iter().chain(&row.external) {
                let keys = self.on_ip.entry(*ip).or_default();
                if !keys.contains(&key) {
                    keys.push(key.clone());
                }
                self.touch_owner(*ip);
            }
            if let Some(claim) = &row.claim {
                self.ties.entry(claim.clone()).or_default().services.push(key.clone());
            }
            self.services.insert(key, Arc::new(row));
        }
        self.touch(&key.namespace);
    }

    /// Who has an IP changed: whoever may see its address is to hear of it.
    fn touch_owner(&mut self, ip: Ip) {
        let rows: Vec<_> = self.addresses_on(ip).cloned().collect();
        for row in rows {
            for namespace in namespaces_of(&row) {
                self.touch(&namespace);
            }
        }
    }

    fn untie(&mut self, claim: &Key, edit: impl FnOnce(&mut Ties)) {
        if let Some(ties) = self.ties.get_mut(claim) {
            edit(ties);
            if ties.is_empty() {
                self.ties.remove(claim);
            }
        }
    }
}

/// Look-ups.
impl World {
    /// The address of that name.
    pub fn address(&self, name: &str) -> Option<&Arc<AddressRow>> {
        self.addresses.get(name)
    }

    /// All addresses, in the order of their IPs; those whose text is none come first.
    pub fn addresses(&self) -> impl DoubleEndedIterator<Item = &Arc<AddressRow>> {
        self.by_ip.values()
    }

    /// How many addresses there are.
    pub fn address_count(&self) -> usize {
        self.addresses.len()
    }

    /// The addresses of one IP: more than one only if two objects carry it.
    pub fn addresses_on(&self, ip: Ip) -> impl Iterator<Item = &Arc<AddressRow>> {
        self.addresses_between(ip, ip)
    }

    /// The addresses from one IP to another, both included.
    pub fn addresses_between(&self, first: Ip, last: Ip) -> impl Iterator<Item = &Arc<AddressRow>> {
        let from = (Some(first), Arc::clone(&self.nothing));
        let rows = self.by_ip.range(from..).map(|(_, row)| row);
        rows.take_while(move |row| row.ip.is_some_and(|ip| ip <= last))
    }

    /// The IPs from one to another that Services show, with those Services.
    pub fn shown_between(&self, first: Ip, last: Ip) -> impl Iterator<Item = (Ip, &[Key])> {
        self.on_ip.range(first..=last).map(|(ip, keys)| (*ip, keys.as_slice()))
    }

    /// The Services that have an IP, by MetalLB or by `spec.externalIPs`.
    pub fn services_on(&self, ip: Ip) -> impl Iterator<Item = &Arc<ServiceRow>> {
        self.on_ip.get(&ip).into_iter().flatten().filter_map(|key| self.services.get(key))
    }

    /// The claim of that key.
    pub fn claim(&self, key: &Key) -> Option<&Arc<ClaimRow>> {
        self.claims.get(key)
    }

    /// All claims, by namespace and name.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<ClaimRow>> {
        self.claims.values()
    }

    /// The claims of one namespace.
    pub fn claims_of(&self, namespace: &str) -> impl Iterator<Item = &Arc<ClaimRow>> {
        let claims = self.claims.range(Key::new(namespace, "")..).map(|(_, row)| row);
        claims.take_while(move |row| &*row.key.namespace == namespace)
    }

    /// The addresses that name a claim of this namespace and name, whatever its uid.
    pub fn addresses_of(&self, claim: &Key) -> impl Iterator<Item = &Arc<AddressRow>> {
        let names = self.ties.get(claim).map_or(&[][..], |ties| &ties.addresses);
        names.iter().filter_map(|name| self.addresses.get(name))
    }

    /// The Services that name a claim.
    pub fn services_of(&self, claim: &Key) -> impl Iterator<Item = &Arc<ServiceRow>> {
        let keys = self.ties.get(claim).map_or(&[][..], |ties| &ties.services);
        keys.iter().filter_map(|key| self.services.get(key))
    }

    /// The Service of that key.
    pub fn service(&self, key: &Key) -> Option<&Arc<ServiceRow>> {
        self.services.get(key)
    }

    /// All Services that have to do with addresses, placeholders among them.
    pub fn services(&self) -> impl Iterator<Item = &Arc<ServiceRow>> {
        self.services.values()
    }

    /// The class of that name.
    pub fn class(&self, name: &str) -> Option<&Arc<ClassRow>> {
        self.classes.get(name)
    }

    /// All classes by name.
    pub fn classes(&self) -> impl Iterator<Item = &Arc<ClassRow>> {
        self.classes.values()
    }

    /// The pool of that name.
    pub fn pool(&self, name: &str) -> Option<&Arc<PoolRow>> {
        self.pools.get(name)
    }

    /// All pools by name.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<PoolRow>> {
        self.pools.values()
    }

    /// The pool that contains an IP.
    pub fn pool_of(&self, ip: Ip) -> Option<&Arc<PoolRow>> {
        self.pools.values().find(|pool| pool.contains(ip))
    }

    /// The classes that draw from a pool.
    pub fn classes_of(&self, pool: &str) -> impl Iterator<Item = &Arc<ClassRow>> {
        self.classes.values().filter(move |class| class.pool.as_deref() == Some(pool))
    }

    /// The events about an object, newest first.
    pub fn events_about(&self, about: About, namespace: &str, name: &str) -> Vec<&EventRow> {
        self.events.about(about, namespace, name)
    }

    /// Whether placeholders are in this namespace.
    pub fn is_placeholder_namespace(&self, namespace: &str) -> bool {
        self.placeholders == namespace
    }

    /// Whether the driver of MetalLB serves this class.
    pub fn is_metallbs(class: &ClassRow) -> bool {
        &*class.provisioner == wellknown::driver::PROVISIONER
    }
}

fn key_of(object: &Object) -> Key {
    let meta = object.meta();
    Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// The namespaces whose tenants may see something of an address.
fn namespaces_of(row: &AddressRow) -> Vec<Arc<str>> {
    let claim = row.claim.as_ref().map(|claim| &claim.key.namespace);
    let service = row.service.as_ref().map(|service| &service.key.namespace);
    claim.into_iter().chain(service).cloned().collect()
}
