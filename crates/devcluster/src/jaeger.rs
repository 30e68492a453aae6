//! Jaeger, which takes traces by OTLP and answers questions about them.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::components::Component;
use crate::process::Process;
use crate::prometheus::encoded;
use crate::{ControllerSpec, Error, Result, binaries, ports, probe};

/// The name of its part.
const NAME: &str = "jaeger";

/// A Jaeger that runs; it keeps traces in memory.
#[derive(Clone, Debug)]
pub struct Jaeger {
    /// Its process.
    pub process: Process,
    /// Where it takes OTLP by http: `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub otlp_http: String,
    /// Where it takes OTLP by grpc.
    pub otlp_grpc: String,
    /// Where it answers, without a slash at the end.
    pub query: String,
}

impl Cluster {
    /// Runs Jaeger beside the control plane, built at its first use, and waits until it answers.
    ///
    /// # Errors
    /// When it cannot be built, or ends before it is ready; the message has its last log lines.
    pub async fn run_jaeger(&self) -> Result<Jaeger> {
        let binary = binaries::ensure(Component::Jaeger).await?;
        let ((http, grpc), (query, query_grpc)) = (ports::pair()?, ports::pair()?);
        let path = self.run_dir().join("jaeger.yaml");
        let text = config([http, grpc, query, query_grpc]).to_string();
        std::fs::write(&path, text).map_err(Error::io(format!("writing {}", path.display())))?;
        let address = |port: u16| format!("http://127.0.0.1:{port}");
        let spec = ControllerSpec {
            name: NAME.to_owned(),
            binary,
            args: vec![format!("--config={}", path.display())],
            ready_url: Some(format!("{}/api/services", address(query))),
            ..ControllerSpec::default()
        };
        let process = self.spawn_controller(spec).await?;
        Ok(Jaeger { process, otlp_http: address(http), otlp_grpc: address(grpc), query: address(query) })
    }
}

impl Jaeger {
    /// Where the spans of a trace are, as JSON.
    pub fn url(&self, trace: &str) -> String {
        format!("{}/api/traces/{trace}?prettyPrint=true", self.query)
    }

    /// The page of a trace. A Jaeger that was built from Go modules says there that it was built without its pages.
    pub fn page(&self, trace: &str) -> String {
        format!("{}/trace/{trace}", self.query)
    }

    /// The ids of the traces in which a service has a span with this tag, of the last hour.
    ///
    /// # Errors
    /// When its address cannot be asked.
    pub async fn traces(&self, service: &str, (tag, value): (&str, &str)) -> Result<BTreeSet<String>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (start, end) = ((now - 3600) * 1_000_000, (now + 60) * 1_000_000);
        let tags = encoded(&json!({ tag: value }).to_string());
        let query = format!("service={service}&tags={tags}&start={start}&end={end}&limit=1000");
        let text = probe::get(&format!("{}/api/traces?{query}", self.query)).await?.unwrap_or_default();
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let found = answer["data"].as_array().into_iter().flatten();
        Ok(found.filter_map(|trace| trace["traceID"].as_str().map(str::to_owned)).collect())
    }

    /// The spans of a trace, each with `processID` replaced by its `process`; none while nothing of it has come.
    ///
    /// # Errors
    /// When its address cannot be asked.
    pub async fn spans(&self, trace: &str) -> Result<Vec<Value>> {
        let address = format!("{}/api/traces/{trace}", self.query);
        let Some(text) = probe::get(&address).await? else { return Ok(Vec::new()) };
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let found = &answer["data"][0];
        let spans = found["spans"].as_array().cloned().unwrap_or_default();
        let whole = spans.into_iter().map(|mut span| {
            let process = span["processID"].as_str().map(|id| found["processes"][id].clone());
            span["process"] = process.unwrap_or_default();
            span
        });
        Ok(whole.collect())
    }
}

/// JSON is YAML.
fn config([http, grpc, query, query_grpc]: [u16; 4]) -> Value {
    let at = |port: u16| json!({ "endpoint": format!("127.0.0.1:{port}") });
    json!({
        "service": {
            "extensions": ["jaeger_storage", "jaeger_query"],
            "pipelines": { "traces": { "receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"] } },
            "telemetry": { "metrics": { "level": "none" }, "logs": { "level": "warn" } },
        },
        "extensions": {
            "jaeger_query": { "storage": { "traces": "memory" }, "http": at(query), "grpc": at(query_grpc) },
            "jaeger_storage": { "backends": { "memory": { "memory": { "max_traces": 100_000 } } } },
        },
        "receivers": { "otlp": { "protocols": { "http": at(http), "grpc": at(grpc) } } },
        "exporters": { "jaeger_storage_exporter": { "trace_storage": "memory" } },
    })
}
