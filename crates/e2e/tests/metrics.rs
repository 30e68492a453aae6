//! Contract §14: what the controllers tell in numbers, as a real Prometheus reads it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use devcluster::{Controller, Prometheus, Target, workspace};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::rig::{self, Rig};

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
        every_alert_is_understood(prometheus).await;
        stage.assert_at_rest().await;
    });
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
