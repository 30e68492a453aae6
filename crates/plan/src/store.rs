//! One kind's objects by key, newest version only.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use kube::core::ObjectMeta;

/// Whether version `a` is older than version `b` of one object. Versions of one kind are ordered numbers
/// (promised by Kubernetes since 1.35, true long before); texts that are not cannot be compared, and then
/// the watch is believed.
pub fn is_older(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    let number =
        |meta: &ObjectMeta| meta.resource_version.as_deref().and_then(|text| text.parse::<u64>().ok());
    matches!((number(a), number(b)), (Some(a), Some(b)) if a < b)
}

/// Objects of one kind. Answers to our own writes and watch events come in any order: an older version never
/// replaces a newer one, and what we deleted does not come back by an event that was under way.
#[derive(Debug)]
pub struct Store<K, T> {
    objects: HashMap<K, Arc<T>>,
    deleted_by_us: HashSet<String>,
    meta: fn(&T) -> &ObjectMeta,
}

impl<K: Eq + Hash + Clone, T> Store<K, T> {
    /// An empty store.
    pub fn new(meta: fn(&T) -> &ObjectMeta) -> Self {
        Self { objects: HashMap::new(), deleted_by_us: HashSet::new(), meta }
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
        }
        Some(self.objects.insert(key, object))
    }

    /// The watch says that this object is gone. Another incarnation of that name stays.
    pub fn deleted(&mut self, key: &K, object: &T) -> Option<Arc<T>> {
        let uid = (self.meta)(object).uid.clone();
        if let Some(uid) = &uid {
            self.deleted_by_us.remove(uid);
        }
        self.take(key, uid.as_deref())
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
