//! Contract §14: what the controllers tell in numbers, as a real Prometheus reads it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use devcluster::{Controller, Prometheus, Target, workspace};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::rig::{self, Rig, Stage};

static PROMETHEUS: OnceCell<Prometheus> = OnceCell::const_new();
const BOTH: [Controller; 2] = [Controller::Core, Controller::Driver];
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const HANDOFF_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// One that scrapes both controllers of the shared control plane, with the alerts of both charts.
async fn prometheus(rig: &Rig) -> &'static Prometheus {
    let start = async || {
        let target = |controller: Controller| Target {
            job: controller.name().to_owned(),
            address: rig.process(controller).metrics_address().unwrap().to_owned(),
            ..Target::default()
        };
        let rules = [rules(rig, BOTH[0]).await, rules(rig, BOTH[1]).await];
        rig.cluster.run_prometheus(&BOTH.map(target), &rules).await.unwrap()
    };
    PROMETHEUS.get_or_init(start).await
}

/// A file with the alerts of a chart.
async fn rules(rig: &Rig, controller: Controller) -> PathBuf {
    let chart = controller.chart();
    let mut args = vec!["template", controller.name(), chart.to_str().unwrap()];
    args.extend(["--set", "metrics.rules.enabled=true", "--show-only", "templates/prometheusrule.yaml"]);
    let rule = rig.cluster.helm(&args).await.unwrap();
    let rule: serde_yaml_ng::Value = serde_yaml_ng::from_slice(&rule.stdout).unwrap();
    let file = rig.cluster.run_dir().join(format!("{}-rules.yaml", controller.name()));
    std::fs::write(&file, serde_yaml_ng::to_string(&rule["spec"]).unwrap()).unwrap();
    file
}

/// Waits until an expression has one value, for which this holds.
async fn becomes(prometheus: &Prometheus, expression: &str, what: &str, holds: impl Fn(f64) -> bool) {
    rig::eventually(&format!("{expression} to be {what}"), async || {
        let samples = prometheus.query(expression).await.unwrap();
        (samples.len() == 1 && holds(samples[0].value)).then_some(())
    })
    .await;
}

async fn is(prometheus: &Prometheus, expression: &str, expected: u32) {
    let same = |value: f64| (value - f64::from(expected)).abs() < 1e-9;
    becomes(prometheus, expression, &expected.to_string(), same).await;
}

/// Waits until a histogram has this trace as an exemplar.
async fn exemplar(prometheus: &Prometheus, buckets: &str, trace: &str) {
    rig::eventually(&format!("the exemplar {trace} of {buckets}"), async || {
        let exemplars = prometheus.exemplars(buckets).await.unwrap();
        exemplars.iter().any(|exemplar| exemplar.labels["trace_id"] == trace).then_some(())
    })
    .await;
}

/// §14: a claim's way can be followed in the numbers, and what its reservation took points at the trace it belongs to.
#[test]
fn c14_a_reservation_is_counted_and_measured() {
    rig::run(async |rig| {
        let prometheus = prometheus(rig).await;
        let stage = rig.stage("counted", 2).await;
        let mut claim = rig::claim_object("web-ip", json!({ "className": "counted" }));
        let traceparent = format!("00-{TRACE}-b7ad6b7169203331-01");
        claim["metadata"]["annotations"] = json!({ "tracing.k8s.io/traceparent": traceparent });
        rig::create(&stage.claims(), claim).await;
        stage.bound("web-ip").await;
        is(prometheus, r#"ipam_addresses{class="counted",family="IPv4",state="Bound"}"#, 1).await;
        is(prometheus, r#"ipam_claims{class="counted",phase="Bound"}"#, 1).await;
        is(prometheus, r#"ipam_claims{class="counted",phase="Pending"}"#, 0).await;
        is(prometheus, r#"ipam_reservation_seconds_count{class="counted"}"#, 1).await;
        exemplar(prometheus, r#"ipam_reservation_seconds_bucket{class="counted"}"#, TRACE).await;
        stage.assert_at_rest().await;
    });
}

/// §14: the flagship flow in numbers; then every query of the dashboard for Grafana has an answer, and every alert is
/// understood.
#[test]
fn c14_the_flagship_flow_in_numbers() {
    rig::run(async |rig| {
        let prometheus = prometheus(rig).await;
        let stage = rig.stage("metered", 3).await;
        let pool = async |attached: u32, reserved: u32, free: u32| {
            for (state, count) in [("attached", attached), ("reserved", reserved), ("free", free)] {
                let series =
                    format!(r#"ipam_pool_addresses{{pool="metered",family="IPv4",state="{state}"}}"#);
                is(prometheus, &series, count).await;
            }
        };
        pool(0, 0, 3).await;
        is(prometheus, r#"ipam_class_accepted{class="metered",reason="Accepted"}"#, 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        pool(0, 1, 2).await;

        // Nothing is traced here but by a user, whose trace stands on the address.
        let traceparent = format!("00-{HANDOFF_TRACE}-b7ad6b7169203331-01");
        let body = json!({ "metadata": { "annotations": { "tracing.k8s.io/traceparent": traceparent } } });
        rig::patch(&stage.addresses(), &rig::address_name(&ip), body).await;
        let mut before = Vec::new();
        for direction in ["Associate", "Disassociate"] {
            let count = format!(r#"ipam_handoff_seconds_count{{direction="{direction}",mode="Overlap"}}"#);
            let done = prometheus.query(&count).await.unwrap().first().map_or(0.0, |sample| sample.value);
            before.push((count, done));
        }
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        pool(1, 0, 2).await;
        stage.delete_service("web").await;
        stage.held(&ip).await;
        pool(0, 1, 2).await;
        for (count, done) in before {
            becomes(prometheus, &count, "more", |value| value > done).await;
            let unheld = count.replace("ipam_handoff_seconds", "ipam_handoff_unheld_seconds");
            becomes(prometheus, &unheld, "there", |value| value > 0.0).await;
            exemplar(prometheus, &count.replace("_count", "_bucket"), HANDOFF_TRACE).await;
            exemplar(prometheus, &unheld.replace("_count", "_bucket"), HANDOFF_TRACE).await;
        }
        is(prometheus, r#"ipam_pool_addresses_unheld{pool="metered",family="IPv4"}"#, 0).await;
        a_gap_is_told(prometheus, &stage, &ip).await;
        for lease in BOTH.map(Controller::name) {
            let leads = format!(r#"leader_election_master_status{{name="{lease}",job="{lease}"}}"#);
            is(prometheus, &leads, 1).await;
            let requests =
                format!(r#"sum(rest_client_requests_total{{job="{lease}",code="200",method="GET"}})"#);
            becomes(prometheus, &requests, "some", |value| value > 0.0).await;
        }
        // Either process tells what only it knows: nothing is counted twice.
        for (metric, job) in [("ipam_addresses", BOTH[0]), ("ipam_pool_addresses", BOTH[1])] {
            let jobs = format!("count by (job) ({metric})");
            let jobs: BTreeSet<_> = prometheus
                .query(&jobs)
                .await
                .unwrap()
                .iter()
                .map(|sample| sample.labels["job"].clone())
                .collect();
            assert_eq!(jobs, [job.name().to_owned()].into(), "{metric}");
        }
        every_panel_has_an_answer(prometheus).await;
        every_metric_is_there(prometheus).await;
        every_alert_is_understood(prometheus).await;
        stage.assert_at_rest().await;
    });
}

/// A Service that is turned into a `ClusterIP` leaves its address with nobody until the hold has it: that is measured, and
/// the alert of the chart fires.
async fn a_gap_is_told(prometheus: &Prometheus, stage: &Stage, ip: &str) {
    stage.web("web-2", "web-ip").await;
    stage.served("web-2", &[ip]).await;
    rig::patch(&stage.services(), "web-2", json!({ "spec": { "type": "ClusterIP" } })).await;
    let address = stage.held(ip).await;
    let handoff = address.status.unwrap().last_handoff.unwrap();
    assert!(handoff.unheld_milliseconds > Some(0), "{handoff:?}");
    let gaps = r#"{direction="Disassociate",mode="Gap"}"#;
    for series in ["ipam_handoff_unheld_seconds_count", "ipam_handoff_unheld_seconds_sum"] {
        becomes(prometheus, &format!("{series}{gaps}"), "more than 0", |value| value > 0.0).await;
    }
    let fires = r#"ALERTS{alertname="IPAMHandoffUnheld",direction="Disassociate",alertstate="firing"}"#;
    is(prometheus, fires, 1).await;
    rig::delete(&stage.services(), "web-2").await;
}

/// What has no series while all is well, and why. That it would be there is seen in the source text.
const ABSENT_AT_REST: &[(&str, &str)] = &[
    ("ipam_claim_oldest_pending_timestamp_seconds", "no claim waits"),
    ("ipam_handoff_oldest_start_timestamp_seconds", "no handoff is under way"),
    ("leader_election_takeover_timestamp_seconds", "nobody took a lease that was not given"),
    ("controller_runtime_reconcile_errors_total", "no pass has failed"),
    ("workqueue_retries_total", "nothing had to be tried again"),
];

/// Every metric that an alert asks for, and every one that docs/operations.md tells of, is told by a process.
async fn every_metric_is_there(prometheus: &Prometheus) {
    let mut names = metrics_of_the_table();
    assert!(names.len() > 20, "{names:?}");
    names.extend(metrics_of_the_alerts(prometheus).await);
    let source = source_text();
    for name in names {
        let family = ["_bucket", "_count", "_sum", "_total"].iter().find_map(|end| name.strip_suffix(end));
        let family = family.unwrap_or(&name);
        let mut known = false;
        for asked in [name.as_str(), family] {
            let answer: Value = prometheus.ask(&format!("metadata?metric={asked}")).await.unwrap();
            known |= answer.get(asked).is_some();
        }
        let absent = ABSENT_AT_REST.iter().any(|(absent, _)| *absent == name);
        assert!(known || absent, "no process tells {name}");
        assert!(known || source.contains(&format!("\"{family}\"")), "no process ever tells {name}");
    }
}

/// The names in the first column of the table in docs/operations.md.
fn metrics_of_the_table() -> BTreeSet<String> {
    let page = std::fs::read_to_string(workspace().join("docs/operations.md")).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with("| metric |")).skip(2);
    let cells = rows.take_while(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(1));
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.map(|name| name.split('{').next().unwrap().to_owned()).collect()
}

async fn metrics_of_the_alerts(prometheus: &Prometheus) -> BTreeSet<String> {
    let answer: Value = prometheus.ask("rules").await.unwrap();
    let groups = answer["groups"].as_array().unwrap();
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
    let queries: Vec<_> = rules.map(|rule| rule["query"].as_str().unwrap().to_owned()).collect();
    let words =
        queries.iter().flat_map(|query| query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    let ours = |word: &&str| word.starts_with("ipam_") || word.starts_with("leader_election_");
    let names: BTreeSet<_> = words.filter(ours).map(str::to_owned).collect();
    // Every rule is about something.
    for query in &queries {
        assert!(names.iter().any(|name| query.contains(name.as_str())), "{query}");
    }
    names
}

/// Of all that tells metrics.
fn source_text() -> String {
    let mut folders: Vec<_> =
        ["runtime", "binder", "metallb"].map(|name| workspace().join("crates").join(name).join("src")).into();
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                text += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

async fn every_panel_has_an_answer(prometheus: &Prometheus) {
    let file = workspace().join("chart/address-controller/dashboards/addresses.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut asked = 0;
    for target in targets {
        let expression = target["expr"].as_str().unwrap();
        let filled = [("$class", ".*"), ("$pool", ".*"), ("$__rate_interval", "1m")];
        let filled =
            filled.iter().fold(expression.to_owned(), |text, (name, value)| text.replace(name, value));
        assert!(!filled.contains('$'), "{filled}");
        rig::eventually(&format!("an answer to {filled}"), async || {
            let samples = prometheus.query(&filled).await.unwrap();
            (!samples.is_empty()).then_some(())
        })
        .await;
        asked += 1;
    }
    assert!(asked > 20, "{asked} queries");
}

async fn every_alert_is_understood(prometheus: &Prometheus) {
    rig::eventually("the alerts to be looked at", async || {
        let answer: Value = prometheus.ask("rules").await.unwrap();
        let groups = answer["groups"].as_array().unwrap();
        let rules: Vec<&Value> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
        let failed: Vec<_> = rules.iter().filter(|rule| rule["health"] == "err").collect();
        assert!(failed.is_empty(), "{failed:#?}");
        (rules.len() == 14 && rules.iter().all(|rule| rule["health"] == "ok")).then_some(())
    })
    .await;
}
