use std::io::Write;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::post;
use opentelemetry::InstrumentationScope;
use plan::trace::{Operation, Sampler};
use rstest::rstest;
use rustls::RootCertStore;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use super::super::env::read;
use super::super::{Clock, Traces, data};
use super::*;

/// No test waits for longer.
const WITHIN: Duration = Duration::from_secs(60);

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn of(pairs: Pairs<'_>) -> impl Fn(&str) -> Option<String> {
    move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

fn span(number: usize) -> plan::trace::Span {
    let subject = number.to_string();
    let operation = Operation::begin(Some(Sampler::Always), "x", &[&subject], None).unwrap();
    let at = jiff::Timestamp::UNIX_EPOCH;
    let plan::Action::Trace(span) = operation.end(at, Some(at), Vec::new()) else { panic!() };
    span
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(WITHIN, what).await.unwrap()
}

/// A collector that shows what it is sent, and answers while it is told to.
async fn collector(answers: watch::Receiver<bool>) -> (String, mpsc::UnboundedReceiver<(HeaderMap, Bytes)>) {
    let (sent, received) = mpsc::unbounded_channel();
    let take = move |headers: HeaderMap, body: Bytes| {
        let (sent, mut answers) = (sent.clone(), answers.clone());
        async move {
            sent.send((headers, body)).unwrap();
            answers.wait_for(|answers| *answers).await.unwrap();
        }
    };
    let page = Router::new().route("/v1/traces", post(take));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, page).await });
    (address, received)
}

#[tokio::test(flavor = "multi_thread")]
async fn c14_an_export_carries_the_headers_and_is_compressed() {
    let (_answers, answers) = watch::channel(true);
    let (address, mut received) = collector(answers).await;
    let pairs = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc%3D,X-Scope-OrgID=a"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
    ];
    let traces = Traces::of("metallb-iad", "pod-1", &of(&pairs)).unwrap();
    traces.take(span(1), &mut Clock::start());
    let (headers, body) = in_time(received.recv()).await.unwrap();
    let header = |name: &str| headers.get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!([header("authorization"), header("x-scope-orgid")], ["Basic abc=", "a"]);
    assert_eq!([header("content-type"), header("content-encoding")], ["application/x-protobuf", "gzip"]);
    assert_eq!(body[..2], [0x1f, 0x8b]);
    in_time(traces.shut_down()).await;
}

/// What was written to the log on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// It takes the connection and says nothing: each export ends all the same, and of several one is complained of.
#[tokio::test]
async fn c14_a_silent_collector_is_given_up_and_complained_of_once() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let pairs = [("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str()), ("OTEL_EXPORTER_OTLP_TIMEOUT", "50")];
    let asked = read(&of(&pairs)).unwrap().unwrap();
    let patient = Patient::of(&asked).unwrap();
    let at = jiff::Timestamp::UNIX_EPOCH;
    let batch = || vec![data(span(1), at, at, asked.limits, InstrumentationScope::default())];
    let log = Log::default();
    let written = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || written.clone()).finish();
    let _here = tracing::subscriber::set_default(subscriber);
    for _ in 0..3 {
        assert!(in_time(patient.export(batch())).await.is_err());
    }
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.matches("traces are lost, and nothing else is").count(), 1, "{text}");
}

#[test]
fn c14_complaints_come_once_a_minute() {
    let (complaints, begun) = (Complaints::default(), Instant::now());
    let due = [0, 1, 59, 60, 61, 119, 120].map(|after| complaints.is_due(begun + Duration::from_secs(after)));
    assert_eq!(due, [true, false, false, true, false, false, true]);
}

/// A collector that does not answer fills the queue: what comes then is lost, and nobody waits.
#[tokio::test(flavor = "multi_thread")]
async fn c14_a_full_queue_loses_spans_and_keeps_nobody_waiting() {
    let (answer, answers) = watch::channel(false);
    let (address, mut received) = collector(answers).await;
    let pairs = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str()),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "600000"),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1"),
    ];
    let traces = Traces::of("metallb-iad", "pod-1", &of(&pairs)).unwrap();
    let taking = traces.clone();
    let taken = tokio::task::spawn_blocking(move || {
        for number in 0..1000 {
            taking.take(span(number), &mut Clock::start());
        }
    });
    in_time(taken).await.unwrap();
    in_time(received.recv()).await.unwrap();
    answer.send(true).unwrap();
    in_time(traces.shut_down()).await;
    let mut exported = 1;
    while received.try_recv().is_ok() {
        exported += 1;
    }
    assert!((1..100).contains(&exported), "{exported}");
}

/// Certificate and key, each in a file.
fn identity(folder: &std::path::Path, name: &str) -> (rcgen::CertifiedKey<rcgen::KeyPair>, [String; 2]) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let files = ["crt", "key"].map(|end| folder.join(format!("{name}.{end}")).display().to_string());
    std::fs::write(&files[0], made.cert.pem()).unwrap();
    std::fs::write(&files[1], made.signing_key.serialize_pem()).unwrap();
    (made, files)
}

/// The collector shows the certificate that we are told to trust, and sees ours.
#[rstest]
#[case::http("http/protobuf")]
#[case::grpc("grpc")]
#[tokio::test(flavor = "multi_thread")]
async fn c14_both_sides_of_an_https_collector_show_who_they_are(#[case] protocol: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (server, [authority, _]) = identity(folder.path(), "server");
    let (client, [certificate, key]) = identity(folder.path(), "client");
    let mut trusted = RootCertStore::empty();
    trusted.add(client.cert.der().clone()).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(trusted), Arc::clone(&ring));
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(server.signing_key.serialize_der()));
    let config = rustls::ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![server.cert.der().clone()], private)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let pairs = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", authority.as_str()),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", certificate.as_str()),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", key.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
    ];
    let traces = Traces::of("metallb-iad", "pod-1", &of(&pairs)).unwrap();
    traces.take(span(1), &mut Clock::start());
    let (stream, _) = in_time(listener.accept()).await.unwrap();
    let stream = in_time(TlsAcceptor::from(Arc::new(config)).accept(stream)).await.unwrap();
    let shown = stream.get_ref().1.peer_certificates().unwrap();
    assert_eq!(shown, [client.cert.der().clone()]);
}

#[rstest]
#[case::http("http/protobuf")]
#[case::grpc("grpc")]
#[tokio::test]
async fn c14_a_file_of_no_use_is_named(#[case] protocol: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (_, [certificate, _]) = identity(folder.path(), "client");
    let empty = folder.path().join("empty").display().to_string();
    std::fs::write(&empty, "").unwrap();
    for (name, files) in [
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", [&empty, &certificate, &certificate]),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", [&certificate, &empty, &certificate]),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", [&certificate, &certificate, &empty]),
    ] {
        let pairs = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", files[0].as_str()),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", files[1].as_str()),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", files[2].as_str()),
        ];
        let words = Traces::of("metallb-iad", "pod-1", &of(&pairs)).err().unwrap().to_string();
        assert!(words.starts_with(&format!("{name}=")), "{words}");
    }
}
