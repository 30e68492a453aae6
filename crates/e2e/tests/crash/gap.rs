//! The handoffs by a gap in which the driver dies: a claim waits for an address of the full pool, and never gets this one.

use devcluster::Controller;

use super::{Flow, Scene, driver, waited_for};
use crate::rig::Stage;

/// A Service names the claim.
pub(super) struct Forward;

impl Flow for Forward {
    const NAME: &'static str = "crash-gap-forward";
    const VICTIM: Controller = Controller::Driver;
    const WRITES: usize = 5;

    async fn prepare(&self, stage: Stage) -> Scene {
        waited_for(stage).await
    }

    async fn begin(&self, scene: &Scene) {
        driver::Forward.begin(scene).await;
    }

    async fn complete(&self, scene: &Scene) {
        driver::Forward.complete(scene).await;
    }

    async fn after(&self, scene: &Scene) {
        scene.stage.assert_nothing_stolen().await;
    }
}

/// The Service that has the address is deleted.
pub(super) struct Deleted;

impl Flow for Deleted {
    const NAME: &'static str = "crash-gap-deleted";
    const VICTIM: Controller = Controller::Driver;
    const WRITES: usize = 5;

    async fn prepare(&self, stage: Stage) -> Scene {
        served(stage).await
    }

    async fn begin(&self, scene: &Scene) {
        driver::Deleted.begin(scene).await;
    }

    async fn complete(&self, scene: &Scene) {
        driver::Deleted.complete(scene).await;
    }

    async fn after(&self, scene: &Scene) {
        scene.stage.assert_nothing_stolen().await;
    }
}

/// The Service that has the address names no claim any more.
pub(super) struct Unannotated;

impl Flow for Unannotated {
    const NAME: &'static str = "crash-gap-unannotated";
    const VICTIM: Controller = Controller::Driver;
    const WRITES: usize = 5;

    async fn prepare(&self, stage: Stage) -> Scene {
        served(stage).await
    }

    async fn begin(&self, scene: &Scene) {
        driver::Unannotated.begin(scene).await;
    }

    async fn complete(&self, scene: &Scene) {
        driver::Unannotated.complete(scene).await;
    }

    async fn after(&self, scene: &Scene) {
        scene.stage.assert_nothing_stolen().await;
    }
}

async fn served(stage: Stage) -> Scene {
    let scene = waited_for(stage).await;
    scene.stage.web("web", "web-ip").await;
    scene.stage.served("web", &[&scene.ip]).await;
    scene
}
