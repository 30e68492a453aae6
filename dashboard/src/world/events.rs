//! What was said about our objects, as far as it is recent.

use std::collections::HashMap;
use std::sync::Arc;

use super::rows::{About, EventRow, Key};

/// So many events are kept; then the oldest half is forgotten.
const MOST: usize = 8_000;

/// What an event is about: a kind, and the object's namespace and name.
type Subject = (About, Key);

/// Events by their own namespace and name, and by what they are about.
#[derive(Debug, Default)]
pub(super) struct Events {
    rows: HashMap<Key, EventRow>,
    about: HashMap<Subject, Vec<Key>>,
}

fn subject(row: &EventRow) -> Subject {
    (row.about, Key { namespace: Arc::clone(&row.namespace), name: Arc::clone(&row.name) })
}

impl Events {
    pub(super) fn put(&mut self, key: Key, row: EventRow) {
        self.remove(&key);
        self.about.entry(subject(&row)).or_default().push(key.clone());
        self.rows.insert(key, row);
        if self.rows.len() > MOST {
            self.forget_the_oldest();
        }
    }

    fn forget_the_oldest(&mut self) {
        let mut times: Vec<_> = self.rows.values().map(|row| row.at).collect();
        let (_, middle, _) = times.select_nth_unstable(MOST / 2);
        let middle = *middle;
        let old = self.rows.iter().filter(|(_, row)| row.at <= middle);
        let old: Vec<Key> = old.map(|(key, _)| key.clone()).collect();
        for key in old {
            self.remove(&key);
        }
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<EventRow> {
        let row = self.rows.remove(key)?;
        let subject = subject(&row);
        if let Some(keys) = self.about.get_mut(&subject) {
            keys.retain(|known| known != key);
            if keys.is_empty() {
                self.about.remove(&subject);
            }
        }
        Some(row)
    }

    pub(super) fn keys(&self, about: About) -> Vec<Key> {
        let of_kind = self.rows.iter().filter(|(_, row)| row.about == about);
        of_kind.map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn about(&self, about: About, namespace: &str, name: &str) -> Vec<&EventRow> {
        let keys = self.about.get(&(about, Key::new(namespace, name)));
        let mut found: Vec<_> = keys.into_iter().flatten().filter_map(|key| self.rows.get(key)).collect();
        found.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.reason.cmp(&b.reason)));
        found
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn row(second: i64) -> EventRow {
        EventRow {
            about: About::Claim,
            namespace: "a".into(),
            name: "web".into(),
            warning: true,
            reason: "PoolExhausted".into(),
            note: "".into(),
            source: "metallb-iad".into(),
            at: Timestamp::from_second(second).unwrap(),
        }
    }

    #[test]
    fn a_flood_of_events_is_bounded_and_the_newest_stay() {
        let mut events = Events::default();
        for second in 0..30_000 {
            events.put(Key::new("a", second.to_string()), row(second));
        }
        assert!(events.rows.len() <= MOST);
        assert_eq!(events.about.values().map(Vec::len).sum::<usize>(), events.rows.len());
        assert_eq!(events.about(About::Claim, "a", "web")[0].at, row(29_999).at);
        assert!(events.about(About::Service, "a", "web").is_empty());
        for key in events.keys(About::Claim) {
            events.remove(&key);
        }
        assert!(events.rows.is_empty() && events.about.is_empty());
    }
}
