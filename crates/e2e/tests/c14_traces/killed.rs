//! A controller dies amid an operation: whoever goes on with it goes on with its trace.

use api::address::HandoffDirection;
use devcluster::proxy::{Rule, Verb};
use devcluster::{Controller, Process};
use kube::ResourceExt;

use super::seen::{self, RESERVED, Seen, trace_of_claim};
use super::{ASSOCIATE, assert_is_of, by_grpc, handoff};
use crate::rig::{self, Rig};

/// The controller dies when its first patch of such an object in this namespace was answered.
fn dies_after_a_patch(rig: &Rig, controller: Controller, resource: &'static str, namespace: &str) -> Process {
    let victim = rig.process(controller);
    let (doomed, namespace) = (victim.clone(), namespace.to_owned());
    let patches = Rule::when(move |call| {
        call.verb == Verb::Patch && call.resource == resource && call.namespace == namespace
    });
    rig.proxy(controller).unwrap().add(patches.times(1).after(move |_| {
        let doomed = doomed.clone();
        async move { doomed.kill().await }
    }));
    victim
}

/// The driver dies of pinning the Service: whoever goes on with the handoff goes on with its trace.
#[test]
fn c14_a_handoff_whose_driver_was_killed_is_one_trace() {
    by_grpc(async |rig| {
        let jaeger = rig.jaeger.as_ref().unwrap();
        let stage = rig.stage("traces-killed", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        let victim = dies_after_a_patch(rig, Controller::Driver, "services", &stage.name);
        stage.web("web", "web-ip").await;
        victim.wait().await;
        rig.proxy(Controller::Driver).unwrap().reset();
        let begun = stage.ledger(&ip, "to be recorded", |address| rig::associated(address).is_some()).await;
        let begun = begun.status.unwrap().last_handoff.unwrap();
        assert!(begun.finished_at.is_none());
        rig.revive(Controller::Driver).await;
        stage.served("web", &[&ip]).await;
        let ended = handoff(&stage, &ip, HandoffDirection::Associate).await;
        assert_eq!(begun.trace_id, ended.trace_id);
        let id = ended.trace_id.clone().unwrap();
        let spans = rig::eventually("the root of the handoff", async || {
            let spans = seen::spans(jaeger, &id).await;
            spans.iter().any(|span| span.name == ASSOCIATE).then_some(spans)
        })
        .await;
        let root = spans.iter().find(|span| span.name == ASSOCIATE).unwrap();
        assert_is_of(root, &ended, &ip);
        assert_eq!(spans.iter().filter(|span| span.parent.is_none()).count(), 1, "{spans:#?}");
        assert!(spans.iter().all(|span| span.id == root.id || span.parent.as_ref() == Some(&root.id)));
        // What the first of the two did not come to hand over is missing, and nothing else.
        let drawn = seen::drawn(seen::ASSOCIATED);
        let of_the_second = ["metallb.assign", "hold.release"];
        assert!(of_the_second.iter().all(|name| spans.iter().any(|span| span.name == *name)), "{spans:#?}");
        assert!(spans.iter().all(|span| drawn.contains(&format!("{} {}\n", span.service, span.name))));
    });
}

/// The core dies of stamping the claim: the driver reserves meanwhile, and the core that comes after it binds, all in the
/// trace that the first began.
#[test]
fn c14_a_reservation_whose_core_was_killed_is_one_trace() {
    by_grpc(async |rig| {
        let stage = rig.stage("traces-core-killed", 3).await;
        // A claim whose class the core has not heard of yet gets its finalizer first, and its stamp later.
        let mut seen = Seen::none(rig.jaeger.as_ref().unwrap(), &stage);
        stage.claim("first").await;
        stage.bound("first").await;
        seen.as_drawn(&trace_of_claim(&stage, "first").await, RESERVED, "first").await;
        let victim = dies_after_a_patch(rig, Controller::Core, "ipaddressclaims", &stage.name);
        stage.claim("web-ip").await;
        victim.wait().await;
        rig.proxy(Controller::Core).unwrap().reset();
        stage.event("web-ip", "Reserved").await;
        let begun = trace_of_claim(&stage, "web-ip").await;
        rig.revive(Controller::Core).await;
        stage.bound("web-ip").await;
        assert_eq!(trace_of_claim(&stage, "web-ip").await, begun);
        let root = seen.as_drawn(&begun, RESERVED, "web-ip").await;
        let claim = stage.claims().get("web-ip").await.unwrap();
        assert_eq!(root.start, claim.creation_timestamp().unwrap().0.as_microsecond());
        seen.and_no_more().await;
    });
}
