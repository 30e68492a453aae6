//! The flags. Each has an environment variable of its own.

use std::path::PathBuf;

use clap::Parser;

use crate::auth::AuthMode;

/// Shows which Service holds which IP. Reads the cluster, writes nothing.
#[derive(Parser, Clone, Debug)]
#[command(name = "address-dashboard", version)]
pub struct Args {
    /// Where the pages are served.
    #[arg(long, env = "BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8080")]
    pub bind_address: String,
    /// Where /metrics is served; "0" turns it off.
    #[arg(long, env = "METRICS_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8081")]
    pub metrics_bind_address: String,
    /// Who may read them.
    #[command(flatten)]
    pub metrics_security: runtime::args::MetricsSecurity,
    /// The path under which the pages are reached, where a proxy puts them under one: "/addresses".
    #[arg(long, env = "BASE_PATH", value_name = "PATH", default_value = "", value_parser = base_path)]
    pub base_path: String,
    /// A host name under which the pages are reached; may be given more than once. IP addresses and localhost always
    /// are; "*" is any.
    #[arg(long, env = "ALLOWED_HOSTS", value_name = "HOST", value_delimiter = ',')]
    pub allowed_host: Vec<String>,
    /// How visitors are told apart.
    #[arg(long, env = "AUTH_MODE", value_enum, default_value_t)]
    pub auth_mode: AuthMode,
    /// Where a trace can be looked at, with `{trace_id}` in the place of its id.
    #[arg(long, env = "TRACE_URL_TEMPLATE", value_name = "URL", value_parser = trace_url)]
    pub trace_url_template: Option<String>,
    /// The namespace of the driver's placeholder Services; without it, the namespace this process runs in.
    #[arg(long, env = "PLACEHOLDER_NAMESPACE", value_name = "NAMESPACE")]
    pub placeholder_namespace: Option<String>,
    /// The namespace of MetalLB and its pools.
    #[arg(long, env = "METALLB_NAMESPACE", value_name = "NAMESPACE", default_value = "metallb-system")]
    pub metallb_namespace: String,
    /// The kubeconfig file; without it, what kubectl would use, or the pod's service account.
    #[arg(long, env = "KUBECONFIG_FILE", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// What is logged.
    #[command(flatten)]
    pub logs: runtime::args::Logs,
}

/// A path without an end: `/addresses`, or nothing.
fn base_path(text: &str) -> Result<String, String> {
    let path = text.trim().trim_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '~');
    if !path.chars().all(plain) || path.split('/').any(|part| part == "." || part == "..") {
        return Err("write a path of letters, digits, \"-\", \"_\" and \"/\", such as /addresses".to_owned());
    }
    Ok(if path.is_empty() { String::new() } else { format!("/{path}") })
}

fn trace_url(text: &str) -> Result<String, String> {
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    if is_web && text.contains("{trace_id}") {
        return Ok(text.to_owned());
    }
    Err("write a URL that begins with https:// or http:// and holds {trace_id}".to_owned())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", Some(""))]
    #[case("/", Some(""))]
    #[case("ips", Some("/ips"))]
    #[case("/a/b/", Some("/a/b"))]
    #[case("/../x", None)]
    #[case("/\"><script>", None)]
    fn base_paths(#[case] given: &str, #[case] expected: Option<&str>) {
        let args = Args::try_parse_from(["x", &format!("--base-path={given}")]);
        assert_eq!(args.ok().map(|args| args.base_path).as_deref(), expected);
    }

    #[rstest]
    #[case("https://traces.example/{trace_id}", true)]
    #[case(
        r#"https://grafana.example/explore?left={"datasource":"tempo","queries":[{"query":"{trace_id}"}]}"#,
        true
    )]
    #[case("https://traces.example/", false)]
    #[case("javascript:alert('{trace_id}')", false)]
    fn trace_urls(#[case] given: &str, #[case] accepted: bool) {
        assert_eq!(Args::try_parse_from(["x", "--trace-url-template", given]).is_ok(), accepted);
    }

    #[test]
    fn trace_urls_of_the_document_are_accepted() {
        let page = include_str!("../../docs/tracing.md");
        let given: Vec<_> =
            page.lines().filter(|line| line.starts_with("https://") && line.contains("{trace_id}")).collect();
        assert_eq!(given.len(), 2, "{given:?}");
        for given in given {
            assert!(Args::try_parse_from(["x", "--trace-url-template", given]).is_ok(), "{given}");
        }
    }
}
