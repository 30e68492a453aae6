//! What a search by a part of a text reads: the texts of all rows of a kind, one after the other in one piece of memory.
//! Row by row, most of a search was waiting for memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::rows::{AddressRow, ClaimRow, Key, ServiceRow};
use crate::query::Needle;

/// Fewer forgotten rows than these are not worth clearing away.
const FEW: usize = 1_024;

/// Rows with the texts by which they are found.
#[derive(Debug)]
pub(super) struct Shelf<K, R> {
    /// Every text ends with a line break, and no needle has one: none is in two texts at once.
    text: String,
    /// Where the text of each slot begins, and its row; none if it was forgotten.
    slots: Vec<(usize, Option<Arc<R>>)>,
    slot_of: HashMap<K, usize>,
}

impl<K, R> Default for Shelf<K, R> {
    fn default() -> Self {
        Self { text: String::new(), slots: Vec::new(), slot_of: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash, R> Shelf<K, R> {
    /// A row is there, or is another now, and is found by these texts.
    pub(super) fn put<'a>(&mut self, key: &K, texts: impl IntoIterator<Item = &'a str>, row: &Arc<R>) {
        let mut text: String = texts.into_iter().collect::<Vec<_>>().join("\n");
        text.push('\n');
        let known = self.slot_of.get(key).copied();
        if let Some(slot) = known.filter(|slot| self.text_of(*slot) == text) {
            self.slots[slot].1 = Some(Arc::clone(row));
            return;
        }
        self.remove(key);
        self.slot_of.insert(key.clone(), self.slots.len());
        self.slots.push((self.text.len(), Some(Arc::clone(row))));
        self.text.push_str(&text);
    }

    /// A row is gone.
    pub(super) fn remove(&mut self, key: &K) {
        let Some(slot) = self.slot_of.remove(key) else { return };
        self.slots[slot].1 = None;
        let forgotten = self.slots.len() - self.slot_of.len();
        if forgotten > FEW && forgotten > self.slot_of.len() {
            self.clear_away();
        }
    }

    /// The rows in whose texts it is, in no order that means something.
    pub(super) fn find(&self, needle: &Needle) -> Vec<&Arc<R>> {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) = self.text.get(from..).and_then(|rest| needle.place_in(rest)) {
            let slot = self.slots.partition_point(|(start, _)| *start <= from + at).saturating_sub(1);
            found.extend(self.slots[slot].1.as_ref());
            // Once for each row.
            from = self.end_of(slot);
        }
        found
    }

    fn text_of(&self, slot: usize) -> &str {
        &self.text[self.slots[slot].0..self.end_of(slot)]
    }

    fn end_of(&self, slot: usize) -> usize {
        self.slots.get(slot + 1).map_or(self.text.len(), |(start, _)| *start)
    }

    fn clear_away(&mut self) {
        let mut text = String::with_capacity(self.text.len() / 2);
        let mut slots = Vec::with_capacity(self.slot_of.len());
        let mut moved = vec![0; self.slots.len()];
        for (slot, moved) in moved.iter_mut().enumerate() {
            if let Some(row) = &self.slots[slot].1 {
                *moved = slots.len();
                slots.push((text.len(), Some(Arc::clone(row))));
                text.push_str(self.text_of(slot));
            }
        }
        for slot in self.slot_of.values_mut() {
            *slot = moved[*slot];
        }
        (self.text, self.slots) = (text, slots);
    }
}

impl AddressRow {
    /// What a search finds it by: the IP, the object's name, the class, the claim and the Service.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let claim = self.claim.as_ref().map(|claim| &claim.key);
        let keys = claim.into_iter().chain(self.service.as_ref().map(|service| &service.key));
        [&*self.text, &*self.name, &*self.class].into_iter().chain(keys.flat_map(Key::texts))
    }
}

impl ClaimRow {
    /// What a search finds it by: its name, its class, and the Services that name it.
    pub(super) fn texts<'a>(&'a self, services: &'a [Key]) -> impl Iterator<Item = &'a str> {
        let services = services.iter().map(|service| &*service.name);
        self.key.texts().into_iter().chain(self.class.as_deref()).chain(services)
    }
}

impl ServiceRow {
    /// What a search finds it by: its name and that of its claim.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.key.texts().into_iter().chain(self.claim.as_ref().map(|claim| &*claim.name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// It finds what looking at each row finds, whatever came, changed and went before.
        #[test]
        fn a_shelf_finds_what_looking_at_each_row_finds(
            changes in prop::collection::vec((0_u16..40, prop::option::of(prop::collection::vec("[ab]{0,3}", 0..3))), 0..200),
            part in "[ab]{1,2}",
        ) {
            let mut shelf = Shelf::default();
            let mut rows = BTreeMap::new();
            for (key, texts) in changes {
                if let Some(texts) = texts {
                    shelf.put(&key, texts.iter().map(String::as_str), &Arc::new(key));
                    rows.insert(key, texts);
                } else {
                    shelf.remove(&key);
                    rows.remove(&key);
                }
                if key % 8 == 0 {
                    shelf.clear_away();
                }
            }
            let mut found: Vec<u16> = shelf.find(&Needle::new(&part)).into_iter().map(|row| **row).collect();
            found.sort_unstable();
            let expected = rows.iter().filter(|(_, texts)| texts.iter().any(|text| text.contains(&part)));
            let expected: Vec<u16> = expected.map(|(key, _)| *key).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
