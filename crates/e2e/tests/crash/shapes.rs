//! Services of every shape that takes another path, there and back in one run, and those whose way back is another one: the
//! driver dies at each write.

use api::wellknown::{CLAIM, metallb};
use devcluster::Controller;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::driver::{held_plainly, plainly, without_ours};
use super::{Flow, Scene, held, served, waited_for};
use crate::rig::{self, Stage};

/// The key that a tenant has put on a Service.
const KEY: &str = "mine";
/// A finalizer that nobody takes off until a test does.
const LINGERS: &str = "x.example/y";

/// How a Service differs from the plain one.
pub(super) trait Shape {
    /// The name of its stages.
    const NAME: &'static str;
    /// How many IPv6 addresses it has.
    const SIXES: usize = 0;
    /// The sharing key that its tenant has put on it.
    const KEY: Option<&'static str> = None;
    /// Whether the way back is its deletion; else the annotation is taken off.
    const DELETED: bool;

    /// Its specification, but for what is as always.
    fn spec(&self) -> Value;
}

/// `externalTrafficPolicy: Local`, on the port of placeholders.
pub(super) struct Local;

impl Shape for Local {
    const NAME: &'static str = "crash-local";
    const DELETED: bool = true;

    fn spec(&self) -> Value {
        json!({ "externalTrafficPolicy": "Local", "ports": [{ "port": 65535 }] })
    }
}

/// Both families.
pub(super) struct Dual;

impl Shape for Dual {
    const NAME: &'static str = "crash-dual";
    const SIXES: usize = 1;
    const DELETED: bool = false;

    fn spec(&self) -> Value {
        json!({ "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"] })
    }
}

/// A sharing key of the tenant's.
pub(super) struct TenantKey;

impl Shape for TenantKey {
    const NAME: &'static str = "crash-key";
    const KEY: Option<&'static str> = Some(KEY);
    const DELETED: bool = true;

    fn spec(&self) -> Value {
        json!({})
    }
}

/// A Service of that shape gets the address, and gives it back.
pub(super) struct Round<S>(pub(super) S);

impl<S: Shape> Flow for Round<S> {
    const NAME: &'static str = S::NAME;
    const VICTIM: Controller = Controller::Driver;
    const WRITES: usize = 11;
    const SIXES: usize = S::SIXES;

    async fn prepare(&self, stage: Stage) -> Scene {
        if S::SIXES == 0 {
            return held(stage).await;
        }
        stage.claim_with("web-ip", json!({ "family": "Dual" })).await;
        stage.bound("web-ip").await;
        for ip in ips(&stage) {
            stage.held(ip).await;
        }
        stage.contend(&ips(&stage)).await;
        let ip = stage.v4[0].clone();
        let uid = stage.addresses().get(&rig::address_name(&ip)).await.unwrap().metadata.uid.unwrap();
        Scene { stage, ip, uid }
    }

    async fn begin(&self, scene: &Scene) {
        let mut web = rig::load_balancer("web", json!({ CLAIM: "web-ip" }));
        for (field, value) in self.0.spec().as_object().unwrap() {
            web["spec"][field] = value.clone();
        }
        if let Some(key) = S::KEY {
            web["metadata"]["annotations"][metallb::SHARE] = json!(key);
        }
        scene.stage.service(web).await;
    }

    async fn complete(&self, scene: &Scene) {
        let stage = &scene.stage;
        // It may have been on its way back already when the driver died.
        let web = stage.services().get_opt("web").await.unwrap();
        if web.is_some_and(|web| is_there(&web)) {
            stage.served_under("web", &ips(stage), S::KEY).await;
            if S::DELETED {
                rig::delete(&stage.services(), "web").await;
            } else {
                stage.name_claim("web", None).await;
            }
        }
        if S::DELETED {
            rig::gone(&stage.services(), "web").await;
        } else {
            without_ours(stage, S::KEY).await;
        }
        for ip in ips(stage) {
            plainly(stage, ip).await;
        }
    }

    async fn after(&self, scene: &Scene) {
        scene.stage.assert_nothing_stolen().await;
        for ip in ips(&scene.stage) {
            scene.stage.assert_never_unheld(ip).await;
        }
    }
}

/// All addresses of a stage.
fn ips(stage: &Stage) -> Vec<&str> {
    stage.v4.iter().chain(&stage.v6).map(String::as_str).collect()
}

/// Whether it names its claim and is not being deleted.
fn is_there(web: &Service) -> bool {
    web.metadata.deletion_timestamp.is_none() && web.annotations().contains_key(CLAIM)
}

/// The Service that has the address is deleted while another waits for it.
pub(super) struct Waiter;

impl Flow for Waiter {
    const NAME: &'static str = "crash-waiter";
    const VICTIM: Controller = Controller::Driver;
    const WRITES: usize = 11;

    async fn prepare(&self, stage: Stage) -> Scene {
        let scene = served(stage).await;
        scene.stage.web("web-v2", "web-ip").await;
        scene.stage.event("web-v2", "AssociationRejected").await;
        scene
    }

    async fn begin(&self, scene: &Scene) {
        rig::delete(&scene.stage.services(), "web").await;
    }

    async fn complete(&self, scene: &Scene) {
        rig::gone(&scene.stage.services(), "web").await;
        scene.stage.served("web-v2", &[&scene.ip]).await;
    }
}

/// The Service that has the address is deleted, and lingers behind somebody else's finalizer.
pub(super) struct Lingering;

impl Flow for Lingering {
    const NAME: &'static str = "crash-lingering";
    const VICTIM: Controller = Controller::Driver;
    const WRITES: usize = 5;

    async fn prepare(&self, stage: Stage) -> Scene {
        let scene = held(stage).await;
        let mut web = rig::load_balancer("web", json!({ CLAIM: "web-ip" }));
        web["metadata"]["finalizers"] = json!([LINGERS]);
        scene.stage.service(web).await;
        scene.stage.served("web", &[&scene.ip]).await;
        scene
    }

    async fn begin(&self, scene: &Scene) {
        rig::delete(&scene.stage.services(), "web").await;
    }

    async fn complete(&self, scene: &Scene) {
        without_ours(&scene.stage, None).await;
        held_plainly(scene).await;
    }

    async fn after(&self, scene: &Scene) {
        let stage = &scene.stage;
        assert_eq!(stage.services().get("web").await.unwrap().finalizers(), [LINGERS]);
        let none = json!({ "metadata": { "finalizers": null } });
        rig::patch(&stage.services(), "web", none).await;
        rig::gone(&stage.services(), "web").await;
        stage.assert_nothing_stolen().await;
        stage.assert_never_unheld(&scene.ip).await;
    }
}

/// The Service that has the address becomes a `ClusterIP`, and a load balancer again when the address is held. The API
/// server takes the IP off it at once, so that only those wait for it who must not get it anyhow.
pub(super) struct Flipped;

impl Flipped {
    async fn flip(stage: &Stage, kind: &str) {
        rig::patch(&stage.services(), "web", json!({ "spec": { "type": kind } })).await;
    }
}

impl Flow for Flipped {
    const NAME: &'static str = "crash-flipped";
    const VICTIM: Controller = Controller::Driver;
    const WRITES: usize = 10;

    async fn prepare(&self, stage: Stage) -> Scene {
        let scene = waited_for(stage).await;
        scene.stage.web("web", "web-ip").await;
        scene.stage.served("web", &[&scene.ip]).await;
        scene
    }

    async fn begin(&self, scene: &Scene) {
        Self::flip(&scene.stage, "ClusterIP").await;
    }

    async fn complete(&self, scene: &Scene) {
        let web = scene.stage.services().get("web").await.unwrap();
        if web.spec.unwrap().type_.as_deref() == Some("ClusterIP") {
            held_plainly(scene).await;
            Self::flip(&scene.stage, "LoadBalancer").await;
        }
        scene.stage.served("web", &[&scene.ip]).await;
    }

    async fn after(&self, scene: &Scene) {
        scene.stage.assert_nothing_stolen().await;
    }
}
