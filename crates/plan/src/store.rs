//! One kind's objects by key, newest version only.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use kube::core::ObjectMeta;

fn number(meta: &ObjectMeta) -> Option<u64> {
    meta.resource_version.as_deref().and_then(|text| text.parse().ok())
}

/// Whether version `a` is older than version `b` of one object. Versions of one kind are ordered numbers
/// (promised by Kubernetes since 1.35, true long before); texts that are not cannot be compared, and then
/// the watch is believed.
pub fn is_older(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    matches!((number(a), number(b)), (Some(a), Some(b)) if a < b)
}

/// Objects of one kind. Answers to our own writes and watch events come in any order: an older version never
/// replaces a newer one, what we deleted does not come back by an event that was under way, and what somebody else
/// deleted does not come back by an answer that was.
#[derive(Debug)]
pub struct Store<K, T> {
    objects: HashMap<K, Arc<T>>,
    deleted_by_us: HashSet<String>,
    /// Up to this version all is known: a watch tells of versions in order, and told of a deletion in this one. What is
    /// older and not here was deleted.
    known_up_to: u64,
    meta: fn(&T) -> &ObjectMeta,
}

impl<K: Eq + Hash + Clone, T> Store<K, T> {
    /// An empty store.
    pub fn new(meta: fn(&T) -> &ObjectMeta) -> Self {
        Self { objects: HashMap::new(), deleted_by_us: HashSet::new(), known_up_to: 0, meta }
    }

    /// The object of that key.
    pub fn get(&self, key: &K) -> Option<&Arc<T>> {
        self.objects.get(key)
    }

    /// All keys and objects, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Arc<T>)> {
        self.objects.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Takes in an object. `None` if it tells nothing new; else what was there before, for the secondary
    /// keys.
    pub fn put(&mut self, key: K, object: Arc<T>) -> Option<Option<Arc<T>>> {
        let meta = (self.meta)(&object);
        if meta.uid.as_ref().is_some_and(|uid| self.deleted_by_us.contains(uid)) {
            return None;
        }
        if let Some(old) = self.objects.get(&key) {
            let old = (self.meta)(old);
            let same_version = old.uid == meta.uid && old.resource_version == meta.resource_version;
            if (same_version && meta.resource_version.is_some()) || is_older(meta, old) {
                return None;
            }
        } else if number(meta).is_some_and(|version| version < self.known_up_to) {
            return None;
        }
        Some(self.objects.insert(key, object))
    }

    /// The watch says that this object is gone. Another incarnation of that name stays.
    pub fn deleted(&mut self, key: &K, object: &T) -> Option<Arc<T>> {
        self.known_up_to = number((self.meta)(object)).unwrap_or(0).max(self.known_up_to);
        self.dropped(key, object)
    }

    /// A complete list does not have this object.
    pub fn dropped(&mut self, key: &K, object: &T) -> Option<Arc<T>> {
        let uid = (self.meta)(object).uid.clone();
        if let Some(uid) = &uid {
            self.deleted_by_us.remove(uid);
        }
        self.take(key, uid.as_deref())
    }

    /// A complete list with these objects was taken in: what is older than the newest of them, and not here, was
    /// deleted. Our own answers do not count: the watch may not have come so far.
    pub fn listed<'a>(&mut self, objects: impl Iterator<Item = &'a ObjectMeta>) {
        self.known_up_to = objects.filter_map(number).max().unwrap_or(0);
    }

    /// Our own delete was answered: the object of this uid is gone.
    pub fn gone(&mut self, key: &K, uid: &str) -> Option<Arc<T>> {
        let taken = self.take(key, Some(uid));
        if taken.is_some() {
            self.deleted_by_us.insert(uid.to_owned());
        }
        taken
    }

    /// The keys that a complete list does not have.
    pub fn missing_from(&mut self, listed: &HashSet<K>) -> Vec<(K, Arc<T>)> {
        self.deleted_by_us.clear();
        self.known_up_to = 0;
        self.objects
            .iter()
            .filter(|(key, _)| !listed.contains(*key))
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect()
    }

    fn take(&mut self, key: &K, uid: Option<&str>) -> Option<Arc<T>> {
        let known = (self.meta)(self.objects.get(key)?).uid.as_deref();
        if uid.is_none() || known == uid { self.objects.remove(key) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(uid: &str, version: u64) -> Arc<ObjectMeta> {
        let version = Some(version.to_string());
        Arc::new(ObjectMeta { uid: Some(uid.to_owned()), resource_version: version, ..ObjectMeta::default() })
    }

    fn versions(list: &[u64]) -> Vec<Arc<ObjectMeta>> {
        list.iter().map(|version| meta("any", *version)).collect()
    }

    fn store() -> Store<&'static str, ObjectMeta> {
        let mut store = Store::new(|meta: &ObjectMeta| meta);
        assert!(store.put("a", meta("1", 10)).is_some());
        store
    }

    /// The answer to our write comes after the watch has told that somebody deleted the object.
    #[test]
    fn c3_a_late_answer_brings_nothing_back() {
        let mut store = store();
        assert!(store.deleted(&"a", &meta("1", 12)).is_some());
        assert!(store.put("a", meta("1", 11)).is_none());
        assert!(store.is_empty());
        assert!(store.put("a", meta("2", 13)).is_some());
    }

    #[test]
    fn c3_a_late_answer_brings_nothing_back_after_a_list() {
        let mut store = store();
        assert!(store.put("b", meta("2", 12)).is_some());
        for (key, object) in store.missing_from(&HashSet::from(["b"])) {
            store.dropped(&key, &object);
        }
        store.listed(versions(&[12]).iter().map(|meta| &**meta));
        assert!(store.put("a", meta("1", 11)).is_none());
        assert!(store.put("c", meta("3", 13)).is_some());
    }

    /// A list brings what was missed, however old it is; also after the versions began anew.
    #[test]
    fn c3_a_list_is_believed() {
        let mut store = store();
        assert!(store.deleted(&"a", &meta("1", 12)).is_some());
        assert!(store.missing_from(&HashSet::from(["b"])).is_empty());
        assert!(store.put("b", meta("2", 5)).is_some());
        store.listed(versions(&[5]).iter().map(|meta| &**meta));
        assert!(store.put("c", meta("3", 6)).is_some());
    }

    /// The answer to our own write overtook the list, and what somebody else made before it is still to come.
    #[test]
    fn c3_our_own_answer_hides_nothing_that_is_still_to_come() {
        let mut store = store();
        assert!(store.put("b", meta("2", 20)).is_some());
        assert!(store.missing_from(&HashSet::from(["a", "b"])).is_empty());
        store.listed(versions(&[10, 12]).iter().map(|meta| &**meta));
        assert!(store.put("c", meta("3", 15)).is_some());
    }
}
