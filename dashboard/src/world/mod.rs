//! The index: everything that pages show, in memory, small.
//!
//! *Invariants.* Rows are built from single objects as they come; no whole list of objects is ever held. A change
//! costs no more when there are more rows. Nothing here knows of visitors: what one may see is decided by the views.

mod change;
mod digest;
mod events;
mod look;
mod origin;
mod read;
mod rooms;
mod rows;
mod shelf;
mod tally;
mod verdict;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use api::Ip;
use plan::{Change, Kind, Object};

pub use digest::{Digest, First, Totals};
pub use origin::Origin;
pub use rooms::Room;
pub use rows::{
    About, AddressRow, BoundTo, ClaimRow, ClassRow, ConditionRow, EventRow, HandoffRow, HeldBy, Key, PastRow,
    PoolRow, ServiceRow, Words,
};
pub use verdict::{State, condition};

use events::Events;
use shelf::Shelf;
use tally::Tally;

use crate::Scope;

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
    /// Services in the namespace of placeholders that are none.
    strangers: BTreeSet<Key>,
    on_ip: BTreeMap<Ip, Vec<Arc<ServiceRow>>>,
    ties: HashMap<Key, Ties>,
    /// Services that the ledger says have an address, with the address's name.
    holds: BTreeSet<(Key, Arc<str>)>,
    classes: BTreeMap<Arc<str>, Arc<ClassRow>>,
    pools: BTreeMap<Arc<str>, Arc<PoolRow>>,
    events: Events,
    address_texts: Shelf<Arc<str>, AddressRow>,
    claim_texts: Shelf<Key, ClaimRow>,
    service_texts: Shelf<Key, ServiceRow>,
    listing: HashMap<Source, Listing>,
    complete: HashSet<Source>,
    version: u64,
    /// The version in which something of a namespace last changed; what is of the cluster stands under "".
    touched: HashMap<Arc<str>, u64>,
    /// The empty text, before any name.
    nothing: Arc<str>,
    /// What an operator's pages count; none until it is asked for.
    tally: OnceLock<Tally>,
}

impl World {
    /// An empty index. Only Services of the placeholder namespace are taken for placeholders.
    pub fn new(placeholders: impl Into<String>) -> Self {
        Self { placeholders: placeholders.into(), ..Self::default() }
    }

    /// Takes in what a feed brought.
    pub fn take_in(&mut self, source: Source, change: Change) {
        match change {
            Change::ListBegins(_) => {
                self.listing.insert(source, Listing::default());
            }
            Change::InList(object) => {
                let key = key_of(&object);
                if let Some(listing) = self.listing.get_mut(&source) {
                    listing.0.insert(key.clone());
                }
                self.put(source, key, &object);
            }
            Change::Listed(_) => {
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
            Change::Applied(object) => self.put(source, key_of(&object), &object),
            Change::Deleted(object) => self.drop(source, &key_of(&object)),
            // The answers to writes of our own: we only read.
            Change::Gone { .. } | Change::Refused { .. } => {}
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

    /// The version in which something last changed for this scope.
    pub fn version_for(&self, scope: &Scope) -> u64 {
        match scope {
            Scope::All => self.version(),
            Scope::Only(namespaces) => {
                let own = namespaces.iter().map(|namespace| self.touched(namespace));
                own.chain([self.touched("")]).max().unwrap_or(0)
            }
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
}

/// Pools are of one namespace: their names are enough.
fn key_of(object: &Object) -> Key {
    let meta = object.meta();
    let namespace = meta.namespace.as_deref().filter(|_| object.kind() != Kind::Pool);
    Key::new(namespace.unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// The namespaces whose tenants may see something of an address.
fn namespaces_of(row: &AddressRow) -> Vec<Arc<str>> {
    let claim = row.claim.as_ref().map(|claim| &claim.key.namespace);
    let service = row.service.as_ref().map(|service| &service.key.namespace);
    claim.into_iter().chain(service).cloned().collect()
}
