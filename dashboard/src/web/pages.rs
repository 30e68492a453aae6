//! One request for a page: find it, look at the index, write it out.

use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::page::{AddressPage, AddressesPage, ErrorPage, Forms, OverviewPage};
use super::route::{Format, Page, Route};
use super::{App, Shell};
use crate::Visitor;
use crate::query::{BadQuery, Paging, Params};
use crate::view::{self, Eye};

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
    let waiting = app.waiting();
    if !waiting.is_empty() {
        let kinds: Vec<_> = waiting.iter().map(|kind| kind.plural()).collect();
        let words = format!("the first list of {} has not come yet; try again in a moment", kinds.join(", "));
        let mut response = refuse(&app, route.format, StatusCode::SERVICE_UNAVAILABLE, "Starting", &words);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
        response.headers_mut().insert(header::REFRESH, HeaderValue::from_static("2"));
        return response;
    }
    let format = route.format;
    let here = uri.path_and_query().map_or("/", |here| here.as_str());
    match write(&app, &visitor, route, here, uri.query()) {
        Ok((kind, body)) => ([(header::CONTENT_TYPE, kind)], Body::from(body)).into_response(),
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

/// Looks at the index and writes the page. The lock is held while the view is made, and no longer.
fn write(
    app: &App,
    visitor: &Visitor,
    route: Route,
    here: &str,
    query: Option<&str>,
) -> Result<(&'static str, String), Refusal> {
    let world = app.live().world();
    let digest = app.live().digest(&world, &visitor.scope);
    let traces = app.0.traces.as_deref();
    let eye = Eye { world: &world, scope: &visitor.scope, digest, now: Timestamp::now(), traces };
    let Route { page, format, whole } = route;
    let (page, format) = match whole {
        Some(Page::Address(name)) if eye.address(&name).is_some() => (Page::Address(name), Format::Html),
        _ => (page, format),
    };
    let shell = |section| Shell::of(app, visitor, &eye, here, section);
    match page {
        Page::Overview => {
            Params::read(query, &[])?;
            let (view, shell) = (eye.overview(), shell("overview"));
            drop(world);
            written(format, &shell, &view, || OverviewPage { shell: &shell, view: &view }.render())
        }
        Page::Addresses => {
            let params = Params::read(query, &view::ADDRESSES_KNOWN)?;
            let paging = Paging::read(&params)?;
            let (view, shell) = (view::addresses(&eye, &params, paging)?, shell("addresses"));
            drop(world);
            written(format, &shell, &view, || AddressesPage::of(&shell, &view, &params).render())
        }
        Page::Address(name) => {
            Params::read(query, &[])?;
            let row = eye.address(&name);
            let absent = || Refusal::Absent(format!("there is no address {name:?}"));
            let (view, shell) = (eye.address_view(row.ok_or_else(absent)?), shell("addresses"));
            drop(world);
            let forms = Forms::of(&format!("/addresses/{name}"), "");
            written(format, &shell, &view, || AddressPage { shell: &shell, view: &view, forms }.render())
        }
    }
}

/// A view, with the moment it is of.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Dated<'a, T> {
    as_of: Timestamp,
    #[serde(flatten)]
    view: &'a T,
}

fn written<T: Serialize>(
    format: Format,
    shell: &Shell,
    view: &T,
    html: impl FnOnce() -> askama::Result<String>,
) -> Result<(&'static str, String), Refusal> {
    match format {
        Format::Html => Ok(("text/html; charset=utf-8", html()?)),
        Format::Json | Format::Csv => {
            Ok(("application/json", serde_json::to_string(&Dated { as_of: shell.as_of, view })?))
        }
    }
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
        Format::Csv => (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{words}\n"))
            .into_response(),
    }
}
