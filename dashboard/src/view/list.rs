//! What all lists have in common.

use serde::Serialize;

use crate::query::Paging;

/// A page of a list.
#[derive(Clone, Debug, Serialize)]
pub struct List<T> {
    /// How many there are, of those that may be seen.
    pub total: usize,
    /// How many of them match.
    pub matched: usize,
    /// The page shown, from 1.
    pub page: usize,
    /// How many pages there are.
    pub pages: usize,
    /// The lines of the page.
    pub items: Vec<T>,
}

impl<T> List<T> {
    /// A page of `matched` lines.
    pub fn of(total: usize, matched: usize, paging: Paging, items: Vec<T>) -> Self {
        let pages = matched.div_ceil(paging.limit).max(1);
        Self { total, matched, page: paging.page, pages, items }
    }
}
