//! Hands on placeholders.

use std::sync::Arc;

use api::wellknown::{driver, metallb as names};
use api::{AddressName, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Kind, Object, Ref};
use serde_json::json;

use super::apply::{delete, ip, patch};
use super::hands::{excuse, excuse_all_of};
use super::objects::{self, address_name};
use crate::law::holders::is_our_key;
use crate::world::env::Env;

/// What somebody does to a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    PinsElsewhere,
    MakesClusterIp,
    AsksPool,
    TakesKey,
    PutsKey,
    Unlabels,
    Relabels,
    Owns,
    Keeps,
    MovesPort,
    MakesLocal,
}

impl Edit {
    pub const ALL: [Self; 11] = [
        Self::PinsElsewhere,
        Self::MakesClusterIp,
        Self::AsksPool,
        Self::TakesKey,
        Self::PutsKey,
        Self::Unlabels,
        Self::Relabels,
        Self::Owns,
        Self::Keeps,
        Self::MovesPort,
        Self::MakesLocal,
    ];
}

/// Edits the placeholder of that number, if there is any.
pub fn edit(env: &mut Env, number: u8, edit: Edit, other: u8) {
    let mut all = placeholders(env);
    if all.is_empty() {
        return;
    }
    let service = all.swap_remove(usize::from(number) % all.len());
    let labelled = service.labels().get(driver::PLACEHOLDER).is_some_and(|value| value == "true");
    let keyed = service.annotations().get(names::SHARE).is_some_and(|key| is_our_key(key));
    // With neither, nothing tells whose it is: a stranger, which the ledger names.
    if match edit {
        Edit::Unlabels => !keyed,
        Edit::TakesKey | Edit::PutsKey => !labelled,
        _ => false,
    } {
        return;
    }
    let key = ServiceKey::new(service.namespace().unwrap_or_default(), service.name_any());
    let why = "its placeholder was edited by hand";
    excuse_what_it_holds(env, &service, why);
    let other = ip(env, other);
    let annotation =
        |name: &str, value: Option<&str>| json!({ "metadata": { "annotations": { name: value } } });
    let label = |name: &str, value: Option<&str>| json!({ "metadata": { "labels": { name: value } } });
    let body = match edit {
        Edit::PinsElsewhere => {
            excuse(env, &address_name(&other), "a placeholder was pinned to it by hand");
            annotation(names::PIN, Some(&other))
        }
        Edit::MakesClusterIp => objects::made_cluster_ip(),
        Edit::AsksPool => annotation(names::POOL, Some("spare")),
        Edit::TakesKey => annotation(names::SHARE, None),
        Edit::PutsKey => annotation(names::SHARE, Some("theirs")),
        Edit::Unlabels => label(driver::PLACEHOLDER, None),
        Edit::Relabels => {
            let name = address_name(&other);
            excuse(env, &name, "a placeholder was labelled with it by hand");
            label(driver::IP_ADDRESS, Some(name.as_str()))
        }
        Edit::Owns => {
            let Some(class) = env.server.get(&Ref::class("pub")) else { return };
            json!({ "metadata": { "ownerReferences": [{
                "apiVersion": Kind::Class.api_version(), "kind": Kind::Class.as_str(), "name": "pub",
                "uid": class.meta().uid,
            }] } })
        }
        Edit::Keeps => json!({ "metadata": { "finalizers": ["example.org/keep"] } }),
        Edit::MovesPort => json!({ "spec": { "ports": [{ "port": 80 }] } }),
        Edit::MakesLocal => json!({ "spec": { "externalTrafficPolicy": "Local" } }),
    };
    patch(env, &Ref::service(&key), body);
}

/// Deletes a placeholder that is labelled with the address.
pub fn delete_placeholder_of(env: &mut Env, name: &AddressName) {
    let label = Some(name.as_str());
    let is_labelled =
        |service: &Arc<Service>| service.labels().get(driver::IP_ADDRESS).map(String::as_str) == label;
    if let Some(service) = placeholders(env).into_iter().find(is_labelled) {
        excuse_what_it_holds(env, &service, "its placeholder was deleted by hand");
        delete(env, &Object::Service(service).reference());
    }
}

/// What a placeholder that somebody gave an owner holds, as that owner may be about to go.
pub fn excuse_owned(env: &mut Env) {
    for service in placeholders(env) {
        if service.metadata.owner_references.is_some() {
            excuse_what_it_holds(env, &service, "its placeholder was given an owner by hand");
        }
    }
}

fn excuse_what_it_holds(env: &mut Env, service: &Service, why: &'static str) {
    excuse_all_of(env, &ServiceKey::new(service.namespace().unwrap_or_default(), service.name_any()), why);
    let held = service.labels().get(driver::IP_ADDRESS).map(|name| AddressName::new(name.clone()));
    let pinned = service.annotations().get(names::PIN).map(|pin| address_name(pin));
    for name in held.into_iter().chain(pinned) {
        excuse(env, &name, why);
    }
}

/// Whatever is in the namespace of placeholders.
pub fn placeholders(env: &Env) -> Vec<Arc<Service>> {
    let home = Some(env.config.placeholder_namespace.clone());
    let all = env.server.all(Kind::Service).filter_map(|object| match object {
        Object::Service(service) if service.namespace() == home => Some(Arc::clone(service)),
        _ => None,
    });
    all.collect()
}
