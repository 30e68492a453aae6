//! A user traces what they deploy: our operations hang below their span, or are linked to their trace.

use api::address::HandoffDirection;
use api::wellknown::{CLAIM, TRACEPARENT, TRACEPARENT_KUBERNETES};
use devcluster::Jaeger;
use serde_json::json;

use super::seen::{self, ASSOCIATED, RESERVED, Span};
use super::{ASSOCIATE, by_grpc, handoff};
use crate::rig::{self, Stage};

const TRACE: &str = "5bf92f3577b34da6a3ce929d0e0e4736";
const UNSAMPLED: &str = "6bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
const RESERVE: &str = "claim.reserve";

/// The root of a trace.
async fn root(jaeger: &Jaeger, trace: &str, name: &str) -> Span {
    rig::eventually(&format!("{name} in {trace}"), async || {
        seen::spans(jaeger, trace).await.into_iter().find(|span| span.name == name)
    })
    .await
}

async fn claim(stage: &Stage, name: &str, annotation: &str, traceparent: &str) -> String {
    let mut claim = rig::claim_object(name, json!({ "className": stage.name }));
    claim["metadata"]["annotations"] = json!({ annotation: traceparent });
    rig::create(&stage.claims(), claim).await;
    let ip = stage.bound(name).await;
    stage.held(&ip).await;
    ip
}

/// Claim and Service carry the user's context: one trace, the user's, has both trees below the user's span.
#[test]
fn c14_a_users_trace_goes_on_in_both_controllers() {
    by_grpc(async |rig| {
        let jaeger = rig.jaeger.as_ref().unwrap();
        let stage = rig.stage("traces-user", 1).await;
        let traceparent = format!("00-{TRACE}-{SPAN}-01");
        let ip = claim(&stage, "web-ip", TRACEPARENT_KUBERNETES, &traceparent).await;
        let annotations = json!({ CLAIM: "web-ip", TRACEPARENT: traceparent });
        stage.service(rig::load_balancer("web", annotations)).await;
        stage.served("web", &[&ip]).await;
        let forward = handoff(&stage, &ip, HandoffDirection::Associate).await;
        assert_eq!(forward.trace_id.as_deref(), Some(TRACE));
        let drawn = seen::drawn(RESERVED) + &seen::drawn(ASSOCIATED);
        let spans = rig::eventually("the spans of both operations", async || {
            let spans = seen::spans(jaeger, TRACE).await;
            (spans.len() >= drawn.lines().count()).then_some(spans)
        })
        .await;
        assert_eq!(seen::tree(&spans), drawn, "{spans:#?}");
        for root in [RESERVE, ASSOCIATE] {
            let root = spans.iter().find(|span| span.name == root).unwrap();
            assert_eq!(root.parent.as_deref(), Some(SPAN), "{root:#?}");
        }
    });
}

/// Who does not record their trace gets one of ours, with a link to theirs.
#[test]
fn c14_a_users_trace_that_is_not_sampled_is_linked() {
    by_grpc(async |rig| {
        let jaeger = rig.jaeger.as_ref().unwrap();
        let stage = rig.stage("traces-linked", 1).await;
        let traceparent = format!("00-{UNSAMPLED}-{SPAN}-00");
        let ip = claim(&stage, "web-ip", TRACEPARENT, &traceparent).await;
        let annotations = json!({ CLAIM: "web-ip", TRACEPARENT_KUBERNETES: traceparent });
        stage.service(rig::load_balancer("web", annotations)).await;
        stage.served("web", &[&ip]).await;
        let id = handoff(&stage, &ip, HandoffDirection::Associate).await.trace_id.unwrap();
        assert_ne!(id, UNSAMPLED);
        let reserved = super::trace_of_event(&stage, "web-ip", "Matched").await;
        for (trace, name) in [(&reserved, RESERVE), (&id, ASSOCIATE)] {
            let root = root(jaeger, trace, name).await;
            assert_eq!((root.parent.as_ref(), &root.links[..]), (None, &[UNSAMPLED.to_owned()][..]));
        }
        assert!(seen::spans(jaeger, UNSAMPLED).await.is_empty());
    });
}
