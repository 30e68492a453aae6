//! Views as markup. Templates escape whatever they are given.

use api::Ip;
use askama::Template;

use super::shell::Shell;
use crate::query::{Find, Params};
use crate::view::{AddressList, AddressView, Command, Line, Overview};
use crate::world::State;

/// The same page in other forms.
pub struct Forms {
    json: String,
    csv: String,
}

impl Forms {
    /// Of a page, with its query.
    pub fn of(path: &str, query: &str) -> Self {
        let path = if path == "/" { "/overview" } else { path };
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        Self { json: format!("{path}.json{query}"), csv: format!("{path}.csv{query}") }
    }
}

/// The ways to the pages before and after one.
pub struct Pager {
    path: &'static str,
    page: usize,
    pages: usize,
    before: Option<String>,
    after: Option<String>,
}

impl Pager {
    /// Around a page of a list.
    pub fn of(path: &'static str, params: &Params, page: usize, pages: usize) -> Self {
        let to = |page: usize| params.with("page", Some(&page.to_string()));
        Self {
            path,
            page,
            pages,
            before: (page > 1).then(|| to((page - 1).min(pages))),
            after: (page < pages).then(|| to(page + 1)),
        }
    }
}

/// The head of a column, and the way to the list sorted by it.
pub struct Column {
    words: &'static str,
    query: String,
    order: Option<&'static str>,
}

impl Column {
    /// The heads of some columns: a name in the query, and words.
    pub fn all(params: &Params, usual: &str, columns: &[(&str, &'static str)]) -> Vec<Self> {
        let current = params.get("sort").unwrap_or(usual);
        let bare = params.with("page", None);
        let column = |(name, words): &(&str, &'static str)| {
            let down = format!("-{name}");
            let (order, next) = if current == *name {
                (Some("ascending"), down.as_str())
            } else if current == down {
                (Some("descending"), *name)
            } else {
                (None, *name)
            };
            let params = Params::read(Some(&bare), &["sort"]).unwrap_or_else(|_| params.clone());
            Self { words, query: params.with("sort", Some(next)), order }
        };
        columns.iter().map(column).collect()
    }
}

/// `/`
#[derive(Template)]
#[template(path = "overview.html")]
pub struct OverviewPage<'a> {
    pub shell: &'a Shell,
    pub view: &'a Overview,
}

/// `/addresses`
#[derive(Template)]
#[template(path = "addresses.html")]
pub struct AddressesPage<'a> {
    pub shell: &'a Shell,
    pub view: &'a AddressList,
    pub params: &'a Params,
    pub states: &'a [State],
    pub phases: &'a [&'static str],
    pub filters: &'a [&'static str],
    pub columns: Vec<Column>,
    pub pager: Pager,
    pub forms: Forms,
    pub example: Command,
    pub asked_ip: Option<String>,
}

impl<'a> AddressesPage<'a> {
    /// The page of a list.
    pub fn of(shell: &'a Shell, view: &'a AddressList, params: &'a Params) -> Self {
        let asked = params.get("q").map(Find::of).and_then(|find| find.range());
        Self {
            shell,
            view,
            params,
            states: &State::ALL,
            phases: &["Pending", "Available", "Bound", "Released", "Conflict", "Lost"],
            filters: &["q", "class", "state", "phase", "family", "namespace", "gaps"],
            columns: Column::all(
                params,
                "address",
                &[
                    ("address", "Address"),
                    ("state", "State"),
                    ("service", "Service"),
                    ("claim", "Claim"),
                    ("class", "Class"),
                    ("since", "Since"),
                ],
            ),
            pager: Pager::of("/addresses", params, view.page, view.pages),
            forms: Forms::of("/addresses", &params.with("page", None)),
            example: Command::new(
                "a claim in your own namespace",
                "kubectl create -f - <<< '{\"apiVersion\":\"local.sdn.cozystack.io/v1alpha1\",\"kind\":\"IPAddressClaim\",\
                 \"metadata\":{\"name\":\"web-ip\"},\"spec\":{}}'",
            ),
            asked_ip: asked.filter(|(first, last)| first == last).map(|(ip, _): (Ip, Ip)| ip.to_string()),
        }
    }
}

/// `/addresses/{name}`
#[derive(Template)]
#[template(path = "address.html")]
pub struct AddressPage<'a> {
    pub shell: &'a Shell,
    pub view: &'a AddressView,
    pub forms: Forms,
}

/// What went wrong, for a person.
#[derive(Template)]
#[template(path = "error.html")]
pub struct ErrorPage<'a> {
    pub shell: &'a Shell,
    pub title: &'a str,
    pub words: &'a str,
}
