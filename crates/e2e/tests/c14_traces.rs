//! Contract §14: what a real Jaeger has of the flagship flow, by http and by grpc.

mod gaps;
mod killed;
mod seen;
mod users;

use api::address::{AddressPhase, Handoff, HandoffDirection};
use api::conditions;
use api::wellknown::TRACE_ID;
use devcluster::{Controller, Prometheus, Target};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::rig::{self, Own, Rig, Setup, Stage, Traces};
use seen::{ASSOCIATED, CONFLICT, DISASSOCIATED, RECLAIMED, RESERVED, Seen, Span, trace_of_claim};

static GRPC: Own = Own::new("traces-grpc");

const ASSOCIATE: &str = "handoff.associate";

/// The root is the handoff that the ledger shows.
fn assert_is_of(root: &Span, handoff: &Handoff, ip: &str) {
    assert_eq!(root.start, handoff.started_at.0.as_microsecond());
    assert_eq!(root.end, handoff.finished_at.as_ref().unwrap().0.as_microsecond());
    let tag = |name: &str| root.tags.get(name).cloned().unwrap_or_default();
    assert_eq!(tag("handoff.unheld_ms"), handoff.unheld_milliseconds.unwrap());
    assert_eq!(tag("handoff.mode"), format!("{:?}", handoff.mode));
    assert_eq!(tag("ipam.address"), ip);
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
async fn conflict(seen: &mut Seen<'_>, stage: &Stage, ip: &str) {
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
    let root = seen.as_drawn(&id, CONFLICT, "web-ip").await;
    assert_eq!(root.start, since.as_microsecond());
    assert_eq!(root.tags["ipam.address"], ip);
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

/// The whole flow: every trace and tree as docs/tracing.md draws it, found by what stands on the objects; and no other.
async fn flagship(rig: &Rig, stage: &Stage) -> String {
    let jaeger = rig.jaeger.as_ref().unwrap();
    let mut seen = Seen::none(jaeger, stage);
    let driver = Controller::Driver;
    let address = rig.process(driver).metrics_address().unwrap().to_owned();
    let target = Target { job: driver.name().to_owned(), address, token: None };
    let prometheus = rig.cluster.run_prometheus(&[target], &[]).await.unwrap();
    stage.claim("web-ip").await;
    let ip = stage.bound("web-ip").await;
    stage.held(&ip).await;
    let reserved = trace_of_claim(stage, "web-ip").await;
    let root = seen.as_drawn(&reserved, RESERVED, "web-ip").await;
    assert_eq!(root.tags["ipam.address"], ip);
    assert_eq!(trace_of_event(stage, "web-ip", "Matched").await, reserved);
    assert_eq!(trace_of_event(stage, "web-ip", "Reserved").await, reserved);

    stage.web("web", "web-ip").await;
    stage.served("web", &[&ip]).await;
    let forward = handoff(stage, &ip, HandoffDirection::Associate).await;
    let id = forward.trace_id.clone().unwrap();
    assert_is_of(&seen.as_drawn(&id, ASSOCIATED, "web-ip").await, &forward, &ip);
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
    assert_is_of(&seen.as_drawn(&id, DISASSOCIATED, "web-ip").await, &back, &ip);
    is_exemplar(&prometheus, &id, "Disassociate").await;

    conflict(&mut seen, stage, &ip).await;

    stage.delete_claim("web-ip").await;
    let id = trace_of_event(stage, "web-ip", "Reclaimed").await;
    let root = seen.as_drawn(&id, RECLAIMED, "web-ip").await;
    assert_eq!(root.links, [reserved]);
    seen.and_no_more().await;
    ip
}

/// The dashboard leads to the trace of the last handoff: what is at the link is its spans.
async fn dashboard_leads_to_the_trace(rig: &Rig, stage: &Stage, ip: &str) {
    let jaeger = rig.jaeger.as_ref().unwrap();
    rig.cluster.install_dashboard(&[]).await.unwrap();
    let template = format!("--trace-url-template={}", jaeger.url("{trace_id}"));
    let dashboard = rig.dashboard("dashboard-traces", &[template.as_str()]).await;
    let page = format!("{}/addresses/{}.json", dashboard.url, rig::address_name(ip));
    let page = rig::json_at(&page).await;
    let link = page["lastHandoff"]["traceUrl"].as_str().unwrap();
    let trace = rig::json_at(link).await;
    let expected = handoff(stage, ip, HandoffDirection::Disassociate).await.trace_id;
    assert_eq!(trace["data"][0]["traceID"].as_str(), expected.as_deref(), "{link}");
    let spans = trace["data"][0]["spans"].as_array().unwrap();
    assert!(spans.iter().any(|span| span["operationName"] == "handoff.disassociate"), "{spans:#?}");
}

/// So often the log says that spans are lost.
fn complaints(rig: &Rig, controller: Controller) -> usize {
    let log = std::fs::read_to_string(rig.process(controller).log_path()).unwrap();
    log.lines().filter(|line| line.contains("traces are lost")).count()
}

/// Every operation of the flagship flow is one trace, by http. Then the collector dies, and a handoff goes as before, and
/// is seen again when it is back; told to stop without one, the controllers end by themselves.
#[test]
fn c14_traces_by_http_and_without_a_collector() {
    let setup = Setup { traces: Some(Traces::Http), ..Setup::default() };
    rig::alone(setup, async |rig| {
        let stage = rig.stage("traces", 5).await;
        let ip = flagship(rig, &stage).await;
        dashboard_leads_to_the_trace(rig, &stage, &ip).await;
        // The collector is gone; then it takes connections and answers nothing.
        let jaeger = &rig.jaeger.as_ref().unwrap().process;
        jaeger.kill().await;
        for number in [1, 2] {
            if number == 2 {
                rig.cluster.start_part(jaeger.name()).await.unwrap();
                jaeger.pause().unwrap();
            }
            there_and_back(&stage, number).await;
        }
        rig::eventually("the driver to say that spans are lost", async || {
            (complaints(rig, Controller::Driver) > 0).then_some(())
        })
        .await;
        jaeger.resume().unwrap();
        let id = there_and_back(&stage, 3).await;
        Seen::none(rig.jaeger.as_ref().unwrap(), &stage).as_drawn(&id, DISASSOCIATED, "blind-3").await;
        jaeger.pause().unwrap();
        for controller in [Controller::Core, Controller::Driver] {
            let process = rig.process(controller);
            rig.cluster.stop(controller.part()).await.unwrap();
            assert_eq!(process.exit().unwrap().code, Some(0), "{controller:?} did not stop by itself");
        }
    });
}

/// A claim's address goes to a Service and back; returns the trace of the way back.
async fn there_and_back(stage: &Stage, number: u32) -> String {
    let (claim, name) = (format!("blind-{number}"), format!("web-{number}"));
    stage.claim(&claim).await;
    let ip = stage.bound(&claim).await;
    stage.web(&name, &claim).await;
    stage.served(&name, &[&ip]).await;
    assert!(handoff(stage, &ip, HandoffDirection::Associate).await.trace_id.is_some());
    stage.delete_service(&name).await;
    stage.held(&ip).await;
    handoff(stage, &ip, HandoffDirection::Disassociate).await.trace_id.unwrap()
}

/// The same by grpc.
#[test]
fn c14_traces_by_grpc() {
    by_grpc(async |rig| {
        flagship(rig, &rig.stage("traces-grpc", 2).await).await;
    });
}

/// Runs a test on the control plane whose controllers send their traces by grpc.
fn by_grpc(test: impl AsyncFnOnce(&Rig)) {
    GRPC.run(Setup { traces: Some(Traces::Grpc), ..Setup::proxied() }, async |rig| {
        rig.mend().await;
        test(rig).await;
    });
}
