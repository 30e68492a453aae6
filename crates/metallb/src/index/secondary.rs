//! The secondary keys of each kind, and which keys a change makes dirty.

use std::collections::BTreeSet;

use api::address::AssociatedTo;
use api::wellknown::driver;
use api::{AddressName, ClaimKey, Family, IPAddress, IPAddressClaim, IPAddressClass, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use super::Index;
use crate::decide::foreign::unknown_annotations;
use crate::decide::inventory::is_observed;
use crate::parse::class;
use crate::parse::pool::Pool;
use crate::parse::service::View;
use crate::{Key, decide};

pub(super) type Dirty = BTreeSet<Key>;

impl Index {
    pub(super) fn class_changed(
        &mut self,
        old: Option<&IPAddressClass>,
        new: Option<&IPAddressClass>,
        dirty: &mut Dirty,
    ) {
        let Some(name) = old.or(new).map(ResourceExt::name_any) else { return };
        let (before, after) = (old.and_then(served_pool), new.and_then(served_pool));
        for (pool, present) in [(&before, false), (&after, true)] {
            let Some(pool) = pool.clone() else { continue };
            let others: Vec<String> =
                self.classes_by_pool.get(&pool).filter(|other| **other != name).cloned().collect();
            // Two classes of one pool refuse each other: what waits for one is freed by the other's going.
            if before != after {
                for other in &others {
                    self.mark_class(other, dirty);
                }
            }
            dirty.extend(others.into_iter().map(Key::Class));
            if present {
                self.classes_by_pool.insert(pool, name.clone());
            } else {
                self.classes_by_pool.remove(&pool, &name);
            }
        }
        dirty.insert(Key::Class(name.clone()));
        let decided_by = |class: Option<&IPAddressClass>| class.map(|class| class.spec.clone());
        if decided_by(old) != decided_by(new) {
            self.mark_class(&name, dirty);
        }
        if before != after {
            for pool in [before, after].into_iter().flatten() {
                dirty.extend(self.pools.get(&pool).map(|pool| self.users_of(pool)).into_iter().flatten());
            }
        }
        self.auto_claim_class_changed(&name, old, new, dirty);
    }

    /// Another set of classes is marked for auto-claim: each of them may have to say something else, and every Service
    /// without a claim may get one.
    fn auto_claim_class_changed(
        &mut self,
        name: &str,
        old: Option<&IPAddressClass>,
        new: Option<&IPAddressClass>,
        dirty: &mut Dirty,
    ) {
        let marked = new.is_some_and(decide::class::is_auto_claim);
        if marked == old.is_some_and(decide::class::is_auto_claim) {
            return;
        }
        if marked {
            self.auto_claim_classes.insert(name.to_owned());
        } else {
            self.auto_claim_classes.remove(name);
        }
        dirty.extend(self.auto_claim_classes.iter().cloned().map(Key::Class));
        if self.config.auto_claim {
            dirty.extend(self.unclaimed.iter().cloned().map(Key::Service));
        }
    }

    pub(super) fn address_changed(
        &mut self,
        old: Option<&IPAddress>,
        new: Option<&IPAddress>,
        dirty: &mut Dirty,
    ) {
        self.counts.address_changed(old, new);
        let Some(name) = old.or(new).map(IPAddress::key) else { return };
        self.records.remove(&name);
        for (address, present) in [(old, false), (new, true)] {
            let Some(address) = address else { continue };
            dirty.insert(Self::unit(address));
            let class = address.spec.class_name.clone();
            let claim = address.spec.claim_ref.as_ref().map(api::address::ClaimRef::key);
            let holder = address.associated_to().filter(|_| !is_observed(address));
            let holder = holder.map(AssociatedTo::key);
            let aged = (address.metadata.creation_timestamp.clone(), name.clone());
            if let Some(holder) = &holder {
                dirty.insert(Key::Service(holder.clone()));
                // A Service that gave one claim's address back may wait for another's.
                let service = self.services.get(holder);
                dirty.extend(service.and_then(|service| service.claim()).map(Key::Claim));
            }
            if present {
                self.addresses_by_class.insert(class, name.clone());
                claim.clone().map(|claim| self.addresses_by_claim.insert(claim, name.clone()));
                holder.map(|holder| self.addresses_by_service.insert(holder, name.clone()));
                address.ip().ok().map(|ip| self.addresses_by_ip.insert(ip, aged));
            } else {
                self.addresses_by_class.remove(&class, &name);
                claim.clone().map(|claim| self.addresses_by_claim.remove(&claim, &name));
                holder.map(|holder| self.addresses_by_service.remove(&holder, &name));
                address.ip().ok().map(|ip| self.addresses_by_ip.remove(&ip, &aged));
            }
        }
        let ip = old.or(new).and_then(|address| address.ip().ok());
        // The one that stands changes with its elder's coming and going; so does what Services with the IP mean.
        if (old.is_none() || new.is_none())
            && let Some(ip) = ip
        {
            dirty.extend(self.addresses_of_ip(ip).map(|address| Self::unit(&address)).collect::<Vec<_>>());
            let shown_by = self.services_of_ip(ip).map(|service| self.keys_of_service(&service));
            dirty.extend(shown_by.flatten().collect::<Vec<_>>());
        }
        if new.is_none() {
            dirty.extend(self.placeholders_by_address.get(&name).cloned().map(Key::Placeholder));
            // It may have been the last unheld one, and it leaves room.
            if let Some(address) = old {
                self.mark_first_waiting(&address.spec.class_name, dirty);
            }
        }
        if let Some(ip) = ip {
            self.recorded.set(ip, self.addresses_by_ip.count(&ip) > 0);
            self.refresh_held(ip, dirty);
        }
        for address in [old, new].into_iter().flatten() {
            if let Some(claim) = &address.spec.claim_ref {
                self.refresh_waiting(&claim.key(), dirty);
            }
        }
    }

    pub(super) fn claim_changed(
        &mut self,
        old: Option<&IPAddressClaim>,
        new: Option<&IPAddressClaim>,
        dirty: &mut Dirty,
    ) {
        let Some(key) = old.or(new).map(IPAddressClaim::key) else { return };
        dirty.insert(Key::Claim(key.clone()));
        if new.is_none() {
            dirty.extend(self.placeholders_by_claim.get(&key).cloned().map(Key::Placeholder));
            for family in Family::ALL {
                self.attempts.remove(&(key.clone(), family));
            }
        }
        // A Service of that name may have waited for the name.
        let namesake = ServiceKey::new(&key.namespace, &key.name);
        if self.config.auto_claim && self.unclaimed.contains(&namesake) {
            dirty.insert(Key::Service(namesake));
        }
        self.refresh_waiting(&key, dirty);
    }

    pub(super) fn service_changed(
        &mut self,
        old: Option<&Service>,
        new: Option<&Service>,
        dirty: &mut Dirty,
    ) {
        let Some(key) = old.or(new).map(View::key) else { return };
        for (service, present) in [(old, false), (new, true)] {
            let Some(service) = service else { continue };
            self.enter(&key, service, present);
            dirty.extend(self.keys_of_service(service));
        }
        if let (None, Some(new)) = (old, new)
            && self.is_placeholder(new)
        {
            self.placeholder_came(new, dirty);
        }
        // What MetalLB said of another key says nothing of this one. An allocation placeholder gets another by somebody's hand alone,
        // which may be heard of after what MetalLB says of it.
        let rekeyed = old.zip(new).is_some_and(|(old, new)| {
            let allocates = self.is_placeholder(new) && self.address_held_by(new).is_none();
            old.sharing_key() != new.sharing_key() && !allocates
        });
        if rekeyed || new.is_none_or(|service| !self.is_heeded(service)) {
            old.or(new).map(|service| self.failures.remove(service.object_uid()));
        }
        self.note_lost_reservation(old, new);
        if new.is_none() {
            old.map(|service| self.fights.remove(service.object_uid()));
        }
        self.refresh_queued(&key);
        let both = || [old, new].into_iter().flatten();
        for ip in both().flat_map(View::ingress).collect::<BTreeSet<_>>() {
            self.refresh_held(ip, dirty);
        }
        let made_for: BTreeSet<_> = both().filter_map(|service| self.claim_of_placeholder(service)).collect();
        for claim in made_for {
            self.refresh_waiting(&claim, dirty);
        }
    }

    /// Enters a Service under every secondary key, or takes it out.
    fn enter(&mut self, key: &ServiceKey, service: &Service, present: bool) {
        let is_placeholder = self.is_placeholder(service);
        if let Some(claim) = service.claim() {
            let aged = (service.metadata.creation_timestamp.clone(), key.clone());
            self.services_by_claim.set(claim.clone(), aged, present);
            let named = self.services_by_claim.count(&claim) > 0;
            self.claims_by_namespace.set(claim.namespace.clone(), claim, named);
        } else if present && service.is_load_balancer() && !is_placeholder {
            self.unclaimed.insert(key.clone());
        }
        if !present {
            self.unclaimed.remove(key);
        }
        for ip in service.external_ips() {
            self.services_by_external_ip.set(ip, key.clone(), present);
        }
        for ip in service.ingress() {
            self.services_by_ip.set(ip, key.clone(), present);
        }
        if let Some(address) = service.held_address().filter(|_| is_placeholder) {
            self.placeholders_by_address.set(address, key.clone(), present);
        }
        if let Some(claim) = self.claim_of_placeholder(service) {
            self.placeholders_by_claim.set(claim, key.clone(), present);
        }
    }

    /// The claim a placeholder was made for.
    fn claim_of_placeholder(&self, service: &Service) -> Option<ClaimKey> {
        let namespace =
            service.annotation(driver::CLAIM_NAMESPACE).filter(|_| self.is_placeholder(service))?;
        Some(ClaimKey::new(namespace, service.annotation(driver::CLAIM_NAME)?))
    }

    /// The keys that a Service matters to.
    pub(super) fn keys_of_service(&self, service: &Service) -> Vec<Key> {
        let key = View::key(service);
        let claim = service.claim();
        let in_a_crowd = claim.as_ref().is_some_and(|claim| self.is_in_a_crowd(claim));
        let mut keys: Vec<Key> = claim.map(Key::Claim).into_iter().collect();
        let associated = self.addresses_by_service.get(&key).filter_map(|name| self.addresses.get(name));
        keys.extend(associated.map(|address| Self::unit(&address)));
        let ips = service.ingress().into_iter().chain(service.external_ips());
        keys.extend(ips.flat_map(|ip| self.addresses_of_ip(ip)).map(|address| Self::unit(&address)));
        if self.is_placeholder(service) {
            let held = service.held_address();
            keys.extend(held.and_then(|name| self.addresses.get(&name)).map(|address| Self::unit(&address)));
            keys.extend(self.claim_of_placeholder(service).map(Key::Claim));
            keys.push(Key::Placeholder(key));
            return keys;
        }
        if key.namespace == self.config.placeholder_namespace {
            // A stranger's Service may be in the way of a placeholder of its name.
            let blocked = key.name.strip_prefix("iad-").map(AddressName::new);
            keys.extend(
                blocked.and_then(|name| self.addresses.get(&name)).map(|address| Self::unit(&address)),
            );
        }
        let marked = service.is_pinned_by_us() || service.has_finalizer(driver::HANDOFF);
        let observed =
            self.config.inventory && service.ingress().iter().any(|ip| self.class_of_ip(*ip).is_some());
        let may_get_claim = self.config.auto_claim && self.unclaimed.contains(&key);
        let misspelt = unknown_annotations(service).next().is_some();
        if marked || observed || may_get_claim || misspelt || in_a_crowd {
            keys.push(Key::Service(key));
        }
        keys
    }

    /// Whoever has, or is to have, an address of the pool.
    pub(super) fn users_of<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = Key> + 'a {
        let recorded = self
            .recorded
            .in_ranges_of(pool)
            .flat_map(|ip| self.addresses_of_ip(ip))
            .map(|it| Self::unit(&it));
        let shown = self.shown.in_ranges_of(pool).flat_map(|ip| self.services_of_ip(ip));
        let strangers = shown.filter(|service| !self.is_placeholder(service));
        recorded.chain(strangers.map(|service| Key::Service(View::key(&*service))))
    }

    pub(super) fn pool_changed(&mut self, name: &str, new: Option<&Pool>, dirty: &mut Dirty) {
        let old = match new {
            Some(pool) => {
                let shown = self.shown.within(pool);
                let pool = pool.clone().showing(self.pools.get(name), shown);
                self.pools.insert(name.to_owned(), pool)
            }
            None => self.pools.remove(name),
        };
        if let (Some(old), Some(new)) = (&old, new)
            && old.same_spec(new)
        {
            for class in self.classes_by_pool.get(&name.to_owned()).cloned().collect::<Vec<_>>() {
                self.mark_first_waiting(&class, dirty);
            }
            return;
        }
        self.mark_pool(name, dirty);
        if let Some(old) = old {
            dirty.extend(self.users_of(&old).collect::<Vec<_>>());
        }
    }

    /// Whatever belongs to a class: its waiting claims and its addresses.
    pub(super) fn mark_class(&self, name: &str, dirty: &mut Dirty) {
        for family in Family::ALL {
            let waiting = self.waiting.get(&(name.to_owned(), family));
            dirty.extend(waiting.map(|(_, key)| Key::Claim(key.clone())));
        }
        let addresses =
            self.addresses_by_class.get(&name.to_owned()).filter_map(|name| self.addresses.get(name));
        dirty.extend(addresses.map(|address| Self::unit(&address)));
    }
}

/// The pool that a class of this driver names, whether or not the class is accepted.
fn served_pool(class: &IPAddressClass) -> Option<String> {
    if !decide::class::is_served(class) {
        return None;
    }
    class::pool_name(class.spec.parameters.as_ref()).ok()
}
