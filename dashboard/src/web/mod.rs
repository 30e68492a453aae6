//! The way out: pages as markup, JSON and CSV, assets, live updates, and what surrounds them.

mod assets;
mod export;
mod guard;
mod metrics;
mod page;
mod pages;
mod patience;
mod route;
mod shell;
mod stream;

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware;
use axum::response::IntoResponse;
use axum::routing::get;
use jiff::Timestamp;
use plan::Kind;
use tokio::net::TcpListener;

use crate::Live;
use crate::args::Args;
use crate::follow::NEEDED;
use crate::world::Source;

pub use assets::Assets;
use export::Exports;
#[cfg(test)]
pub(crate) use guard::HEADERS;
use metrics::Metrics;
pub use metrics::metrics;
pub(crate) use pages::refuse;
use patience::Patient;
pub(crate) use route::Format;
pub use shell::Shell;

/// What every request needs.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    live: Arc<Live>,
    base: String,
    hosts: Vec<String>,
    traces: Option<String>,
    assets: Assets,
    exports: Exports,
    metrics: Metrics,
    /// The moment that every page is of, where it is not the moment it is asked for.
    frozen: Option<Timestamp>,
}

impl App {
    /// The dashboard over an index.
    pub fn new(live: Arc<Live>, args: &Args) -> Self {
        let hosts = args.allowed_host.iter().map(|host| host.trim().to_lowercase()).collect();
        Self(Arc::new(Inner {
            live,
            base: args.base_path.clone(),
            hosts,
            traces: args.trace_url_template.clone(),
            assets: Assets::new(),
            exports: Exports::new(),
            metrics: Metrics::default(),
            frozen: None,
        }))
    }

    /// The same, with every page of one moment: for what is to look the same at each look.
    #[must_use]
    pub fn frozen(self, now: Timestamp) -> Self {
        let Inner { live, base, hosts, traces, metrics, .. } = &*self.0;
        Self(Arc::new(Inner {
            live: Arc::clone(live),
            base: base.clone(),
            hosts: hosts.clone(),
            traces: traces.clone(),
            assets: Assets::sealed_with(0),
            exports: Exports::new(),
            metrics: metrics.clone(),
            frozen: Some(now),
        }))
    }

    fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    fn now(&self) -> Timestamp {
        self.0.frozen.unwrap_or_else(Timestamp::now)
    }

    /// The index.
    pub fn live(&self) -> &Arc<Live> {
        &self.0.live
    }

    /// The path under which the pages are reached, without its end.
    pub fn base(&self) -> &str {
        &self.0.base
    }

    /// The kinds whose first complete list is still to come, if there are any.
    fn waiting(&self) -> Option<String> {
        let world = self.live().world();
        let waiting = NEEDED.into_iter().filter(|kind| !world.is_complete(Source::Kind(*kind)));
        let kinds: Vec<_> = waiting.map(Kind::plural).collect();
        (!kinds.is_empty()).then(|| kinds.join(", "))
    }
}

/// What needs a [`Visitor`](crate::Visitor): every page in every form, and the live updates. The access layer goes
/// around it.
pub fn pages(app: &App) -> Router {
    Router::new().fallback(pages::answer).route("/live", get(stream::live)).with_state(app.clone())
}

/// Everything: the pages with their access layer, what is open to all, and the guards.
pub fn router(app: &App, pages: Router) -> Router {
    let open = Router::new()
        .route("/assets/{hash}/{name}", get(assets::asset))
        .route("/openapi.json", get(assets::openapi))
        .with_state(app.clone());
    let inner = open.fallback_service(pages);
    let based = if app.base().is_empty() { inner } else { guard::under(app.base(), inner) };
    let guarded = based.layer(middleware::from_fn_with_state(app.clone(), guard::host));
    let guarded = guarded.layer(middleware::from_fn_with_state(app.clone(), metrics::count));
    let ready = {
        let app = app.clone();
        async move || ready(&app)
    };
    guarded
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(ready))
        .layer(middleware::map_response(guard::headers))
}

fn ready(app: &App) -> impl IntoResponse + use<> {
    match app.waiting() {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(kinds) => (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for a first list of {kinds}")),
    }
}

/// Serves until the process ends. Whoever reads nothing of an answer for half a minute is cut off.
pub async fn serve(listener: TcpListener, router: Router) -> io::Result<()> {
    axum::serve(Patient(listener), router).await
}
