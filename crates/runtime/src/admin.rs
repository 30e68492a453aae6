//! `/healthz`, `/readyz`, `/metrics`.

use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::caches::Caches;
use crate::secure::{self, Door};

/// The kind of what is answered under `/metrics`.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address:?} ({flag}): {source}; choose another address, or \"0\" for none")]
pub struct ListenError {
    flag: &'static str,
    address: String,
    source: io::Error,
}

/// Serves the probes. A process that stands by is ready as soon as its caches are complete.
pub(crate) async fn probes(
    address: &str,
    caches: Arc<Caches>,
) -> Result<impl Future<Output = ()> + Send + use<>, ListenError> {
    let ready = move || {
        let waiting = caches.waiting();
        async move {
            if waiting.is_empty() {
                return (StatusCode::OK, "ok".to_owned());
            }
            let kinds: Vec<&str> = waiting.iter().map(|kind| kind.plural()).collect();
            (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for a first list of {}", kinds.join(", ")))
        }
    };
    let router = Router::new().route("/healthz", get(async || "ok")).route("/readyz", get(ready));
    serve("--health-probe-bind-address", address, router, None).await
}

/// Serves the metrics: what `text` says, to everybody or to whom a door lets in.
pub(crate) async fn metrics(
    address: &str,
    door: Option<Door>,
    text: Arc<dyn Fn() -> String + Send + Sync>,
) -> Result<impl Future<Output = ()> + Send + use<>, ListenError> {
    let text = move || {
        let text = text();
        async move { ([(header::CONTENT_TYPE, OPENMETRICS)], text) }
    };
    serve("--metrics-bind-address", address, Router::new().route("/metrics", get(text)), door).await
}

async fn serve(
    flag: &'static str,
    address: &str,
    router: Router,
    door: Option<Door>,
) -> Result<impl Future<Output = ()> + Send + use<>, ListenError> {
    let listener = listen(flag, address).await?;
    if let Some(listener) = &listener {
        tracing::debug!(address = ?listener.local_addr(), flag, "listening");
    }
    Ok(async move {
        let Some(listener) = listener else { return std::future::pending().await };
        if let Err(error) = secure::serve(listener, router, door).await {
            tracing::error!(flag, "stopped serving: {error}");
        }
    })
}

/// Listens on the address that a flag gives, in Go's form: without a host, on all interfaces; "0" or nothing: nowhere.
///
/// # Errors
/// When the address is taken, or none of this machine's.
pub async fn listen(flag: &'static str, address: &str) -> Result<Option<TcpListener>, ListenError> {
    bind(address).await.map_err(|source| ListenError { flag, address: address.to_owned(), source })
}

async fn bind(address: &str) -> io::Result<Option<TcpListener>> {
    if address.is_empty() || address == "0" {
        return Ok(None);
    }
    if !address.starts_with(':') {
        return TcpListener::bind(address).await.map(Some);
    }
    // A node without IPv6 has no `[::]`.
    match TcpListener::bind(format!("[::]{address}")).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(_) => TcpListener::bind(format!("0.0.0.0{address}")).await.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_as_in_go() {
        assert!(bind("").await.unwrap().is_none());
        assert!(bind("0").await.unwrap().is_none());
        assert!(bind(":0").await.unwrap().is_some());
        assert!(bind("127.0.0.1:0").await.unwrap().is_some());
        let taken = bind("127.0.0.1:0").await.unwrap().unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error = metrics(&address, None, Arc::new(String::new)).await.err().unwrap().to_string();
        assert!(error.contains("--metrics-bind-address") && error.contains(&address), "{error}");
    }
}
