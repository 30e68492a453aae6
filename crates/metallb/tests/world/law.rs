//! What must hold at every moment: who has a recorded IP in MetalLB's books, and whose fields are written.

use std::collections::{BTreeMap, BTreeSet};

use ::metallb::Config;
use api::{AddressName, ServiceKey};
use kube::ResourceExt;
use plan::Action;

use super::World;
use sim::law::holders::{holders_of, ip_to_hold, is_rightful};
use sim::law::writes;
use sim::server::{Server, merge};

#[derive(Clone, Default)]
pub struct Law {
    /// The addresses that were held once: from then on they are, until their teardown.
    armed: BTreeSet<(AddressName, String)>,
    /// The scenario frees an address from outside: it may be with nobody, or with a thief.
    pub gap: bool,
    /// What these Services of tenant-a show: that never changes.
    still: BTreeMap<String, Vec<String>>,
    /// Handoffs go through gaps: an address may be with nobody for a moment, and with nobody else.
    pub unheld: bool,
}

impl World {
    /// From now on the Service shows what it shows now, at every moment.
    pub fn keep_still(&mut self, name: &str) {
        let shown = self.shows(name);
        assert!(!shown.is_empty());
        self.law.still.insert(name.to_owned(), shown);
    }

    /// From record to teardown each address is with its placeholder or its Service, and with nobody else.
    pub fn check(&mut self) {
        for (name, shown) in &self.law.still {
            assert_eq!(self.shows(name), *shown, "{name} after:\n{}", self.last_words(60));
        }
        for address in self.addresses() {
            let Some(ip) = ip_to_hold(&address) else { continue };
            let holders = holders_of(&self.server, &self.metallb, ip);
            let id = (address.key(), address.uid().unwrap_or_default());
            let rightful = |holder: &ServiceKey| is_rightful(&self.server, &self.config, &address, holder);
            let by_us = address.spec.source.from_class.is_some() && address.labels().is_empty();
            if (by_us || holders.iter().any(rightful)) && !self.metallb.down {
                self.law.armed.insert(id.clone());
            }
            if self.law.gap || !self.law.armed.contains(&id) {
                continue;
            }
            let words = || self.last_words(60);
            assert!(self.law.unheld || !holders.is_empty(), "{ip} is with nobody after:\n{}", words());
            for holder in &holders {
                assert!(rightful(holder), "{ip} is with {holder} after:\n{}", words());
            }
        }
    }
}

impl Law {
    /// Nobody else's fields are written.
    pub fn judge(server: &Server, config: &Config, action: &Action) {
        let judged = match action {
            Action::Create { object, .. } => writes::created(server, config, object),
            Action::Delete { target } => server.get(&target.reference).map_or(Ok(()), |object| {
                let version = object.meta().resource_version.as_deref();
                writes::deleted(config, object, version == Some(&target.resource_version))
            }),
            Action::Patch { target, status, body, .. } => {
                let Some(old) = server.value(&target.reference) else { return };
                let mut new = old.clone();
                merge(&mut new, body);
                let fresh = old["metadata"]["resourceVersion"] == target.resource_version.as_str();
                writes::patched(config, &target.reference, *status, old, &new, body, fresh)
            }
            Action::ConfirmAbsent { .. } | Action::Emit(_) | Action::Trace(_) => Ok(()),
        };
        if let Err((law, words)) = judged {
            panic!("{law}: {words}");
        }
    }
}
