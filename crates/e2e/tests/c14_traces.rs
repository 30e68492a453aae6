//! Contract §14: what a real Jaeger has of the flagship flow, by http and by grpc.

use std::collections::BTreeMap;
use std::fmt::Write;

use api::address::{AddressPhase, Handoff, HandoffDirection};
use api::conditions;
use api::wellknown::{TRACE_ID, TRACEPARENT};
use devcluster::proxy::{Rule, Verb};
use devcluster::{Controller, Jaeger, Prometheus, Target, workspace};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::rig::{self, Own, Rig, Setup, Stage, Traces};

static GRPC: Own = Own::new("traces-grpc");

const ASSOCIATE: &str = "handoff.associate";
const DISASSOCIATE: &str = "handoff.disassociate";

/// A span as Jaeger has it; times in microseconds.
#[derive(Debug)]
struct Span {
    name: String,
    service: String,
    id: String,
    parent: Option<String>,
    start: i64,
    end: i64,
    tags: BTreeMap<String, Value>,
}

impl Span {
    fn read(span: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let parent = span["references"].as_array().into_iter().flatten();
        let mut parent =
            parent.filter(|reference| reference["refType"] == "CHILD_OF").map(|one| text(&one["spanID"]));
        let start = span["startTime"].as_i64().unwrap();
        let tags = span["tags"].as_array().into_iter().flatten();
        Self {
            name: text(&span["operationName"]),
            service: text(&span["process"]["serviceName"]),
            id: text(&span["spanID"]),
            parent: parent.next(),
            start,
            end: start + span["duration"].as_i64().unwrap(),
            tags: tags.map(|tag| (text(&tag["key"]), tag["value"].clone())).collect(),
        }
    }
}

async fn spans(jaeger: &Jaeger, trace: &str) -> Vec<Span> {
    let mut spans: Vec<_> = jaeger.spans(trace).await.unwrap().iter().map(Span::read).collect();
    spans.sort_by_key(|span| (span.start, span.end));
    spans
}

/// As docs/tracing.md draws it.
fn tree(spans: &[Span]) -> String {
    let mut text = String::new();
    let (roots, below): (Vec<_>, Vec<_>) = spans.iter().partition(|span| span.parent.is_none());
    for root in roots {
        writeln!(text, "{} {}", root.service, root.name).unwrap();
        for span in below.iter().filter(|span| span.parent.as_ref() == Some(&root.id)) {
            writeln!(text, "  {} {}", span.service, span.name).unwrap();
        }
    }
    text
}

/// The tree in docs/tracing.md whose root has this name.
fn drawn(root: &str) -> String {
    let text = std::fs::read_to_string(workspace().join("docs/tracing.md")).unwrap();
    let mut trees = text.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next());
    let ends = |tree: &&str| tree.lines().next().is_some_and(|line| line.ends_with(root));
    trees.find(ends).unwrap().to_owned()
}

/// Waits until Jaeger has as many spans of the trace as are drawn, and they are as drawn; returns the root.
async fn as_drawn(jaeger: &Jaeger, trace: &str, root: &str) -> Span {
    let drawn = drawn(root);
    let what = format!("{} spans of {root} {trace}", drawn.lines().count());
    let mut spans = rig::eventually(&what, async || {
        let spans = spans(jaeger, trace).await;
        (spans.len() >= drawn.lines().count()).then_some(spans)
    })
    .await;
    assert_eq!(tree(&spans), drawn, "{spans:#?}");
    let root = spans.iter().position(|span| span.parent.is_none()).unwrap();
    spans.swap_remove(root)
}

/// The root is the handoff that the ledger shows.
fn assert_is_of(root: &Span, handoff: &Handoff, stage: &Stage, ip: &str) {
    assert_eq!(root.start, handoff.started_at.0.as_microsecond());
    assert_eq!(root.end, handoff.finished_at.as_ref().unwrap().0.as_microsecond());
    let tag = |name: &str| root.tags.get(name).cloned().unwrap_or_default();
    assert_eq!(tag("handoff.unheld_ms"), handoff.unheld_milliseconds.unwrap());
    assert_eq!(tag("handoff.mode"), format!("{:?}", handoff.mode));
    assert_eq!(tag("ipam.address"), ip);
    assert_eq!(tag("ipam.claim"), "web-ip");
    assert_eq!(tag("ipam.class"), *stage.name);
    assert_eq!(tag("k8s.namespace.name"), *stage.name);
    assert_eq!(tag("k8s.service.name"), "web");
}

async fn handoff(stage: &Stage, ip: &str, direction: HandoffDirection) -> Handoff {
    let address = stage.ledger(ip, "to have changed hands", |address| rig::handed(address, direction)).await;
    address.status.unwrap().last_handoff.unwrap()
}

/// The trace id of the newest event about an object of the stage's namespace.
async fn trace_of_event(stage: &Stage, about: &str, reason: &str) -> String {
    trace_of_event_in(stage, &stage.name, about, reason).await
}

async fn trace_of_event_in(stage: &Stage, namespace: &str, about: &str, reason: &str) -> String {
    stage.event_in(namespace, about, reason).await;
    let api: Api<Event> = Api::namespaced(stage.client(), namespace);
    let events = api.list(&ListParams::default().fields(&format!("reason={reason}"))).await.unwrap().items;
    let about = |event: &&Event| event.regarding.as_ref().unwrap().name.as_deref() == Some(about);
    events.iter().rev().find(about).unwrap().annotations()[TRACE_ID].clone()
}

/// Whether a controller's log has a line with this trace, about this reason.
fn is_logged(rig: &Rig, controller: Controller, trace: &str, reason: &str) -> bool {
    let log = std::fs::read_to_string(rig.process(controller).log_path()).unwrap();
    log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).any(|line| {
        line["trace_id"] == trace
            && (line["reason"] == reason || line["message"] == format!("{reason} is over"))
    })
}

/// Somebody has the address by the field that goes past MetalLB, and lets go: one trace, from when the address went into
/// `Conflict`, and every event about it names it.
async fn conflict(jaeger: &Jaeger, stage: &Stage, ip: &str) {
    let spec = json!({ "externalIPs": [ip], "ports": [{ "port": 80 }] });
    stage.thief_service(json!({ "metadata": { "name": "thief" }, "spec": spec })).await;
    let address = stage.address_is(ip, AddressPhase::Conflict).await;
    let since =
        conditions::find(rig::address_conditions(&address), "Conflict").unwrap().last_transition_time.0;
    rig::patch(&stage.thief_services(), "thief", json!({ "spec": { "externalIPs": null } })).await;
    stage.address_is(ip, AddressPhase::Bound).await;
    stage.held(ip).await;
    let name = rig::address_name(ip);
    let id = trace_of_event_in(stage, "default", &name, "ConflictResolved").await;
    assert_eq!(trace_of_event_in(stage, "default", &name, "AddressConflict").await, id);
    assert_eq!(trace_of_event_in(stage, &stage.thief, "thief", "AddressConflict").await, id);
    let root = as_drawn(jaeger, &id, "address.conflict").await;
    assert_eq!(root.start, since.as_microsecond());
    assert_eq!(root.tags["ipam.address"], ip);
    assert_eq!(root.tags["ipam.claim"], "web-ip");
}

/// Waits until Prometheus has the trace as an exemplar of the histograms of handoffs.
async fn is_exemplar(prometheus: &Prometheus, trace: &str, direction: &str) {
    for name in ["ipam_handoff_seconds_bucket", "ipam_handoff_unheld_seconds_bucket"] {
        let series = format!(r#"{name}{{direction="{direction}"}}"#);
        rig::eventually(&format!("the exemplar {trace} of {series}"), async || {
            let exemplars = prometheus.exemplars(&series).await.unwrap();
            exemplars.iter().any(|exemplar| exemplar.labels["trace_id"] == trace).then_some(())
        })
        .await;
    }
}

/// The whole flow: every trace and tree as docs/tracing.md draws it, found by what stands on the objects.
async fn flagship(rig: &Rig, stage: &Stage) {
    let jaeger = rig.jaeger.as_ref().unwrap();
    let driver = Controller::Driver;
    let address = rig.process(driver).metrics_address().unwrap().to_owned();
    let target = Target { job: driver.name().to_owned(), address, token: None };
    let prometheus = rig.cluster.run_prometheus(&[target], &[]).await.unwrap();
    stage.claim("web-ip").await;
    let ip = stage.bound("web-ip").await;
    stage.held(&ip).await;
    let claim = stage.claims().get("web-ip").await.unwrap();
    let reserved = claim.annotations()[TRACEPARENT].split('-').nth(1).unwrap().to_owned();
    let root = as_drawn(jaeger, &reserved, "claim.reserve").await;
    assert_eq!(root.tags["ipam.address"], ip);
    assert_eq!(trace_of_event(stage, "web-ip", "Matched").await, reserved);
    assert_eq!(trace_of_event(stage, "web-ip", "Reserved").await, reserved);

    stage.web("web", "web-ip").await;
    stage.served("web", &[&ip]).await;
    let forward = handoff(stage, &ip, HandoffDirection::Associate).await;
    let id = forward.trace_id.clone().unwrap();
    assert_is_of(&as_drawn(jaeger, &id, ASSOCIATE).await, &forward, stage, &ip);
    assert_eq!(trace_of_event(stage, "web", "Associated").await, id);
    for said in ["Associated", ASSOCIATE] {
        assert!(is_logged(rig, driver, &id, said), "{said} is not in the log with {id}");
    }
    is_exemplar(&prometheus, &id, "Associate").await;

    stage.delete_service("web").await;
    stage.held(&ip).await;
    let back = handoff(stage, &ip, HandoffDirection::Disassociate).await;
    let id = back.trace_id.clone().unwrap();
    assert_ne!(forward.trace_id, back.trace_id);
    assert_is_of(&as_drawn(jaeger, &id, DISASSOCIATE).await, &back, stage, &ip);
    is_exemplar(&prometheus, &id, "Disassociate").await;

    conflict(jaeger, stage, &ip).await;

    stage.delete_claim("web-ip").await;
    let id = trace_of_event(stage, "web-ip", "Reclaimed").await;
    as_drawn(jaeger, &id, "claim.reclaim").await;
}

/// Every operation of the flagship flow is one trace, by http. Then the collector dies, and a handoff goes as before; told to
/// stop, the controllers end by themselves.
#[test]
fn c14_traces_by_http_and_without_a_collector() {
    let setup = Setup { traces: Some(Traces::Http), ..Setup::default() };
    rig::alone(setup, async |rig| {
        let stage = rig.stage("traces", 3).await;
        flagship(rig, &stage).await;
        // The collector is gone; then it takes connections and answers nothing.
        let jaeger = &rig.jaeger.as_ref().unwrap().process;
        jaeger.kill().await;
        for number in [1, 2] {
            if number == 2 {
                rig.cluster.start_part(jaeger.name()).await.unwrap();
                jaeger.pause().unwrap();
            }
            let (claim, name) = (format!("blind-{number}"), format!("web-{number}"));
            stage.claim(&claim).await;
            let ip = stage.bound(&claim).await;
            stage.web(&name, &claim).await;
            stage.served(&name, &[&ip]).await;
            assert!(handoff(&stage, &ip, HandoffDirection::Associate).await.trace_id.is_some());
            stage.delete_service(&name).await;
            stage.held(&ip).await;
        }
        for controller in [Controller::Core, Controller::Driver] {
            let process = rig.process(controller);
            rig.cluster.stop(controller.part()).await.unwrap();
            assert_eq!(process.exit().unwrap().code, Some(0), "{controller:?} did not stop by itself");
        }
    });
}

/// The same by grpc.
#[test]
fn c14_traces_by_grpc() {
    GRPC.run(grpc(), async |rig| flagship(rig, &rig.stage("traces-grpc", 1).await).await);
}

/// The driver dies of pinning the Service: whoever goes on with the handoff goes on with its trace.
#[test]
fn c14_a_handoff_whose_driver_was_killed_is_one_trace() {
    GRPC.run(grpc(), async |rig| {
        let jaeger = rig.jaeger.as_ref().unwrap();
        let stage = rig.stage("traces-killed", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        let (proxy, victim) = (rig.proxy(Controller::Driver).unwrap(), rig.process(Controller::Driver));
        let doomed = victim.clone();
        let namespace = stage.name.clone();
        let pins = Rule::when(move |call| {
            call.verb == Verb::Patch && call.resource == "services" && call.namespace == namespace
        });
        proxy.add(pins.times(1).after(move |_| {
            let doomed = doomed.clone();
            async move { doomed.kill().await }
        }));
        stage.web("web", "web-ip").await;
        victim.wait().await;
        proxy.reset();
        let begun = stage.ledger(&ip, "to be recorded", |address| rig::associated(address).is_some()).await;
        let begun = begun.status.unwrap().last_handoff.unwrap();
        assert!(begun.finished_at.is_none());
        rig.revive(Controller::Driver).await;
        stage.served("web", &[&ip]).await;
        let ended = handoff(&stage, &ip, HandoffDirection::Associate).await;
        assert_eq!(begun.trace_id, ended.trace_id);
        let id = ended.trace_id.clone().unwrap();
        let spans = rig::eventually("the root of the handoff", async || {
            let spans = spans(jaeger, &id).await;
            spans.iter().any(|span| span.name == ASSOCIATE).then_some(spans)
        })
        .await;
        let root = spans.iter().find(|span| span.name == ASSOCIATE).unwrap();
        assert_is_of(root, &ended, &stage, &ip);
        assert_eq!(spans.iter().filter(|span| span.parent.is_none()).count(), 1, "{spans:#?}");
        assert!(spans.iter().all(|span| span.id == root.id || span.parent.as_ref() == Some(&root.id)));
        // What the first of the two did not come to hand over is missing, and nothing else.
        let drawn = drawn(ASSOCIATE);
        let of_the_second = ["metallb.assign", "hold.release"];
        assert!(of_the_second.iter().all(|name| spans.iter().any(|span| span.name == *name)), "{spans:#?}");
        assert!(spans.iter().all(|span| drawn.contains(&format!("{} {}\n", span.service, span.name))));
    });
}

fn grpc() -> Setup {
    Setup { traces: Some(Traces::Grpc), ..Setup::proxied() }
}
