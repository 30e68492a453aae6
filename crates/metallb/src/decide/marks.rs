//! Our marks on a Service (contract §7): pin, marker, label, key, finalizer; put on and taken off.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::wellknown::{driver, metallb};
use api::{IPAddress, Ip};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use plan::{Action, Object, Target};
use serde_json::{Map, Value, json};

use crate::index::Index;
use crate::parse::service::{View, is_our_key};

/// An address that no pool can have.
const NOWHERE: &str = "0.0.0.0";

/// The IPs of a group of addresses, IPv4 first.
pub fn ips(group: &[Arc<IPAddress>]) -> Vec<Ip> {
    let mut ips: Vec<Ip> = group.iter().filter_map(|address| address.ip().ok()).collect();
    ips.sort();
    ips
}

/// The sharing key, if we made it.
pub fn our_key(service: &Service) -> Option<&str> {
    service.sharing_key().filter(|key| is_our_key(key))
}

/// The sharing key, if somebody else made it: never written over, never taken off.
pub fn foreign_key(service: &Service) -> Option<&str> {
    service.sharing_key().filter(|key| !is_our_key(key))
}

/// Whether the Service is pinned by us to exactly these IPs.
pub fn is_pinned(service: &Service, ips: &BTreeSet<Ip>) -> bool {
    service.is_pinned_by_us() && service.pin().ok().as_ref() == Some(ips)
}

/// With its marker gone a pin is still ours: the ledger says so.
pub fn is_pin_ours(service: &Service, group: &[Arc<IPAddress>]) -> bool {
    service.is_pinned_by_us() || service.pin().is_ok_and(|pin| pin.into_iter().eq(ips(group)))
}

/// Whether nothing of what an associated Service wears is missing.
pub fn is_dressed(index: &Index, service: &Service, ips: &BTreeSet<Ip>) -> bool {
    is_pinned(service, ips)
        && service.labelled(driver::ASSOCIATED)
        && (service.has_finalizer(driver::HANDOFF) || !index.config.hold_on_delete)
}

/// The write that puts our marks on a Service, as far as they are missing.
pub fn dress(index: &Index, service: &Arc<Service>, set: &[(&str, &str)], remove: &[&str]) -> Option<Action> {
    let mut annotations: Map<String, Value> = set
        .iter()
        .filter(|(name, value)| service.annotation(name) != Some(value))
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    // A handoff back that was begun is over.
    let present = remove.iter().chain(&[driver::HANDOFF_STARTED]);
    let present = present.filter(|name| service.annotation(name).is_some());
    annotations.extend(present.map(|name| ((*name).to_owned(), Value::Null)));
    let mut metadata = Map::new();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    if !service.labelled(driver::ASSOCIATED) {
        metadata.insert("labels".to_owned(), json!({ driver::ASSOCIATED: "true" }));
    }
    if index.config.hold_on_delete && !service.has_finalizer(driver::HANDOFF) && !service.is_deleting() {
        let mut finalizers = service.metadata.finalizers.clone().unwrap_or_default();
        finalizers.push(driver::HANDOFF.to_owned());
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    (!metadata.is_empty()).then(|| patch(service, json!({ "metadata": metadata })))
}

/// The write that takes all our marks off a Service; none if it wears none.
pub fn strip(service: &Arc<Service>) -> Option<Action> {
    undress(service, service.is_pinned_by_us(), true)
}

/// The write that takes our marks off a Service: the pin if it is ours, the finalizer if it is to go.
pub fn undress(service: &Arc<Service>, pinned: bool, finalizer: bool) -> Option<Action> {
    let mut annotations = Map::new();
    let keyed = our_key(service).is_some();
    for (name, ours) in [
        (metallb::PIN, pinned),
        (driver::PINNED, true),
        (driver::HANDOFF_STARTED, true),
        (metallb::SHARE, keyed),
    ] {
        if ours && service.annotation(name).is_some() {
            annotations.insert(name.to_owned(), Value::Null);
        }
    }
    let mut metadata = Map::new();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    if service.labelled(driver::ASSOCIATED) {
        metadata.insert("labels".to_owned(), json!({ driver::ASSOCIATED: null }));
    }
    if finalizer && service.has_finalizer(driver::HANDOFF) {
        let finalizers: Vec<_> =
            service.metadata.finalizers.iter().flatten().filter(|name| *name != driver::HANDOFF).collect();
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    (!metadata.is_empty()).then(|| patch(service, json!({ "metadata": metadata })))
}

/// The write that makes MetalLB take the IP off a Service that would keep it: a pin that no pool has. With
/// `gap`, nobody has the IP from this moment on, and the Service says since when.
pub fn banish(service: &Arc<Service>, gap: Option<Timestamp>) -> Option<Action> {
    if service.annotation(metallb::PIN) == Some(NOWHERE) && service.is_pinned_by_us() {
        return None;
    }
    let mut annotations = json!({ metallb::PIN: NOWHERE, driver::PINNED: "true" });
    if let Some(since) = gap {
        annotations[driver::HANDOFF_STARTED] = json!(since.to_string());
    }
    Some(patch(service, json!({ "metadata": { "annotations": annotations } })))
}

/// The patch of one Service, with its preconditions.
pub fn patch(service: &Arc<Service>, body: Value) -> Action {
    Action::patch(Target::of(&Object::Service(Arc::clone(service))), body)
}
