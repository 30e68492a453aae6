//! The charts: they lint clean, render as recorded, refuse wrong values by name, and carry the CRDs unharmed.
//!
//! They need helm, which is built at its first use, so `cargo test` leaves them out; `cargo verify --only charts` runs
//! them. A wanted change of what is rendered: `INSTA_UPDATE=always cargo verify --only charts`, and look at the diff.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;

use devcluster::{Component, binaries};
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use rstest::rstest;
use serde::Deserialize as _;

static HELM: LazyLock<PathBuf> = LazyLock::new(|| {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(binaries::ensure(Component::Helm)).unwrap()
});

const CORE: &str = "address-controller";
const DRIVER: &str = "metallb-iad";
const DASHBOARD: &str = "address-dashboard";

fn helm(args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let home = |name: &str| folder.path().join(name);
    Command::new(&*HELM)
        .args(args)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../chart"))
        .env("HELM_CACHE_HOME", home("cache"))
        .env("HELM_CONFIG_HOME", home("config"))
        .env("HELM_DATA_HOME", home("data"))
        // Nothing here may ask a cluster that happens to be configured.
        .env("KUBECONFIG", home("none"))
        .output()
        .unwrap()
}

/// What `helm template` makes of a chart, or what it says against the values.
fn render(chart: &str, values: &str) -> Result<String, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), values).unwrap();
    let values = file.path().to_str().unwrap();
    let output = helm(&["template", chart, chart, "--namespace", "release-ns", "--values", values]);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// The rendered documents without the CRDs, which `gen --check` and the last test look after.
fn without_crds(rendered: &str) -> String {
    let documents = rendered.split("---\n").filter(|document| !document.contains("templates/crds/"));
    documents.collect::<Vec<_>>().join("---\n")
}

#[rstest]
#[ignore = "needs helm: cargo verify --only charts"]
fn lints_clean(#[values(CORE, DRIVER, DASHBOARD)] chart: &str) {
    let output = helm(&["lint", "--strict", chart]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("[WARNING]") && !said.contains("[ERROR]"), "{said}");
}

#[rstest]
#[case("core-defaults", CORE, "")]
#[case("core-without-election", CORE, "controller: {leaderElect: false, metricsBindAddress: '0'}")]
#[case(
    "core-everything",
    CORE,
    "
image:
  repository: registry.example/core
  digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
imagePullPolicy: Always
imagePullSecrets: [{name: pull}]
controller:
  replicas: 3
  metricsBindAddress: '[::]:9090'
  priorityClassName: system-cluster-critical
  resources: {limits: {cpu: 1, memory: 1Gi}}
"
)]
#[case("driver-defaults", DRIVER, "")]
#[case(
    "driver-everything",
    DRIVER,
    "
image: {tag: v9}
controller: {replicas: 2}
metallbNamespace: lb
placeholderNamespace: holds
loadBalancerClass: example.org/metallb
holdOnDelete: false
handoff: gap
"
)]
#[case("dashboard-defaults", DASHBOARD, "")]
#[case(
    "dashboard-everything",
    DASHBOARD,
    "
image: {tag: v9}
auth: {mode: kubernetes}
allowedHosts: [addresses.example, ips.example]
basePath: /addresses
traceURLTemplate: 'https://traces.example/trace/{trace_id}'
metallbNamespace: lb
placeholderNamespace: holds
service: {type: NodePort, port: 8080}
priorityClassName: system-cluster-critical
"
)]
#[ignore = "needs helm: cargo verify --only charts"]
fn renders_as_recorded(#[case] name: &str, #[case] chart: &str, #[case] values: &str) {
    insta::assert_snapshot!(name, without_crds(&render(chart, values).unwrap()));
}

#[rstest]
#[case(CORE, "replicaCount: 2", "additional properties 'replicaCount' not allowed")]
#[case(CORE, "metallbNamespace: lb", "additional properties 'metallbNamespace' not allowed")]
#[case(CORE, "controller: {replica: 2}", "'/controller': additional properties 'replica' not allowed")]
#[case(CORE, "controller: {replicas: two}", "'/controller/replicas': got string, want integer")]
#[case(
    CORE,
    "controller: {replicas: 2, leaderElect: false}",
    "'/controller/leaderElect': value must be true"
)]
#[case(CORE, "controller: {metricsBindAddress: here}", "'/controller/metricsBindAddress'")]
#[case(
    CORE,
    "controller: {resources: {memory: 1Gi}}",
    "'/controller/resources': additional properties 'memory'"
)]
#[case(CORE, "image: core:v1", "'/image': got string, want object")]
#[case(CORE, "image: {tag: 1.0}", "'/image/tag': got number, want string")]
#[case(CORE, "image: {digest: abc}", "'/image/digest'")]
#[case(CORE, "imagePullPolicy: Sometimes", "'/imagePullPolicy': value must be one of")]
#[case(CORE, "imagePullSecrets: [pull]", "'/imagePullSecrets/0': got string, want object")]
#[case(DRIVER, "handoff: overlap", "'/handoff': value must be one of 'auto', 'gap'")]
#[case(DRIVER, "holdOnDelete: 'yes'", "'/holdOnDelete': got string, want boolean")]
#[case(DRIVER, "metallbNamespace: ''", "'/metallbNamespace'")]
#[case(DRIVER, "placeholderNamespace: Not_One", "'/placeholderNamespace'")]
#[case(DASHBOARD, "auth: {mode: token}", "'/auth/mode': value must be one of 'none', 'kubernetes'")]
#[case(DASHBOARD, "replicas: 2", "additional properties 'replicas' not allowed")]
#[case(DASHBOARD, "allowedHosts: ['https://a.example']", "'/allowedHosts/0'")]
#[case(DASHBOARD, "basePath: '/../x'", "'/basePath'")]
#[case(DASHBOARD, "traceURLTemplate: 'javascript:{trace_id}'", "'/traceURLTemplate'")]
#[case(DASHBOARD, "placeholderNamespace: ''", "'/placeholderNamespace'")]
#[ignore = "needs helm: cargo verify --only charts"]
fn wrong_values_are_refused(#[case] chart: &str, #[case] values: &str, #[case] said: &str) {
    let error = render(chart, values).expect_err("the values were to be refused");
    assert!(error.contains(said), "{said:?} is not in:\n{error}");
}

/// As a dependency of another chart, a chart gets `global` set by helm.
#[rstest]
#[ignore = "needs helm: cargo verify --only charts"]
fn works_as_a_subchart(#[values(CORE, DRIVER, DASHBOARD)] chart: &str) {
    render(chart, "global: {anything: goes}").unwrap();
}

/// Who shows everything to whoever comes needs no right to ask about them; nobody reads a Secret or writes an object.
#[rstest]
#[case("none", &["list", "watch"])]
#[case("kubernetes", &["create", "list", "watch"])]
#[ignore = "needs helm: cargo verify --only charts"]
fn the_dashboard_only_reads(#[case] mode: &str, #[case] verbs: &[&str]) {
    let rendered = render(DASHBOARD, &format!("auth: {{mode: {mode}}}")).unwrap();
    let mut granted = BTreeMap::<String, BTreeSet<String>>::new();
    for document in serde_yaml_ng::Deserializer::from_str(&rendered) {
        let value = serde_yaml_ng::Value::deserialize(document).unwrap();
        for rule in value["rules"].as_sequence().into_iter().flatten() {
            let rule: PolicyRule = serde_yaml_ng::from_value(rule.clone()).unwrap();
            for resource in rule.resources.unwrap_or_default() {
                granted.entry(resource).or_default().extend(rule.verbs.iter().cloned());
            }
        }
    }
    let all: BTreeSet<&str> = granted.values().flatten().map(String::as_str).collect();
    assert_eq!(all, verbs.iter().copied().collect(), "{granted:#?}");
    let created: Vec<_> =
        granted.iter().filter(|(_, verbs)| verbs.contains("create")).map(|(name, _)| name).collect();
    assert!(created.iter().all(|name| name.ends_with("reviews")), "{granted:#?}");
    assert!(!granted.contains_key("secrets") && !granted.contains_key("*"), "{granted:#?}");
}

#[test]
#[ignore = "needs helm: cargo verify --only charts"]
fn the_crds_come_out_as_the_types_say_and_are_kept() {
    let rendered = render(CORE, "").unwrap();
    let documents = serde_yaml_ng::Deserializer::from_str(&rendered);
    let values = documents.map(|document| serde_yaml_ng::Value::deserialize(document).unwrap());
    let crds: BTreeMap<String, CustomResourceDefinition> = values
        .filter(|value| value["kind"] == "CustomResourceDefinition")
        .map(|value| serde_yaml_ng::from_value(value).unwrap())
        .map(|crd: CustomResourceDefinition| (crd.name_any(), crd))
        .collect();
    let expected: BTreeMap<_, _> = api::crd::all().into_iter().map(|crd| (crd.name_any(), crd)).collect();
    assert_eq!(crds, expected);
    for (name, crd) in &crds {
        assert_eq!(crd.annotations()["helm.sh/resource-policy"], "keep", "{name}");
    }
}
