use std::collections::BTreeMap;

use rstest::rstest;

use super::env::{Asked, File, Protocol, Queue, Tls, read, unheeded};
use super::*;

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");

fn asked(pairs: &[(&str, &str)]) -> Result<Option<Asked>, String> {
    let variables: BTreeMap<_, _> = pairs.iter().copied().collect();
    read(&|name| variables.get(name).map(|value| (*value).to_owned())).map_err(|error| error.to_string())
}

pub(super) fn with(pairs: &[(&str, &str)]) -> Asked {
    asked(&[&[ENDPOINT], pairs].concat()).unwrap().unwrap()
}

#[rstest]
#[case::nothing(&[])]
#[case::an_empty_endpoint(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")])]
#[case::disabled(&[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")])]
#[case::no_exporter(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")])]
#[case::only_an_exporter(&[("OTEL_TRACES_EXPORTER", "otlp")])]
fn c14_off_unless_an_endpoint_is_named(#[case] pairs: &[(&str, &str)]) {
    assert_eq!(asked(pairs), Ok(None));
}

#[test]
fn c14_defaults_and_the_variables_of_traces_go_first() {
    let plain = with(&[("OTEL_SDK_DISABLED", "no"), ("OTEL_TRACES_EXPORTER", "otlp")]);
    assert_eq!(plain.endpoint, "http://collector:4318/v1/traces");
    assert_eq!((plain.protocol, plain.timeout), (Protocol::Http, Duration::from_secs(10)));
    assert_eq!(plain.sampler, Sampler::ParentBased(1.0));
    let own = with(&[
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://tempo/otlp/v1/traces"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "250"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20abc%3D, x-scope = a"),
    ]);
    assert_eq!(own.endpoint, "https://tempo/otlp/v1/traces");
    assert_eq!((own.protocol, own.timeout), (Protocol::Http, Duration::from_millis(250)));
    let headers = [("authorization", "Basic abc="), ("x-scope", "a")];
    assert_eq!(own.headers, headers.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    let queue = with(&[("OTEL_BSP_EXPORT_TIMEOUT", "500"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000")]);
    assert_eq!(queue.timeout, Duration::from_millis(500));
    let grpc = with(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
    assert_eq!((grpc.protocol, grpc.endpoint.as_str()), (Protocol::Grpc, "http://collector:4318/"));
}

#[rstest]
#[case("always_on", None, Sampler::Always)]
#[case("always_off", None, Sampler::Never)]
#[case("traceidratio", Some("0.25"), Sampler::Ratio(0.25))]
#[case("traceidratio", None, Sampler::Ratio(1.0))]
#[case("parentbased_always_on", None, Sampler::ParentBased(1.0))]
#[case("parentbased_always_off", None, Sampler::ParentBased(0.0))]
#[case("parentbased_traceidratio", Some("0.5"), Sampler::ParentBased(0.5))]
fn c14_samplers_by_name(#[case] name: &str, #[case] share: Option<&str>, #[case] expected: Sampler) {
    let mut pairs = vec![("OTEL_TRACES_SAMPLER", name)];
    pairs.extend(share.map(|share| ("OTEL_TRACES_SAMPLER_ARG", share)));
    assert_eq!(with(&pairs).sampler, expected);
}

#[test]
fn c14_the_queue_and_the_limits() {
    let plain = with(&[]);
    assert_eq!(plain.queue, Queue { delay: Duration::from_secs(5), size: 2048, batch: 512 });
    assert_eq!(plain.limits, Limits { attributes: 128, length: None, links: 128 });
    let own = with(&[
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "64"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8"),
        ("OTEL_ATTRIBUTE_COUNT_LIMIT", "9"),
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "70"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "3"),
        ("OTEL_SPAN_LINK_COUNT_LIMIT", "0"),
    ]);
    assert_eq!(own.queue, Queue { delay: Duration::from_millis(100), size: 64, batch: 8 });
    assert_eq!(own.limits, Limits { attributes: 3, length: Some(70), links: 0 });
    assert_eq!(with(&[("OTEL_ATTRIBUTE_COUNT_LIMIT", "9")]).limits.attributes, 9);
}

/// No more of a span is exported than is asked for; what was left out is counted.
#[test]
fn c14_limits_are_kept() {
    let user = Context::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
    let operation = plan::trace::Operation::begin(Some(Sampler::Always), "x", &["uid"], user).unwrap();
    let about = vec![("a", "\u{e4}\u{f6}\u{fc}x".into()), ("b", 12_345.into()), ("c", "c".into())];
    let plan::Action::Trace(span) = operation.end(Timestamp::UNIX_EPOCH, None, about) else { panic!() };
    let at = Timestamp::UNIX_EPOCH;
    let scope = InstrumentationScope::default();
    let few = Limits { attributes: 2, length: Some(3), links: 0 };
    let data = super::data(span.clone(), at, at, few, scope.clone());
    let (first, second) = (KeyValue::new("a", "\u{e4}\u{f6}\u{fc}"), KeyValue::new("b", 12_345));
    assert_eq!((data.attributes, data.dropped_attributes_count), (vec![first, second], 1));
    assert_eq!((data.links.links.len(), data.links.dropped_count), (0, 1));
    let data = super::data(span, at, at, with(&[]).limits, scope);
    assert_eq!((data.attributes.len(), data.dropped_attributes_count), (3, 0));
    assert_eq!((data.links.links.len(), data.links.dropped_count), (1, 0));
}

#[test]
fn c14_compression_and_certificates() {
    let plain = with(&[("OTEL_EXPORTER_OTLP_COMPRESSION", "none")]);
    assert_eq!((plain.gzip, plain.tls), (false, Tls::default()));
    let own = with(&[
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.crt"),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/tls.crt"),
        ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "/tls.key"),
    ]);
    assert!(own.gzip);
    let file =
        |name: &str, path: &str| File { variable: format!("OTEL_EXPORTER_OTLP_{name}"), path: path.into() };
    assert_eq!(own.tls.authority, Some(file("CERTIFICATE", "/ca.crt")));
    let identity = (file("CLIENT_CERTIFICATE", "/tls.crt"), file("TRACES_CLIENT_KEY", "/tls.key"));
    assert_eq!(own.tls.identity, Some(identity));
}

/// Of grpc the address may have no scheme: it is https then, unless it is said to be insecure.
#[rstest]
#[case("collector:4317", None, "https://collector:4317")]
#[case("collector:4317", Some("TRUE"), "http://collector:4317")]
#[case("https://collector:4317", Some("true"), "https://collector:4317")]
#[case("http://collector:4317", Some("false"), "http://collector:4317")]
fn c14_grpc_without_a_scheme(#[case] endpoint: &str, #[case] insecure: Option<&str>, #[case] expected: &str) {
    let mut pairs =
        vec![("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint)];
    pairs.extend(insecure.map(|insecure| ("OTEL_EXPORTER_OTLP_INSECURE", insecure)));
    assert_eq!(with(&pairs).endpoint, expected);
}

/// What is set and does nothing is told of, and nothing else.
#[test]
fn c14_what_is_not_heeded_is_known() {
    let set = [
        ("OTEL_PROPAGATORS", "b3"),
        ("OTEL_BSP_MAX_CONCURRENT_EXPORTS", "2"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://collector:4318"),
        ("OTEL_LOGS_EXPORTER", "otlp"),
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"),
        ("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "true"),
        ("OTEL_SPAN_LINK_COUNT_LIMIT", "1"),
        ("HOME", "/"),
    ];
    let told =
        unheeded(&asked_for(), set.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
    let expected = [
        "OTEL_BSP_MAX_CONCURRENT_EXPORTS",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        "OTEL_LOGS_EXPORTER",
        "OTEL_PROPAGATORS",
    ];
    assert_eq!(told.into_iter().collect::<Vec<_>>(), expected);
}

/// The variables that are asked for where traces are on.
fn asked_for() -> BTreeSet<String> {
    let asked_for = RefCell::new(BTreeSet::new());
    let read = read(&|name| {
        asked_for.borrow_mut().insert(name.to_owned());
        (name == ENDPOINT.0).then(|| ENDPOINT.1.to_owned())
    });
    assert!(read.unwrap().is_some());
    asked_for.into_inner()
}

/// Every variable that is read stands in docs/tracing.md.
#[test]
fn c14_every_variable_is_in_the_document() {
    let page = include_str!("../../../../docs/tracing.md");
    let missing: Vec<_> =
        asked_for().into_iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    let of_traces = |name: &String| name.starts_with("OTEL_EXPORTER_OTLP_TRACES_");
    assert!(missing.iter().all(of_traces), "{missing:?}");
}

#[rstest]
#[case("OTEL_TRACES_EXPORTER", "zipkin")]
#[case("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]
#[case("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4318")]
#[case("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")]
#[case("OTEL_EXPORTER_OTLP_TIMEOUT", "0")]
#[case("OTEL_EXPORTER_OTLP_HEADERS", "authorization")]
#[case("OTEL_EXPORTER_OTLP_HEADERS", "authorization=%00")]
#[case("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd")]
#[case("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/tls.key")]
#[case("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "/tls.crt")]
#[case("OTEL_EXPORTER_OTLP_INSECURE", "maybe")]
#[case("OTEL_TRACES_SAMPLER", "sometimes")]
#[case("OTEL_BSP_SCHEDULE_DELAY", "5s")]
#[case("OTEL_BSP_SCHEDULE_DELAY", "0")]
#[case("OTEL_BSP_MAX_QUEUE_SIZE", "0")]
#[case("OTEL_BSP_MAX_QUEUE_SIZE", "many")]
#[case("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "-1")]
#[case("OTEL_BSP_EXPORT_TIMEOUT", "1m")]
#[case("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment")]
#[case("OTEL_RESOURCE_ATTRIBUTES", "=x")]
#[case("OTEL_RESOURCE_ATTRIBUTES", "a=%ff")]
#[case("OTEL_ATTRIBUTE_COUNT_LIMIT", "few")]
#[case("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "-1")]
#[case("OTEL_SPAN_EVENT_COUNT_LIMIT", "none")]
#[case("OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "1.5")]
#[case("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", "x")]
fn c14_what_cannot_be_understood_is_refused_by_name(#[case] name: &str, #[case] value: &str) {
    let words = asked(&[ENDPOINT, (name, value)]).unwrap_err();
    assert!(words.starts_with(&format!("{name}=")), "{words}");
}

/// It may be a secret.
#[test]
fn c14_headers_are_never_said() {
    let words = asked(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret,x")]).unwrap_err();
    assert!(!words.contains("secret"), "{words}");
}

#[rstest]
#[case::ours(&[], "metallb-iad", None)]
#[case::named(&[("OTEL_SERVICE_NAME", "lb"), ("OTEL_RESOURCE_ATTRIBUTES", "service.name=x")], "lb", None)]
#[case::attributes(
    &[("OTEL_RESOURCE_ATTRIBUTES", "service.name=x,deployment.environment=a%20b")], "x", Some("a b")
)]
fn c14_the_resource(#[case] pairs: &[(&str, &str)], #[case] name: &str, #[case] environment: Option<&str>) {
    let resource = with(pairs).resource("metallb-iad", "pod-1");
    let get = |key: &'static str| resource.get(&key.into()).map(|value| value.to_string());
    assert_eq!(get("service.name").as_deref(), Some(name));
    assert_eq!(get("service.instance.id").as_deref(), Some("pod-1"));
    assert_eq!(get("deployment.environment").as_deref(), environment);
}
