//! The rig: a control plane with both charts installed by helm, and both controllers running with the charts'
//! service accounts.
//!
//! [`run`] gives a test the one that all tests share; [`alone`] gives it one of its own, to stop, kill and pause
//! parts of, or to run with other flags. Each test works on a [`Stage`]: namespaces, a pool and a class that nobody
//! else knows, so that tests run beside each other.
//!
//! ```ignore
//! rig::run(async |rig| {
//!     let stage = rig.stage("web", 1).await;
//!     stage.claim("web-ip").await;
//!     let ip = stage.bound("web-ip").await;
//!     stage.contend(&[&ip]).await; // a claim that waits, two thieves that wait
//!     stage.web("web", "web-ip").await;
//!     stage.served("web", &[&ip]).await;
//!     stage.finish().await; // nobody stole it, at no version nobody had it, nothing is written at rest
//! });
//! ```

#![allow(dead_code, reason = "the tests use it, each a part")]

mod audit;
mod bar;
mod contest;
mod errand;
mod look;
mod make;
mod own;
mod rights;
mod setup;
mod stage;
mod strike;
mod wait;
mod web;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use devcluster::proxy::Proxy;
use devcluster::{
    Cluster, Controller, Controllers, Dashboard, DashboardOptions, Jaeger, Part, Process, RunOptions,
};
use tokio::runtime::Runtime;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit, watch};

pub use self::audit::{Audit, Request};
pub use self::bar::Bar;
pub use self::contest::{BROKEN, LATE};
pub use self::errand::Said;
pub use self::look::*;
pub use self::make::*;
pub use self::own::Own;
pub use self::setup::{Pace, Setup, Traces};
pub use self::stage::Stage;
pub use self::strike::{Struck, amid, frozen_amid};
pub use self::wait::{eventually, gone, gone_within, until, until_within};
pub use self::web::{fetch, fetch_securely, json_at};

/// A client works only as long as the runtime it was made in, so the tests share that too.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static SHARED: OnceCell<Rig> = OnceCell::const_new();
static BUILT: OnceCell<Controllers> = OnceCell::const_new();
/// How many tests may work on control planes of their own at a time, for the machine's sake. Whoever is killed and
/// started there does nothing most of the time.
static ALONE: Semaphore = Semaphore::const_new(4);
/// How many may work on the shared one: more, and MetalLB has so many Services to look at that each waits for all.
static TOGETHER: Semaphore = Semaphore::const_new(6);
/// Each stage has addresses of its own: two pools of one cluster must not overlap.
static STAGES: AtomicUsize = AtomicUsize::new(1);
/// How many tests have begun on the shared control plane, and how many run there now.
static TESTS: LazyLock<watch::Sender<(usize, usize)>> = LazyLock::new(|| watch::Sender::new((0, 0)));

/// A control plane with both controllers on it.
pub struct Rig {
    /// The control plane.
    pub cluster: Cluster,
    /// The proxy between the driver and the API server, where the setup asked for one.
    pub driver_proxy: Option<Proxy>,
    /// The proxy between the core and the API server, where the setup asked for one.
    pub core_proxy: Option<Proxy>,
    /// The receiver of the traces, where the setup asked for one.
    pub jaeger: Option<Jaeger>,
    controllers: Controllers,
    setup: Setup,
}

/// Runs a test on the shared control plane, which the first that asks starts.
pub fn run(test: impl AsyncFnOnce(&'static Rig)) {
    RUNTIME.block_on(async {
        // Never dropped: the processes end with this one, the folder stays until a later run.
        let start = async || {
            let setup = Setup { dir: Some(crate::shared::folder("rig")), ..Setup::default() };
            Rig::own(setup).await
        };
        // Counted while it waits, too: the last one has to see it.
        TESTS.send_modify(|(begun, run)| (*begun, *run) = (*begun + 1, *run + 1));
        let _running = Running;
        let _permit = TOGETHER.acquire().await.unwrap();
        test(SHARED.get_or_init(start).await).await;
    });
}

/// Waits until the machine has room for one more control plane of a test's own, and keeps it.
pub async fn room() -> SemaphorePermit<'static> {
    ALONE.acquire().await.unwrap()
}

/// Waits until this test is the only one on the shared control plane; returns how many have begun.
pub async fn all_others_are_done() -> usize {
    TESTS.subscribe().wait_for(|(_, run)| *run == 1).await.unwrap().0
}

/// A test that runs, or has failed when this is dropped.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        TESTS.send_modify(|(_, run)| *run -= 1);
    }
}

/// Runs a test on a control plane of its own, ended with the test.
pub fn alone(setup: Setup, test: impl AsyncFnOnce(&Rig)) {
    RUNTIME.block_on(async {
        let _room = room().await;
        let rig = Rig::own(setup).await;
        test(&rig).await;
        rig.assert_none_denied();
    });
}

/// Everything is built before anything runs: a compiler beside the tests would let their waits run out.
async fn built() -> Controllers {
    devcluster::binaries::ensure(devcluster::Component::Jaeger).await.unwrap();
    Controllers::build(false).await.unwrap()
}

/// Builds what rigs need, where what is not there can still be fetched.
pub async fn prepare() {
    BUILT.get_or_init(built).await;
}

impl Rig {
    /// Brings up a control plane, installs both charts and runs the controllers that the setup asks for.
    pub async fn own(setup: Setup) -> Self {
        let controllers = BUILT.get_or_init(built).await.clone();
        let cluster = Cluster::start(setup.options()).await.unwrap();
        Self::on(cluster, controllers, setup).await
    }

    /// The same on a control plane that a test has brought up and prepared, ended with the test.
    pub fn later(
        setup: Setup,
        prepare: impl AsyncFnOnce(&Cluster) -> Stage,
        test: impl AsyncFnOnce(&Self, Stage),
    ) {
        RUNTIME.block_on(async {
            let _room = room().await;
            let controllers = BUILT.get_or_init(built).await.clone();
            let cluster = Cluster::start(setup.options()).await.unwrap();
            let stage = prepare(&cluster).await;
            let rig = Self::on(cluster, controllers, setup).await;
            test(&rig, stage).await;
            rig.assert_none_denied();
        });
    }

    async fn on(cluster: Cluster, controllers: Controllers, setup: Setup) -> Self {
        cluster.install_charts(&setup.core_helm(), &setup.driver_helm()).await.unwrap();
        let mut rig =
            Self { cluster, driver_proxy: None, core_proxy: None, jaeger: None, controllers, setup };
        if rig.setup.traces.is_some() {
            let jaeger = rig.cluster.run_jaeger().await.unwrap();
            rig.setup.send_traces_to(&jaeger);
            rig.jaeger = Some(jaeger);
        }
        if rig.setup.proxies {
            rig.driver_proxy = Some(rig.cluster.proxy().await.unwrap());
            rig.core_proxy = Some(rig.cluster.proxy().await.unwrap());
        }
        if rig.setup.controllers {
            let (core, driver) = (rig.start(Controller::Core), rig.start(Controller::Driver));
            tokio::join!(core, driver);
        }
        rig
    }

    /// Starts a controller as the setup says, for the first time, and waits until it is ready. Later, its
    /// [`Process`] starts and ends it: see [`Rig::process`].
    pub async fn start(&self, controller: Controller) -> Process {
        self.start_as(controller, controller.part()).await
    }

    /// Starts a further replica of a controller, under a name of its own.
    pub async fn start_as(&self, controller: Controller, name: &str) -> Process {
        match self.proxy(controller) {
            Some(proxy) => self.start_via(controller, name, proxy).await,
            None => self.launch(controller, name, self.setup.args(controller), None).await,
        }
    }

    /// Ends a controller, and starts it with these further flags in the place of the setup's.
    pub async fn restart_with(&self, controller: Controller, args: &[&str]) -> Process {
        self.process(controller).stop().await;
        let args = args.iter().map(ToString::to_string).collect();
        self.launch(controller, controller.part(), args, None).await
    }

    /// Starts a controller as the service account of its chart in another namespace than the usual one.
    pub async fn start_in(&self, controller: Controller, namespace: &str) -> Process {
        let account = self.cluster.kubeconfig_for(namespace, controller.name()).await.unwrap();
        self.launch(controller, controller.part(), self.setup.args(controller), Some(account)).await
    }

    /// Starts a replica of a controller behind a proxy of its own, under a name of its own.
    pub async fn start_via(&self, controller: Controller, name: &str, proxy: &Proxy) -> Process {
        let via = self.cluster.kubeconfig_via(proxy, controller.namespace(), controller.name());
        self.launch(controller, name, self.setup.args(controller), Some(via.await.unwrap())).await
    }

    async fn launch(
        &self,
        controller: Controller,
        name: &str,
        args: Vec<String>,
        kubeconfig: Option<PathBuf>,
    ) -> Process {
        let options = RunOptions {
            name: name.to_owned(),
            args,
            kubeconfig,
            leader_elect: self.setup.leader_elect,
            env: self.setup.env.iter().cloned().collect(),
        };
        self.cluster.run_controller(&self.controllers, controller, options).await.unwrap()
    }

    /// Runs a dashboard under a name of its own, with these flags; its chart has to be installed.
    pub async fn dashboard(&self, name: &str, args: &[&str]) -> Dashboard {
        let args = args.iter().map(ToString::to_string).collect();
        let options = DashboardOptions { name: name.to_owned(), args, ..DashboardOptions::default() };
        self.cluster.run_dashboard(&self.controllers, options).await.unwrap()
    }

    /// The proxy between a controller and the API server, if the setup asked for one.
    pub fn proxy(&self, controller: Controller) -> Option<&Proxy> {
        match controller {
            Controller::Core => self.core_proxy.as_ref(),
            Controller::Driver => self.driver_proxy.as_ref(),
        }
    }

    /// The process of a controller: kill, stop, pause, restart.
    pub fn process(&self, controller: Controller) -> Process {
        self.cluster.process(controller.part()).unwrap()
    }

    /// Starts a controller that was killed or stopped, and waits until it is ready again.
    pub async fn revive(&self, controller: Controller) {
        self.cluster.start_part(controller.part()).await.unwrap();
    }

    /// Everybody runs, and the proxies let everything through: an earlier test may have failed amid its upheaval.
    pub async fn mend(&self) {
        let plane = [Part::Etcd, Part::Apiserver, Part::ControllerManager, Part::Metallb];
        let plane = plane.iter().map(AsRef::as_ref);
        for part in plane.chain([Controller::Core, Controller::Driver].map(Controller::part)) {
            let process = self.cluster.process(part).unwrap();
            if process.is_running() {
                process.resume().unwrap();
            } else {
                self.cluster.start_part(part).await.unwrap();
            }
        }
        for proxy in [&self.core_proxy, &self.driver_proxy].into_iter().flatten() {
            proxy.reset();
        }
    }

    /// Who asked the API server for what.
    pub fn audit(&self) -> Audit {
        Audit::of(self.cluster.audit_log())
    }

    /// RBAC denied nothing to our service accounts.
    pub fn assert_none_denied(&self) {
        self.assert_none_denied_since(0);
    }

    /// RBAC has denied nothing to our service accounts since the audit log was so long.
    pub fn assert_none_denied_since(&self, mark: u64) {
        let denied: BTreeSet<_> =
            self.audit().since(mark).iter().filter(|request| request.denied).map(Request::rule).collect();
        assert!(denied.is_empty(), "denied: {denied:#?}");
    }

    /// Namespaces `name` and `name-thief`, a pool of that many IPv4 addresses, and its class.
    pub async fn stage(&self, name: &str, addresses: usize) -> Stage {
        self.stage_dual(name, addresses, 0).await
    }

    /// As [`Rig::stage`], with IPv6 addresses in the pool as well.
    pub async fn stage_dual(&self, name: &str, v4: usize, v6: usize) -> Stage {
        let stage = stage_on(&self.cluster, name, v4, v6).await;
        Stage { balancer: self.setup.balancer.clone(), ..stage }
    }
}

/// A stage on a control plane whose CRDs are there.
pub async fn stage_on(cluster: &Cluster, name: &str, v4: usize, v6: usize) -> Stage {
    let number = STAGES.fetch_add(1, Ordering::Relaxed);
    Stage::set(cluster, name, number, v4, v6).await
}
