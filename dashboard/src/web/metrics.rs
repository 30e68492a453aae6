//! `/metrics`: how much is asked for, and how old the news is. On a port of its own: it is for no visitor.

use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::get;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use runtime::{OPENMETRICS, Requests};

use super::App;
use super::route::{Format, Page, Route};
use crate::follow::NEEDED;
use crate::world::Source;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Asked {
    page: &'static str,
    format: &'static str,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Of {
    page: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kept {
    kind: &'static str,
}

/// What was asked for. Clones count together.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    asked: Family<Asked, Counter>,
    seconds: Family<Of, Histogram, fn() -> Histogram>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { asked: Family::default(), seconds: Family::new_with_constructor(buckets) }
    }
}

fn buckets() -> Histogram {
    Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0])
}

/// The name of what a path means: one of few, whatever visitors type.
fn page(path: &str) -> &'static str {
    if path.starts_with("/assets/") {
        return "assets";
    }
    match path {
        "/live" => return "live",
        "/openapi.json" => return "openapi",
        "/login" | "/logout" => return "login",
        _ => {}
    }
    Route::of(path).map_or("other", |route| match route.page {
        Page::Overview => "overview",
        Page::Addresses => "addresses",
        Page::Address(_) => "address",
        Page::Claims => "claims",
        Page::Claim(_) => "claim",
        Page::Classes => "classes",
        Page::Class(_) => "class",
        Page::Services => "services",
        Page::Associations => "associations",
        Page::Conflicts => "conflicts",
        Page::Ip(_) => "ip",
    })
}

/// Counts a request and what became of it.
pub(super) async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let path = path.strip_prefix(app.base()).unwrap_or(path);
    let page = page(path);
    let format = match Format::of(path) {
        Format::Html => "html",
        Format::Json => "json",
        Format::Csv => "csv",
    };
    let begun = Instant::now();
    let response = next.run(request).await;
    let metrics = app.metrics();
    metrics.asked.get_or_create(&Asked { page, format, code: response.status().as_u16() }).inc();
    metrics.seconds.get_or_create(&Of { page }).observe(begun.elapsed().as_secs_f64());
    response
}

/// What serves the metrics.
pub fn metrics(app: &App, requests: Requests) -> Router {
    let app = app.clone();
    let text = move || {
        let text = text(&app, &requests);
        async move { ([(header::CONTENT_TYPE, OPENMETRICS)], text) }
    };
    Router::new().route("/metrics", get(text))
}

fn text(app: &App, requests: &Requests) -> String {
    let mut registry = Registry::default();
    let metrics = app.metrics();
    registry.register(
        "address_dashboard_http_requests",
        "Requests by page, form and answer",
        metrics.asked.clone(),
    );
    registry.register(
        "address_dashboard_http_request_duration_seconds",
        "How long an answer took to begin",
        metrics.seconds.clone(),
    );
    let silent: Gauge<f64, std::sync::atomic::AtomicU64> = Gauge::default();
    silent
        .set(app.live().silent().map_or(0.0, |since| app.now().duration_since(since).as_secs_f64().max(0.0)));
    registry.register(
        "address_dashboard_silence_seconds",
        "For how long the API server has not answered: so old is what pages show",
        silent,
    );
    let complete: Family<Kept, Gauge> = Family::default();
    let version = {
        let world = app.live().world();
        for kind in NEEDED {
            let there = world.is_complete(Source::Kind(kind));
            complete.get_or_create(&Kept { kind: kind.plural() }).set(i64::from(there));
        }
        world.version()
    };
    registry.register(
        "address_dashboard_cache_complete",
        "1 if all objects of a kind have come once",
        complete,
    );
    registry.register(
        "address_dashboard_changes",
        "Changes of the cluster taken in",
        ConstCounter::new(version),
    );
    requests.register(&mut registry);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _infallible = encode(&mut text, &registry);
    text
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/", "overview")]
    #[case("/addresses.csv", "addresses")]
    #[case("/addresses/ip-192-0-2-7.json", "address")]
    #[case("/claims/a/b", "claim")]
    #[case("/ip/192.0.2.7", "ip")]
    #[case("/assets/0/style.css", "assets")]
    #[case("/live", "live")]
    #[case("/what/visitors/type", "other")]
    fn pages_are_few(#[case] path: &str, #[case] expected: &str) {
        assert_eq!(page(path), expected);
    }
}
