//! What decisions ask of the index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::wellknown::driver;
use api::{AddressName, ClaimKey, IPAddress, IPAddressClass, Ip, ServiceKey};
use k8s_openapi::api::core::v1::Service;

use super::{Failure, Index};
use crate::decide::class::is_served;
use crate::parse::class;
use crate::parse::pool::Pool;
use crate::parse::service::{PLACEHOLDER_PREFIX, View, address_in_name, is_our_key};

/// So many Services of one claim are looked at. One claim serves one Service: a few more wait for their turn. Whoever makes
/// thousands must not cost everybody else thousands of looks at each change of one of them.
pub const CROWD: usize = 64;

impl Index {
    /// The addresses whose `claimRef` names this claim, of whatever uid, in name order.
    pub fn addresses_of_claim(&self, claim: &ClaimKey) -> Vec<Arc<IPAddress>> {
        self.addresses_by_claim.get(claim).filter_map(|name| self.addresses.get(name)).collect()
    }

    /// The addresses that carry this IP, the one that stands first.
    pub fn addresses_of_ip(&self, ip: Ip) -> impl Iterator<Item = Arc<IPAddress>> {
        self.addresses_by_ip.get(&ip).filter_map(|(_, name)| self.addresses.get(name))
    }

    /// Whether this address is the one that stands for its IP (contract §3 c).
    pub fn stands(&self, address: &IPAddress) -> bool {
        let elder = address.ip().ok().and_then(|ip| self.addresses_of_ip(ip).next());
        elder.is_some_and(|elder| elder.metadata.uid == address.metadata.uid)
    }

    /// Whether the driver governs this address (contract §10): it carries our finalizer, or its class names
    /// this driver.
    pub fn is_ours(&self, address: &IPAddress) -> bool {
        address.metadata.finalizers.iter().flatten().any(|name| name == driver::TEARDOWN)
            || self.classes.get(&address.spec.class_name).is_some_and(|class| is_served(&class))
    }

    /// Whether the Service is one of our placeholders: by its label, or, when somebody took that off, by a name and a
    /// sharing key such as only we make.
    pub fn is_placeholder(&self, service: &Service) -> bool {
        let ours = || {
            let name = service.metadata.name.as_deref().unwrap_or_default();
            name.starts_with(PLACEHOLDER_PREFIX)
                && service.sharing_key().is_some_and(is_our_key)
                && service.claim().is_none()
        };
        service.metadata.namespace.as_deref() == Some(&self.config.placeholder_namespace)
            && (service.labelled(driver::PLACEHOLDER) || ours())
    }

    /// Whether MetalLB's walk over all Services takes longer than a write.
    pub fn is_crowded(&self) -> bool {
        self.services.len() >= self.config.crowd
    }

    /// The placeholders that hold, or are to hold, this address.
    pub fn placeholders_of(&self, address: &AddressName) -> Vec<Arc<Service>> {
        let ip = self.addresses.get(address).and_then(|address| address.ip().ok());
        let shown = ip.into_iter().flat_map(|ip| self.services_by_ip.get(&ip));
        let keys: BTreeSet<_> = self.placeholders_by_address.get(address).chain(shown).collect();
        let services = keys.into_iter().filter_map(|key| self.services.get(key));
        let its = |service: &Arc<Service>| {
            self.is_placeholder(service)
                && self.address_held_by(service).is_some_and(|held| held.key() == *address)
        };
        services.filter(its).collect()
    }

    /// The address of the ledger that a placeholder holds or is to hold. Its name decides; where the name is that of a
    /// claim, what MetalLB shows counts before labels, which anybody can edit.
    pub fn address_held_by(&self, placeholder: &Service) -> Option<Arc<IPAddress>> {
        let held = placeholder.held_address();
        let named = address_in_name(placeholder.metadata.name.as_deref().unwrap_or_default()).is_some();
        let mut shown = placeholder.ingress().into_iter().filter(|_| !named && held.is_some());
        shown
            .find_map(|ip| self.addresses_by_ip.get(&ip).next())
            .and_then(|(_, name)| self.addresses.get(name))
            .or_else(|| held.and_then(|name| self.addresses.get(&name)))
    }

    /// The placeholders that were made for this claim.
    pub fn placeholders_for(&self, claim: &ClaimKey) -> Vec<Arc<Service>> {
        let keys = self.placeholders_by_claim.get(claim);
        keys.filter_map(|key| self.services.get(key)).collect()
    }

    /// The Services that may have the addresses of this claim: the [`CROWD`] oldest of those that name it, and whichever of
    /// those shows one of the IPs already.
    pub fn candidates_of_claim(&self, claim: &ClaimKey, ips: &[Ip]) -> Vec<Arc<Service>> {
        let oldest = self.services_by_claim.get(claim).take(CROWD).map(|(_, key)| key);
        let shown = ips.iter().flat_map(|ip| self.services_by_ip.get(ip));
        let keys: BTreeSet<_> = oldest.chain(shown).collect();
        let services = keys.into_iter().filter_map(|key| self.services.get(key));
        services.filter(|service| service.claim().as_ref() == Some(claim)).collect()
    }

    /// Whether more Services name the claim than are looked at.
    pub fn is_in_a_crowd(&self, claim: &ClaimKey) -> bool {
        self.services_by_claim.count(claim) > CROWD
    }

    /// The claim of this Service, if so many older ones name it that this one is not looked at.
    pub fn crowded_out_of(&self, service: &Service) -> Option<ClaimKey> {
        let (claim, key) = (service.claim()?, View::key(service));
        let mut oldest = self.services_by_claim.get(&claim).take(CROWD);
        (!oldest.any(|(_, other)| *other == key)).then_some(claim)
    }

    /// The Services whose status shows this IP.
    pub fn services_of_ip(&self, ip: Ip) -> impl Iterator<Item = Arc<Service>> {
        self.services_by_ip.get(&ip).filter_map(|key| self.services.get(key))
    }

    /// The addresses that the ledger says this Service has. What the inventory observed is not among them: that is
    /// a note, and no association.
    pub fn addresses_of_service(&self, service: &ServiceKey) -> impl Iterator<Item = Arc<IPAddress>> {
        self.addresses_by_service.get(service).filter_map(|name| self.addresses.get(name))
    }

    /// The pool of that name.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.get(name)
    }

    /// The pool that a class names, if both are there.
    pub fn pool_of_class(&self, class: &str) -> Option<(String, &Pool)> {
        let class = self.classes.get(&class.to_owned()).filter(|class| is_served(class))?;
        let name = class::pool_name(class.spec.parameters.as_ref()).ok()?;
        let pool = self.pools.get(&name)?;
        Some((name, pool))
    }

    /// A pool that contains all these IPs, the first by name. Pools are few: they are written by hand.
    pub fn pool_containing(&self, ips: &[Ip]) -> Option<(&String, &Pool)> {
        let all = |(_, pool): &(&String, &Pool)| ips.iter().all(|ip| pool.contains(*ip));
        self.pools.iter().filter(all).min_by_key(|(name, _)| *name)
    }

    /// The class of this driver from whose pool this IP is, the first by name.
    pub fn class_of_ip(&self, ip: Ip) -> Option<&String> {
        let of_pool =
            |(name, pool): (&String, &Pool)| pool.contains(ip).then(|| self.classes_by_pool.get(name).next());
        self.pools.iter().filter_map(of_pool).flatten().min()
    }

    /// The Services that name this IP in `spec.externalIPs`.
    pub fn services_of_external_ip(&self, ip: Ip) -> impl Iterator<Item = Arc<Service>> {
        self.services_by_external_ip.get(&ip).filter_map(|key| self.services.get(key))
    }

    /// The one class marked for auto-claim; none if there are several.
    pub fn auto_claim_class(&self) -> Option<Arc<IPAddressClass>> {
        let mut names = self.auto_claim_classes.iter();
        match (names.next(), names.next()) {
            (Some(name), None) => self.classes.get(name),
            _ => None,
        }
    }

    /// All classes marked for auto-claim, by name.
    pub fn auto_claim_classes(&self) -> impl Iterator<Item = &String> {
        self.auto_claim_classes.iter()
    }

    /// The other classes of this driver that name the pool.
    pub fn other_classes_of_pool(&self, pool: &str, class: &str) -> Vec<String> {
        self.classes_by_pool.get(&pool.to_owned()).filter(|other| *other != class).cloned().collect()
    }

    /// What MetalLB last said about this Service, if it still stands.
    pub fn failure(&self, service: &Service) -> Option<&Failure> {
        self.failures.get(service.object_uid())
    }

    /// The labels of a namespace.
    pub fn namespace_labels(&self, name: &str) -> BTreeMap<String, String> {
        self.namespaces.get(&name.to_owned()).and_then(|ns| ns.metadata.labels.clone()).unwrap_or_default()
    }
}
