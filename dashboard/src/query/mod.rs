//! What a visitor asks for: filters, order, page. What cannot be understood is refused with a sentence, never guessed.

mod find;

use std::collections::BTreeMap;
use std::fmt;

pub use find::{Find, Needle};

/// The longest query that is read.
const LONGEST: usize = 2_048;
/// The most rows on one page.
pub const MOST: usize = 1_000;
/// The rows on one page, unless asked otherwise.
pub const USUAL: usize = 50;

/// A query that cannot be understood; the words say what can.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct BadQuery(String);

impl BadQuery {
    /// A refusal in these words.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

/// The parameters of one query: each given once, each known to the page.
#[derive(Clone, Debug, Default)]
pub struct Params(BTreeMap<String, String>);

impl Params {
    /// Reads a query. Empty values count as not given, so that a form can be sent as it is.
    ///
    /// # Errors
    /// When a parameter is unknown, given twice, or no text.
    pub fn read(raw: Option<&str>, known: &[&str]) -> Result<Self, BadQuery> {
        let raw = raw.unwrap_or_default();
        if raw.len() > LONGEST {
            return Err(BadQuery::new(format!(
                "the query is longer than {LONGEST} bytes; ask for less at once"
            )));
        }
        let mut given = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(raw.as_bytes()) {
            let value = value.trim();
            if !known.contains(&&*name) {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(BadQuery::new(format!("parameter {name:?} is unknown here; known are: {known}")));
            }
            if value.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER) {
                return Err(BadQuery::new(format!(
                    "{name} is no readable text; write it in UTF-8, on one line"
                )));
            }
            if value.is_empty() {
                continue;
            }
            if given.insert(name.to_string(), value.to_owned()).is_some() {
                return Err(BadQuery::new(format!("{name} is given twice; give it once")));
            }
        }
        Ok(Self(given))
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of a parameter, as a text of its own.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// One of a few words, whatever its case.
    ///
    /// # Errors
    /// When it is another word.
    pub fn one_of<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, BadQuery> {
        let Some(given) = self.get(name) else { return Ok(None) };
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(given));
        let all = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        match found {
            Some((_, value)) => Ok(Some(*value)),
            None => Err(BadQuery::new(format!("{name}={given:?} is none of: {}", all()))),
        }
    }

    /// A number within bounds.
    ///
    /// # Errors
    /// When it is none.
    pub fn number(&self, name: &str, most: usize) -> Result<Option<usize>, BadQuery> {
        let Some(given) = self.get(name) else { return Ok(None) };
        match given.parse() {
            Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
            _ => Err(BadQuery::new(format!("{name}={given:?} is no number from 1 to {most}"))),
        }
    }

    /// A switch: `1` or `true`, `0` or `false`.
    ///
    /// # Errors
    /// When it is neither.
    pub fn switch(&self, name: &str) -> Result<bool, BadQuery> {
        let words = [("1", true), ("true", true), ("on", true), ("0", false), ("false", false)];
        Ok(self.one_of(name, &words)?.unwrap_or(false))
    }

    /// An address family.
    ///
    /// # Errors
    /// When it is none.
    pub fn family(&self) -> Result<Option<api::Family>, BadQuery> {
        let words = [("IPv4", api::Family::IPv4), ("IPv6", api::Family::IPv6)];
        self.one_of("family", &words)
    }

    /// The query again, with one parameter changed or, without a value, taken out.
    pub fn with(&self, name: &str, value: Option<&str>) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let others = self.0.iter().filter(|(known, _)| *known != name);
        query.extend_pairs(others);
        if let Some(value) = value {
            query.append_pair(name, value);
        }
        query.finish()
    }

    /// The query without one parameter.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut rest = self.0.clone();
        rest.remove(name);
        Self(rest)
    }

    /// Whether any of these parameters is given.
    pub fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.contains_key(*name))
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with("", None))
    }
}

/// Which rows of a list to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// The page, from 1.
    pub page: usize,
    /// The rows on one page.
    pub limit: usize,
}

impl Paging {
    /// The parameters that it reads.
    pub const KNOWN: [&'static str; 2] = ["page", "limit"];

    /// Reads the page and its length.
    ///
    /// # Errors
    /// When they are no numbers, or too large.
    pub fn read(params: &Params) -> Result<Self, BadQuery> {
        let page = params.number("page", 1_000_000)?.unwrap_or(1);
        Ok(Self { page, limit: params.number("limit", MOST)?.unwrap_or(USUAL) })
    }

    /// All rows: for exports.
    pub const fn all() -> Self {
        Self { page: 1, limit: usize::MAX }
    }

    /// How many rows come before the page.
    pub const fn offset(self) -> usize {
        (self.page - 1).saturating_mul(self.limit)
    }

    /// The rows of the page, of rows that are in order already.
    pub fn slice<T>(self, rows: impl IntoIterator<Item = T>) -> Vec<T> {
        rows.into_iter().skip(self.offset()).take(self.limit).collect()
    }

    /// The rows of the page, in order. Only as much is sorted as is shown.
    pub fn cut<T>(self, mut rows: Vec<T>, mut compare: impl FnMut(&T, &T) -> std::cmp::Ordering) -> Vec<T> {
        let end = self.offset().saturating_add(self.limit);
        if self.offset() >= rows.len() {
            return Vec::new();
        }
        if end < rows.len() {
            rows.select_nth_unstable_by(end, &mut compare);
            rows.truncate(end);
        }
        rows.sort_unstable_by(&mut compare);
        rows.split_off(self.offset())
    }
}

/// By what a list is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort<T> {
    /// The column.
    pub by: T,
    /// Whether the largest comes first.
    pub down: bool,
}

impl<T: Copy> Sort<T> {
    /// Reads `sort=column` or `sort=-column`.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn read(params: &Params, columns: &[(&str, T)], usual: Self) -> Result<Self, BadQuery> {
        let Some(given) = params.get("sort") else { return Ok(usual) };
        let (name, down) = given.strip_prefix('-').map_or((given, false), |name| (name, true));
        if let Some((_, by)) = columns.iter().find(|(column, _)| *column == name) {
            return Ok(Self { by: *by, down });
        }
        let all: Vec<_> = columns.iter().map(|(column, _)| *column).collect();
        let all = all.join(", ");
        Err(BadQuery::new(format!(
            "sort={given:?} is none of: {all}; with a \"-\" before it, the other way round"
        )))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("colour=red", "parameter \"colour\" is unknown here; known are: q, page, limit, family")]
    #[case("q=a&q=b", "q is given twice; give it once")]
    #[case("q=%ff", "q is no readable text")]
    #[case("q=a%0Ab", "q is no readable text")]
    #[case("page=0", "page=\"0\" is no number from 1 to 1000000")]
    #[case("page=99999999999999999999999", "is no number")]
    #[case("limit=1001", "is no number from 1 to 1000")]
    #[case("family=IPv5", "family=\"IPv5\" is none of: IPv4, IPv6")]
    fn what_cannot_be_understood_is_refused_with_a_sentence(#[case] raw: &str, #[case] expected: &str) {
        let read = || {
            let params = Params::read(Some(raw), &["q", "page", "limit", "family"])?;
            params.family()?;
            Paging::read(&params)
        };
        let error = read().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_form_with_empty_fields_is_no_filter() {
        let params = Params::read(Some("q=&family=&page=2"), &["q", "page", "family"]).unwrap();
        assert_eq!(params.to_string(), "page=2");
        assert_eq!(params.with("page", Some("3")), "page=3");
    }

    proptest! {
        /// A page is what sorting everything and cutting would give.
        #[test]
        fn a_page_is_a_piece_of_the_whole(rows in prop::collection::vec(0_u16..500, 0..300), page in 1_usize..9, limit in 1_usize..60) {
            let mut whole = rows.clone();
            whole.sort_unstable();
            let expected: Vec<_> = whole.into_iter().skip((page - 1) * limit).take(limit).collect();
            prop_assert_eq!(Paging { page, limit }.cut(rows, u16::cmp), expected);
        }
    }
}
