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

#[derive(Debug)]
struct Entry<T> {
    object: Arc<T>,
    /// Whether the list that began last has it.
    listed: bool,
}

/// Objects of one kind. Answers to our own writes and watch events come in any order: an older version never
/// replaces a newer one, what we deleted does not come back by an event that was under way, and what somebody else
/// deleted does not come back by an answer that was.
///
/// Of the first list each object counts as it comes. Every later list counts as a whole, when it is over: between its first
/// object and its last the store would show what never was.
#[derive(Debug)]
pub struct Store<K, T> {
    objects: HashMap<K, Entry<T>>,
    deleted_by_us: HashSet<String>,
    /// Up to this version all is known: a watch tells of versions in order, and told of a deletion in this one. What is
    /// older and not here was deleted.
    known_up_to: u64,
    /// The newest version in the list that began last.
    newest_listed: u64,
    /// Whether a list was taken in as a whole.
    is_complete: bool,
    /// What is new in a list that is not over.
    news: Vec<(K, Arc<T>)>,
    meta: fn(&T) -> &ObjectMeta,
}

impl<K: Eq + Hash + Clone, T> Store<K, T> {
    /// An empty store.
    pub fn new(meta: fn(&T) -> &ObjectMeta) -> Self {
        Self {
            objects: HashMap::new(),
            deleted_by_us: HashSet::new(),
            known_up_to: 0,
            newest_listed: 0,
            is_complete: false,
            news: Vec::new(),
            meta,
        }
    }

    /// The object of that key.
    pub fn get(&self, key: &K) -> Option<&Arc<T>> {
        self.objects.get(key).map(|entry| &entry.object)
    }

    /// All keys and objects, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Arc<T>)> {
        self.objects.iter().map(|(key, entry)| (key, &entry.object))
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
        let version = number((self.meta)(&object));
        if version.is_some_and(|version| version < self.known_up_to) && !self.objects.contains_key(&key) {
            return None;
        }
        self.put_listed(key, object)
    }

    /// As [`put`](Self::put), of an object in a complete list: it is there, however old it is.
    pub fn put_listed(&mut self, key: K, object: Arc<T>) -> Option<Option<Arc<T>>> {
        let meta = (self.meta)(&object);
        if meta.uid.as_ref().is_some_and(|uid| self.deleted_by_us.contains(uid)) {
            return None;
        }
        let Some(entry) = self.objects.get_mut(&key) else {
            self.objects.insert(key, Entry { object, listed: false });
            return Some(None);
        };
        if tells_nothing_new(meta, (self.meta)(&entry.object)) {
            return None;
        }
        Some(Some(std::mem::replace(&mut entry.object, object)))
    }

    /// A complete list begins.
    pub fn list_begins(&mut self) {
        self.objects.values_mut().for_each(|entry| entry.listed = false);
        self.deleted_by_us.clear();
        self.newest_listed = 0;
        self.news.clear();
    }

    /// The list that began last has this object. As [`put`](Self::put), if it counts already.
    pub fn in_list(&mut self, key: K, object: Arc<T>) -> Option<Option<Arc<T>>> {
        let meta = (self.meta)(&object);
        self.newest_listed = number(meta).unwrap_or(0).max(self.newest_listed);
        if !self.is_complete {
            let told = self.put_listed(key.clone(), object);
            self.is_listed(&key);
            return told;
        }
        let known = self.get(&key).is_some_and(|known| tells_nothing_new(meta, (self.meta)(known)));
        self.is_listed(&key);
        if !known {
            self.news.push((key, object));
        }
        None
    }

    fn is_listed(&mut self, key: &K) {
        if let Some(entry) = self.objects.get_mut(key) {
            entry.listed = true;
        }
    }

    /// What the list that began last, and is over now, does not have.
    pub fn missing(&self) -> Vec<(K, Arc<T>)> {
        let missing = self.objects.iter().filter(|(_, entry)| !entry.listed);
        missing.map(|(key, entry)| (key.clone(), Arc::clone(&entry.object))).collect()
    }

    /// The list that began last is over, and what it does not have was dropped: what is new in it. What is older than the
    /// newest in it, and not here, was deleted. Our own answers do not count: the watch may not have come so far.
    pub fn list_ends(&mut self) -> Vec<(K, Arc<T>)> {
        self.is_complete = true;
        self.known_up_to = self.newest_listed;
        std::mem::take(&mut self.news)
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

    /// Our own delete was answered: the object of this uid is gone.
    pub fn gone(&mut self, key: &K, uid: &str) -> Option<Arc<T>> {
        let taken = self.take(key, Some(uid));
        if taken.is_some() {
            self.deleted_by_us.insert(uid.to_owned());
        }
        taken
    }

    fn take(&mut self, key: &K, uid: Option<&str>) -> Option<Arc<T>> {
        let known = (self.meta)(self.get(key)?).uid.as_deref();
        if uid.is_none() || known == uid { self.objects.remove(key).map(|entry| entry.object) } else { None }
    }
}

fn tells_nothing_new(new: &ObjectMeta, known: &ObjectMeta) -> bool {
    let same_version = known.uid == new.uid && known.resource_version == new.resource_version;
    (same_version && new.resource_version.is_some()) || is_older(new, known)
}

#[cfg(test)]
mod tests;
