//! The alerts of the charts: promtool understands them, they fire when and only when they are to, and each has a runbook.
//!
//! They need helm and promtool, so `cargo test` leaves them out; `cargo verify --only charts` runs them.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use devcluster::{Component, binaries};
use rstest::rstest;
use serde_yaml_ng::Value;

const CHARTS: [&str; 2] = ["address-controller", "metallb-iad"];
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// What a template of a chart comes to, with these values set.
fn rendered(chart: &str, values: &str, template: &str) -> Value {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let helm = runtime.block_on(binaries::ensure(Component::Helm)).unwrap();
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(helm)
        .args(["template", chart, chart, "--set", values, "--show-only", template])
        .current_dir(Path::new(HERE).join("../../chart"))
        .env("HELM_CACHE_HOME", home.path())
        .env("HELM_CONFIG_HOME", home.path())
        .env("HELM_DATA_HOME", home.path())
        .env("KUBECONFIG", home.path().join("none"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_yaml_ng::from_slice(&output.stdout).unwrap()
}

/// The `spec` of a chart's `PrometheusRule`, as promtool reads it.
fn rules(chart: &str) -> Value {
    let rule = rendered(chart, "metrics.rules.enabled=true", "templates/prometheusrule.yaml");
    assert_eq!(rule["kind"], "PrometheusRule");
    rule["spec"].clone()
}

fn alerts(rules: &Value) -> Vec<&Value> {
    let groups = rules["groups"].as_sequence().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_sequence().unwrap()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn promtool(args: &[&str], file: &Path) {
    let promtool = devcluster::debian::program("promtool").unwrap();
    let output = Command::new(promtool).args(args).arg(file).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", said(&output.stdout), said(&output.stderr));
}

/// The chart's rules in a file, and a folder that has it.
fn written(chart: &str, rules: &Value) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{chart}-rules.yaml"));
    std::fs::write(&file, serde_yaml_ng::to_string(rules).unwrap()).unwrap();
    (folder, file)
}

#[rstest]
#[ignore = "needs helm and promtool: cargo verify --only charts"]
fn promtool_accepts_the_rules(#[values(CHARTS[0], CHARTS[1])] chart: &str) {
    let (_folder, file) = written(chart, &rules(chart));
    promtool(&["check", "rules"], &file);
}

#[rstest]
#[ignore = "needs helm and promtool: cargo verify --only charts"]
fn alerts_fire_when_they_are_to(#[values(CHARTS[0], CHARTS[1])] chart: &str) {
    let rules = rules(chart);
    let cases = std::fs::read_to_string(Path::new(HERE).join(format!("tests/alerts/{chart}.yaml"))).unwrap();
    let url = text(&alerts(&rules)[0]["annotations"]["runbook_url"]).split('#').next().unwrap();
    let (folder, file) = written(chart, &rules);
    let tests = folder.path().join("tests.yaml");
    let name = file.file_name().unwrap().to_str().unwrap();
    std::fs::write(&tests, format!("rule_files: [{name}]\n{}", cases.replace("RUNBOOKS", url))).unwrap();
    promtool(&["test", "rules"], &tests);
    for alert in alerts(&rules) {
        let fires = format!("alertname: {}\n", text(&alert["alert"]));
        assert!(cases.contains(&fires), "no case sees {} fire", text(&alert["alert"]));
        let rests = format!("alertname: {}, eval_time: ", text(&alert["alert"]));
        assert!(cases.contains(&rests), "no case sees {} not fire", text(&alert["alert"]));
    }
}

/// Who asked for gaps is not told of each, and everything else all the same.
#[test]
#[ignore = "needs helm and promtool: cargo verify --only charts"]
fn in_gap_mode_no_alert_tells_of_gaps() {
    let names = |values: &str| -> BTreeSet<String> {
        let rule = rendered(CHARTS[1], values, "templates/prometheusrule.yaml");
        alerts(&rule["spec"]).iter().map(|alert| text(&alert["alert"]).to_owned()).collect()
    };
    let (auto, gap) = (names("metrics.rules.enabled=true"), names("metrics.rules.enabled=true,handoff=gap"));
    let missing: Vec<_> = auto.difference(&gap).collect();
    assert_eq!(missing, ["IPAMHandoffUnheld"]);
}

/// The anchors of a page's headings, as GitHub makes them of one word.
fn anchors(page: &str) -> BTreeSet<String> {
    page.lines()
        .filter_map(|line| line.strip_prefix("### "))
        .map(|heading| heading.trim().to_lowercase())
        .collect()
}

#[rstest]
#[ignore = "needs helm and promtool: cargo verify --only charts"]
fn every_alert_has_its_runbook(#[values(CHARTS[0], CHARTS[1])] chart: &str) {
    let page = std::fs::read_to_string(Path::new(HERE).join("../../docs/operations.md")).unwrap();
    let anchors = anchors(&page);
    for alert in alerts(&rules(chart)) {
        let name = text(&alert["alert"]);
        let (url, anchor) = text(&alert["annotations"]["runbook_url"]).split_once('#').unwrap();
        assert!(url.ends_with("/docs/operations.md"), "{name}: {url}");
        assert_eq!(anchor, name.to_lowercase());
        assert!(anchors.contains(anchor), "docs/operations.md has no section on {name}");
        assert!(matches!(text(&alert["labels"]["severity"]), "critical" | "warning"), "{name}");
        for annotation in ["summary", "description"] {
            assert!(text(&alert["annotations"][annotation]).ends_with('.'), "{name}");
        }
    }
}

#[test]
#[ignore = "needs helm and promtool: cargo verify --only charts"]
fn the_sidecar_of_grafana_gets_the_dashboard_as_it_was_made() {
    let map = rendered(CHARTS[0], "grafana.enabled=true", "templates/grafana-dashboard.yaml");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let file = Path::new(HERE).join("../../chart/address-controller/dashboards/addresses.json");
    assert_eq!(
        text(&map["data"]["addresses.json"]).trim_end(),
        std::fs::read_to_string(file).unwrap().trim_end()
    );
}
