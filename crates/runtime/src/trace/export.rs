//! The way to the collector: by http or grpc, in the background.

mod tls;

use std::pin::pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hyper_rustls::HttpsConnectorBuilder;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{
    Compression, Protocol as Otlp, SpanExporter as Exporter, WithExportConfig, WithHttpConfig,
    WithTonicConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanExporter, SpanProcessor,
};
use tokio::runtime::Handle;

use super::env::{Asked, EnvError, Protocol};

/// How often a collector that takes nothing is complained of.
const COMPLAINTS: Duration = Duration::from_secs(60);

/// The queue and the thread behind it.
pub(super) fn processor(asked: &Asked, resource: &Resource) -> Result<BatchSpanProcessor, EnvError> {
    let queue = BatchConfigBuilder::default()
        .with_max_queue_size(asked.queue.size)
        .with_max_export_batch_size(asked.queue.batch)
        .with_scheduled_delay(asked.queue.delay);
    let mut processor =
        BatchSpanProcessor::builder(Patient::of(asked)?).with_batch_config(queue.build()).build();
    processor.set_resource(resource);
    Ok(processor)
}

fn http(asked: &Asked) -> Result<Exporter, EnvError> {
    let tls = tls::config(&asked.tls, asked.endpoint.starts_with("https:"))?;
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
    let builder = Exporter::builder()
        .with_http()
        .with_http_client(HyperClient::new(https, asked.timeout, None))
        .with_protocol(Otlp::HttpBinary)
        .with_endpoint(&asked.endpoint)
        .with_timeout(asked.timeout)
        .with_headers(asked.headers.clone());
    let builder = if asked.gzip { builder.with_compression(Compression::Gzip) } else { builder };
    builder.build().map_err(|error| unusable(asked, &error))
}

fn grpc(asked: &Asked) -> Result<Exporter, EnvError> {
    let headers: http::HeaderMap =
        (&asked.headers).try_into().map_err(|error: http::Error| unusable(asked, &error))?;
    let builder = Exporter::builder()
        .with_tonic()
        .with_endpoint(&asked.endpoint)
        .with_timeout(asked.timeout)
        .with_metadata(opentelemetry_otlp::tonic_types::metadata::MetadataMap::from_headers(headers));
    let builder = if asked.gzip { builder.with_compression(Compression::Gzip) } else { builder };
    let builder = if asked.endpoint.starts_with("https:") {
        // Without one the SDK trusts nobody.
        builder.with_tls_config(tls::of_grpc(&asked.tls)?)
    } else {
        builder
    };
    builder.build().map_err(|error| unusable(asked, &error))
}

fn unusable(asked: &Asked, error: &dyn std::error::Error) -> EnvError {
    EnvError {
        variable: "OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(),
        value: asked.endpoint.clone(),
        words: error.to_string(),
    }
}

/// An exporter that works on the process's own runtime, whichever thread asks it, and ends in time.
#[derive(Debug)]
struct Patient {
    inner: Exporter,
    runtime: Handle,
    endpoint: String,
    timeout: Duration,
    complaints: Complaints,
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
    fn of(asked: &Asked) -> Result<Self, EnvError> {
        let inner = match asked.protocol {
            Protocol::Http => http(asked),
            Protocol::Grpc => grpc(asked),
        }?;
        Ok(Self {
            inner,
            runtime: Handle::current(),
            endpoint: asked.endpoint.clone(),
            timeout: asked.timeout,
            complaints: Complaints::default(),
        })
    }

    fn complain(&self, spans: usize, error: &OTelSdkError) {
        if self.complaints.is_due(Instant::now()) {
            tracing::warn!(
                endpoint = self.endpoint,
                spans,
                "traces are lost, and nothing else is: the collector did not take them: {error}"
            );
        }
    }
}

/// When a collector was complained of last.
#[derive(Debug, Default)]
struct Complaints(Mutex<Option<Instant>>);

impl Complaints {
    /// Whether there has been none for a while; this is one then.
    fn is_due(&self, now: Instant) -> bool {
        let Ok(mut last) = self.0.lock() else { return false };
        let is_due = last.is_none_or(|last| now.duration_since(last) >= COMPLAINTS);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests;
