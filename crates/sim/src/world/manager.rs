//! The controller manager: garbage collection by owner references, and the end of namespaces.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use plan::{Kind, Object, Ref};
use serde_json::{Value, json};

use crate::chance::Chance;
use crate::server::Server;

/// The kinds that something may be owned by.
const OWNERS: [Kind; 5] = [Kind::Class, Kind::Address, Kind::Claim, Kind::Service, Kind::Namespace];

/// One thing that it has to do.
enum Errand {
    /// No owner of the object lives, or its namespace is to go.
    Delete(Ref),
    /// Some owners of the object live: only these are named from now on.
    Disown(Ref, Value),
    /// Nothing is in the namespace any more.
    End(String),
}

fn errands(server: &Server) -> Vec<Errand> {
    let mut errands = Vec::new();
    let mut empty = server.ending_namespaces.clone();
    for object in server.everything() {
        let meta = object.meta();
        let ends = meta.namespace.as_ref().is_some_and(|name| server.ending_namespaces.contains(name));
        if ends && let Some(name) = &meta.namespace {
            empty.remove(name);
        }
        if meta.deletion_timestamp.is_some() {
            continue;
        }
        if ends {
            errands.push(Errand::Delete(object.reference()));
        } else if let Some(owners) = meta.owner_references.as_ref().filter(|owners| !owners.is_empty()) {
            errands.extend(orphaned(server, object, owners));
        }
    }
    errands.extend(empty.into_iter().map(Errand::End));
    errands
}

fn orphaned(server: &Server, object: &Object, owners: &[OwnerReference]) -> Option<Errand> {
    let living: Vec<_> = owners.iter().filter(|owner| lives(server, object, owner)).collect();
    match living.len() {
        0 => Some(Errand::Delete(object.reference())),
        count if count == owners.len() => None,
        _ => Some(Errand::Disown(object.reference(), json!({ "metadata": { "ownerReferences": living } }))),
    }
}

/// Whether an owner is there, or nobody can tell.
fn lives(server: &Server, object: &Object, owner: &OwnerReference) -> bool {
    let is_kind = |kind: &Kind| kind.as_str() == owner.kind && kind.api_version() == owner.api_version;
    let Some(kind) = OWNERS.into_iter().find(is_kind) else { return true };
    let namespace = object.meta().namespace.clone();
    let is_namespaced = matches!(kind, Kind::Claim | Kind::Service);
    if is_namespaced && namespace.is_none() {
        // It would have to be looked for in every namespace.
        return true;
    }
    let reference = Ref { kind, namespace: namespace.filter(|_| is_namespaced), name: owner.name.clone() };
    server.get(&reference).is_some_and(|found| found.meta().uid.as_ref() == Some(&owner.uid))
}

pub fn has_work(server: &Server) -> bool {
    if server.ending_namespaces.is_empty() && !server.has_owned {
        return false;
    }
    !errands(server).is_empty()
}

/// One errand.
pub fn step(server: &mut Server, chance: &mut Chance) -> String {
    let mut errands = errands(server);
    if errands.is_empty() {
        return "the controller manager has nothing to do".to_owned();
    }
    let (said, done) = match errands.swap_remove(chance.below(errands.len())) {
        Errand::Delete(reference) => {
            (format!("deletes {reference}"), server.delete(&reference, None).is_ok())
        }
        Errand::Disown(reference, body) => {
            (format!("disowns {reference}"), server.patch(&reference, false, &body, None).is_ok())
        }
        Errand::End(name) => {
            server.end_namespace(&name);
            (format!("ends the namespace {name}"), true)
        }
    };
    format!("the controller manager {said}: {}", if done { "done" } else { "not done" })
}
