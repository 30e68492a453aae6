//! What must hold at every moment: who has a recorded IP in MetalLB's books, and whose fields are written.

use std::collections::{BTreeMap, BTreeSet};

use ::metallb::Config;
use api::wellknown::{ADDRESS_PROTECTION, CLAIM, driver, metallb as names};
use api::{AddressName, IPAddress, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Action, Kind, Object, Ref};
use serde_json::Value;

use super::World;
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
            if is_observed(&address) {
                continue;
            }
            let Ok(ip) = address.ip() else { continue };
            let core = address.finalizers().iter().any(|name| name == ADDRESS_PROTECTION);
            if address.is_deleting() && !core {
                continue;
            }
            // A Service that is gone has nothing, whether or not MetalLB has seen it go.
            let exists = |holder: &&ServiceKey| self.server.get(&Ref::service(holder)).is_some();
            let holders: Vec<ServiceKey> =
                self.metallb.books.holders(ip.addr()).filter(exists).cloned().collect();
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

fn is_rightful(server: &Server, config: &Config, address: &IPAddress, holder: &ServiceKey) -> bool {
    let service = match server.get(&Ref::service(holder)) {
        Some(Object::Service(service)) => Some(service),
        _ => None,
    };
    if holder.namespace == config.placeholder_namespace {
        // One that MetalLB has not yet seen go.
        return service.is_none_or(|service| {
            let pinned = service.annotations().get(names::PIN) == Some(&address.spec.address);
            pinned || service.labels().get(driver::IP_ADDRESS) == Some(&address.name_any())
        });
    }
    // Adopted, and about to be associated.
    let adopted = service.is_some_and(|service| {
        let claim = address.spec.claim_ref.as_ref();
        service.annotations().contains_key(driver::PINNED)
            && service.annotations().get(CLAIM) == claim.map(|claim| &claim.name)
            && claim.is_some_and(|claim| claim.namespace == holder.namespace)
    });
    if address.associated_to().is_none() && adopted {
        return true;
    }
    address.associated_to().is_some_and(|to| {
        let same = to.namespace == holder.namespace && to.name == holder.name;
        let uid = to.uid.as_deref().filter(|uid| !uid.is_empty());
        same && service.is_none_or(|service| uid.is_none_or(|uid| service.uid().as_deref() == Some(uid)))
    })
}

impl Law {
    /// Nobody else's fields are written.
    pub fn judge(server: &Server, config: &Config, action: &Action) {
        match action {
            Action::Create { object, .. } => created(server, config, object),
            Action::Delete { target } => {
                let object = server.get(&target.reference);
                if let Some(Object::Address(address)) = object {
                    // One that has just been adopted is deleted by nobody: the version tells.
                    let fresh = address.resource_version().as_deref() == Some(&target.resource_version);
                    assert!(is_observed(address) || !fresh, "deletes {}", target.reference);
                    return;
                }
                let Some(Object::Service(service)) = object else {
                    assert!(object.is_none(), "deletes {}", target.reference);
                    return;
                };
                assert!(is_placeholder(config, service), "deletes {}", target.reference);
            }
            Action::Patch { target, status, body, .. } => {
                let Some(old) = server.value(&target.reference) else { return };
                let mut new = old.clone();
                merge(&mut new, body);
                let fresh = old["metadata"]["resourceVersion"] == target.resource_version.as_str();
                match target.reference.kind {
                    Kind::Class => assert!(*status, "writes the spec of {}", target.reference),
                    Kind::Address => address(old, &new, *status, fresh),
                    Kind::Service => service(config, target, old, &new, *status, body),
                    kind => panic!("writes a {kind}"),
                }
            }
            Action::ConfirmAbsent { .. } | Action::Emit(_) => {}
        }
    }
}

fn is_placeholder(config: &Config, service: &Service) -> bool {
    service.namespace().as_deref() == Some(&config.placeholder_namespace)
        && (service.labels().get(driver::PLACEHOLDER).is_some_and(|value| value == "true")
            || service.annotations().get(names::SHARE).is_some_and(|key| is_our_key(key)))
}

fn created(server: &Server, config: &Config, object: &Object) {
    match object {
        Object::Service(service) => {
            assert!(is_placeholder(config, service), "creates {}", object.reference());
            assert!(service.metadata.owner_references.is_none());
            let key = service.annotations().get(names::SHARE).expect("a placeholder is born with a key");
            // The driver may not have heard yet that the Service wears another.
            let borrowed = server.keys_worn.contains(key);
            assert!(is_our_key(key) || borrowed, "key {key:?}");
            for name in service.annotations().keys().chain(service.labels().keys()) {
                assert!(name.starts_with(driver::PROVISIONER) || name.starts_with("metallb.io/"), "{name}");
            }
        }
        Object::Claim(claim) => {
            assert!(config.auto_claim, "creates {}", object.reference());
            assert_eq!(claim.annotations().keys().collect::<Vec<_>>(), [driver::AUTO_CLAIMED]);
            assert!(claim.labels().is_empty(), "copies a tenant's labels");
        }
        Object::Address(address) => {
            let finalizers: &[&str] = if is_observed(address) { &[] } else { &[driver::TEARDOWN] };
            assert_eq!(address.finalizers(), finalizers);
            assert_eq!(address.ip().unwrap().object_name(), address.key());
        }
        other => panic!("creates {}", other.reference()),
    }
}

fn is_observed(address: &IPAddress) -> bool {
    address.labels().contains_key(driver::OBSERVED)
}

fn is_our_key(key: &str) -> bool {
    key.len() == 36 && key.starts_with("iad-")
}

fn address(old: &Value, new: &Value, status: bool, fresh: bool) {
    if !status {
        assert_eq!(old["spec"], new["spec"], "writes the spec of an address");
        let others = |value: &Value| -> Vec<Value> {
            let list = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            list.into_iter().filter(|name| name != driver::TEARDOWN).collect()
        };
        assert!(!fresh || others(old) == others(new), "writes a finalizer of somebody else");
        assert_eq!(old["metadata"]["labels"], new["metadata"]["labels"]);
        return;
    }
    let (old, new) = (&old["status"], &new["status"]);
    if old["phase"] != new["phase"] && fresh {
        let driver = |phase: &Value| *phase == "Conflict" || *phase == "Lost";
        assert!(driver(&old["phase"]) || driver(&new["phase"]), "moves {} to {}", old["phase"], new["phase"]);
    }
    let others = |value: &Value| -> Vec<Value> {
        let list = value["conditions"].as_array().cloned().unwrap_or_default();
        list.into_iter()
            .filter(|one| !["Held", "Associated", "Conflict"].contains(&one["type"].as_str().unwrap()))
            .collect()
    };
    assert!(!fresh || others(old) == others(new), "writes a condition of somebody else");
}

fn service(config: &Config, target: &plan::Target, old: &Value, new: &Value, status: bool, body: &Value) {
    assert!(!status, "writes the status of {}", target.reference);
    let Object::Service(before) = sim::server::decode(Kind::Service, old) else { unreachable!() };
    if is_placeholder(config, &before) {
        return;
    }
    assert_eq!(old["spec"], new["spec"], "writes the spec of {}", target.reference);
    let meta = &body["metadata"];
    for name in meta.as_object().into_iter().flatten().map(|(name, _)| name) {
        assert!(["annotations", "labels", "finalizers"].contains(&name.as_str()), "writes {name}");
    }
    let labels = meta["labels"].as_object().into_iter().flatten();
    assert!(labels.map(|(name, _)| name).all(|name| name == driver::ASSOCIATED));
    let ours = before.annotations().get(driver::PINNED).is_some_and(|value| value == "true");
    let recorded = before.finalizers().iter().any(|name| name == driver::HANDOFF)
        || before.labels().contains_key(driver::ASSOCIATED);
    let fresh = old["metadata"]["resourceVersion"] == target.resource_version.as_str();
    for (name, _) in meta["annotations"].as_object().into_iter().flatten() {
        let had = before.annotations().get(name);
        let allowed = match name.as_str() {
            names::PIN => had.is_none() || ours || recorded,
            names::SHARE => had.is_none_or(|key| is_our_key(key)),
            driver::PINNED | driver::HANDOFF_STARTED => true,
            CLAIM => config.auto_claim && had.is_none(),
            _ => false,
        };
        assert!(allowed || !fresh, "{}: writes annotation {name} over {had:?}", target.reference);
    }
    let others = |value: &Value| -> Vec<Value> {
        let list = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        list.into_iter().filter(|name| name != driver::HANDOFF).collect()
    };
    assert!(!fresh || others(old) == others(new), "writes a finalizer of somebody else");
}
