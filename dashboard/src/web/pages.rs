//! One request for a page: find it, look at the index, write it out.

use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::page::{self, ErrorPage, Forms};
use super::route::{Format, Page, Route};
use super::{App, Shell};
use crate::query::{BadQuery, Paging, Params};
use crate::view::{self, Eye, Pieces, Table};
use crate::world::World;
use crate::{Scope, Visitor};

/// Why there is no page.
enum Refusal {
    /// Nothing is there, or nothing that the visitor may see.
    Absent(String),
    /// The query cannot be understood.
    Bad(BadQuery),
    /// A template failed: a mistake of ours.
    Broken,
}

impl From<BadQuery> for Refusal {
    fn from(error: BadQuery) -> Self {
        Self::Bad(error)
    }
}

impl From<askama::Error> for Refusal {
    fn from(error: askama::Error) -> Self {
        tracing::error!("a page could not be written: {error}");
        Self::Broken
    }
}

impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        tracing::error!("a page could not be written as JSON: {error}");
        Self::Broken
    }
}

/// What an answer says: all at once, or as it is read.
enum Content {
    Text(String),
    Pieces(Pieces),
}

/// An answer's kind and content.
type Written = Result<(&'static str, Content), Refusal>;

/// The kind of a table.
const CSV: &str = "text/csv; charset=utf-8; header=present";

/// Any page, in any form.
pub async fn answer(State(app): State<App>, visitor: Visitor, request: Request) -> Response {
    let uri = request.uri();
    let Some(route) = Route::of(uri.path()) else {
        let words = "no page has this address";
        return refuse(&app, Format::Html, StatusCode::NOT_FOUND, "Not found", words);
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let words = "pages are only read; use GET";
        let mut response = refuse(&app, route.format, StatusCode::METHOD_NOT_ALLOWED, "Read-only", words);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    if let Some(kinds) = app.waiting() {
        let words = format!("the first list of {kinds} has not come yet; try again in a moment");
        let mut response = refuse(&app, route.format, StatusCode::SERVICE_UNAVAILABLE, "Starting", &words);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
        response.headers_mut().insert(header::REFRESH, HeaderValue::from_static("2"));
        return response;
    }
    let format = route.format;
    let export = if format == Format::Csv { app.0.exports.begin() } else { None };
    if format == Format::Csv && export.is_none() {
        let words = "as many tables are being sent as may be at once; try again in a moment";
        let mut response = refuse(&app, format, StatusCode::SERVICE_UNAVAILABLE, "Busy", words);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        return response;
    }
    let here = uri.path_and_query().map_or("/", |here| here.as_str());
    match write(&app, &visitor, route, here, uri.query()) {
        Ok((kind, content)) => {
            let body = match (content, export) {
                (Content::Text(text), _) => Body::from(text),
                (Content::Pieces(pieces), Some(export)) => export.body(looked_at(&app, &visitor, pieces)),
                // Tables are asked for with a place among the exports only.
                (Content::Pieces(_), None) => Body::empty(),
            };
            ([(header::CONTENT_TYPE, kind)], body).into_response()
        }
        Err(Refusal::Absent(words)) => refuse(&app, format, StatusCode::NOT_FOUND, "Not found", &words),
        Err(Refusal::Bad(error)) => {
            refuse(&app, format, StatusCode::BAD_REQUEST, "Not understood", &error.to_string())
        }
        Err(Refusal::Broken) => {
            let words = "this page could not be written; the log of the dashboard says why";
            refuse(&app, format, StatusCode::INTERNAL_SERVER_ERROR, "Our mistake", words)
        }
    }
}

/// Makes each piece of a table of what the index holds at that moment. The lock is held for one piece, and no longer.
fn looked_at(
    app: &App,
    visitor: &Visitor,
    mut pieces: Pieces,
) -> impl FnMut() -> Option<String> + Send + use<> {
    let (app, scope) = (app.clone(), visitor.scope.clone());
    move || {
        let world = app.live().world();
        pieces(&eye(&app, &world, &scope))
    }
}

/// What a scope sees of the index.
fn eye<'a>(app: &'a App, world: &'a World, scope: &'a Scope) -> Eye<'a> {
    let (digest, traces) = (app.live().digest(world, scope), app.0.traces.as_deref());
    Eye { world, scope, digest, now: app.now(), traces }
}

/// Looks at the index and writes the page. The lock is held while the view is made, and no longer.
fn write(app: &App, visitor: &Visitor, route: Route, here: &str, query: Option<&str>) -> Written {
    let world = app.live().world();
    let eye = eye(app, &world, &visitor.scope);
    let (page, format) = meant(&eye, route);
    let shell = |section| Shell::of(app, visitor, &eye, here, section);
    // A table has everything, unless a page of it is asked for.
    let ask = |known: &[&str]| -> Result<(Params, Option<Paging>), BadQuery> {
        let params = Params::read(query, known)?;
        let whole = format == Format::Csv && !params.has_any(&Paging::KNOWN);
        let paging = if whole { None } else { Some(Paging::read(&params)?) };
        Ok((params, paging))
    };
    // One page: its view and its shell are made, the index is let go, and then it is written.
    macro_rules! page {
        ($section:literal, $view:expr, |$shell:ident, $seen:ident| $html:expr) => {{
            let ($seen, $shell) = ($view, shell($section));
            drop(world);
            written(format, &$shell, &$seen, || $html.render())
        }};
    }
    // One list: a page of it, or the whole as a table.
    macro_rules! list {
        ($section:literal, $known:expr, $list:path, $export:path, |$shell:ident, $seen:ident, $params:ident| $html:expr) => {{
            let ($params, paging) = ask(&$known)?;
            match paging {
                None => Ok((CSV, Content::Pieces($export(&eye, &$params)?))),
                Some(paging) => {
                    page!($section, $list(&eye, &$params, paging)?, |$shell, $seen| $html)
                }
            }
        }};
    }
    match page {
        Page::Overview => {
            Params::read(query, &[])?;
            page!("overview", eye.overview(), |shell, view| page::OverviewPage::of(&shell, &view))
        }
        Page::Addresses => {
            let classes = class_names(&eye);
            list!(
                "addresses",
                view::ADDRESSES_KNOWN,
                view::addresses,
                view::export_addresses,
                |shell, view, params| page::AddressesPage::of(&shell, &view, &params, classes)
            )
        }
        Page::Address(name) => {
            Params::read(query, &[])?;
            let row = eye.address(&name).ok_or_else(|| absent("address", &name))?;
            let forms = Forms::of(&["addresses", &name], "");
            page!("addresses", eye.address_view(row), |shell, view| page::AddressPage {
                shell: &shell,
                view: &view,
                forms
            })
        }
        Page::Claims => {
            let classes = class_names(&eye);
            list!("claims", view::CLAIMS_KNOWN, view::claims, view::export_claims, |shell, view, params| {
                page::ClaimsPage::of(&shell, &view, &params, classes)
            })
        }
        Page::Claim(key) => {
            Params::read(query, &[])?;
            let row = world.claim(&key).filter(|row| eye.scope.sees(&row.key.namespace));
            let row = row.ok_or_else(|| absent("claim", &key.to_string()))?;
            let forms = Forms::of(&["claims", &key.namespace, &key.name], "");
            page!("claims", eye.claim_view(row), |shell, view| page::ClaimPage {
                shell: &shell,
                view: &view,
                forms
            })
        }
        Page::Classes => {
            let (params, paging) = ask(&view::CLASSES_KNOWN)?;
            let paging = paging.unwrap_or(Paging::all());
            page!("classes", view::classes(&eye, &params, paging)?, |shell, view| {
                page::ClassesPage::of(&shell, &view, &params)
            })
        }
        Page::Class(name) => {
            Params::read(query, &[])?;
            let row = world.class(&name).ok_or_else(|| absent("class", &name))?;
            let forms = Forms::of(&["classes", &name], "");
            page!("classes", eye.class_view(row), |shell, view| page::ClassPage {
                shell: &shell,
                view: &view,
                forms
            })
        }
        Page::Services => list!(
            "services",
            view::SERVICES_KNOWN,
            view::services,
            view::export_services,
            |shell, view, params| page::ServicesPage::of(&shell, &view, &params)
        ),
        Page::Associations => list!(
            "associations",
            view::ASSOCIATIONS_KNOWN,
            view::associations,
            view::export_associations,
            |shell, view, params| page::AssociationsPage::of(&shell, &view, &params)
        ),
        Page::Conflicts => {
            let (params, paging) = ask(&view::CONFLICTS_KNOWN)?;
            let paging = paging.unwrap_or(Paging::all());
            page!("conflicts", view::conflicts(&eye, &params, paging), |shell, view| {
                page::ConflictsPage::of(&shell, &view, &params)
            })
        }
        Page::Ip(text) => {
            Params::read(query, &[])?;
            let ip = view::read_ip(&text)?;
            let forms = Forms::of(&["ip", &ip.to_string()], "");
            page!("addresses", eye.ip_view(ip), |shell, view| page::IpPage {
                shell: &shell,
                view: &view,
                forms
            })
        }
    }
}

/// The page that a route means: an object whose name ends in `.json` is meant itself, if it is there.
fn meant(eye: &Eye, route: Route) -> (Page, Format) {
    let is_there = match &route.whole {
        Some(Page::Address(name)) => eye.address(name).is_some(),
        Some(Page::Class(name)) => eye.world.class(name).is_some(),
        Some(Page::Claim(key)) => eye.scope.sees(&key.namespace) && eye.world.claim(key).is_some(),
        _ => false,
    };
    match route.whole {
        Some(whole) if is_there => (whole, Format::Html),
        _ => (route.page, route.format),
    }
}

fn absent(what: &str, name: &str) -> Refusal {
    Refusal::Absent(format!("there is no {what} {name:?}"))
}

fn class_names(eye: &Eye) -> Vec<String> {
    eye.world.classes().map(|class| class.name.to_string()).collect()
}

/// A view, with the moment it is of.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Dated<'a, T> {
    as_of: Timestamp,
    #[serde(flatten)]
    view: &'a T,
}

fn written<T: Serialize + Table>(
    format: Format,
    shell: &Shell,
    view: &T,
    html: impl FnOnce() -> askama::Result<String>,
) -> Written {
    let (kind, text) = match format {
        Format::Html => ("text/html; charset=utf-8", html()?),
        Format::Json => ("application/json", serde_json::to_string(&Dated { as_of: shell.as_of, view })?),
        Format::Csv => (CSV, view.csv()),
    };
    Ok((kind, Content::Text(text)))
}

/// An answer that is no page, in the form that was asked for.
pub(crate) fn refuse(app: &App, format: Format, status: StatusCode, title: &str, words: &str) -> Response {
    let shell = Shell::plain(app);
    match format {
        Format::Html => {
            let mut words = words.to_owned();
            // Errors are lower case where programs read them; here somebody reads a page.
            if let Some(first) = words.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            let page = ErrorPage { shell: &shell, title, words: &words }.render().unwrap_or_default();
            (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
        }
        Format::Json => {
            let body = json!({ "error": words }).to_string();
            (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Format::Csv => {
            let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
            (status, kind, format!("{words}\n")).into_response()
        }
    }
}
