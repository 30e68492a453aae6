//! What the watches told, each object once, with the secondary keys that decisions need.
//!
//! **Invariant:** no decision and no single change scans a whole kind. The cost of an event does not grow
//! with the fleet; only a complete list ([`plan::Change::Listed`]) is as long as it is.

mod change;
mod failures;
mod families;
mod fights;
mod ips;
mod namespaces;
mod queries;
mod secondary;
mod tally;
mod waiting;

use std::collections::{BTreeSet, HashMap};

use api::{AddressName, ClaimKey, Family, IPAddress, IPAddressClaim, IPAddressClass, Ip, ServiceKey};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::DynamicObject;
use plan::trace::Sampler;
use plan::{Many, Store};

use crate::parse::pool::Pool;
use crate::{Config, Key};
use ips::Ips;
pub use queries::CROWD;
use tally::Counts;
pub use tally::TIMERS;
use waiting::Wait;
pub use waiting::class_name;

/// What MetalLB last said about a Service it could not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The Service.
    pub service: ServiceKey,
    /// When it said so last, to the second.
    pub at: Option<jiff::Timestamp>,
    /// The version of the Event: of two of one second the later.
    pub version: Option<u64>,
    /// Its words.
    pub message: String,
}

/// A reservation that failed: when to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// How often it was tried in a row.
    pub count: u32,
    /// When it was last given up.
    pub at: jiff::Timestamp,
    /// What stood in the way.
    pub message: String,
}

/// The driver's knowledge of the cluster.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) config: Config,
    pub(crate) classes: Store<String, IPAddressClass>,
    pub(crate) addresses: Store<AddressName, IPAddress>,
    pub(crate) claims: Store<ClaimKey, IPAddressClaim>,
    pub(crate) services: Store<ServiceKey, Service>,
    pub(crate) namespaces: Store<String, Namespace>,
    raw_pools: Store<String, DynamicObject>,
    pools: HashMap<String, Pool>,
    /// By the Service's uid.
    failures: HashMap<String, Failure>,
    attempts: HashMap<(ClaimKey, Family), Attempt>,
    /// When an address that is not in the ledger yet was last sent to be recorded.
    records: HashMap<AddressName, jiff::Timestamp>,
    /// When this process began to decide.
    pub(crate) began: Option<jiff::Timestamp>,
    /// By the Service's uid.
    fights: HashMap<String, fights::Fight>,
    /// Whether every Service that there was at the start is known.
    services_listed: bool,
    /// Placeholders that wait in MetalLB for any address of their pool.
    queued: BTreeSet<ServiceKey>,

    addresses_by_claim: Many<ClaimKey, AddressName>,
    addresses_by_class: Many<String, AddressName>,
    /// Older objects first: of two with one IP the older stands (contract §3 c).
    addresses_by_ip: Many<Ip, (Option<Time>, AddressName)>,
    addresses_by_service: Many<ServiceKey, AddressName>,
    /// The Services that name a claim, the oldest first.
    services_by_claim: Many<ClaimKey, (Option<Time>, ServiceKey)>,
    /// The claims that Services of a namespace name.
    claims_by_namespace: Many<String, ClaimKey>,
    services_by_ip: Many<Ip, ServiceKey>,
    placeholders_by_address: Many<AddressName, ServiceKey>,
    placeholders_by_claim: Many<ClaimKey, ServiceKey>,
    classes_by_pool: Many<String, String>,
    /// Claims that still lack an address of a class and family, the oldest first.
    waiting: Many<(String, Family), (Option<Time>, ClaimKey)>,
    waits_for: HashMap<ClaimKey, Wait>,
    /// Those of them for which nothing could be made when they were looked at last: somebody must look again when that
    /// may have changed. All others have a placeholder, or are about to be looked at.
    parked: Many<(String, Family), ClaimKey>,
    /// The IPs of the ledger.
    recorded: Ips,
    /// The IPs of the ledger that no Service shows at this moment.
    unheld: Ips,
    /// The IPs that Services show.
    shown: Ips,
    /// Services that take an IP by `spec.externalIPs`, past MetalLB.
    services_by_external_ip: Many<Ip, ServiceKey>,
    /// Load balancer Services that name no claim, but for placeholders.
    unclaimed: BTreeSet<ServiceKey>,
    /// Classes that are marked for auto-claim, of whatever driver.
    auto_claim_classes: BTreeSet<String>,
    /// Whether the cluster has a family, where that is known.
    families: HashMap<Family, bool>,
    counts: Counts,
    /// Which operations are traced.
    pub(crate) sampler: Option<Sampler>,
}

impl Index {
    /// An empty index.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            classes: Store::new(|object| &object.metadata),
            addresses: Store::new(|object| &object.metadata),
            claims: Store::new(|object| &object.metadata),
            services: Store::new(|object| &object.metadata),
            namespaces: Store::new(|object| &object.metadata),
            raw_pools: Store::new(|object| &object.metadata),
            pools: HashMap::new(),
            failures: HashMap::new(),
            attempts: HashMap::new(),
            records: HashMap::new(),
            began: None,
            fights: HashMap::new(),
            services_listed: false,
            queued: BTreeSet::new(),
            addresses_by_claim: Many::default(),
            addresses_by_class: Many::default(),
            addresses_by_ip: Many::default(),
            addresses_by_service: Many::default(),
            services_by_claim: Many::default(),
            claims_by_namespace: Many::default(),
            services_by_ip: Many::default(),
            placeholders_by_address: Many::default(),
            placeholders_by_claim: Many::default(),
            classes_by_pool: Many::default(),
            waiting: Many::default(),
            waits_for: HashMap::new(),
            parked: Many::default(),
            recorded: Ips::default(),
            unheld: Ips::default(),
            shown: Ips::default(),
            services_by_external_ip: Many::default(),
            unclaimed: BTreeSet::new(),
            auto_claim_classes: BTreeSet::new(),
            families: HashMap::new(),
            counts: Counts::default(),
            sampler: None,
        }
    }

    /// Every key there is, claims by age first.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.classes.iter().map(|(name, _)| Key::Class(name.clone())).collect();
        // Without an order of its own each start would go another way.
        keys.sort();
        let mut claims: Vec<_> = self
            .claims
            .iter()
            .map(|(key, claim)| (claim.metadata.creation_timestamp.clone(), key.clone()))
            .collect();
        claims.sort();
        keys.extend(claims.into_iter().map(|(_, key)| Key::Claim(key)));
        let mut rest = BTreeSet::new();
        rest.extend(self.addresses.iter().map(|(_, address)| Self::unit(&address)));
        for (_, service) in self.services.iter() {
            rest.extend(self.keys_of_service(&service));
        }
        let known: BTreeSet<Key> = keys.iter().cloned().collect();
        keys.extend(rest.into_iter().filter(|key| !known.contains(key)));
        keys
    }

    /// The key under which an address is decided: its claim's, so that everything a claim has is decided
    /// together and by one at a time; its own without a claim.
    pub fn unit(address: &IPAddress) -> Key {
        match &address.spec.claim_ref {
            Some(claim) => Key::Claim(claim.key()),
            None => Key::Address(address.key()),
        }
    }
}
