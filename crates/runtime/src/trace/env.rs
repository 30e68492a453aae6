//! The variables of OpenTelemetry: what is asked for. Those of the queue (`OTEL_BSP_*`) are read by the SDK, but for the
//! one that it does not look at.

use std::collections::HashMap;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use percent_encoding::percent_decode_str;
use plan::trace::Sampler;

/// How long one export may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A variable cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("{variable}={value:?}: {words}")]
pub struct EnvError {
    pub(super) variable: String,
    pub(super) value: String,
    pub(super) words: String,
}

/// How spans travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Grpc,
}

impl Protocol {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http/protobuf",
            Self::Grpc => "grpc",
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    /// The full address for http, the server's for grpc.
    pub(super) endpoint: String,
    pub(super) protocol: Protocol,
    pub(super) headers: HashMap<String, String>,
    pub(super) timeout: Duration,
    pub(super) sampler: Sampler,
}

/// Reads the variables; nothing if traces are off, as they are without an endpoint.
pub(super) fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Asked>, EnvError> {
    let get = |name: &str| {
        let value = variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        value.map(|value| (name.to_owned(), value))
    };
    let specific = |name: &str| {
        get(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"))
            .or_else(|| get(&format!("OTEL_EXPORTER_OTLP_{name}")))
    };
    if get("OTEL_SDK_DISABLED").is_some_and(|(_, value)| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    if let Some((name, value)) = get("OTEL_TRACES_EXPORTER") {
        match value.as_str() {
            "otlp" => {}
            "none" => return Ok(None),
            _ => return Err(wrong(name, value, "spans are exported by otlp, or by none")),
        }
    }
    let protocol = match specific("PROTOCOL") {
        None => Protocol::Http,
        Some((name, value)) => match value.as_str() {
            "http/protobuf" => Protocol::Http,
            "grpc" => Protocol::Grpc,
            _ => return Err(wrong(name, value, "the protocols are http/protobuf and grpc")),
        },
    };
    let Some(endpoint) = endpoint(&get, protocol)? else { return Ok(None) };
    let headers = specific("HEADERS").map(headers).transpose()?.unwrap_or_default();
    let timeout = milliseconds(specific("TIMEOUT"))?.unwrap_or(TIMEOUT);
    // The SDK's queue does not look at it by itself.
    let of_queue = milliseconds(get("OTEL_BSP_EXPORT_TIMEOUT"))?;
    let timeout = of_queue.map_or(timeout, |of_queue| of_queue.min(timeout));
    let sampler = sampler(&get)?;
    Ok(Some(Asked { endpoint, protocol, headers, timeout, sampler }))
}

fn milliseconds(variable: Option<(String, String)>) -> Result<Option<Duration>, EnvError> {
    let Some((name, value)) = variable else { return Ok(None) };
    match value.parse() {
        Ok(milliseconds) => Ok(Some(Duration::from_millis(milliseconds))),
        Err(_) => Err(wrong(name, value, "a whole number of milliseconds is wanted")),
    }
}

type Get<'a> = dyn Fn(&str) -> Option<(String, String)> + 'a;

fn endpoint(get: &Get<'_>, protocol: Protocol) -> Result<Option<String>, EnvError> {
    let own = get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    let (name, value, path) = match (own, get("OTEL_EXPORTER_OTLP_ENDPOINT")) {
        (Some((name, value)), _) => (name, value, ""),
        (None, Some((name, value))) => {
            (name, value, if protocol == Protocol::Http { "/v1/traces" } else { "" })
        }
        (None, None) => return Ok(None),
    };
    let uri: Result<http::Uri, _> = value.parse();
    let known =
        uri.is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
    if !known {
        return Err(wrong(name, value, "an address is wanted, as in http://collector:4318"));
    }
    let endpoint = if path.is_empty() { value } else { format!("{}{path}", value.trim_end_matches('/')) };
    Ok(Some(endpoint))
}

/// `key=value,key=value`, with values in percent encoding.
fn headers((name, value): (String, String)) -> Result<HashMap<String, String>, EnvError> {
    let mut headers = HashMap::new();
    for pair in value.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let split = pair.split_once('=').map(|(key, text)| {
            (
                key.trim().to_ascii_lowercase(),
                percent_decode_str(text.trim()).decode_utf8_lossy().into_owned(),
            )
        });
        let right = |(key, text): &(String, String)| {
            http::HeaderName::try_from(key.as_str()).is_ok()
                && http::HeaderValue::try_from(text.as_str()).is_ok()
        };
        let Some((key, text)) = split.filter(right) else {
            // Not in full: it may be a secret.
            return Err(wrong(name, "...".to_owned(), "headers are wanted, as in key1=value1,key2=value2"));
        };
        headers.insert(key, text);
    }
    Ok(headers)
}

fn sampler(get: &Get<'_>) -> Result<Sampler, EnvError> {
    let share = || match get("OTEL_TRACES_SAMPLER_ARG") {
        None => Ok(1.0),
        Some((name, value)) => match value.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(wrong(name, value, "a share between 0 and 1 is wanted")),
        },
    };
    let Some((name, value)) = get("OTEL_TRACES_SAMPLER") else { return Ok(Sampler::ParentBased(1.0)) };
    Ok(match value.as_str() {
        "always_on" => Sampler::Always,
        "always_off" => Sampler::Never,
        "traceidratio" => Sampler::Ratio(share()?),
        "parentbased_always_on" => Sampler::ParentBased(1.0),
        "parentbased_always_off" => Sampler::ParentBased(0.0),
        "parentbased_traceidratio" => Sampler::ParentBased(share()?),
        _ => {
            let words =
                "the samplers are always_on, always_off, traceidratio, and each with parentbased_ before it";
            return Err(wrong(name, value, words));
        }
    })
}

/// Who exports. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` go before what we say by ourselves.
pub(super) fn resource(
    service: &'static str,
    instance: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Resource {
    let text = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let given: HashMap<String, String> = text
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| {
            (key.trim().to_owned(), percent_decode_str(value.trim()).decode_utf8_lossy().into_owned())
        })
        .filter(|(key, _)| !key.is_empty())
        .collect();
    let mut all: HashMap<String, String> = [
        ("service.name", service),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", instance),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    all.extend(given);
    if let Some(name) = variable("OTEL_SERVICE_NAME").filter(|name| !name.is_empty()) {
        all.insert("service.name".to_owned(), name);
    }
    let all = all.into_iter().map(|(key, value)| KeyValue::new(key, value));
    Resource::builder_empty().with_attributes(all).build()
}

fn wrong(variable: String, value: String, words: &str) -> EnvError {
    EnvError { variable, value, words: words.to_owned() }
}
