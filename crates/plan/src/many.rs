//! A secondary key that several objects may have.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// From a key to the sorted set of its members. A key without members is not kept. Most keys have one member, which
/// must not cost a tree: a tree's smallest node has room for eleven.
#[derive(Clone, Debug)]
pub struct Many<K, V>(HashMap<K, Members<V>>);

#[derive(Clone, Debug)]
enum Members<V> {
    One(V),
    #[expect(clippy::box_collection, reason = "what nearly all members are must be as small as can be")]
    Several(Box<BTreeSet<V>>),
}

impl<V: Ord> Members<V> {
    fn iter(&self) -> impl Iterator<Item = &V> {
        let (one, several) = match self {
            Self::One(member) => (Some(member), None),
            Self::Several(members) => (None, Some(&**members)),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Several(members) => members.len(),
        }
    }

    fn contains(&self, member: &V) -> bool {
        match self {
            Self::One(one) => one == member,
            Self::Several(members) => members.contains(member),
        }
    }

    fn after(&self, member: &V) -> Option<&V> {
        use std::ops::Bound::{Excluded, Unbounded};
        match self {
            Self::One(one) => Some(one).filter(|one| *one > member),
            Self::Several(members) => members.range((Excluded(member), Unbounded)).next(),
        }
    }

    /// With another member, and whether it is new.
    fn with(self, member: V) -> (Self, bool) {
        match self {
            Self::One(one) if one == member => (Self::One(one), false),
            Self::One(one) => (Self::Several(Box::new(BTreeSet::from([one, member]))), true),
            Self::Several(mut members) => {
                let is_new = members.insert(member);
                (Self::Several(members), is_new)
            }
        }
    }

    /// Without a member, if any other is left, and whether it was there.
    fn without(self, member: &V) -> (Option<Self>, bool) {
        match self {
            Self::One(one) if one == *member => (None, true),
            Self::One(one) => (Some(Self::One(one)), false),
            Self::Several(mut members) => {
                let was_there = members.remove(member);
                let left = if members.len() == 1 { members.pop_first().map(Self::One) } else { None };
                (Some(left.unwrap_or(Self::Several(members))), was_there)
            }
        }
    }
}

impl<K, V> Default for Many<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash, V: Ord> Many<K, V> {
    /// The members of a key, in order.
    pub fn get<'a>(&'a self, key: &K) -> impl Iterator<Item = &'a V> + use<'a, K, V> {
        self.0.get(key).into_iter().flat_map(Members::iter)
    }

    /// How many members a key has.
    pub fn count(&self, key: &K) -> usize {
        self.0.get(key).map_or(0, Members::len)
    }

    /// Whether a key has this member.
    pub fn contains(&self, key: &K, member: &V) -> bool {
        self.0.get(key).is_some_and(|members| members.contains(member))
    }

    /// The member that follows another in the order of the set, whether or not that one is in it.
    pub fn after(&self, key: &K, member: &V) -> Option<&V> {
        self.0.get(key)?.after(member)
    }

    /// Adds a member and says whether it is new.
    pub fn insert(&mut self, key: K, member: V) -> bool {
        use std::collections::hash_map::Entry;
        match self.0.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(Members::One(member));
                true
            }
            Entry::Occupied(mut entry) => {
                if let Members::Several(members) = entry.get_mut() {
                    return members.insert(member);
                }
                let (key, members) = entry.remove_entry();
                let (members, is_new) = members.with(member);
                self.0.insert(key, members);
                is_new
            }
        }
    }

    /// Removes a member and says whether it was there.
    pub fn remove(&mut self, key: &K, member: &V) -> bool {
        let Some((key, members)) = self.0.remove_entry(key) else { return false };
        let (left, was_there) = members.without(member);
        if let Some(members) = left {
            self.0.insert(key, members);
        }
        was_there
    }

    /// Adds a member or removes it, and says whether that changed anything.
    pub fn set(&mut self, key: K, member: V, present: bool) -> bool {
        if present { self.insert(key, member) } else { self.remove(&key, &member) }
    }

    /// Removes a key and gives back its members.
    pub fn take(&mut self, key: &K) -> BTreeSet<V> {
        match self.0.remove(key) {
            None => BTreeSet::new(),
            Some(Members::One(member)) => BTreeSet::from([member]),
            Some(Members::Several(members)) => *members,
        }
    }

    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_none_one_or_several_members_in_order() {
        let mut many = Many::default();
        let members = |many: &Many<&str, u8>| many.get(&"k").copied().collect::<Vec<_>>();
        assert_eq!((many.insert("k", 5), many.insert("k", 5)), (true, false));
        assert_eq!((members(&many), many.after(&"k", &4), many.after(&"k", &5)), (vec![5], Some(&5), None));
        assert_eq!((many.insert("k", 3), many.insert("k", 9), many.insert("k", 3)), (true, true, false));
        assert_eq!((members(&many), many.after(&"k", &5)), (vec![3, 5, 9], Some(&9)));
        assert_eq!(
            (many.remove(&"k", &4), many.remove(&"k", &3), many.remove(&"k", &9)),
            (false, true, true)
        );
        assert_eq!((members(&many), many.count(&"k")), (vec![5], 1));
        assert_eq!((many.remove(&"k", &4), members(&many)), (false, vec![5]));
        assert_eq!((many.remove(&"k", &5), many.remove(&"k", &5), many.is_empty()), (true, false, true));
        many.insert("k", 2);
        many.insert("k", 1);
        assert_eq!((many.take(&"k"), many.is_empty()), (BTreeSet::from([1, 2]), true));
    }
}
