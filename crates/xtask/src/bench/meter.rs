//! What is measured: CPU and memory of a process, requests from the API server's own metrics.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use kube::Client;

/// CPU seconds a process has used, user and system together.
pub(super) fn cpu_seconds(pid: u32) -> Result<f64> {
    let text =
        std::fs::read_to_string(format!("/proc/{pid}/stat")).context("reading the process's CPU time")?;
    // The second field is the name in parentheses and may have spaces.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let field = |index: usize| rest.split_whitespace().nth(index).and_then(|text| text.parse::<f64>().ok());
    let ticks =
        field(11).zip(field(12)).map(|(user, system)| user + system).context("no CPU time in stat")?;
    Ok(ticks / 100.0)
}

/// The most memory a process had resident, in MB.
pub(super) fn peak_rss_mb(pid: u32) -> Result<f64> {
    let text =
        std::fs::read_to_string(format!("/proc/{pid}/status")).context("reading the process's memory")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in status")?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().context("VmHWM is no number")?;
    Ok(kilobytes / 1024.0)
}

/// Requests so far by `VERB resource`, those that change something only, leases apart.
pub(super) async fn writes(client: &Client) -> Result<BTreeMap<String, u64>> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let text = client.request_text(request).await.context("reading the API server's metrics")?;
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let label = |name: &str| {
            let rest = line.split_once(&format!("{name}=\""))?.1;
            rest.split_once('"').map(|(value, _)| value.to_owned())
        };
        let (Some(verb), Some(resource)) = (label("verb"), label("resource")) else { continue };
        let code = label("code").unwrap_or_default();
        if !matches!(verb.as_str(), "POST" | "PUT" | "PATCH" | "DELETE" | "APPLY") || resource == "leases" {
            continue;
        }
        let subresource = label("subresource").filter(|text| !text.is_empty());
        let subresource = subresource.map_or_else(String::new, |text| format!("/{text}"));
        let outcome = if code.starts_with('2') { String::new() } else { format!(" ({code})") };
        let value: f64 = line.rsplit(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a counter")]
        let value = value as u64;
        *counts.entry(format!("{verb} {resource}{subresource}{outcome}")).or_insert(0) += value;
    }
    Ok(counts)
}

/// What came in between.
pub(super) fn difference(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let grown = |(name, count): (&String, &u64)| {
        let more = count - before.get(name).copied().unwrap_or(0);
        (more > 0).then(|| (name.clone(), more))
    };
    after.iter().filter_map(grown).collect()
}
