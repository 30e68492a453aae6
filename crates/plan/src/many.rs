//! A secondary key that several objects may have.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// From a key to the sorted set of its members. A key without members is not kept.
#[derive(Debug)]
pub struct Many<K, V>(HashMap<K, BTreeSet<V>>);

impl<K, V> Default for Many<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash, V: Ord> Many<K, V> {
    /// The members of a key, in order.
    pub fn get<'a>(&'a self, key: &K) -> impl Iterator<Item = &'a V> + use<'a, K, V> {
        self.0.get(key).into_iter().flatten()
    }

    /// How many members a key has.
    pub fn count(&self, key: &K) -> usize {
        self.0.get(key).map_or(0, BTreeSet::len)
    }

    /// The member that follows another in the order of the set, whether or not that one is in it.
    pub fn after(&self, key: &K, member: &V) -> Option<&V> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.0.get(key)?.range((Excluded(member), Unbounded)).next()
    }

    /// Adds a member and says whether it is new.
    pub fn insert(&mut self, key: K, member: V) -> bool {
        self.0.entry(key).or_default().insert(member)
    }

    /// Removes a member and says whether it was there.
    pub fn remove(&mut self, key: &K, member: &V) -> bool {
        let Some(members) = self.0.get_mut(key) else { return false };
        let removed = members.remove(member);
        if members.is_empty() {
            self.0.remove(key);
        }
        removed
    }

    /// Adds a member or removes it, and says whether that changed anything.
    pub fn set(&mut self, key: K, member: V, present: bool) -> bool {
        if present { self.insert(key, member) } else { self.remove(&key, &member) }
    }

    /// Removes a key and gives back its members.
    pub fn take(&mut self, key: &K) -> BTreeSet<V> {
        self.0.remove(key).unwrap_or_default()
    }

    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
