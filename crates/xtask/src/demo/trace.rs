//! `cargo demo --trace`: the trace of each handoff, as Jaeger has it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use devcluster::Jaeger;
use serde_json::Value;

const WITHIN: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_millis(50);

/// What the controllers are told.
pub(super) fn variables(jaeger: &Jaeger) -> BTreeMap<String, String> {
    let variables =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", jaeger.otlp_http.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "100")];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// Waits until the root of a trace has come, and prints its spans.
pub(super) async fn show(jaeger: &Jaeger, trace: &str) -> Result<()> {
    let started = Instant::now();
    let mut spans = loop {
        let spans = jaeger.spans(trace).await?;
        if spans.iter().any(is_root) {
            break spans;
        }
        if started.elapsed() > WITHIN {
            bail!("Jaeger has no root of trace {trace} after {} s", WITHIN.as_secs());
        }
        tokio::time::sleep(EVERY).await;
    };
    spans.sort_by_key(|span| (!is_root(span), span["startTime"].as_i64(), span["duration"].as_i64()));
    println!("     trace: {}\n            {} (as JSON)", jaeger.page(trace), jaeger.url(trace));
    let begun = spans.first().and_then(|root| root["startTime"].as_i64()).unwrap_or_default();
    let milliseconds = |micros: i64| format!("{}.{} ms", micros / 1000, micros.rem_euclid(1000) / 100);
    for span in &spans {
        let after = span["startTime"].as_i64().unwrap_or_default() - begun;
        let took = span["duration"].as_i64().unwrap_or_default();
        let name = span["operationName"].as_str().unwrap_or_default();
        let name = if is_root(span) { name.to_owned() } else { format!("  {name}") };
        println!("       {name:<24} at {:>9}, took {:>9}", milliseconds(after), milliseconds(took));
    }
    Ok(())
}

fn is_root(span: &Value) -> bool {
    span["references"].as_array().is_none_or(Vec::is_empty)
}
