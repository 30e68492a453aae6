//! The flows in which the driver dies.

use api::wellknown::{driver, metallb};
use devcluster::Controller;
use kube::ResourceExt;
use kube::api::DeleteParams;

use super::{Flow, Scene, address_gone, held, inherited, served, thief, waited_for};
use crate::rig::{self, LATE, Stage, ingress};

/// A claim gets an address: placeholder, assignment, ledger.
pub(super) struct Record;

impl Flow for Record {
    const NAME: &'static str = "crash-record";
    const VICTIM: Controller = Controller::Driver;
    const WRITES: usize = 5;

    async fn prepare(&self, stage: Stage) -> Scene {
        let ip = stage.v4[0].clone();
        Scene { stage, ip, uid: String::new() }
    }

    async fn begin(&self, scene: &Scene) {
        scene.stage.claim("web-ip").await;
    }

    /// Rivals come as soon as MetalLB has assigned the address.
    async fn meanwhile(&self, scene: &Scene) {
        rig::eventually("the address to be assigned", async || {
            (!scene.stage.holders(&scene.ip).await.is_empty()).then_some(())
        })
        .await;
        thief(&scene.stage, &scene.ip).await;
        scene.stage.claim(LATE).await;
    }

    async fn complete(&self, scene: &Scene) {
        let stage = &scene.stage;
        assert_eq!(stage.bound("web-ip").await, scene.ip);
        stage.held(&scene.ip).await;
        if stage.claims().get_opt(LATE).await.unwrap().is_some() {
            stage.event(LATE, "PoolExhausted").await;
        }
    }
}

/// A Service names the claim.
pub(super) struct Forward;

impl Flow for Forward {
    const NAME: &'static str = "crash-forward";
    const VICTIM: Controller = Controller::Driver;
    const WRITES: usize = 6;

    async fn prepare(&self, stage: Stage) -> Scene {
        held(stage).await
    }

    async fn begin(&self, scene: &Scene) {
        scene.stage.web("web", "web-ip").await;
    }

    async fn complete(&self, scene: &Scene) {
        scene.stage.served("web", &[&scene.ip]).await;
        rig::eventually("the placeholder to be gone", async || {
            scene.stage.placeholders_of(&scene.ip).await.is_empty().then_some(())
        })
        .await;
    }
}

/// The Service that has the address is deleted.
pub(super) struct Deleted;

impl Flow for Deleted {
    const NAME: &'static str = "crash-deleted";
    const VICTIM: Controller = Controller::Driver;
    const WRITES: usize = 5;

    async fn prepare(&self, stage: Stage) -> Scene {
        served(stage).await
    }

    async fn begin(&self, scene: &Scene) {
        scene.stage.services().delete("web", &DeleteParams::default()).await.unwrap();
    }

    async fn complete(&self, scene: &Scene) {
        rig::gone(&scene.stage.services(), "web").await;
        held_plainly(scene).await;
    }
}

/// The Service that has the address names no claim any more.
pub(super) struct Unannotated;

impl Flow for Unannotated {
    const NAME: &'static str = "crash-unannotated";
    const VICTIM: Controller = Controller::Driver;
    const WRITES: usize = 4;

    async fn prepare(&self, stage: Stage) -> Scene {
        served(stage).await
    }

    async fn begin(&self, scene: &Scene) {
        scene.stage.name_claim("web", None).await;
    }

    async fn complete(&self, scene: &Scene) {
        without_marks(&scene.stage).await;
        held_plainly(scene).await;
    }
}

/// The Service that has the address names another claim, whose address is held.
pub(super) struct Moved;

impl Moved {
    fn target(scene: &Scene) -> &str {
        scene.stage.v4.iter().find(|ip| **ip != scene.ip).unwrap()
    }
}

impl Flow for Moved {
    const NAME: &'static str = "crash-moved";
    const VICTIM: Controller = Controller::Driver;
    const WRITES: usize = 9;
    const ADDRESSES: usize = 2;

    async fn prepare(&self, stage: Stage) -> Scene {
        for claim in ["web-ip", "alt-ip"] {
            stage.claim(claim).await;
        }
        let (ip, alt) = (stage.bound("web-ip").await, stage.bound("alt-ip").await);
        let address = stage.held(&ip).await;
        stage.held(&alt).await;
        stage.contend(&[&ip, &alt]).await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        Scene { stage, ip, uid: address.metadata.uid.unwrap() }
    }

    async fn begin(&self, scene: &Scene) {
        scene.stage.name_claim("web", Some("alt-ip")).await;
    }

    async fn complete(&self, scene: &Scene) {
        let target = Self::target(scene);
        scene.stage.served("web", &[target]).await;
        rig::eventually("the placeholder to be gone", async || {
            scene.stage.placeholders_of(target).await.is_empty().then_some(())
        })
        .await;
        held_plainly(scene).await;
    }

    async fn after(&self, scene: &Scene) {
        scene.stage.assert_nothing_stolen().await;
        for ip in [&scene.ip, Self::target(scene)] {
            scene.stage.assert_never_unheld(ip).await;
        }
    }
}

/// The claim is deleted, and with it its address, while a Service has it.
pub(super) struct Teardown;

impl Flow for Teardown {
    const NAME: &'static str = "crash-teardown";
    const VICTIM: Controller = Controller::Driver;
    const WRITES: usize = 6;

    async fn prepare(&self, stage: Stage) -> Scene {
        stage.delete_with_claims().await;
        let scene = waited_for(stage).await;
        scene.stage.web("web", "web-ip").await;
        scene.stage.served("web", &[&scene.ip]).await;
        scene
    }

    async fn begin(&self, scene: &Scene) {
        scene.stage.claims().delete("web-ip", &DeleteParams::default()).await.unwrap();
    }

    async fn complete(&self, scene: &Scene) {
        rig::gone(&scene.stage.claims(), "web-ip").await;
        address_gone(scene).await;
        without_marks(&scene.stage).await;
    }

    async fn after(&self, scene: &Scene) {
        inherited(scene).await;
    }
}

/// Waits until the placeholder alone has the address and has the shape of one that nobody shares.
pub(super) async fn held_plainly(scene: &Scene) {
    plainly(&scene.stage, &scene.ip).await;
}

/// The same for any address.
pub(super) async fn plainly(stage: &Stage, ip: &str) {
    stage.held(ip).await;
    rig::eventually("one placeholder without the shape of the last Service", async || {
        let placeholders = stage.placeholders_of(ip).await;
        let plain = |service: &k8s_openapi::api::core::v1::Service| {
            service
                .spec
                .as_ref()
                .and_then(|spec| spec.selector.as_ref())
                .is_none_or(std::collections::BTreeMap::is_empty)
        };
        (placeholders.len() == 1 && placeholders.iter().all(plain)).then_some(())
    })
    .await;
}

/// Waits until Service `web` has no IP and nothing of ours on it.
async fn without_marks(stage: &Stage) {
    without_ours(stage, None).await;
}

/// The same for one that may have a sharing key of its own.
pub(super) async fn without_ours(stage: &Stage, key: Option<&str>) {
    rig::until(&stage.services(), "web", "to be without IP and marks", |service| {
        ingress(service).is_empty()
            && [metallb::PIN, driver::PINNED].iter().all(|name| !service.annotations().contains_key(*name))
            && service.annotations().get(metallb::SHARE).map(String::as_str) == key
            && !service.labels().contains_key(driver::ASSOCIATED)
            && !service.finalizers().iter().any(|name| name == driver::HANDOFF)
    })
    .await;
}
