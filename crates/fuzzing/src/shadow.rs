//! What an index must know after a history: each object once, found by its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::ObjectMeta;
use plan::{Change, Kind, Object, Ref, Store};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// All kinds in one place, taken in by the same rules as a brain's own stores.
#[derive(Clone, Default)]
pub struct Shadow(BTreeMap<Kind, Store<Ref, Any>>);

/// An object of any kind. It cannot be read without its kind, so no store packs it.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Any(Object);

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("of what kind is not told"))
    }
}

impl Any {
    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }
}

fn any(object: &Object) -> Arc<Any> {
    Arc::new(Any(object.clone()))
}

impl Shadow {
    fn of(&mut self, kind: Kind) -> &mut Store<Ref, Any> {
        self.0.entry(kind).or_insert_with(|| Store::new(Any::meta))
    }

    /// Takes in a change.
    pub fn apply(&mut self, change: &Change) {
        let store = self.of(change.kind());
        match change {
            Change::Applied(object) => _ = store.put(found_by(object.reference()), any(object)),
            Change::Deleted(object) => _ = store.deleted(&found_by(object.reference()), &any(object)),
            Change::Gone { reference, uid } => _ = store.gone(&found_by(reference.clone()), uid),
            Change::Refused { .. } => {}
            Change::ListBegins(_) => store.list_begins(),
            Change::InList(object) => _ = store.in_list(found_by(object.reference()), any(object)),
            Change::Listed(_) => {
                for (key, object) in store.missing() {
                    store.dropped(&key, &object);
                }
                for (key, object) in store.list_ends() {
                    store.put_listed(key, object);
                }
            }
        }
    }

    /// The object of that name.
    pub fn get(&self, reference: &Ref) -> Option<Object> {
        let found = self.0.get(&reference.kind)?.get(&found_by(reference.clone()));
        found.map(|object| object.0.clone())
    }

    /// The objects of a kind, by name.
    pub fn all(&self, kind: Kind) -> Vec<Object> {
        let mut all: Vec<_> = self.0.get(&kind).into_iter().flat_map(Store::iter).collect();
        all.sort_by_key(|(reference, _)| *reference);
        all.into_iter().map(|(_, object)| object.0.clone()).collect()
    }
}

/// Indexes find namespaced kinds by namespace and name, the others by name alone: pools are watched in one namespace.
fn found_by(mut reference: Ref) -> Ref {
    reference.namespace = match reference.kind {
        Kind::Claim | Kind::Service | Kind::Event => Some(reference.namespace.unwrap_or_default()),
        Kind::Class | Kind::Address | Kind::Namespace | Kind::Pool => None,
    };
    reference
}
