//! Contract §17: the workload behind a claim is rebuilt, and the client still reaches it.

use serde_json::json;

use crate::flow::{CLAIM_NAME, Flow};
use crate::plane;

/// The claim is taken off Service v1 and then put on v2, by two edits, there and back.
#[test]
fn c17_the_annotation_moves() {
    plane::run(async |plane| {
        let flow = Flow::begin(plane, "moved").await;
        flow.make("v2", None).await;
        for (from, to) in [("v1", "v2"), ("v2", "v1"), ("v1", "v2")] {
            flow.stage.name_claim(from, None).await;
            flow.stage.name_claim(to, Some(CLAIM_NAME)).await;
            flow.answered_by(to).await;
        }
        flow.end().await;
    });
}

/// Service v1 is deleted, and v2 made after the address was held again. Meanwhile there may be no answer, but none is another's.
#[test]
fn c17_deleted_and_made_anew_later() {
    plane::run(async |plane| {
        let flow = Flow::begin(plane, "rebuilt").await;
        flow.stage.delete_service("v1").await;
        flow.stage.held(&flow.ip).await;
        flow.make("v2", Some(CLAIM_NAME)).await;
        flow.answered_by("v2").await;
        flow.end().await;
    });
}

/// Service v2 names the claim and waits its turn; it takes over when v1 lets go, by an edit or by its deletion.
#[test]
fn c17_a_waiting_service_takes_over() {
    plane::run(async |plane| {
        let flow = Flow::begin(plane, "bluegreen").await;
        flow.make("v2", Some(CLAIM_NAME)).await;
        flow.stage.event("v2", "AssociationRejected").await;
        flow.stage.name_claim("v1", None).await;
        flow.answered_by("v2").await;
        flow.stage.name_claim("v1", Some(CLAIM_NAME)).await;
        flow.stage.event("v1", "AssociationRejected").await;
        flow.stage.delete_service("v2").await;
        flow.answered_by("v1").await;
        flow.end().await;
    });
}

/// The same with `externalTrafficPolicy: Local`.
#[test]
fn c17_with_the_local_traffic_policy() {
    plane::run(async |plane| {
        let flow = Flow::begin_with(plane, "local", json!({ "externalTrafficPolicy": "Local" })).await;
        flow.make("v2", Some(CLAIM_NAME)).await;
        flow.stage.event("v2", "AssociationRejected").await;
        flow.stage.name_claim("v1", None).await;
        flow.answered_by("v2").await;
        flow.stage.delete_service("v2").await;
        flow.stage.held(&flow.ip).await;
        flow.stage.name_claim("v1", Some(CLAIM_NAME)).await;
        flow.answered_by("v1").await;
        flow.end().await;
    });
}
