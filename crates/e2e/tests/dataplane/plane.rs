//! The one control plane with a network, inside whose node all tests run.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use devcluster::{Network, binaries};
use tokio::runtime::Runtime;

use crate::rig::{self, Rig, Setup};
use crate::shared;

static PLANE: OnceLock<(Runtime, Plane)> = OnceLock::new();
static TURN: Mutex<()> = Mutex::new(());

/// A control plane in a network.
pub struct Plane {
    /// Node, client and pods.
    pub network: Network,
    /// The control plane, with both controllers, the driver behind a proxy.
    pub rig: Rig,
}

/// Runs a test on it, alone. RBAC must deny nothing to our service accounts meanwhile.
pub fn run(test: impl AsyncFnOnce(&'static Plane)) {
    let _turn = turn();
    // Never dropped: processes and network end with this process.
    let (runtime, plane) = PLANE.get_or_init(start);
    plane.network.node().enter().unwrap();
    runtime.block_on(async {
        let mark = plane.rig.audit().mark();
        test(plane).await;
        plane.rig.assert_none_denied_since(mark);
    });
}

/// Waits until no other test is at work.
pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() -> (Runtime, Plane) {
    let dir = shared::folder("dataplane");
    let setup = Setup { dir: Some(dir), ..Setup::proxied() };
    // From inside nothing can be fetched.
    Runtime::new().unwrap().block_on(async {
        rig::prepare().await;
        binaries::ensure_for_network(&setup.options()).await.unwrap();
    });
    let network = Network::create().unwrap();
    let runtime = network.runtime().unwrap();
    let setup = Setup { network: Some(network.clone()), ..setup };
    let rig = runtime.block_on(Rig::own(setup));
    (runtime, Plane { network, rig })
}
