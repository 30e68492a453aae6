//! What an index must know after a history: each object once, found by its name.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use plan::{Change, Kind, Object, Ref, Store};

/// All kinds in one place, taken in by the same rules as a brain's own stores.
#[derive(Default)]
pub struct Shadow(BTreeMap<Kind, Store<Ref, Object>>);

impl Shadow {
    fn of(&mut self, kind: Kind) -> &mut Store<Ref, Object> {
        self.0.entry(kind).or_insert_with(|| Store::new(Object::meta))
    }

    /// Takes in a change.
    pub fn apply(&mut self, change: &Change) {
        let store = self.of(change.kind());
        match change {
            Change::Applied(object) => _ = store.put(found_by(object.reference()), Arc::new(object.clone())),
            Change::Deleted(object) => _ = store.deleted(&found_by(object.reference()), object),
            Change::Gone { reference, uid } => _ = store.gone(&found_by(reference.clone()), uid),
            Change::Replaced(_, objects) => {
                let listed: HashSet<_> = objects.iter().map(|object| found_by(object.reference())).collect();
                for (key, object) in store.missing_from(&listed) {
                    store.dropped(&key, &object);
                }
                for object in objects {
                    store.put(found_by(object.reference()), Arc::new(object.clone()));
                }
                store.listed(objects.iter().map(Object::meta));
            }
        }
    }

    /// The object of that name.
    pub fn get(&self, reference: &Ref) -> Option<&Object> {
        let found = self.0.get(&reference.kind)?.get(&found_by(reference.clone()));
        found.map(|object| &**object)
    }

    /// The objects of a kind, by name.
    pub fn all(&self, kind: Kind) -> Vec<Object> {
        let mut all: Vec<_> = self.0.get(&kind).into_iter().flat_map(Store::iter).collect();
        all.sort_by_key(|(reference, _)| *reference);
        all.into_iter().map(|(_, object)| (**object).clone()).collect()
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
