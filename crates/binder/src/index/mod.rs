//! What the binder knows: each object once, and the secondary keys that decisions need.

mod change;
mod market;
pub mod need;
mod secondary;
mod tally;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use api::{AddressName, ClaimKey, IPAddress, IPAddressClaim, IPAddressClass, Ip};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use plan::trace::Sampler;
use plan::{Many, Store};

use crate::Key;
use market::Market;
pub use market::Wish;
pub use need::Need;
use secondary::Filing;
use tally::Counts;
pub use tally::TIMERS;

/// Something with the time of its creation: sorts older first, then by name.
type Aged<T> = (Option<Time>, T);
type Dirty = BTreeSet<Key>;

/// What the binder knows.
#[derive(Clone, Debug)]
pub struct Index {
    classes: Store<String, IPAddressClass>,
    claims: Store<ClaimKey, IPAddressClaim>,
    addresses: Store<AddressName, IPAddress>,

    defaults: BTreeSet<String>,
    addresses_by_claim: Many<ClaimKey, AddressName>,
    addresses_by_ip: Many<Ip, Aged<AddressName>>,
    /// Unmet claims, by what may meet them.
    filed: HashMap<ClaimKey, Filing>,
    claims_by_address_name: Many<AddressName, Aged<ClaimKey>>,
    claims_by_class: Many<String, ClaimKey>,
    claims_by_default: BTreeSet<ClaimKey>,
    market: Market,

    assumed: HashMap<AddressName, ClaimKey>,
    assumed_by: Many<ClaimKey, AddressName>,
    /// Keys that a settled plan made dirty; handed out with the next change.
    freed: Dirty,
    counts: Counts,
    /// Which operations are traced.
    pub(crate) sampler: Option<Sampler>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            classes: Store::new(|object| &object.metadata),
            claims: Store::new(|object| &object.metadata),
            addresses: Store::new(|object| &object.metadata),
            defaults: BTreeSet::new(),
            addresses_by_claim: Many::default(),
            addresses_by_ip: Many::default(),
            filed: HashMap::new(),
            claims_by_address_name: Many::default(),
            claims_by_class: Many::default(),
            claims_by_default: BTreeSet::new(),
            market: Market::default(),
            assumed: HashMap::new(),
            assumed_by: Many::default(),
            freed: Dirty::new(),
            counts: Counts::default(),
            sampler: None,
        }
    }
}

impl Index {
    /// Every key there is, the oldest first.
    pub fn keys(&self) -> Vec<Key> {
        let claims =
            self.claims.iter().map(|(key, claim)| (claim.creation_timestamp(), Key::Claim(key.clone())));
        let addresses = self
            .addresses
            .iter()
            .map(|(name, address)| (address.creation_timestamp(), Key::Address(name.clone())));
        let mut keys: Vec<Aged<Key>> = claims.chain(addresses).collect();
        keys.sort();
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// A class by name.
    pub fn class(&self, name: &str) -> Option<Arc<IPAddressClass>> {
        self.classes.get(&name.to_owned())
    }

    /// A claim by key.
    pub fn claim(&self, key: &ClaimKey) -> Option<Arc<IPAddressClaim>> {
        self.claims.get(key)
    }

    /// An address by name.
    pub fn address(&self, name: &AddressName) -> Option<Arc<IPAddress>> {
        self.addresses.get(name)
    }

    /// The names of the classes that are marked as the default.
    pub const fn default_classes(&self) -> &BTreeSet<String> {
        &self.defaults
    }

    /// The addresses whose `claimRef` has this namespace and name, of whatever uid, by name.
    pub fn addresses_naming(&self, key: &ClaimKey) -> impl Iterator<Item = Arc<IPAddress>> {
        self.addresses_by_claim.get(key).filter_map(|name| self.addresses.get(name))
    }

    /// The name of the address object that stands for an IP: the older one, then the one with the smaller name
    /// (contract §3 c).
    pub fn elder(&self, ip: Ip) -> Option<&AddressName> {
        self.addresses_by_ip.get(&ip).next().map(|(_, name)| name)
    }

    /// The IP of an address object that is valid: canonical text, and no older object has the IP.
    pub fn valid_ip(&self, address: &IPAddress) -> Option<Ip> {
        let ip = address.ip().ok()?;
        (self.elder(ip) == Some(&address.key())).then_some(ip)
    }

    /// Whether an address is free, or would be marked `Available` this very moment (§4.7), and nobody has chosen
    /// it yet: and then what for. One that a Service still wears is not: the workload goes first.
    pub fn free_for(&self, address: &IPAddress) -> Option<Wish> {
        let free = address.spec.claim_ref.is_none()
            && !need::is_observed(address)
            && !address.is_deleting()
            && !address.phase().is_drivers()
            && address.associated_to().is_none()
            && !self.assumed.contains_key(&address.key());
        let ip = self.valid_ip(address)?;
        free.then(|| Wish { class: address.spec.class_name.clone(), family: ip.family() })
    }

    /// The free address of a class and family with the smallest name.
    pub fn first_free(&self, wish: &Wish) -> Option<Arc<IPAddress>> {
        self.addresses.get(self.market.first(wish)?)
    }

    /// The claim in flight that has chosen this address.
    pub fn assumed_for(&self, name: &AddressName) -> Option<&ClaimKey> {
        self.assumed.get(name)
    }

    /// Whether an address that would fulfil a wish is chosen by a claim in flight: it may become free again.
    /// Walks the plans in flight.
    pub fn is_contested(&self, wish: &Wish) -> bool {
        self.assumed.keys().filter_map(|name| self.addresses.get(name)).any(|address| {
            address.spec.claim_ref.is_none()
                && address.spec.class_name == wish.class
                && address.ip().is_ok_and(|ip| ip.family() == wish.family)
        })
    }

    /// Marks an address as chosen for a claim, until [`settle`](Self::settle).
    pub(crate) fn assume(&mut self, address: &IPAddress, claim: &ClaimKey) {
        let name = address.key();
        self.market.offer(&name, None, &mut Dirty::new());
        self.assumed.insert(name.clone(), claim.clone());
        self.assumed_by.insert(claim.clone(), name);
    }

    /// A claim was decided; what it took is assumed.
    pub(crate) fn decided(&mut self, key: &ClaimKey) {
        let Some(filing) = self.filed.get(key) else { return };
        let member = (filing.since.clone(), key.clone());
        for wish in &filing.wishes {
            let took = self.assumed_by.get(key).filter_map(|name| self.addresses.get(name)).any(|address| {
                address.spec.class_name == wish.class
                    && address.ip().is_ok_and(|ip| ip.family() == wish.family)
            });
            self.market.decided(wish, &member, took);
        }
    }

    /// A claim's plan was carried out, or given up: what it had chosen and not written down is free again.
    pub(crate) fn settle(&mut self, key: &ClaimKey) {
        let mut dirty = std::mem::take(&mut self.freed);
        for name in self.assumed_by.take(key) {
            self.assumed.remove(&name);
            let Some(address) = self.addresses.get(&name) else { continue };
            if address.spec.claim_ref.as_ref().is_some_and(|claim_ref| claim_ref.key() == *key) {
                continue;
            }
            // Its own pass kept out of the way until now.
            dirty.insert(Key::Address(name.clone()));
            let Some(wish) = self.free_for(&address) else { continue };
            let since = self.claims.get(key).and_then(|claim| claim.creation_timestamp());
            let member = (since, key.clone());
            self.market.stumbled(&wish, &member);
            self.market.offer(&name, Some(wish), &mut dirty);
            dirty.extend(
                self.claims_by_address_name.after(&name, &member).cloned().map(|(_, next)| Key::Claim(next)),
            );
        }
        self.freed = dirty;
    }

    /// Keys that may gain by what [`settle`](Self::settle) released.
    pub(crate) fn freed(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.freed).into_iter().collect()
    }

    /// Whether nobody's choice is pending.
    pub fn is_settled(&self) -> bool {
        self.assumed.is_empty() && self.assumed_by.is_empty()
    }
}
