//! Contract §11: before an uninstall, nothing is left that only the driver could take away.
//!
//! Finalizers and sharing keys go, and the markers that make a pin the driver's. What keeps the addresses where they
//! are stays: the pins, which are their Services' own from then on, the label by which a pool may admit those Services,
//! and the placeholders. The ledger stays too, so that a driver installed later finds all of it: it says which pins were
//! the driver's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::wellknown::{driver, metallb};
use api::{IPAddress, IPAddressClass, Ip, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Action, Object, Target};
use serde_json::{Map, Value, json};

use super::{Errand, Write};
use crate::decide::address::has_teardown;
use crate::decide::class::is_served;
use crate::parse::service::{PLACEHOLDER_PREFIX, View, is_our_key};

/// What is read for it.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// The Services of all namespaces.
    pub services: Vec<Arc<Service>>,
    /// All addresses.
    pub addresses: Vec<Arc<IPAddress>>,
    /// All classes.
    pub classes: Vec<Arc<IPAddressClass>>,
}

/// The addresses that the ledger says a Service has.
type Ledger<'a> = BTreeMap<ServiceKey, Vec<&'a Arc<IPAddress>>>;

/// Plans the release of everything. `force`: also of what a handoff is under way for, which may be without its address
/// for a moment then.
pub fn plan(scene: &Scene, force: bool) -> Errand {
    let mut errand = Errand::default();
    let mut ledger = Ledger::new();
    for address in &scene.addresses {
        if let Some(to) = address.associated_to() {
            ledger.entry(to.key()).or_default().push(address);
        }
    }
    let mut services: Vec<_> = scene.services.iter().collect();
    services.sort_by_key(|service| View::key(&***service));
    for service in services.iter().filter(|service| !is_placeholder(service)) {
        match hindrance(scene, service).filter(|_| !force) {
            Some(words) => errand.refused.push(words),
            None => free(&ledger, service, &mut errand),
        }
    }
    let mut addresses: Vec<_> = scene.addresses.iter().filter(|address| has_teardown(address)).collect();
    addresses.sort_by_key(|address| address.name_any());
    for address in addresses {
        let name = address.name_any();
        let body = json!({ "metadata": { "finalizers": without(address.finalizers(), driver::TEARDOWN) } });
        errand.step(
            format!("IPAddress {name}: remove finalizer {}", driver::TEARDOWN),
            Write::known(Action::patch(Target::of(&Object::Address(Arc::clone(address))), body)),
        );
        let served =
            |class: &Arc<IPAddressClass>| class.name_any() == address.spec.class_name && is_served(class);
        if !scene.classes.iter().any(served) {
            errand.notes.push(format!(
                "IPAddress {name}: its class {} does not exist; without it a driver installed later does not know the \
                 address as its own",
                address.spec.class_name
            ));
        }
    }
    for placeholder in services.into_iter().filter(|service| is_placeholder(service)) {
        errand.notes.push(stays(placeholder));
    }
    errand
}

/// A placeholder is known by its label, or by name and key if somebody took that off; and it wears nothing that is only
/// for Services of tenants.
fn is_placeholder(service: &Service) -> bool {
    let by_name = || {
        service.name_any().starts_with(PLACEHOLDER_PREFIX)
            && service.sharing_key().is_some_and(is_our_key)
            && service.claim().is_none()
    };
    (service.labelled(driver::PLACEHOLDER) || by_name()) && !wears_marks(service)
}

fn wears_marks(service: &Service) -> bool {
    service.annotation(driver::PINNED).is_some()
        || service.labelled(driver::ASSOCIATED)
        || service.has_finalizer(driver::HANDOFF)
}

fn stays(placeholder: &Service) -> String {
    let (key, ips) = (View::key(placeholder), text(&placeholder.ingress()));
    match placeholder.held_address() {
        Some(address) if ips.is_empty() => {
            format!("placeholder {key} of IPAddress {address} stays; it has no IP")
        }
        Some(_) => format!("placeholder {key} goes on holding {ips}"),
        None => format!("placeholder {key} stays: a reservation that is not in the ledger yet"),
    }
}

/// Why a Service cannot be freed without its address being with nobody for a moment: it and a placeholder hold it
/// together, or it is being deleted and nobody holds the address for it yet.
fn hindrance(scene: &Scene, service: &Service) -> Option<String> {
    let shown = service.ingress();
    let shares = |other: &&Arc<Service>| {
        is_placeholder(other)
            && service.sharing_key().is_some()
            && other.sharing_key() == service.sharing_key()
    };
    let together = scene
        .services
        .iter()
        .filter(shares)
        .any(|other| other.ingress().intersection(&shown).next().is_some());
    let leaving = service.is_deleting() && service.has_finalizer(driver::HANDOFF) && !shown.is_empty();
    let ours = wears_marks(service) || service.sharing_key().is_some_and(is_our_key);
    (ours && (together || leaving)).then(|| {
        format!(
            "Service {}: the handoff of {} is under way; start the driver again and let it finish, or give --force",
            View::key(service),
            text(&shown)
        )
    })
}

/// The step that takes our marks off a Service, if it wears any.
fn free(ledger: &Ledger<'_>, service: &Arc<Service>, errand: &mut Errand) {
    let mut annotations = Map::new();
    let mut metadata = Map::new();
    let mut gone = Vec::new();
    if service.annotation(driver::PINNED).is_some() {
        annotations.insert(driver::PINNED.to_owned(), Value::Null);
        gone.push(format!("annotation {}", driver::PINNED));
    }
    let keeps = keeps_pin(ledger, service);
    if service.is_pinned_by_us() && !keeps && service.annotation(metallb::PIN).is_some() {
        annotations.insert(metallb::PIN.to_owned(), Value::Null);
        gone.push(format!("annotation {}", metallb::PIN));
    }
    if service.annotation(metallb::SHARE).is_some_and(is_our_key) {
        annotations.insert(metallb::SHARE.to_owned(), Value::Null);
        gone.push(format!("annotation {}", metallb::SHARE));
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    // A pool's `serviceSelectors` may go by the label: without it, MetalLB would take the address away.
    if !keeps && service.labels().contains_key(driver::ASSOCIATED) {
        metadata.insert("labels".to_owned(), json!({ driver::ASSOCIATED: null }));
        gone.push(format!("label {}", driver::ASSOCIATED));
    }
    if service.has_finalizer(driver::HANDOFF) {
        metadata.insert("finalizers".to_owned(), json!(without(service.finalizers(), driver::HANDOFF)));
        gone.push(format!("finalizer {}", driver::HANDOFF));
    }
    if gone.is_empty() {
        return;
    }
    let pin = service.pin().ok().filter(|_| keeps);
    let pin = pin.map(|ips| format!("; {} stays by the pin", text(&ips))).unwrap_or_default();
    errand.step(
        format!("Service {}: remove {}{pin}", View::key(&**service), gone.join(", ")),
        Write::known(Action::patch(
            Target::of(&Object::Service(Arc::clone(service))),
            json!({ "metadata": metadata }),
        )),
    );
}

/// A pin stays where it is what the ledger says, or what MetalLB serves: taken off, the address would be another after
/// MetalLB's next restart. Any other pin of ours serves nobody.
fn keeps_pin(ledger: &Ledger<'_>, service: &Service) -> bool {
    let Some(pin) = service.pin().ok().filter(|pin| !pin.is_empty()) else { return false };
    let means = |address: &&Arc<IPAddress>| {
        let to = address.associated_to();
        to.is_some_and(|to| to.uid.as_deref().is_none_or(|uid| uid.is_empty() || uid == service.object_uid()))
    };
    let associated = ledger.get(&View::key(service)).into_iter().flatten();
    let ledger: BTreeSet<Ip> =
        associated.copied().filter(means).filter_map(|address| address.ip().ok()).collect();
    !service.is_deleting() && (pin == ledger || pin.is_subset(&service.ingress()))
}

fn without(finalizers: &[String], name: &str) -> Vec<String> {
    finalizers.iter().filter(|finalizer| *finalizer != name).cloned().collect()
}

fn text(ips: &BTreeSet<Ip>) -> String {
    ips.iter().map(Ip::to_string).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests;
