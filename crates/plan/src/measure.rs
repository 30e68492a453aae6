//! What a brain tells in numbers: how much there is of what, and how long took what has ended. What becomes of the numbers
//! is the runtime's.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use api::wellknown::{TRACEPARENT, TRACEPARENT_KUBERNETES};

use crate::trace::Context;

/// Names and values of the labels of one number. Each value must be one of few: what bounds it is written down in
/// docs/operations.md.
pub type Labels = Vec<(&'static str, String)>;

/// How much there is of something, at the moment of asking.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge {
    /// The metric's name.
    pub name: &'static str,
    /// What is counted.
    pub help: &'static str,
    /// The numbers.
    pub samples: Vec<(Labels, f64)>,
}

/// Something that takes time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timer {
    /// The metric's name; it ends in `_seconds`.
    pub name: &'static str,
    /// What is measured.
    pub help: &'static str,
    /// Upper bounds, in seconds.
    pub buckets: &'static [f64],
    /// The sorts that are told of before anything of theirs has ended. What appears as one was never seen to be none,
    /// and so Prometheus sees no increase: the first of a sort that alerts wait for would be missed.
    pub sorts: &'static [&'static [(&'static str, &'static str)]],
}

/// Something that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The name of its [`Timer`].
    pub timer: &'static str,
    /// Of which sort it was.
    pub labels: Labels,
    /// How long it took.
    pub took: Took,
    /// The trace that shows it, if there is one.
    pub trace_id: Option<String>,
}

/// How long something took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Took {
    /// So many seconds.
    Seconds(f64),
    /// From then until now: brains have no clock.
    Since(jiff::Timestamp),
}

/// How many there are of each sort. A sort that has none is not kept.
#[derive(Clone, Debug)]
pub struct Tally<K>(HashMap<K, usize>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Tally<K> {
    /// One is of another sort now, has come, or has gone.
    pub fn change(&mut self, old: Option<K>, new: Option<K>) {
        if old == new {
            return;
        }
        if let Some(new) = new {
            *self.0.entry(new).or_default() += 1;
        }
        if let Some(old) = old
            && let Some(count) = self.0.get_mut(&old)
        {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&old);
            }
        }
    }

    /// All sorts that have any, with how many, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, usize)> {
        self.0.iter().map(|(sort, count)| (sort, *count))
    }
}

/// The trace that the annotations of an object speak of: the id in a W3C `traceparent` that is sampled. What is not sampled
/// leads nowhere.
pub fn trace_id(annotations: Option<&BTreeMap<String, String>>) -> Option<String> {
    let annotations = annotations?;
    let given = [TRACEPARENT, TRACEPARENT_KUBERNETES].into_iter().filter_map(|name| annotations.get(name));
    let sampled = given.filter_map(|text| Context::parse(text)).find(|context| context.sampled)?;
    Some(sampled.trace.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_forgets_what_has_none() {
        let mut tally = Tally::default();
        tally.change(None, Some("a"));
        tally.change(None, Some("a"));
        tally.change(Some("a"), Some("b"));
        let mut counts: Vec<_> = tally.iter().map(|(sort, count)| (*sort, count)).collect();
        counts.sort_unstable();
        assert_eq!(counts, [("a", 1), ("b", 1)]);
        tally.change(Some("b"), Some("b"));
        tally.change(Some("a"), None);
        tally.change(Some("b"), None);
        assert_eq!(tally.iter().count(), 0);
    }

    #[test]
    fn c14_a_trace_is_named_by_a_sampled_traceparent_only() {
        let of = |text: &str| {
            let entry = ("local.sdn.cozystack.io/traceparent".to_owned(), text.to_owned());
            trace_id(Some(&BTreeMap::from([entry])))
        };
        let id = "0af7651916cd43dd8448eb211c80319c";
        let span = "b7ad6b7169203331";
        assert_eq!(of(&format!("00-{id}-{span}-01")).as_deref(), Some(id));
        assert_eq!(of(&format!("cc-{id}-{span}-03-what-comes")).as_deref(), Some(id));
        for wrong in [
            format!("00-{id}-{span}-00"),
            format!("00-{id}-{span}-01-more"),
            format!("ff-{id}-{span}-01"),
            format!("00-{}-{span}-01", id.to_uppercase()),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{id}-{}-01", "0".repeat(16)),
            format!("00-{id}-{span}"),
            "nonsense".to_owned(),
            String::new(),
        ] {
            assert_eq!(of(&wrong), None, "{wrong}");
        }
        assert_eq!(trace_id(None), None);
    }
}
