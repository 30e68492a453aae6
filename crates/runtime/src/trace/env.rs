//! The variables of OpenTelemetry: what is asked for. All are read here and nothing is left to the SDK, so that what cannot
//! be understood is named, and what is not heeded is said.

mod given;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use plan::trace::Sampler;

use given::{Given, Variables};

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
    /// Whether what is exported is made smaller, by gzip.
    pub(super) gzip: bool,
    pub(super) headers: HashMap<String, String>,
    pub(super) timeout: Duration,
    pub(super) tls: Tls,
    pub(super) sampler: Sampler,
    pub(super) queue: Queue,
    pub(super) limits: Limits,
    service: Option<String>,
    resource: Vec<(String, String)>,
}

/// Files of certificates and keys, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tls {
    /// Who vouches for the collector; those of the system if none.
    pub(super) authority: Option<File>,
    /// Who we are: certificate and key.
    pub(super) identity: Option<(File, File)>,
}

/// A file, and the variable that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) variable: String,
    pub(super) path: PathBuf,
}

/// What waits for its export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    /// For so long, if there is room.
    pub(super) delay: Duration,
    /// So many spans at most.
    pub(super) size: usize,
    /// So many of them go at once.
    pub(super) batch: usize,
}

/// How much of a span is exported. Ours have no events, and no attributes on links: their limits are kept anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) attributes: usize,
    /// Of a text, in characters; none: as long as it is.
    pub(super) length: Option<usize>,
    pub(super) links: usize,
}

/// Reads the variables; nothing if traces are off, as they are without an endpoint.
pub(super) fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Asked>, EnvError> {
    let all = Variables(variable);
    if all.get("OTEL_SDK_DISABLED").is_some_and(|given| given.value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    if let Some(given) = all.get("OTEL_TRACES_EXPORTER") {
        match given.value.as_str() {
            "otlp" => {}
            "none" => return Ok(None),
            _ => return Err(given.wrong("spans are exported by otlp, or by none")),
        }
    }
    let protocol = match all.of_exporter("PROTOCOL") {
        None => Protocol::Http,
        Some(given) => match given.value.as_str() {
            "http/protobuf" => Protocol::Http,
            "grpc" => Protocol::Grpc,
            _ => return Err(given.wrong("the protocols are http/protobuf and grpc")),
        },
    };
    let Some(endpoint) = endpoint(&all, protocol)? else { return Ok(None) };
    let gzip = match all.of_exporter("COMPRESSION") {
        None => false,
        Some(given) => match given.value.as_str() {
            "none" => false,
            "gzip" => true,
            _ => return Err(given.wrong("what is exported is compressed by gzip, or by none")),
        },
    };
    let headers = all.of_exporter("HEADERS").map(headers).transpose()?.unwrap_or_default();
    let timeout = all.of_exporter("TIMEOUT").map(Given::milliseconds).transpose()?.unwrap_or(TIMEOUT);
    // The SDK's queue does not look at it by itself.
    let of_queue = all.get("OTEL_BSP_EXPORT_TIMEOUT").map(Given::milliseconds).transpose()?;
    let resource = all.get("OTEL_RESOURCE_ATTRIBUTES").map(Given::pairs).transpose()?;
    Ok(Some(Asked {
        endpoint,
        protocol,
        gzip,
        headers,
        timeout: of_queue.map_or(timeout, |of_queue| of_queue.min(timeout)),
        tls: tls(&all)?,
        sampler: sampler(&all)?,
        queue: queue(&all)?,
        limits: limits(&all)?,
        service: all.get("OTEL_SERVICE_NAME").map(|given| given.value),
        resource: resource.unwrap_or_default(),
    }))
}

/// Which of these variables are of OpenTelemetry, and do nothing here: nobody asked for them.
pub(super) fn unheeded(
    asked_for: &BTreeSet<String>,
    variables: impl Iterator<Item = (String, String)>,
) -> BTreeSet<String> {
    // Who says that nothing of the kind is to be exported has it so.
    let is_none = |name: &str, value: &str| {
        matches!(name, "OTEL_METRICS_EXPORTER" | "OTEL_LOGS_EXPORTER") && matches!(value.trim(), "none" | "")
    };
    let odd = variables.filter(|(name, value)| {
        name.starts_with("OTEL_") && !asked_for.contains(name) && !is_none(name, value)
    });
    odd.map(|(name, _)| name).collect()
}

fn endpoint(all: &Variables<'_>, protocol: Protocol) -> Result<Option<String>, EnvError> {
    let own = all.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    let (given, path) = match (own, all.get("OTEL_EXPORTER_OTLP_ENDPOINT")) {
        (Some(given), _) => (given, ""),
        (None, Some(given)) => (given, if protocol == Protocol::Http { "/v1/traces" } else { "" }),
        (None, None) => return Ok(None),
    };
    // To grpc the specification allows an address without a scheme.
    let insecure = all.of_exporter("INSECURE").map(Given::flag).transpose()?.unwrap_or(false);
    let is_bare = protocol == Protocol::Grpc && !given.value.contains("://");
    let scheme = if insecure { "http" } else { "https" };
    let value = if is_bare { format!("{scheme}://{}", given.value) } else { given.value.clone() };
    let uri: Result<http::Uri, _> = value.parse();
    let known =
        uri.is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
    if !known {
        return Err(given.wrong("an address is wanted, as in http://collector:4318"));
    }
    Ok(Some(if path.is_empty() { value } else { format!("{}{path}", value.trim_end_matches('/')) }))
}

/// `key=value,key=value`, with values in percent encoding.
fn headers(given: Given) -> Result<HashMap<String, String>, EnvError> {
    let is_header = |(key, text): &(String, String)| {
        http::HeaderName::try_from(key.as_str()).is_ok() && http::HeaderValue::try_from(text.as_str()).is_ok()
    };
    let name = given.name.clone();
    match given.pairs() {
        Ok(pairs) if pairs.iter().all(is_header) => {
            Ok(pairs.into_iter().map(|(key, text)| (key.to_ascii_lowercase(), text)).collect())
        }
        // Not in full: it may be a secret.
        _ => Err(Given { name, value: "...".to_owned() }
            .wrong("headers are wanted, as in key1=value1,key2=value2")),
    }
}

fn tls(all: &Variables<'_>) -> Result<Tls, EnvError> {
    let file = |name: &str| {
        all.of_exporter(name).map(|Given { name, value }| File { variable: name, path: value.into() })
    };
    let identity = match (file("CLIENT_CERTIFICATE"), file("CLIENT_KEY")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(alone), None) | (None, Some(alone)) => {
            let value = alone.path.display().to_string();
            let words =
                "a client's certificate and its key go together: set CLIENT_CERTIFICATE and CLIENT_KEY";
            return Err(Given { name: alone.variable, value }.wrong(words));
        }
    };
    Ok(Tls { authority: file("CERTIFICATE"), identity })
}

fn queue(all: &Variables<'_>) -> Result<Queue, EnvError> {
    let count = |name: &str, default: usize| all.get(name).map_or(Ok(default), Given::count);
    let delay = all.get("OTEL_BSP_SCHEDULE_DELAY").map(Given::milliseconds).transpose()?;
    Ok(Queue {
        delay: delay.unwrap_or(Duration::from_secs(5)),
        size: count("OTEL_BSP_MAX_QUEUE_SIZE", 2048)?,
        batch: count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)?,
    })
}

fn limits(all: &Variables<'_>) -> Result<Limits, EnvError> {
    let limit = |name: &str| all.get(name).map(Given::limit).transpose();
    for of_nothing in
        ["OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT"]
    {
        limit(of_nothing)?;
    }
    let (attributes, length) =
        (limit("OTEL_ATTRIBUTE_COUNT_LIMIT")?, limit("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT")?);
    Ok(Limits {
        attributes: limit("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT")?.or(attributes).unwrap_or(128),
        length: limit("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT")?.or(length),
        links: limit("OTEL_SPAN_LINK_COUNT_LIMIT")?.unwrap_or(128),
    })
}

fn sampler(all: &Variables<'_>) -> Result<Sampler, EnvError> {
    let argument = all.get("OTEL_TRACES_SAMPLER_ARG");
    let share = || match argument {
        None => Ok(1.0),
        Some(given) => match given.value.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(given.wrong("a share between 0 and 1 is wanted")),
        },
    };
    let Some(given) = all.get("OTEL_TRACES_SAMPLER") else { return Ok(Sampler::ParentBased(1.0)) };
    Ok(match given.value.as_str() {
        "always_on" => Sampler::Always,
        "always_off" => Sampler::Never,
        "traceidratio" => Sampler::Ratio(share()?),
        "parentbased_always_on" => Sampler::ParentBased(1.0),
        "parentbased_always_off" => Sampler::ParentBased(0.0),
        "parentbased_traceidratio" => Sampler::ParentBased(share()?),
        _ => {
            let words =
                "the samplers are always_on, always_off, traceidratio, and each with parentbased_ before it";
            return Err(given.wrong(words));
        }
    })
}

impl Asked {
    /// Who exports. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` go before what we say by ourselves.
    pub(super) fn resource(&self, service: &str, instance: &str) -> Resource {
        let ours = [
            ("service.name", service),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", instance),
        ];
        let mut all: HashMap<&str, &str> = ours.into();
        all.extend(self.resource.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        all.extend(self.service.as_deref().map(|name| ("service.name", name)));
        let all = all.into_iter().map(|(key, value)| KeyValue::new(key.to_owned(), value.to_owned()));
        Resource::builder_empty().with_attributes(all).build()
    }
}
