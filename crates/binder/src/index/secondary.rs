//! The secondary keys of each kind, and which keys a change makes dirty.

use std::collections::BTreeSet;

use api::{AddressName, ClaimKey, Family, IPAddress, IPAddressClaim, IPAddressClass, Ip};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::{Aged, Dirty, Index, Wish};
use crate::Key;

/// Under which keys an unmet claim is found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Filing {
    pub(super) since: Option<Time>,
    /// The class it is to have, existing or not.
    class: Option<String>,
    /// Whether the class depends on which is the default.
    by_default: bool,
    address_name: Option<AddressName>,
    /// The markets in which it takes what comes.
    pub(super) wishes: Vec<Wish>,
}

/// All of a class that claims are decided by: parameters are the driver's, and of its status this is what claims are told.
fn told(class: &IPAddressClass) -> (&str, [Option<&str>; 2]) {
    (&class.spec.provisioner, Family::ALL.map(|family| class.lacks(family)))
}

impl Index {
    pub(super) fn class_changed(
        &mut self,
        old: Option<&IPAddressClass>,
        new: Option<&IPAddressClass>,
        dirty: &mut Dirty,
    ) {
        let Some(name) = old.or(new).map(ResourceExt::name_any) else { return };
        let is_default = new.is_some_and(IPAddressClass::is_default);
        let mut touched: BTreeSet<ClaimKey> = BTreeSet::new();
        if is_default != self.defaults.contains(&name) {
            if is_default {
                self.defaults.insert(name.clone());
            } else {
                self.defaults.remove(&name);
            }
            touched.extend(self.claims_by_default.iter().cloned());
        }
        if old.map(told) != new.map(told) {
            touched.extend(self.claims_by_class.get(&name).cloned());
        }
        for key in touched {
            self.refresh_claim(&key, dirty);
            dirty.insert(Key::Claim(key));
        }
    }

    pub(super) fn claim_changed(
        &mut self,
        old: Option<&IPAddressClaim>,
        new: Option<&IPAddressClaim>,
        dirty: &mut Dirty,
    ) {
        self.counts.claim_changed(old, new);
        let Some(key) = old.or(new).map(IPAddressClaim::key) else { return };
        // All that an address asks about its claim.
        let life = |claim: Option<&IPAddressClaim>| {
            claim.map(|claim| (claim.metadata.uid.clone(), claim.is_deleting()))
        };
        if life(old) != life(new) {
            dirty.extend(self.addresses_by_claim.get(&key).cloned().map(Key::Address));
        }
        if new.is_some() {
            dirty.insert(Key::Claim(key.clone()));
        }
        self.refresh_claim(&key, dirty);
    }

    pub(super) fn address_changed(
        &mut self,
        old: Option<&IPAddress>,
        new: Option<&IPAddress>,
        dirty: &mut Dirty,
    ) {
        self.counts.address_changed(old, new);
        let Some(name) = old.or(new).map(IPAddress::key) else { return };
        let mut touched = self.refile_ip(&name, old, new);
        let mut claims = BTreeSet::new();
        let claim_of = |address: &IPAddress| address.spec.claim_ref.as_ref().map(api::address::ClaimRef::key);
        if let Some(claim) = old.and_then(claim_of) {
            self.addresses_by_claim.remove(&claim, &name);
            claims.insert(claim);
        }
        if let Some(claim) = new.and_then(claim_of) {
            self.addresses_by_claim.insert(claim, name.clone());
        }
        // Who waits for this very object: told of what matters to a choice, not of each condition.
        let matters = |address: Option<&IPAddress>| {
            address.map(|address| {
                let associated = address.associated_to().is_some();
                (address.spec.clone(), address.phase(), associated, address.is_deleting())
            })
        };
        let mut chosen_by = touched.clone();
        if matters(old) != matters(new) {
            chosen_by.insert(name.clone());
        }
        touched.insert(name);
        for name in &touched {
            let address = self.addresses.get(name);
            let wish = address.as_ref().and_then(|address| self.free_for(address));
            self.market.offer(name, wish, dirty);
            claims.extend(address.as_ref().and_then(|address| claim_of(address)));
            if address.is_some() {
                dirty.insert(Key::Address(name.clone()));
            }
        }
        for name in chosen_by {
            dirty.extend(self.claims_by_address_name.get(&name).map(|(_, claim)| Key::Claim(claim.clone())));
        }
        for key in claims {
            self.refresh_claim(&key, dirty);
            if self.claims.contains(&key) {
                dirty.insert(Key::Claim(key));
            }
        }
    }

    /// Files an address under its IP. If that changes which object stands for an IP, all objects of that IP are
    /// given back: one of them gains, another loses, and the messages of the others name the one that stands.
    fn refile_ip(
        &mut self,
        name: &AddressName,
        old: Option<&IPAddress>,
        new: Option<&IPAddress>,
    ) -> BTreeSet<AddressName> {
        let place = |address: Option<&IPAddress>| -> Option<(Ip, Aged<AddressName>)> {
            let address = address?;
            Some((address.ip().ok()?, (address.creation_timestamp(), name.clone())))
        };
        let (old, new) = (place(old), place(new));
        let mut touched = BTreeSet::new();
        if old == new {
            return touched;
        }
        let ips: BTreeSet<Ip> = old.iter().chain(&new).map(|(ip, _)| *ip).collect();
        let before: Vec<_> = ips.iter().map(|ip| self.elder(*ip).cloned()).collect();
        if let Some((ip, aged)) = &old {
            self.addresses_by_ip.remove(ip, aged);
        }
        if let Some((ip, aged)) = new {
            self.addresses_by_ip.insert(ip, aged);
        }
        for (ip, before) in ips.into_iter().zip(before) {
            if self.elder(ip) != before.as_ref() {
                touched.extend(self.addresses_by_ip.get(&ip).map(|(_, name)| name.clone()));
            }
        }
        touched
    }

    /// Files a claim anew under what may meet it.
    fn refresh_claim(&mut self, key: &ClaimKey, dirty: &mut Dirty) {
        let new = self.claims.get(key).and_then(|claim| self.filing(&claim));
        if self.filed.get(key) == new.as_ref() {
            return;
        }
        let old = self.filed.remove(key);
        if let Some(old) = &old {
            let member = (old.since.clone(), key.clone());
            if let Some(class) = &old.class {
                self.claims_by_class.remove(class, key);
            }
            if let Some(name) = &old.address_name {
                self.claims_by_address_name.remove(name, &member);
            }
            self.claims_by_default.remove(key);
            let stays = |wish: &Wish| {
                new.as_ref().is_some_and(|new| new.since == old.since && new.wishes.contains(wish))
            };
            for wish in old.wishes.iter().filter(|wish| !stays(wish)) {
                self.market.leave(wish, &member, dirty);
            }
        }
        let Some(new) = new else { return };
        let member = (new.since.clone(), key.clone());
        if let Some(class) = &new.class {
            self.claims_by_class.insert(class.clone(), key.clone());
        }
        if let Some(name) = &new.address_name {
            self.claims_by_address_name.insert(name.clone(), member.clone());
        }
        if new.by_default {
            self.claims_by_default.insert(key.clone());
        }
        for wish in &new.wishes {
            self.market.enter(wish, &member, dirty);
        }
        self.filed.insert(key.clone(), new);
    }

    fn filing(&self, claim: &IPAddressClaim) -> Option<Filing> {
        if claim.is_deleting() {
            return None;
        }
        let need = self.need(claim);
        if need.missing.is_empty() || need.lost {
            return None;
        }
        let class = self.class_wanted(claim).map(str::to_owned);
        let address_name = claim.spec.address_name.as_ref().map(AddressName::new);
        let wish = |class: &str, family: Family| Wish { class: class.to_owned(), family };
        let wishes = match &class {
            Some(class)
                if address_name.is_none() && need.released.is_empty() && self.classes.contains(class) =>
            {
                let families = need.missing.iter().copied().filter(|family| need.may_take(*family));
                families.map(|family| wish(class, family)).collect()
            }
            _ => Vec::new(),
        };
        Some(Filing {
            since: claim.creation_timestamp(),
            class,
            by_default: own_class(claim).is_none(),
            address_name,
            wishes,
        })
    }

    /// The class a claim is to have, existing or not: its own, the one it was resolved to once, or the one
    /// default (contract §4.6).
    pub(crate) fn class_wanted<'a>(&'a self, claim: &'a IPAddressClaim) -> Option<&'a str> {
        own_class(claim).or_else(|| {
            let mut defaults = self.defaults.iter();
            defaults.next().filter(|_| defaults.next().is_none()).map(String::as_str)
        })
    }
}

pub(super) fn own_class(claim: &IPAddressClaim) -> Option<&str> {
    let sticky = || claim.status.as_ref().and_then(|status| status.class_name.as_deref());
    claim.spec.class_name.as_deref().or_else(sticky).filter(|name| !name.is_empty())
}
