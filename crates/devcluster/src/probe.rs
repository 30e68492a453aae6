//! Asking over HTTP(S) whether something is ready.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::process::Process;
use crate::{Error, Result, build};

const EVERY: Duration = Duration::from_millis(50);
const ONE_TRY: Duration = Duration::from_secs(2);
/// Long enough for a machine that compiles at the same time.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(90);

/// An HTTP client that trusts only the run's own authority, and takes plain HTTP too.
pub(crate) fn client<B>(ca_pem: &str) -> Result<Client<HttpsConnector<HttpConnector>, B>>
where
    B: hyper::body::Body + Send,
    B::Data: Send,
{
    let tls = |error: &dyn std::fmt::Display| Error::Tls(error.to_string());
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.map_err(|e| tls(&e))?).map_err(|e| tls(&e))?;
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| tls(&e))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

/// Waits until a process answers at its ready address; without one it is ready at once.
pub(crate) async fn ready(process: &Process, ca_pem: &str) -> Result<()> {
    let Some(url) = &process.spec().ready_url else { return Ok(()) };
    let uri: Uri = url.parse().map_err(|_| Error::Tls(format!("{url} is not an address")))?;
    let client = client::<Empty<Bytes>>(ca_pem)?;
    let answers = async {
        loop {
            let answer = tokio::time::timeout(ONE_TRY, text(&client, &uri)).await;
            if let Ok(Some(text)) = answer
                && process.spec().ready_text.as_ref().is_none_or(|wanted| text.contains(wanted))
            {
                return;
            }
            tokio::time::sleep(EVERY).await;
        }
    };
    tokio::select! {
        () = answers => Ok(()),
        _ = process.wait() => Err(ended(process)),
        () = tokio::time::sleep(READY_WITHIN) => Err(Error::NotReady {
            what: format!("{} being ready", process.name()),
            within: READY_WITHIN,
            log: process.log_path().to_owned(),
        }),
    }
}

/// The answer of a plain HTTP address; none if it has nothing there.
pub(crate) async fn get(address: &str) -> Result<Option<String>> {
    let uri: Uri = address.parse().map_err(|_| Error::Tls(format!("{address} is not an address")))?;
    let client = client::<Empty<Bytes>>("")?;
    Ok(tokio::time::timeout(ONE_TRY, text(&client, &uri)).await.ok().flatten())
}

/// The answer of an address, if it is a good one.
async fn text(client: &Client<HttpsConnector<HttpConnector>, Empty<Bytes>>, uri: &Uri) -> Option<String> {
    let response = client.get(uri.clone()).await.ok().filter(|response| response.status().is_success())?;
    let body = response.into_body().collect().await.ok()?.to_bytes();
    Some(String::from_utf8_lossy(&body).into_owned())
}

fn ended(process: &Process) -> Error {
    let (part, log) = (process.name().to_owned(), process.log_path().to_owned());
    let tail = build::tail(&log);
    if tail.contains("address already in use") {
        return Error::PortTaken { part, log };
    }
    let exit = process.exit().map_or_else(|| "never started".to_owned(), |exit| exit.to_string());
    Error::Ended { part, exit, log, tail }
}

/// Waits until a condition holds, asking again and again; `what` and `log` are for the error.
pub(crate) async fn until<F, Fut>(
    what: &str,
    log: std::path::PathBuf,
    within: Duration,
    mut holds: F,
) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let asked = async {
        while !holds().await {
            tokio::time::sleep(EVERY).await;
        }
    };
    tokio::time::timeout(within, asked).await.map_err(|_| Error::NotReady {
        what: what.to_owned(),
        within,
        log,
    })
}
