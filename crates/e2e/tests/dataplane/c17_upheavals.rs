//! Contract §17: what handles the handoff dies in the middle of it, and the client reaches nobody else.

use api::IPAddress;
use api::address::HandoffDirection;
use api::wellknown::metallb;
use devcluster::proxy::{Call, Rule};
use devcluster::{Controller, Part, Process};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use crate::flow::{CLAIM_NAME, Flow};
use crate::{plane, rig};

/// After which of its writes the driver dies: early, in the middle, and late in a handoff from Service to Service.
const KILLED_AFTER: [u64; 3] = [1, 3, 6];

/// Whether the address is on its way to a Service.
fn is_under_way(address: &IPAddress) -> bool {
    let handoff = address.status.as_ref().and_then(|status| status.last_handoff.as_ref());
    handoff.is_some_and(|one| one.direction == HandoffDirection::Associate && one.finished_at.is_none())
}

/// A rule by which a part dies as soon as the ledger says that a handoff to a Service has begun, before the driver hears that it
/// does.
fn dies_in_mid_handoff(flow: &Flow, part: &Process) -> Rule {
    let (addresses, name) = (flow.stage.addresses(), rig::address_name(&flow.ip));
    let (part, of_it) = (part.clone(), name.clone());
    let is_it = move |call: &Call| call.name == of_it && call.subresource == "status";
    Rule::when(is_it).after(move |_| {
        let (addresses, name, part) = (addresses.clone(), name.clone(), part.clone());
        async move {
            if is_under_way(&addresses.get(&name).await.unwrap()) {
                part.kill().await;
            }
        }
    })
}

/// MetalLB's controller is killed in the middle of a handoff, and then its speaker in the middle of the next, and each comes back.
/// Without the controller the handoff waits; without the speaker the books are right, and the client is answered when it is back.
#[test]
fn c17_metallb_dies_in_mid_flow() {
    plane::run(async |plane| {
        let cluster = &plane.rig.cluster;
        let flow = Flow::begin(plane, "metallb-dies").await;
        flow.make("v2", Some(CLAIM_NAME)).await;
        for (from, to, part) in [("v1", "v2", Part::Metallb), ("v2", "v1", Part::Speaker)] {
            flow.stage.event(to, "AssociationRejected").await;
            let victim = cluster.process(part).unwrap();
            let proxy = plane.rig.proxy(Controller::Driver).unwrap();
            proxy.begin_with([dies_in_mid_handoff(&flow, &victim)]);
            flow.stage.name_claim(from, None).await;
            victim.wait().await;
            proxy.reset();
            if part == Part::Metallb {
                let is_pinned = |service: &Service| service.annotations().contains_key(metallb::PIN);
                rig::until(&flow.stage.services(), to, "to be pinned", is_pinned).await;
                flow.stage.ledger(&flow.ip, "to wait for MetalLB", is_under_way).await;
            } else {
                flow.stage.served(to, &[&flow.ip]).await;
            }
            cluster.start_part(part).await.unwrap();
            flow.answered_by(to).await;
            if to == "v2" {
                flow.stage.name_claim(from, Some(CLAIM_NAME)).await;
            }
        }
        flow.end().await;
    });
}

/// The driver is killed after its first, a middle, and a late write of a handoff, and started again.
#[test]
fn c17_the_driver_dies_in_mid_flow() {
    plane::run(async |plane| {
        let flow = Flow::begin(plane, "driver-dies").await;
        let (mut from, mut to) = ("v1", "v2");
        flow.make("v2", None).await;
        for writes in KILLED_AFTER {
            let victim = plane.rig.process(Controller::Driver);
            let doomed = victim.clone();
            let proxy = plane.rig.proxy(Controller::Driver).unwrap();
            proxy.begin_with([Rule::write(writes).after(move |_| {
                let doomed = doomed.clone();
                async move { doomed.kill().await }
            })]);
            flow.stage.name_claim(from, None).await;
            flow.stage.name_claim(to, Some(CLAIM_NAME)).await;
            victim.wait().await;
            proxy.reset();
            plane.rig.revive(Controller::Driver).await;
            flow.answered_by(to).await;
            (from, to) = (to, from);
        }
        flow.end().await;
    });
}
