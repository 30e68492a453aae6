//! One kind's objects by key, newest version only.
//!
//! Most objects of a large fleet are at rest: nobody asks about them for hours. So only those that were read or
//! written last are kept *warm*, as what they are; all others are *packed* (see `pack`), which takes a seventh of the
//! memory, and unpacked when somebody asks.

mod pack;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use kube::core::ObjectMeta;
pub use pack::Packable;

/// So many objects of a kind are warm. All that the plans in flight are about, and then some.
const WARM: usize = 512;

fn number(meta: &ObjectMeta) -> Option<u64> {
    meta.resource_version.as_deref().and_then(|text| text.parse().ok())
}

/// Whether version `a` is older than version `b` of one object. Versions of one kind are ordered numbers
/// (promised by Kubernetes since 1.35, true long before); texts that are not cannot be compared, and then
/// the watch is believed.
pub fn is_older(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    matches!((number(a), number(b)), (Some(a), Some(b)) if a < b)
}

/// One object: warm, packed, or both.
#[derive(Clone, Debug)]
struct Form<T> {
    warm: Option<Arc<T>>,
    packed: Option<Box<[u8]>>,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    form: RefCell<Form<T>>,
    /// Whether the list that began last has it.
    listed: bool,
}

/// Objects of one kind. Answers to our own writes and watch events come in any order: an older version never
/// replaces a newer one, what we deleted does not come back by an event that was under way, and what somebody else
/// deleted does not come back by an answer that was.
///
/// Of the first list each object counts as it comes. Every later list counts as a whole, when it is over: between its first
/// object and its last the store would show what never was.
#[derive(Clone, Debug)]
pub struct Store<K, T> {
    objects: HashMap<K, Entry<T>>,
    /// The keys of all that is warm, the one that became so first in front. One that is gone, or stays as it is because it
    /// cannot be packed, does no harm.
    warm: RefCell<VecDeque<K>>,
    room: usize,
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

impl<K: Eq + Hash + Clone, T: Packable> Store<K, T> {
    /// An empty store.
    pub fn new(meta: fn(&T) -> &ObjectMeta) -> Self {
        Self::with_room(meta, WARM)
    }

    /// An empty store that keeps so many objects warm.
    fn with_room(meta: fn(&T) -> &ObjectMeta, room: usize) -> Self {
        Self {
            objects: HashMap::new(),
            warm: RefCell::default(),
            room,
            deleted_by_us: HashSet::new(),
            known_up_to: 0,
            newest_listed: 0,
            is_complete: false,
            news: Vec::new(),
            meta,
        }
    }

    /// The object of that key.
    pub fn get(&self, key: &K) -> Option<Arc<T>> {
        let entry = self.objects.get(key)?;
        let (object, was_warm) = entry.form.borrow_mut().warm();
        if !was_warm {
            self.is_warm(key);
        }
        Some(object)
    }

    /// Whether there is one of that key.
    pub fn contains(&self, key: &K) -> bool {
        self.objects.contains_key(key)
    }

    /// All keys and objects, in no order. What is packed stays so.
    pub fn iter(&self) -> impl Iterator<Item = (&K, Arc<T>)> {
        self.objects.iter().map(|(key, entry)| (key, entry.form.borrow().object()))
    }

    /// All keys, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.objects.keys()
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
        if version.is_some_and(|version| version < self.known_up_to) && !self.contains(&key) {
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
            let form = Form { warm: Some(object), packed: None };
            self.objects.insert(key.clone(), Entry { form: RefCell::new(form), listed: false });
            self.is_warm(&key);
            return Some(None);
        };
        let form = entry.form.get_mut();
        let old = form.object();
        if tells_nothing_new(meta, (self.meta)(&old)) {
            return None;
        }
        let was_warm = form.warm.is_some();
        *form = Form { warm: Some(object), packed: None };
        if !was_warm {
            self.is_warm(&key);
        }
        Some(Some(old))
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
        let known = self.peek(&key).is_some_and(|known| tells_nothing_new(meta, (self.meta)(&known)));
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
        missing.map(|(key, entry)| (key.clone(), entry.form.borrow().object())).collect()
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
        let object = self.peek(key)?;
        if uid.is_some() && (self.meta)(&object).uid.as_deref() != uid {
            return None;
        }
        self.objects.remove(key);
        Some(object)
    }

    /// The object of that key, which stays as warm as it is.
    fn peek(&self, key: &K) -> Option<Arc<T>> {
        self.objects.get(key).map(|entry| entry.form.borrow().object())
    }

    /// An object became warm: the one that has been so for longest is so no more.
    fn is_warm(&self, key: &K) {
        let mut warm = self.warm.borrow_mut();
        warm.push_back(key.clone());
        while warm.len() > self.room {
            let Some(first) = warm.pop_front() else { return };
            if let Some(entry) = self.objects.get(&first) {
                entry.form.borrow_mut().cool();
            }
        }
    }
}

impl<T: Packable> Form<T> {
    fn object(&self) -> Arc<T> {
        match (&self.warm, &self.packed) {
            (Some(object), _) => Arc::clone(object),
            (None, Some(packed)) => Arc::new(pack::unpacked(packed)),
            (None, None) => pack::damaged(),
        }
    }

    /// The object, warm from now on, and whether it was so before.
    fn warm(&mut self) -> (Arc<T>, bool) {
        let was_warm = self.warm.is_some();
        let object = self.object();
        if !was_warm {
            self.warm = Some(Arc::clone(&object));
        }
        (object, was_warm)
    }

    /// What cannot be packed without loss stays as it is.
    fn cool(&mut self) {
        let Some(object) = &self.warm else { return };
        if self.packed.is_none() {
            self.packed = pack::packed(&**object);
        }
        if self.packed.is_some() {
            self.warm = None;
        }
    }
}

fn tells_nothing_new(new: &ObjectMeta, known: &ObjectMeta) -> bool {
    let same_version = known.uid == new.uid && known.resource_version == new.resource_version;
    (same_version && new.resource_version.is_some()) || is_older(new, known)
}

#[cfg(test)]
mod tests;
