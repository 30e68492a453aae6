//! How rows come, change and go, and with them everything that is found by them.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::Ip;
use plan::{Kind, Object};

use super::rows::{AddressRow, ClaimRow, Key, ServiceRow};
use super::tally::Reach;
use super::{Source, Ties, World, namespaces_of, read};

impl World {
    pub(super) fn put(&mut self, source: Source, key: Key, object: &Object) {
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
                    self.measured_anew();
                }
            }
            Object::Pool(object) => {
                let row = read::pool(&mut self.words, object);
                if self.pools.get(&key.name).is_none_or(|old| **old != row) {
                    self.pools.insert(key.name, Arc::new(row));
                    self.measured_anew();
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

    pub(super) fn drop(&mut self, source: Source, key: &Key) {
        match source {
            Source::Kind(Kind::Address) => self.set_address(&key.name, None),
            Source::Kind(Kind::Claim) => self.set_claim(key, None),
            Source::Kind(Kind::Service) => self.set_service(key, None),
            Source::Kind(Kind::Class) => {
                self.classes.remove(&key.name);
                self.measured_anew();
            }
            Source::Kind(Kind::Pool) => {
                self.pools.remove(&key.name);
                self.measured_anew();
            }
            Source::Events(_) => {
                if let Some(row) = self.events.remove(key) {
                    self.heard(&row.namespace);
                }
            }
            Source::Kind(_) => {}
        }
    }

    /// A class or a pool changed: every address may count elsewhere.
    fn measured_anew(&mut self) {
        self.tally.take();
        self.touch("");
    }

    fn set_address(&mut self, name: &Arc<str>, new: Option<AddressRow>) {
        let old = self.addresses.get(name).cloned();
        if old.as_deref() == new.as_ref() {
            return;
        }
        let new = new.map(Arc::new);
        let spots = old.iter().chain(&new).map(|row| row.ip).collect();
        let reach = Reach { spots, ..Reach::default() };
        self.counted(&reach, |world| world.exchange_address(name, old.as_deref(), new.as_ref()));
        self.moved();
        for row in [old, new].into_iter().flatten() {
            for namespace in namespaces_of(&row) {
                self.touch(&namespace);
            }
        }
    }

    fn exchange_address(&mut self, name: &Arc<str>, old: Option<&AddressRow>, new: Option<&Arc<AddressRow>>) {
        if let Some(old) = old {
            self.addresses.remove(name);
            self.by_ip.remove(&(old.ip, Arc::clone(name)));
            if let Some(claim) = &old.claim {
                self.untie(&claim.key, |ties| ties.addresses.retain(|tied| tied != name));
            }
            if let Some(holder) = &old.service {
                self.holds.remove(&(holder.key.clone(), Arc::clone(name)));
            }
        }
        let Some(row) = new else { return self.address_texts.remove(name) };
        self.address_texts.put(name, row.texts(), row);
        let name = Arc::clone(&row.name);
        if let Some(claim) = &row.claim {
            self.ties.entry(claim.key.clone()).or_default().addresses.push(Arc::clone(&name));
        }
        if let Some(holder) = &row.service {
            self.holds.insert((holder.key.clone(), Arc::clone(&name)));
        }
        self.by_ip.insert((row.ip, Arc::clone(&name)), Arc::clone(row));
        self.addresses.insert(name, Arc::clone(row));
    }

    fn set_claim(&mut self, key: &Key, new: Option<ClaimRow>) {
        if self.claims.get(key).map(|row| &**row) == new.as_ref() {
            return;
        }
        let spots = self.addresses_of(key).map(|row| row.ip).collect();
        let reach = Reach { spots, claim: Some(key.clone()), ..Reach::default() };
        self.counted(&reach, |world| match new {
            Some(row) => {
                world.claims.insert(row.key.clone(), Arc::new(row));
            }
            None => {
                world.claims.remove(key);
            }
        });
        self.find_claim(key);
        self.touch(&key.namespace);
    }

    /// A search is to find a claim by what it is now, and by the Services that name it.
    fn find_claim(&mut self, key: &Key) {
        let Some(row) = self.claims.get(key) else { return self.claim_texts.remove(key) };
        let services = self.ties.get(key).map_or(&[][..], |ties| &ties.services);
        self.claim_texts.put(key, row.texts(services), row);
    }

    /// A Service names a claim, or no longer does.
    fn tie_service(&mut self, claim: &Key, service: &Key, named: bool) {
        if named {
            self.ties.entry(claim.clone()).or_default().services.push(service.clone());
        } else {
            self.untie(claim, |ties| ties.services.retain(|tied| tied != service));
        }
        self.find_claim(claim);
    }

    fn set_service(&mut self, key: &Key, new: Option<ServiceRow>) {
        let old = self.services.get(key).cloned();
        if old.as_deref() == new.as_ref() {
            return;
        }
        let new = new.map(Arc::new);
        let rows = old.iter().chain(&new);
        let mut spots: BTreeSet<_> = rows.flat_map(|row| row.ips().map(Some)).collect();
        // Whether the holder of an address is there decides what others on it are.
        spots.extend(self.held_by(key).map(|row| row.ip));
        let reach = Reach { spots, service: Some(key.clone()), ..Reach::default() };
        self.counted(&reach, |world| {
            if let Some(old) = &old {
                world.take_service(key, old);
            }
            match &new {
                Some(row) => world.place_service(row),
                None => world.service_texts.remove(key),
            }
        });
        for ip in old.iter().chain(&new).flat_map(|row| row.ips()) {
            self.touch_owner(ip);
        }
        self.touch(&key.namespace);
    }

    fn take_service(&mut self, key: &Key, old: &ServiceRow) {
        self.services.remove(key);
        self.strangers.remove(key);
        for ip in old.ips() {
            if let Some(rows) = self.on_ip.get_mut(&ip) {
                rows.retain(|row| row.key != *key);
                if rows.is_empty() {
                    self.on_ip.remove(&ip);
                }
            }
        }
        if let Some(claim) = &old.claim {
            self.tie_service(claim, key, false);
        }
    }

    fn place_service(&mut self, row: &Arc<ServiceRow>) {
        let key = row.key.clone();
        for ip in row.ips() {
            let rows = self.on_ip.entry(ip).or_default();
            if !rows.iter().any(|known| known.key == key) {
                rows.push(Arc::clone(row));
            }
        }
        if let Some(claim) = &row.claim {
            self.tie_service(claim, &key, true);
        }
        self.service_texts.put(&key, row.texts(), row);
        if *key.namespace == *self.placeholders && !row.placeholder {
            self.strangers.insert(key.clone());
        }
        self.services.insert(key, Arc::clone(row));
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
