//! What is asked of the index. No look-up walks what it does not return.

use std::sync::Arc;

use api::{Ip, wellknown};

use super::World;
use super::origin::Origin;
use super::rows::{About, AddressRow, ClaimRow, ClassRow, EventRow, Key, PoolRow, ServiceRow};
use crate::query::Needle;

impl World {
    /// The address of that name.
    pub fn address(&self, name: &str) -> Option<&Arc<AddressRow>> {
        self.addresses.get(name)
    }

    /// All addresses, in the order of their IPs; those whose text is none come first.
    pub fn addresses(&self) -> impl DoubleEndedIterator<Item = &Arc<AddressRow>> {
        self.by_ip.values()
    }

    /// The addresses that a search by a part of a text finds, in no order.
    pub fn addresses_with(&self, part: &Needle) -> Vec<&Arc<AddressRow>> {
        self.address_texts.find(part)
    }

    /// The addresses whose last handoff is in this trace. Every row is looked at: traces are asked for one by one.
    pub fn addresses_of_trace(&self, id: &str) -> impl Iterator<Item = &Arc<AddressRow>> {
        self.addresses().filter(move |row| row.is_of_trace(id))
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
        self.between(first, last).map(|(_, row)| row)
    }

    /// The IPs of those addresses, in order.
    pub fn ips_between(&self, first: Ip, last: Ip) -> impl Iterator<Item = Ip> {
        self.between(first, last).map(|(ip, _)| ip)
    }

    /// No row is looked at: that is waiting for memory, most of the time.
    fn between(&self, first: Ip, last: Ip) -> impl Iterator<Item = (Ip, &Arc<AddressRow>)> {
        let from = (Some(first), Arc::clone(&self.nothing));
        let rows = self.by_ip.range(from..);
        rows.map_while(move |((ip, _), row)| Some((ip.filter(|ip| *ip <= last)?, row)))
    }

    /// The IPs from one to another that Services show, with those Services.
    pub fn shown_between(&self, first: Ip, last: Ip) -> impl Iterator<Item = (Ip, &[Arc<ServiceRow>])> {
        self.on_ip.range(first..=last).map(|(ip, rows)| (*ip, rows.as_slice()))
    }

    /// Visits every IP that an address or a Service has, in order, with all of those; the addresses whose text is none
    /// come first. Both are gone through once: looking each of them up in the other costs many times that.
    pub fn each_ip<'a>(
        &'a self,
        mut visit: impl FnMut(Option<Ip>, &[&'a Arc<AddressRow>], &'a [Arc<ServiceRow>]),
    ) {
        let mut rows = self.by_ip.values().peekable();
        let mut shown = self.on_ip.iter().peekable();
        let mut addresses = Vec::new();
        loop {
            let next = (rows.peek().map(|row| row.ip), shown.peek().map(|(ip, _)| Some(**ip)));
            let ip = match next {
                (Some(ledger), Some(shown)) => ledger.min(shown),
                (Some(ip), None) | (None, Some(ip)) => ip,
                (None, None) => return,
            };
            addresses.clear();
            while let Some(row) = rows.next_if(|row| row.ip == ip) {
                addresses.push(row);
            }
            let services = shown.next_if(|(shown, _)| Some(**shown) == ip);
            visit(ip, &addresses, services.map_or(&[], |(_, services)| services));
        }
    }

    /// The Services that have an IP, by MetalLB or by `spec.externalIPs`.
    pub fn services_on(&self, ip: Ip) -> impl Iterator<Item = &Arc<ServiceRow>> {
        self.on_ip.get(&ip).into_iter().flatten()
    }

    /// The claim of that key.
    pub fn claim(&self, key: &Key) -> Option<&Arc<ClaimRow>> {
        self.claims.get(key)
    }

    /// All claims, by namespace and name.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<ClaimRow>> {
        self.claims.values()
    }

    /// The claims that a search by a part of a text finds, in no order.
    pub fn claims_with(&self, part: &Needle) -> Vec<&Arc<ClaimRow>> {
        self.claim_texts.find(part)
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

    /// The addresses that the ledger says a Service of this namespace and name has.
    pub fn held_by(&self, service: &Key) -> impl Iterator<Item = &Arc<AddressRow>> {
        let from = (service.clone(), Arc::clone(&self.nothing));
        let names = self.holds.range(from..).take_while(move |(holder, _)| holder == service);
        names.filter_map(|(_, name)| self.addresses.get(name))
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

    /// The same without placeholders. No placeholder is walked past: there are as many as there are others.
    pub fn workloads(&self) -> impl Iterator<Item = &Arc<ServiceRow>> {
        let first = Key::new(self.placeholders.as_str(), "");
        // No name comes between a text and the same with this behind it.
        let after = Key::new(format!("{}\0", self.placeholders), "");
        let strangers = self.strangers.iter().filter_map(|key| self.services.get(key));
        let before = self.services.range(..first).map(|(_, row)| row);
        before.chain(strangers).chain(self.services.range(after..).map(|(_, row)| row))
    }

    /// The keys of workloads by where their IPs come from: those of one origin, or all, the worst first; in name order.
    pub fn by_origin(&self, origin: Option<Origin>) -> impl DoubleEndedIterator<Item = &Key> {
        self.tally().by_origin(origin)
    }

    /// How many those are.
    pub fn count_by_origin(&self, origin: Option<Origin>) -> usize {
        self.tally().count_by_origin(origin)
    }

    /// The Services that a search by a part of a text finds, placeholders among them, in no order.
    pub fn services_with(&self, part: &Needle) -> Vec<&Arc<ServiceRow>> {
        self.service_texts.find(part)
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
