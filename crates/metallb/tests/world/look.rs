//! What tests look at.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use api::wellknown::{driver, metallb as names};
use api::{ClaimKey, IPAddress, IPAddressClaim, IPAddressClass, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Kind, Object, Ref};

use super::World;
use super::build::{HOME, key};
use sim::metallb::ingress;

impl World {
    pub fn addresses(&self) -> Vec<Arc<IPAddress>> {
        let all = self.server.all(Kind::Address).filter_map(|object| match object {
            Object::Address(address) => Some(Arc::clone(address)),
            _ => None,
        });
        all.collect()
    }

    pub fn address(&self, name: &str) -> Arc<IPAddress> {
        let found = self.addresses().into_iter().find(|address| address.name_any() == name);
        found.unwrap_or_else(|| panic!("no address {name}; {}", self.last_words(40)))
    }

    pub fn class(&self, name: &str) -> IPAddressClass {
        match self.server.get(&Ref::class(name)) {
            Some(Object::Class(class)) => (**class).clone(),
            _ => panic!("no class {name}"),
        }
    }

    pub fn claim(&self, name: &str) -> Option<IPAddressClaim> {
        match self.server.get(&Ref::claim(&ClaimKey::new("tenant-a", name))) {
            Some(Object::Claim(claim)) => Some((**claim).clone()),
            _ => None,
        }
    }

    pub fn claim_phase(&self, name: &str) -> String {
        self.claim(name).map_or_else(|| "gone".to_owned(), |claim| format!("{:?}", claim.phase()))
    }

    pub fn service_at(&self, key: &ServiceKey) -> Option<Service> {
        match self.server.get(&Ref::service(key)) {
            Some(Object::Service(service)) => Some((**service).clone()),
            _ => None,
        }
    }

    pub fn service(&self, name: &str) -> Service {
        self.service_at(&key(name)).unwrap_or_else(|| panic!("no Service {name}"))
    }

    pub fn services_in(&self, namespace: &str) -> Vec<Service> {
        let all = self.server.all(Kind::Service).filter_map(|object| match object {
            Object::Service(service) => Some((**service).clone()),
            _ => None,
        });
        all.filter(|service| service.namespace().as_deref() == Some(namespace)).collect()
    }

    pub fn placeholders(&self) -> Vec<Service> {
        self.services_in(HOME)
    }

    /// The one placeholder that holds the IP.
    pub fn hold(&self, ip: &str) -> Service {
        let mut holds = self.placeholders();
        holds.retain(|hold| hold.annotations().get(names::PIN).is_some_and(|pin| pin == ip));
        assert_eq!(holds.len(), 1, "holds of {ip}: {}", self.last_words(60));
        holds.remove(0)
    }

    /// Whose the IP is in MetalLB's books.
    pub fn holders(&self, ip: &str) -> Vec<String> {
        self.metallb.books.holders(ip.parse().unwrap()).map(ToString::to_string).collect()
    }

    pub fn shows(&self, name: &str) -> Vec<String> {
        ingress(&self.service(name))
    }

    /// The placeholder alone has the IP, the ledger names nobody, the hold looks like a new one.
    pub fn assert_held(&self, ip: &str) {
        let hold = self.hold(ip);
        let words = self.last_words(60);
        assert_eq!(self.holders(ip), [format!("{HOME}/{}", hold.name_any())], "{words}");
        let address = self.address_of(ip);
        assert_eq!(address.associated_to(), None, "{words}");
        let spec = hold.spec.clone().unwrap();
        assert_eq!(spec.external_traffic_policy.as_deref(), Some("Cluster"), "{words}");
        assert_eq!(spec.selector, None, "{words}");
        assert_eq!(condition(&address, "Held"), Some(("True".into(), "Held".into())), "{words}");
        assert!(hold.annotations().contains_key(names::SHARE));
    }

    pub fn address_of(&self, ip: &str) -> Arc<IPAddress> {
        let found = self.addresses().into_iter().find(|address| address.spec.address == ip);
        found.unwrap_or_else(|| panic!("no address {ip}"))
    }

    /// The Service alone has the IPs, without a key, and all records say so.
    pub fn assert_associated(&self, name: &str, ips: &[&str]) {
        let service = self.service(name);
        let words = self.last_words(60);
        assert_eq!(ingress(&service), ips, "{words}");
        assert_eq!(service.annotations().get(names::PIN).map(String::as_str), Some(ips.join(",").as_str()));
        assert_eq!(service.annotations().get(names::SHARE), None, "{words}");
        assert_eq!(service.annotations().get(driver::PINNED).map(String::as_str), Some("true"));
        assert_eq!(service.labels().get(driver::ASSOCIATED).map(String::as_str), Some("true"));
        let finalizer = service.finalizers().iter().any(|name| name == driver::HANDOFF);
        assert_eq!(finalizer, self.config.hold_on_delete);
        for ip in ips {
            assert_eq!(self.holders(ip), [format!("tenant-a/{name}")], "{words}");
            let address = self.address_of(ip);
            let to = address.associated_to().expect("associated");
            assert_eq!((to.name.as_str(), to.uid.clone()), (name, service.uid()), "{words}");
            assert_eq!(condition(&address, "Associated"), Some(("True".into(), "Associated".into())));
            let handoff = address.status.as_ref().unwrap().last_handoff.clone().unwrap();
            assert!(handoff.finished_at.is_some(), "{words}");
        }
    }

    /// No mark of ours is left on the Service.
    pub fn assert_bare(&self, name: &str) {
        let service = self.service(name);
        let ours = |text: &str| text.starts_with(driver::PROVISIONER);
        assert!(!service.annotations().keys().any(|name| ours(name)), "{:?}", service.annotations());
        assert!(!service.labels().keys().any(|name| ours(name)));
        assert!(!service.finalizers().iter().any(|name| ours(name)));
        for name in [names::PIN, names::SHARE] {
            assert_eq!(service.annotations().get(name), None, "{}", self.last_words(60));
        }
    }

    /// The notes of the events of that reason about that object, as they were told.
    pub fn told(&self, reference: &Ref, reason: &str) -> Vec<String> {
        let about = self.told.iter().filter(|event| event.regarding == *reference && event.reason == reason);
        about.map(|event| event.note.clone()).collect()
    }

    /// The one note of that reason about that object.
    pub fn told_once(&self, reference: &Ref, reason: &str) -> String {
        let notes = self.told(reference, reason);
        assert_eq!(notes.len(), 1, "{reason} about {reference}: {notes:#?}\n{}", self.last_words(60));
        notes[0].clone()
    }

    /// What a run must leave, however often it was interrupted: without versions, uids, times and keys.
    pub fn digest(&self) -> String {
        let mut text = String::new();
        for address in self.addresses() {
            let ip = address.spec.address.clone();
            let to = address.associated_to().map(|to| format!("{}/{}", to.namespace, to.name));
            let phase =
                if address.is_deleting() { "Deleting".into() } else { format!("{:?}", address.phase()) };
            let holders: BTreeSet<_> = self.holders(&ip).into_iter().map(home_only).collect();
            let conditions = [condition(&address, "Held"), condition(&address, "Associated")];
            writeln!(text, "{ip} {phase} to {to:?} with {holders:?} {conditions:?}").unwrap();
        }
        for object in self.server.all(Kind::Service) {
            let Object::Service(service) = object else { continue };
            let key = format!("{}/{}", service.namespace().unwrap(), service.name_any());
            if service.namespace().as_deref() == Some(HOME) {
                let held = service.labels().get(driver::IP_ADDRESS);
                writeln!(text, "placeholder {held:?} shows {:?}", ingress(service)).unwrap();
                continue;
            }
            let marks: Vec<_> = service
                .annotations()
                .keys()
                .chain(service.labels().keys())
                .chain(service.finalizers())
                .collect();
            let pin = service.annotations().get(names::PIN);
            writeln!(text, "{key} shows {:?} pin {pin:?} marks {marks:?}", ingress(service)).unwrap();
        }
        for object in self.server.all(Kind::Claim) {
            let Object::Claim(claim) = object else { continue };
            let list = claim.status.clone().unwrap_or_default().addresses;
            let list: Vec<_> = list.into_iter().map(|one| one.address).collect();
            writeln!(text, "{} {:?} {list:?}", claim.key(), claim.phase()).unwrap();
        }
        text
    }
}

/// A hold may have been made anew under another name.
fn home_only(holder: String) -> String {
    if holder.starts_with(HOME) { "placeholder".to_owned() } else { holder }
}

/// Status and reason of a condition.
pub fn condition(address: &IPAddress, kind: &str) -> Option<(String, String)> {
    let conditions = address.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition.type_ == kind)?;
    Some((found.status, found.reason))
}
