use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use http_body_util::BodyExt as _;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::ServiceExt as _;

use super::*;
use crate::fake::{Calls, failure, server};

/// An API server that knows the tokens `may` and `may-not`, unless it is away.
fn cluster(away: Arc<AtomicBool>) -> (Client, Calls) {
    server(move |call| {
        if away.load(Ordering::Relaxed) {
            return failure(500, "InternalError", "etcd is away");
        }
        let mut answer = call.body.clone();
        let spec = &call.body["spec"];
        answer["status"] = if call.body["kind"] == "TokenReview" {
            let user = json!({ "username": spec["token"], "groups": ["g"] });
            let known = spec["token"] == "may" || spec["token"] == "may-not";
            json!({ "authenticated": known, "user": user })
        } else {
            let wish = json!({ "path": "/metrics", "verb": "get" });
            assert_eq!((&spec["nonResourceAttributes"], &spec["groups"]), (&wish, &json!(["g"])));
            json!({ "allowed": spec["user"] == "may" })
        };
        (201, answer)
    })
}

async fn door(client: &Client, folder: Option<&Path>) -> Result<Door, CertificateError> {
    let flags = MetricsSecurity { metrics_secure: true, metrics_cert_path: folder.map(Path::to_owned) };
    Ok(Door::of(&flags, client).await?.unwrap())
}

fn page() -> Router {
    Router::new().route(PATH, axum::routing::get(async || "numbers"))
}

async fn ask(page: &Router, authorization: Option<&str>) -> (StatusCode, String) {
    let mut request = http::Request::get(PATH);
    if let Some(value) = authorization {
        request = request.header(header::AUTHORIZATION, value);
    }
    let response = page.clone().oneshot(request.body(axum::body::Body::empty()).unwrap()).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn without_the_flag_there_is_no_door() {
    let (client, _) = cluster(Arc::default());
    assert!(Door::of(&MetricsSecurity::default(), &client).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn c16_metrics_are_told_to_who_may_get_them() {
    let away = Arc::new(AtomicBool::new(false));
    let (client, calls) = cluster(Arc::clone(&away));
    let page = door(&client, None).await.unwrap().guarded(page());
    for nobodys in [None, Some("Basic may"), Some("Bearer "), Some("Bearer unknown"), Some("may")] {
        let (status, words) = ask(&page, nobodys).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{nobodys:?}");
        assert!(words.contains("Authorization: Bearer TOKEN"), "{words}");
    }
    assert_eq!(calls.all().len(), 1, "only what may be a token is asked about");
    assert_eq!(ask(&page, Some("Bearer may-not")).await.0, StatusCode::FORBIDDEN);
    assert_eq!(ask(&page, Some("bearer may")).await, (StatusCode::OK, "numbers".to_owned()));
    let asked = calls.all().len();
    assert_eq!(ask(&page, Some("Bearer may")).await.0, StatusCode::OK);
    assert_eq!(calls.all().len(), asked, "it was asked a moment ago");
    away.store(true, Ordering::Relaxed);
    assert_eq!(ask(&page, Some("Bearer may")).await.0, StatusCode::OK);
    tokio::time::advance(TRUSTED).await;
    let (status, words) = ask(&page, Some("Bearer may")).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "nobody is let in on old news");
    assert!(!words.contains("etcd"), "{words}");
    away.store(false, Ordering::Relaxed);
    assert_eq!(ask(&page, Some("Bearer may")).await.0, StatusCode::OK);
}

/// Writes a new pair into a folder, and returns the certificate.
fn renew(folder: &Path) -> rustls::pki_types::CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

/// Gets the metrics by TLS from whoever shows a certificate that this one vouches for.
async fn get(
    address: SocketAddr,
    trusted: &rustls::pki_types::CertificateDer<'static>,
) -> io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let request =
        "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer may\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    // An end without a goodbye is an end, too.
    let _ = stream.read_to_string(&mut answer).await;
    Ok(answer)
}

#[tokio::test]
async fn c16_a_new_certificate_is_shown_as_soon_as_its_files_hold_one() {
    let (client, _) = cluster(Arc::default());
    let folder = tempfile::tempdir().unwrap();
    let missing = door(&client, Some(folder.path())).await.err().unwrap().to_string();
    assert!(missing.contains("tls.crt") && missing.contains("--metrics-cert-path"), "{missing}");
    let old = renew(folder.path());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let door = door(&client, Some(folder.path())).await.unwrap();
    tokio::spawn(serve(listener, page(), Some(door)));
    assert!(get(address, &old).await.unwrap().contains("numbers"));
    let new = renew(folder.path());
    assert!(get(address, &old).await.is_err());
    assert!(get(address, &new).await.unwrap().contains("numbers"));
    // One that is half written, none at all, and one of another key: the last good one stays.
    std::fs::write(folder.path().join("tls.crt"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    assert!(get(address, &new).await.unwrap().contains("numbers"));
    std::fs::remove_file(folder.path().join("tls.key")).unwrap();
    assert!(get(address, &new).await.unwrap().contains("numbers"));
    let other = rcgen::KeyPair::generate().unwrap();
    std::fs::write(folder.path().join("tls.key"), other.serialize_pem()).unwrap();
    assert!(get(address, &new).await.unwrap().contains("numbers"));
}

#[tokio::test]
async fn c16_behind_the_door_nobody_speaks_plain_http() {
    let (client, _) = cluster(Arc::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, page(), Some(door(&client, None).await.unwrap())));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer may\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(!answer.contains("HTTP/") && !answer.contains("numbers"), "{answer}");
}
