//! The controller manager: garbage collection by owner references, and the end of namespaces.

use plan::{Kind, Object, Ref};

use crate::chance::Chance;
use crate::server::Server;

const KINDS: [Kind; 2] = [Kind::Claim, Kind::Service];

/// The objects to delete: their owner is gone, or their namespace is to go.
fn doomed(server: &Server) -> Vec<Ref> {
    let mut doomed = Vec::new();
    for object in KINDS.into_iter().flat_map(|kind| server.all(kind)) {
        let meta = object.meta();
        if meta.deletion_timestamp.is_some() {
            continue;
        }
        let orphaned = meta.owner_references.as_ref().is_some_and(|owners| {
            !owners.is_empty() && owners.iter().all(|owner| !lives(server, object, &owner.name, &owner.uid))
        });
        let name = meta.namespace.clone().unwrap_or_default();
        if orphaned || is_ending(server, &name) {
            doomed.push(object.reference());
        }
    }
    doomed
}

fn lives(server: &Server, object: &Object, owner: &str, uid: &str) -> bool {
    let reference =
        Ref { kind: Kind::Service, namespace: object.meta().namespace.clone(), name: owner.to_owned() };
    server.get(&reference).is_some_and(|found| found.meta().uid.as_deref() == Some(uid))
}

fn is_ending(server: &Server, namespace: &str) -> bool {
    server.ending_namespaces.contains(namespace)
}

pub fn has_work(server: &Server) -> bool {
    if server.ending_namespaces.is_empty() && !server.has_owned {
        return false;
    }
    !doomed(server).is_empty()
}

/// One deletion.
pub fn step(server: &mut Server, chance: &mut Chance) -> String {
    let mut doomed = doomed(server);
    if doomed.is_empty() {
        return "the controller manager has nothing to do".to_owned();
    }
    let reference = doomed.swap_remove(chance.below(doomed.len()));
    let done = server.delete(&reference, None);
    format!("the controller manager deletes {reference}: {}", if done.is_ok() { "done" } else { "not done" })
}
