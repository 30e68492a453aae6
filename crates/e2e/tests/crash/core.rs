//! The flows in which the core dies.

use api::address::AddressPhase;
use devcluster::Controller;
use kube::api::DeleteParams;
use serde_json::json;

use super::{Flow, Scene, address_gone, held, inherited, waited_for};
use crate::rig::{self, Stage};

/// A claim that names a static address, which is kept for it.
pub(super) struct Named;

impl Flow for Named {
    const NAME: &'static str = "crash-named";
    const VICTIM: Controller = Controller::Core;
    const WRITES: usize = 4;

    async fn prepare(&self, stage: Stage) -> Scene {
        let claim = json!({ "namespace": stage.name, "name": "web-ip" });
        let scene = fixed(stage, Some(claim)).await;
        scene.stage.contend(&[&scene.ip]).await;
        scene
    }

    async fn begin(&self, scene: &Scene) {
        let address = rig::address_name(&scene.ip);
        scene.stage.claim_with("web-ip", json!({ "addressName": address })).await;
    }

    async fn complete(&self, scene: &Scene) {
        bound(scene).await;
    }
}

/// A claim that any address is good for, and one static address that is available.
pub(super) struct Available;

impl Flow for Available {
    const NAME: &'static str = "crash-available";
    const VICTIM: Controller = Controller::Core;
    const WRITES: usize = 4;

    async fn prepare(&self, stage: Stage) -> Scene {
        let scene = fixed(stage, None).await;
        scene.stage.address_is(&scene.ip, AddressPhase::Available).await;
        scene
    }

    async fn begin(&self, scene: &Scene) {
        scene.stage.claim("web-ip").await;
    }

    async fn complete(&self, scene: &Scene) {
        bound(scene).await;
    }

    async fn after(&self, scene: &Scene) {
        // Nobody may have waited before: who waits gets an available address.
        scene.stage.contend(&[&scene.ip]).await;
        scene.stage.assert_nothing_stolen().await;
        scene.stage.assert_never_unheld(&scene.ip).await;
    }
}

/// The claim of an address that outlives it is deleted.
pub(super) struct Retain;

impl Flow for Retain {
    const NAME: &'static str = "crash-retain";
    const VICTIM: Controller = Controller::Core;
    const WRITES: usize = 2;

    async fn prepare(&self, stage: Stage) -> Scene {
        held(stage).await
    }

    async fn begin(&self, scene: &Scene) {
        scene.stage.claims().delete("web-ip", &DeleteParams::default()).await.unwrap();
    }

    async fn complete(&self, scene: &Scene) {
        rig::gone(&scene.stage.claims(), "web-ip").await;
        let address = scene.stage.address_is(&scene.ip, AddressPhase::Released).await;
        assert_eq!(address.metadata.uid.as_deref(), Some(&*scene.uid));
        scene.stage.held(&scene.ip).await;
    }
}

/// The claim of an address that dies with it is deleted.
pub(super) struct Delete;

impl Flow for Delete {
    const NAME: &'static str = "crash-delete";
    const VICTIM: Controller = Controller::Core;
    const WRITES: usize = 3;

    async fn prepare(&self, stage: Stage) -> Scene {
        stage.delete_with_claims().await;
        waited_for(stage).await
    }

    async fn begin(&self, scene: &Scene) {
        scene.stage.claims().delete("web-ip", &DeleteParams::default()).await.unwrap();
    }

    async fn complete(&self, scene: &Scene) {
        rig::gone(&scene.stage.claims(), "web-ip").await;
        address_gone(scene).await;
    }

    async fn after(&self, scene: &Scene) {
        inherited(scene).await;
    }
}

/// A stage with one static address, held.
async fn fixed(stage: Stage, claim: Option<serde_json::Value>) -> Scene {
    let ip = stage.v4[0].clone();
    stage.address(&ip, claim).await;
    let address = stage.held(&ip).await;
    Scene { stage, ip, uid: address.metadata.uid.unwrap() }
}

async fn bound(scene: &Scene) {
    assert_eq!(scene.stage.bound("web-ip").await, scene.ip);
    let address = scene.stage.address_is(&scene.ip, AddressPhase::Bound).await;
    assert_eq!(address.metadata.uid.as_deref(), Some(&*scene.uid));
    scene.stage.held(&scene.ip).await;
}
