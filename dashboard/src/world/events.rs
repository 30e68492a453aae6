//! What was said about our objects, as far as it is recent.

use std::collections::HashMap;

use super::rows::{About, EventRow, Key};

/// So many events are kept; then the oldest half is forgotten.
const MOST: usize = 8_000;

/// Events by their own namespace and name.
#[derive(Debug, Default)]
pub(super) struct Events(HashMap<Key, EventRow>);

impl Events {
    pub(super) fn put(&mut self, key: Key, row: EventRow) {
        self.0.insert(key, row);
        if self.0.len() > MOST {
            let mut times: Vec<_> = self.0.values().map(|row| row.at).collect();
            let (_, middle, _) = times.select_nth_unstable(MOST / 2);
            let middle = *middle;
            self.0.retain(|_, row| row.at > middle);
            self.0.shrink_to(MOST);
        }
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<EventRow> {
        self.0.remove(key)
    }

    pub(super) fn keys(&self, about: About) -> Vec<Key> {
        let of_kind = self.0.iter().filter(|(_, row)| row.about == about);
        of_kind.map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn about(&self, about: About, namespace: &str, name: &str) -> Vec<&EventRow> {
        let matches =
            |row: &&EventRow| row.about == about && &*row.name == name && &*row.namespace == namespace;
        let mut found: Vec<_> = self.0.values().filter(matches).collect();
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
        assert!(events.0.len() <= MOST);
        assert_eq!(events.about(About::Claim, "a", "web")[0].at, row(29_999).at);
        assert!(events.about(About::Service, "a", "web").is_empty());
    }
}
