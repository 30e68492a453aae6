//! An address was with nobody for a moment: the trace says for how long.

use api::address::{HandoffDirection, HandoffMode};
use serde_json::json;

use super::seen::{LOST_BY_SERVICE, Seen};
use super::{assert_is_of, by_grpc, handoff};
use crate::rig;

/// The API server takes the IP off a Service that is turned into a `ClusterIP`: the trace shows the wait until MetalLB gave
/// it to the hold, and its root the ledger's figure, which is not 0.
#[test]
fn c14_the_trace_says_how_long_nobody_had_the_address() {
    by_grpc(async |rig| {
        let stage = rig.stage("traces-gap", 2).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        rig::patch(&stage.services(), "web", json!({ "spec": { "type": "ClusterIP" } })).await;
        stage.held(&ip).await;
        let back = handoff(&stage, &ip, HandoffDirection::Disassociate).await;
        assert_eq!(back.mode, HandoffMode::Gap, "{back:?}");
        assert!(back.unheld_milliseconds > Some(0), "{back:?}");
        let mut seen = Seen::none(rig.jaeger.as_ref().unwrap(), &stage);
        let trace = back.trace_id.as_deref().unwrap();
        let root = seen.as_drawn_but_for_the_last_two(trace, LOST_BY_SERVICE, "web-ip").await;
        assert_is_of(&root, &back, &ip);
    });
}
