//! The way to the collector: by http or grpc, in the background.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper_rustls::HttpsConnectorBuilder;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{
    Protocol as Otlp, SpanExporter as Exporter, WithExportConfig, WithHttpConfig, WithTonicConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanData, SpanExporter, SpanProcessor};
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Handle;

use super::env::{Asked, EnvError, Protocol};

/// How often a collector that takes nothing is complained of.
const COMPLAINTS: Duration = Duration::from_secs(60);

/// The queue and the thread behind it.
pub(super) fn processor(asked: &Asked, resource: Resource) -> Result<BatchSpanProcessor, EnvError> {
    let exporter = match asked.protocol {
        Protocol::Http => http(asked),
        Protocol::Grpc => grpc(asked),
    };
    let exporter = exporter.map_err(|words| EnvError {
        variable: "OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(),
        value: asked.endpoint.clone(),
        words,
    })?;
    let patient = Patient {
        inner: exporter,
        runtime: Handle::current(),
        endpoint: asked.endpoint.clone(),
        timeout: asked.timeout,
        complained: Mutex::default(),
    };
    let mut processor = BatchSpanProcessor::builder(patient).build();
    processor.set_resource(&resource);
    Ok(processor)
}

fn http(asked: &Asked) -> Result<Exporter, String> {
    let builder = HttpsConnectorBuilder::new();
    let builder = if asked.endpoint.starts_with("https:") {
        builder.with_native_roots().map_err(|error| format!("no certificates of the system: {error}"))?
    } else {
        // No certificate is looked at: an image may have none.
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        builder.with_tls_config(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
    };
    let https = builder.https_or_http().enable_http1().build();
    Exporter::builder()
        .with_http()
        .with_http_client(HyperClient::new(https, asked.timeout, None))
        .with_protocol(Otlp::HttpBinary)
        .with_endpoint(&asked.endpoint)
        .with_timeout(asked.timeout)
        .with_headers(asked.headers.clone())
        .build()
        .map_err(|error| error.to_string())
}

fn grpc(asked: &Asked) -> Result<Exporter, String> {
    let mut headers = http::HeaderMap::new();
    for (name, value) in &asked.headers {
        let name = http::HeaderName::try_from(name.as_str()).map_err(|error| error.to_string())?;
        headers.insert(name, http::HeaderValue::try_from(value.as_str()).map_err(|error| error.to_string())?);
    }
    Exporter::builder()
        .with_tonic()
        .with_endpoint(&asked.endpoint)
        .with_timeout(asked.timeout)
        .with_metadata(opentelemetry_otlp::tonic_types::metadata::MetadataMap::from_headers(headers))
        .build()
        .map_err(|error| error.to_string())
}

/// An exporter that works on the process's own runtime, whichever thread asks it, and ends in time.
#[derive(Debug)]
struct Patient {
    inner: Exporter,
    runtime: Handle,
    endpoint: String,
    timeout: Duration,
    complained: Mutex<Option<Instant>>,
}

impl SpanExporter for Patient {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let mut export = pin!(self.inner.export(batch));
        let limited = {
            let _inside = self.runtime.enter();
            tokio::time::timeout(
                self.timeout,
                std::future::poll_fn(|context| {
                    let _inside = self.runtime.enter();
                    export.as_mut().poll(context)
                }),
            )
        };
        let result = match limited.await {
            Ok(result) => result,
            Err(_) => Err(OTelSdkError::Timeout(self.timeout)),
        };
        if let Err(error) = &result {
            self.complain(spans, error);
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl Patient {
    fn complain(&self, spans: usize, error: &OTelSdkError) {
        let Ok(mut complained) = self.complained.lock() else { return };
        if complained.is_none_or(|at| at.elapsed() >= COMPLAINTS) {
            *complained = Some(Instant::now());
            tracing::warn!(
                endpoint = self.endpoint,
                spans,
                "traces are lost, and nothing else is: the collector did not take them: {error}"
            );
        }
    }
}
