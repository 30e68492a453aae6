use std::collections::BTreeMap;

use rstest::rstest;

use super::env::{Asked, Protocol, read};
use super::*;

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");

fn asked(pairs: &[(&str, &str)]) -> Result<Option<Asked>, String> {
    let variables: BTreeMap<_, _> = pairs.iter().copied().collect();
    read(&|name| variables.get(name).map(|value| (*value).to_owned())).map_err(|error| error.to_string())
}

fn with(pairs: &[(&str, &str)]) -> Asked {
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

#[rstest]
#[case("OTEL_TRACES_EXPORTER", "zipkin")]
#[case("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]
#[case("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4318")]
#[case("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")]
#[case("OTEL_EXPORTER_OTLP_HEADERS", "authorization")]
#[case("OTEL_TRACES_SAMPLER", "sometimes")]
fn c14_what_cannot_be_understood_is_refused_by_name(#[case] name: &str, #[case] value: &str) {
    let words = asked(&[ENDPOINT, (name, value)]).unwrap_err();
    assert!(words.starts_with(name), "{words}");
}

#[rstest]
#[case::ours(&[], "metallb-iad", None)]
#[case::named(&[("OTEL_SERVICE_NAME", "lb"), ("OTEL_RESOURCE_ATTRIBUTES", "service.name=x")], "lb", None)]
#[case::attributes(
    &[("OTEL_RESOURCE_ATTRIBUTES", "service.name=x,deployment.environment=a%20b")], "x", Some("a b")
)]
fn c14_the_resource(#[case] pairs: &[(&str, &str)], #[case] name: &str, #[case] environment: Option<&str>) {
    let variables: BTreeMap<_, _> = pairs.iter().copied().collect();
    let resource =
        env::resource("metallb-iad", "pod-1", &|name| variables.get(name).map(|value| (*value).to_owned()));
    let get = |key: &'static str| resource.get(&key.into()).map(|value| value.to_string());
    assert_eq!(get("service.name").as_deref(), Some(name));
    assert_eq!(get("service.instance.id").as_deref(), Some("pod-1"));
    assert_eq!(get("deployment.environment").as_deref(), environment);
}
