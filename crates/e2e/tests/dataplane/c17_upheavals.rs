//! Contract §17: what handles the handoff dies in the middle of it, and the client reaches nobody else.

use devcluster::proxy::Rule;
use devcluster::{Controller, Part};

use crate::flow::{CLAIM_NAME, Flow};
use crate::plane;

/// After which of its writes the driver dies: early, in the middle, and late in a handoff from Service to Service.
const KILLED_AFTER: [u64; 3] = [1, 3, 6];

/// MetalLB's controller and its speaker are killed while the address changes hands, and come back.
#[test]
fn c17_metallb_dies_in_mid_flow() {
    plane::run(async |plane| {
        let cluster = &plane.rig.cluster;
        let flow = Flow::begin(plane, "metallb-dies").await;
        for (from, to) in [("v1", "v2"), ("v2", "v1")] {
            if to == "v2" {
                flow.make(to, Some(CLAIM_NAME)).await;
            } else {
                flow.stage.name_claim(to, Some(CLAIM_NAME)).await;
            }
            flow.stage.event(to, "AssociationRejected").await;
            flow.stage.name_claim(from, None).await;
            for part in [Part::Speaker, Part::Metallb] {
                cluster.kill(part).await.unwrap();
            }
            for part in [Part::Metallb, Part::Speaker] {
                cluster.start_part(part).await.unwrap();
            }
            flow.answered_by(to).await;
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
