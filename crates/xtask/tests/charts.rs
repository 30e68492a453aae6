//! The charts: they lint clean, render as recorded, refuse wrong values by name, and carry the CRDs unharmed.
//!
//! They need helm, which is built at its first use, so `cargo test` leaves them out; `cargo verify --only charts` runs
//! them. A wanted change of what is rendered: `INSTA_UPDATE=always cargo verify --only charts`, and look at the diff.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

#[path = "charts/notes.rs"]
mod notes;
#[path = "charts/pods.rs"]
mod pods;
#[path = "charts/subcharts.rs"]
mod subcharts;

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
use serde_yaml_ng::Value as Yaml;

static HELM: LazyLock<PathBuf> = LazyLock::new(|| {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(binaries::ensure(Component::Helm)).unwrap()
});

const CORE: &str = "address-controller";
const DRIVER: &str = "metallb-iad";
const DASHBOARD: &str = "address-dashboard";
/// What an API server has of which `auto` makes admission policies.
const POLICIES: &str = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy";

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
    let args = ["template", chart, chart, "--namespace", "release-ns", "--values", values];
    let output = helm(&[&args[..], &["--api-versions", POLICIES]].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// The rendered documents without the CRDs, which `gen --check` and the last test look after, and without the text of
/// Grafana's dashboard, which `the_sidecar_of_grafana_gets_the_dashboard_as_it_was_made` does.
fn to_be_recorded(rendered: &str) -> String {
    let documents = rendered.split("---\n").filter(|document| !document.contains("templates/crds/"));
    let shortened = |document| match str::split_once(document, "  addresses.json: |-\n") {
        Some((before, _)) => format!("{before}  addresses.json: ...\n"),
        None => document.to_owned(),
    };
    documents.map(shortened).collect::<Vec<_>>().join("---\n")
}

#[rstest]
#[ignore = "needs helm: cargo verify --only charts"]
fn lints_clean(
    #[values(CORE, DRIVER, DASHBOARD)] chart: &str,
    #[values("default", "minimal", "everything", "secure")] name: &str,
) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), values_of(chart, name)).unwrap();
    let output = helm(&["lint", "--strict", chart, "--values", file.path().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("[WARNING]") && !said.contains("[ERROR]"), "{said}");
}

/// The values of a file beside a chart, `ci/NAME-values.yaml`; none for the defaults.
fn values_of(chart: &str, name: &str) -> String {
    let charts = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../chart"));
    let file = charts.join(chart).join("ci").join(format!("{name}-values.yaml"));
    if name == "default" { String::new() } else { std::fs::read_to_string(file).unwrap() }
}

#[rstest]
#[ignore = "needs helm: cargo verify --only charts"]
fn renders_as_recorded(
    #[values(CORE, DRIVER, DASHBOARD)] chart: &str,
    #[values("default", "minimal", "everything", "hostile")] name: &str,
) {
    let rendered = render(chart, &values_of(chart, name)).unwrap();
    insta::assert_snapshot!(format!("{chart}-{name}"), to_be_recorded(&rendered));
}

/// The objects of a rendered chart.
fn objects(rendered: &str) -> Vec<Yaml> {
    let documents = serde_yaml_ng::Deserializer::from_str(rendered);
    let values = documents.map(|document| Yaml::deserialize(document).unwrap());
    values.filter(|value| !value.is_null()).collect()
}

/// Whatever is written into the values is text where it lands: it makes no object, no field and no flag of its own.
#[rstest]
#[ignore = "needs helm: cargo verify --only charts"]
fn hostile_values_stay_text(#[values(CORE, DRIVER, DASHBOARD)] chart: &str) {
    let rendered = render(chart, &values_of(chart, "hostile")).unwrap();
    let objects = objects(&rendered);
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    assert!(pod.get("hostPID").is_none() && deployment["spec"].get("hostPID").is_none(), "{pod:?}");
    assert_eq!(pod["priorityClassName"], "x\n      hostPID: true");
    let containers = pod["containers"].as_sequence().unwrap();
    assert_eq!(containers.len(), 1);
    let args = containers[0]["args"].as_sequence().unwrap();
    for arg in ["--a={{ .Values }}", "--b=x\n- --c", "--d=\"'"] {
        assert!(args.iter().any(|known| known == arg), "{arg:?} is not in {args:?}");
    }
    assert!(!args.iter().any(|arg| arg == "--c"), "{args:?}");
    let env = containers[0]["env"].as_sequence().unwrap();
    assert!(!env.iter().any(|one| one["name"] == "B"), "{env:?}");
}

/// `auto` brings the admission policies where the API server serves them; `true` and `false` need not ask.
#[rstest]
#[case("auto", true, 3)]
#[case("auto", false, 0)]
#[case("true", false, 3)]
#[case("false", true, 0)]
#[ignore = "needs helm: cargo verify --only charts"]
fn admission_is_there_where_it_is_served(
    #[case] enabled: &str,
    #[case] served: bool,
    #[case] policies: usize,
) {
    let enabled = format!("admission.enabled={enabled}");
    let mut args = vec!["template", DRIVER, DRIVER, "--set", &enabled];
    if served {
        args.extend(["--api-versions", POLICIES]);
    }
    let rendered = String::from_utf8(helm(&args).stdout).unwrap();
    let found = objects(&rendered);
    let found = found.iter().filter(|object| object["kind"] == "ValidatingAdmissionPolicy").count();
    assert_eq!(found, policies);
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
#[case(
    DRIVER,
    "admission: {enabled: 'yes'}",
    "'/admission/enabled': value must be one of 'auto', true, false"
)]
#[case(DRIVER, "admission: {allowedServiceAccounts: [velero]}", "'/admission/allowedServiceAccounts/0'")]
#[case(DRIVER, "pools: [{name: public}]", "'/pools/0': missing property 'addresses'")]
#[case(DRIVER, "pools: [{name: Public, addresses: [203.0.113.0/24]}]", "'/pools/0/name'")]
#[case(DRIVER, "pools: [{name: a, addresses: [x], autoAssign: true}]", "additional properties 'autoAssign'")]
#[case(
    DRIVER,
    "pools: [{name: a, addresses: [x], advertise: arp}]",
    "'/pools/0/advertise': value must be one of"
)]
#[case(CORE, "controller: {extraArgs: [workers=4]}", "'/controller/extraArgs/0'")]
#[case(CORE, "controller: {extraEnv: [{key: A}]}", "'/controller/extraEnv/0'")]
#[case(CORE, "controller: {affinity: {nodes: {}}}", "'/controller/affinity': additional properties 'nodes'")]
#[case(CORE, "tracing: {endpoint: 'collector:4318'}", "'/tracing/endpoint'")]
#[case(CORE, "tracing: {protocol: http/json}", "'/tracing/protocol': value must be one of")]
#[case(CORE, "networkPolicy: {apiServerPorts: [0]}", "'/networkPolicy/apiServerPorts/0'")]
#[case(CORE, "podMonitor: {interval: often}", "'/podMonitor/interval'")]
#[case(
    CORE,
    "{podMonitor: {enabled: true}, controller: {metricsBindAddress: '0'}}",
    "there are no metrics with controller.metricsBindAddress"
)]
#[case(
    DRIVER,
    "{serviceMonitor: {enabled: true}, controller: {metricsBindAddress: '0'}}",
    "there are no metrics with controller.metricsBindAddress"
)]
#[case(CORE, "metrics: {enabled: true}", "'/metrics': additional properties 'enabled' not allowed")]
#[case(CORE, "metrics: {rules: true}", "'/metrics/rules': got boolean, want object")]
#[case(CORE, "metrics: {rules: {enable: true}}", "'/metrics/rules': additional properties 'enable'")]
#[case(CORE, "metrics: {rules: {enabled: 'yes'}}", "'/metrics/rules/enabled': got string, want boolean")]
#[case(CORE, "metrics: {rules: {labels: {release: 1}}}", "'/metrics/rules/labels/release'")]
#[case(CORE, "metrics: {rules: {runbookURL: 'ftp://x'}}", "'/metrics/rules/runbookURL'")]
#[case(CORE, "metrics: {rules: {claimWaitingSeconds: 0}}", "'/metrics/rules/claimWaitingSeconds'")]
#[case(CORE, "metrics: {rules: {poolFilledRatio: 0.5}}", "additional properties 'poolFilledRatio'")]
#[case(DRIVER, "metrics: {rules: {poolFilledRatio: 90}}", "'/metrics/rules/poolFilledRatio'")]
#[case(DRIVER, "metrics: {rules: {poolFilledRatio: 0}}", "'/metrics/rules/poolFilledRatio'")]
#[case(DRIVER, "metrics: {rules: {handoffSeconds: 1m}}", "'/metrics/rules/handoffSeconds': got string")]
#[case(CORE, "grafana: true", "'/grafana': got boolean, want object")]
#[case(CORE, "grafana: {enabled: 1}", "'/grafana/enabled': got number, want boolean")]
#[case(CORE, "grafana: {label: {}}", "'/grafana': additional properties 'label' not allowed")]
#[case(CORE, "grafana: {labels: {grafana_dashboard: 1}}", "'/grafana/labels/grafana_dashboard'")]
#[case(CORE, "grafana: {annotations: [a]}", "'/grafana/annotations': got array, want object")]
#[case(DRIVER, "grafana: {enabled: true}", "additional properties 'grafana' not allowed")]
#[case(DASHBOARD, "networkPolicy: {scrapers: []}", "'/networkPolicy': additional properties 'scrapers'")]
#[case(CORE, "metrics: {secure: 'yes'}", "'/metrics/secure': got string, want boolean")]
#[case(DRIVER, "metrics: {tokenSecret: token}", "'/metrics/tokenSecret': got string, want object")]
#[case(DRIVER, "metrics: {tokenSecret: {key: ''}}", "'/metrics/tokenSecret/key'")]
#[case(DASHBOARD, "metrics: {certPath: /x}", "'/metrics': additional properties 'certPath' not allowed")]
#[case(
    DRIVER,
    "{podMonitor: {enabled: true}, metrics: {secure: true}}",
    "with metrics.secure a PodMonitor needs metrics.tokenSecret.name"
)]
#[case(DASHBOARD, "metrics: {bindAddress: here}", "'/metrics/bindAddress'")]
#[case(
    DASHBOARD,
    "{podMonitor: {enabled: true}, metrics: {bindAddress: '0'}}",
    "there are no metrics with metrics.bindAddress"
)]
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

/// Whether a selector picks what has these labels.
fn picks(selector: &Yaml, labels: &Yaml) -> bool {
    selector.as_mapping().unwrap().iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// A monitor leads Prometheus to the port at which the process is told to serve its metrics, and a policy lets it in there.
#[rstest]
#[ignore = "needs helm: cargo verify --only charts"]
fn monitors_lead_to_the_metrics(#[values(CORE, DRIVER, DASHBOARD)] chart: &str) {
    let objects = objects(&render(chart, &values_of(chart, "everything")).unwrap());
    let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let only = |kind| of(kind).next().unwrap();
    let pod = &only("Deployment")["spec"]["template"];
    let (labels, container) = (&pod["metadata"]["labels"], &pod["spec"]["containers"][0]);
    let mut args = container["args"].as_sequence().unwrap().iter().filter_map(Yaml::as_str);
    let told = args.find_map(|arg| arg.strip_prefix("--metrics-bind-address=")).unwrap();
    let port: u16 = told.rsplit(':').next().unwrap().parse().unwrap();
    let is_it = |name: &Yaml| {
        let mut ports = container["ports"].as_sequence().unwrap().iter();
        ports.any(|one| one["name"] == *name && one["containerPort"] == port)
    };
    let monitor = &only("PodMonitor")["spec"];
    assert!(picks(&monitor["selector"]["matchLabels"], labels), "{monitor:?}");
    assert!(is_it(&monitor["podMetricsEndpoints"][0]["port"]), "{monitor:?}");
    let monitor = &only("ServiceMonitor")["spec"];
    let scraped: Vec<_> = of("Service")
        .filter(|service| picks(&monitor["selector"]["matchLabels"], &service["metadata"]["labels"]))
        .filter(|service| picks(&service["spec"]["selector"], labels))
        .flat_map(|service| service["spec"]["ports"].as_sequence().unwrap())
        .filter(|one| one["name"] == monitor["endpoints"][0]["port"])
        .collect();
    assert_eq!(scraped.len(), 1, "{scraped:?}");
    assert!(is_it(&scraped[0]["targetPort"]), "{scraped:?}");
    let policy = &only("NetworkPolicy")["spec"];
    assert!(picks(&policy["podSelector"]["matchLabels"], labels), "{policy:?}");
    let mut doors = policy["ingress"].as_sequence().unwrap().iter();
    assert!(doors.any(|door| is_it(&door["ports"][0]["port"])), "{policy:?}");
}

/// With `metrics.secure` the API server is asked who may, a role lets people and Prometheus, and monitors bring a token; without
/// it nobody has a right that this alone needs.
#[rstest]
#[ignore = "needs helm: cargo verify --only charts"]
fn secure_metrics_are_asked_for_with_a_token(#[values(CORE, DRIVER, DASHBOARD)] chart: &str) {
    let reviews = |text: &str| text.contains("tokenreviews") && text.contains("subjectaccessreviews");
    let plain = render(chart, "serviceMonitor: {enabled: true}").unwrap();
    assert!(!reviews(&plain) && !plain.contains("metrics-reader") && !plain.contains("https"), "{plain}");
    let rendered = render(chart, &values_of(chart, "secure")).unwrap();
    assert!(reviews(&rendered), "{rendered}");
    let objects = objects(&rendered);
    let reader = format!("{chart}-metrics-reader");
    let role = objects.iter().find(|object| object["metadata"]["name"] == reader.as_str()).unwrap();
    assert_eq!(role["rules"][0]["nonResourceURLs"][0], "/metrics");
    let monitor = objects.iter().find(|object| object["kind"] == "ServiceMonitor").unwrap();
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!(endpoint["scheme"], "https");
    assert_eq!(endpoint["bearerTokenFile"], "/var/run/secrets/kubernetes.io/serviceaccount/token");
    assert_eq!(endpoint["tlsConfig"]["insecureSkipVerify"], true);
    assert!(rendered.contains("- --metrics-secure\n") && !rendered.contains("metrics-cert"), "{rendered}");
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
        let value = Yaml::deserialize(document).unwrap();
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
    let values = documents.map(|document| Yaml::deserialize(document).unwrap());
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
