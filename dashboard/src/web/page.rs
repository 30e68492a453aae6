//! Views as markup. Templates escape whatever they are given.

use askama::Template;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::shell::Shell;
use crate::query::{Find, Params};
use crate::view::{
    AddressList, AddressView, AssociationItem, ClaimItem, ClaimView, ClassItem, ClassView, Command,
    ConflictItem, IpView, Line, List, Overview, ServiceItem,
};
use crate::world::{Origin, State};

/// What is written as it is in a part of a path: no more than that.
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// The same page in other forms.
pub struct Forms {
    json: String,
    csv: String,
}

impl Forms {
    /// Of a page by the parts of its path, with its query.
    pub fn of(parts: &[&str], query: &str) -> Self {
        let parts: Vec<_> = parts.iter().map(|part| utf8_percent_encode(part, PART).to_string()).collect();
        let path = parts.join("/");
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        Self { json: format!("/{path}.json{query}"), csv: format!("/{path}.csv{query}") }
    }

    fn list(path: &str, params: &Params) -> Self {
        Self::of(&[path], &params.with("page", None))
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
    fn of(path: &'static str, params: &Params, page: usize, pages: usize) -> Self {
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
    query: Option<String>,
    order: Option<&'static str>,
}

impl Column {
    /// The heads of some columns: a name in the query, or none where nothing is sorted by it, and words.
    fn all(params: &Params, usual: &str, columns: &[(&str, &'static str)]) -> Vec<Self> {
        let current = params.get("sort").unwrap_or(usual);
        let column = |(name, words): &(&str, &'static str)| {
            let down = format!("-{name}");
            let (order, next) = if current == *name {
                (Some("ascending"), down.as_str())
            } else if current == down {
                (Some("descending"), *name)
            } else {
                (None, *name)
            };
            let query = (!name.is_empty()).then(|| params.without("page").with("sort", Some(next)));
            Self { words, query, order: order.filter(|_| !name.is_empty()) }
        };
        columns.iter().map(column).collect()
    }
}

/// The parameters that a form has no field for and that are to stay.
pub struct Kept(Vec<(&'static str, String)>);

impl Kept {
    fn of(params: &Params, names: &[&'static str]) -> Self {
        Self(names.iter().filter_map(|name| Some((*name, params.text(name)?))).collect())
    }
}

/// `/`
#[derive(Template)]
#[template(path = "overview.html")]
pub struct OverviewPage<'a> {
    pub shell: &'a Shell,
    pub view: &'a Overview,
    pub forms: Forms,
    pub example: Command,
}

impl<'a> OverviewPage<'a> {
    /// The first page.
    pub fn of(shell: &'a Shell, view: &'a Overview) -> Self {
        Self { shell, view, forms: Forms::of(&["overview"], ""), example: example_class() }
    }
}

/// `/addresses`
#[derive(Template)]
#[template(path = "addresses.html")]
pub struct AddressesPage<'a> {
    pub shell: &'a Shell,
    pub view: &'a AddressList,
    pub params: &'a Params,
    pub classes: Vec<String>,
    pub states: [&'static str; State::ALL.len()],
    pub phases: &'a [&'static str],
    pub filters: &'a [&'static str],
    pub kept: Kept,
    pub columns: Vec<Column>,
    pub pager: Pager,
    pub forms: Forms,
    pub example: Command,
    pub asked_ip: Option<String>,
}

impl<'a> AddressesPage<'a> {
    /// The page of a list.
    pub fn of(shell: &'a Shell, view: &'a AddressList, params: &'a Params, classes: Vec<String>) -> Self {
        let asked = params.get("q").map(Find::of).and_then(|find| find.range());
        Self {
            shell,
            view,
            params,
            classes,
            states: State::ALL.map(State::word),
            phases: &["Pending", "Available", "Bound", "Released", "Conflict", "Lost"],
            filters: &["q", "class", "state", "phase", "family", "namespace", "gaps"],
            kept: Kept::of(params, &["sort", "limit"]),
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
            forms: Forms::list("addresses", params),
            example: example_claim(),
            asked_ip: asked.filter(|(first, last)| first == last).map(|(ip, _)| ip.to_string()),
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

/// `/claims`
#[derive(Template)]
#[template(path = "claims.html")]
pub struct ClaimsPage<'a> {
    pub shell: &'a Shell,
    pub view: &'a List<ClaimItem>,
    pub params: &'a Params,
    pub classes: Vec<String>,
    pub filters: &'a [&'static str],
    pub kept: Kept,
    pub columns: Vec<Column>,
    pub pager: Pager,
    pub forms: Forms,
    pub example: Command,
}

impl<'a> ClaimsPage<'a> {
    /// The page of a list.
    pub fn of(shell: &'a Shell, view: &'a List<ClaimItem>, params: &'a Params, classes: Vec<String>) -> Self {
        let columns = [
            ("claim", "Claim"),
            ("phase", "Phase"),
            ("", "Addresses"),
            ("", "Service"),
            ("class", "Class"),
            ("since", "Since"),
        ];
        Self {
            shell,
            view,
            params,
            classes,
            filters: &["q", "class", "phase", "family", "namespace"],
            kept: Kept::of(params, &["sort", "limit"]),
            columns: Column::all(params, "claim", &columns),
            pager: Pager::of("/claims", params, view.page, view.pages),
            forms: Forms::list("claims", params),
            example: example_claim(),
        }
    }
}

/// `/claims/{namespace}/{name}`
#[derive(Template)]
#[template(path = "claim.html")]
pub struct ClaimPage<'a> {
    pub shell: &'a Shell,
    pub view: &'a ClaimView,
    pub forms: Forms,
}

/// `/classes`
#[derive(Template)]
#[template(path = "classes.html")]
pub struct ClassesPage<'a> {
    pub shell: &'a Shell,
    pub view: &'a List<ClassItem>,
    pub pager: Pager,
    pub forms: Forms,
    pub example: Command,
}

impl<'a> ClassesPage<'a> {
    /// The page of a list.
    pub fn of(shell: &'a Shell, view: &'a List<ClassItem>, params: &'a Params) -> Self {
        let pager = Pager::of("/classes", params, view.page, view.pages);
        Self { shell, view, pager, forms: Forms::list("classes", params), example: example_class() }
    }
}

/// `/classes/{name}`
#[derive(Template)]
#[template(path = "class.html")]
pub struct ClassPage<'a> {
    pub shell: &'a Shell,
    pub view: &'a ClassView,
    pub forms: Forms,
}

/// `/services`
#[derive(Template)]
#[template(path = "services.html")]
pub struct ServicesPage<'a> {
    pub shell: &'a Shell,
    pub view: &'a List<ServiceItem>,
    pub params: &'a Params,
    pub origins: [&'static str; Origin::ALL.len()],
    pub filters: &'a [&'static str],
    pub kept: Kept,
    pub columns: Vec<Column>,
    pub pager: Pager,
    pub forms: Forms,
}

impl<'a> ServicesPage<'a> {
    /// The page of a list.
    pub fn of(shell: &'a Shell, view: &'a List<ServiceItem>, params: &'a Params) -> Self {
        let columns = [
            ("service", "Service"),
            ("origin", "Origin"),
            ("", "Addresses"),
            ("claim", "Claim"),
            ("", "Ports"),
            ("created", "Age"),
        ];
        Self {
            shell,
            view,
            params,
            origins: Origin::ALL.map(Origin::word),
            filters: &["q", "origin", "namespace"],
            kept: Kept::of(params, &["sort", "limit"]),
            columns: Column::all(params, "service", &columns),
            pager: Pager::of("/services", params, view.page, view.pages),
            forms: Forms::list("services", params),
        }
    }
}

/// `/associations`
#[derive(Template)]
#[template(path = "associations.html")]
pub struct AssociationsPage<'a> {
    pub shell: &'a Shell,
    pub view: &'a List<AssociationItem>,
    pub params: &'a Params,
    pub filters: &'a [&'static str],
    pub kept: Kept,
    pub pager: Pager,
    pub forms: Forms,
}

impl<'a> AssociationsPage<'a> {
    /// The page of a list.
    pub fn of(shell: &'a Shell, view: &'a List<AssociationItem>, params: &'a Params) -> Self {
        Self {
            shell,
            view,
            params,
            filters: &["q", "namespace", "state", "at"],
            kept: Kept::of(params, &["limit"]),
            pager: Pager::of("/associations", params, view.page, view.pages),
            forms: Forms::list("associations", params),
        }
    }
}

/// `/conflicts`
#[derive(Template)]
#[template(path = "conflicts.html")]
pub struct ConflictsPage<'a> {
    pub shell: &'a Shell,
    pub view: &'a List<ConflictItem>,
    pub pager: Pager,
    pub forms: Forms,
}

impl<'a> ConflictsPage<'a> {
    /// The page of a list.
    pub fn of(shell: &'a Shell, view: &'a List<ConflictItem>, params: &'a Params) -> Self {
        let pager = Pager::of("/conflicts", params, view.page, view.pages);
        Self { shell, view, pager, forms: Forms::list("conflicts", params) }
    }
}

/// `/ip/{any address}`
#[derive(Template)]
#[template(path = "ip.html")]
pub struct IpPage<'a> {
    pub shell: &'a Shell,
    pub view: &'a IpView,
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

fn example_claim() -> Command {
    Command::new(
        "a claim in your own namespace",
        r#"echo '{"apiVersion":"local.sdn.cozystack.io/v1alpha1","kind":"IPAddressClaim","metadata":{"name":"web-ip"},"spec":{}}' | kubectl create -f -"#,
    )
}

fn example_class() -> Command {
    Command::new(
        "a class that draws from an IPAddressPool of MetalLB with autoAssign: false",
        r#"echo '{"apiVersion":"local.sdn.cozystack.io/v1alpha1","kind":"IPAddressClass","metadata":{"name":"public"},"spec":{"provisioner":"metallb.drivers.local.sdn.cozystack.io","parameters":{"pool":"POOL"}}}' | kubectl create -f -"#,
    )
}
