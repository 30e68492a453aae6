//! A control plane that the tests of one module share.

use tokio::sync::{Mutex, OnceCell};

use super::{RUNTIME, Rig, Setup, room};

/// A control plane that the tests of one module share, one after the other: they may kill its parts.
pub struct Own {
    name: &'static str,
    rig: OnceCell<Rig>,
    turn: Mutex<()>,
}

impl Own {
    /// None yet: the first test starts it. Never dropped: its processes end with this one, its folder of that name
    /// stays until a later run.
    pub const fn new(name: &'static str) -> Self {
        Self { name, rig: OnceCell::const_new(), turn: Mutex::const_new(()) }
    }

    /// Runs a test on it, alone. RBAC must deny nothing to our service accounts meanwhile.
    pub fn run(&'static self, setup: Setup, test: impl AsyncFnOnce(&'static Rig)) {
        self.run_though_denied(setup, async |rig| {
            let mark = rig.audit().mark();
            test(rig).await;
            rig.assert_none_denied_since(mark);
        });
    }

    /// The same for a test that takes rights away from our service accounts, or has them unknown for a moment.
    pub fn run_though_denied(&'static self, setup: Setup, test: impl AsyncFnOnce(&'static Rig)) {
        RUNTIME.block_on(async {
            let _turn = self.turn.lock().await;
            let _room = room().await;
            let start = async || {
                let setup = Setup { dir: Some(crate::shared::folder(self.name)), ..setup };
                Rig::own(setup).await
            };
            test(self.rig.get_or_init(start).await).await;
        });
    }
}
