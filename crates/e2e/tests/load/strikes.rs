//! What the world does to a load.

use std::time::{Duration, Instant};

use devcluster::proxy::{Proxy, Rule};
use devcluster::{Controller, Part, Process};

use super::tenants::WITHIN;
use crate::rig::{self, Rig};

/// A fault, over when it has fallen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Strike {
    /// SIGKILL of a controller once its so-manieth write from now on was answered, before it hears the answer.
    Kill(Controller, u64),
    /// SIGSTOP of a controller at such a moment.
    Freeze(Controller, u64, Duration),
    /// SIGKILL of a part of the control plane once the driver's so-manieth write was answered, before it hears it.
    KillPart(Part, u64),
    /// SIGSTOP of a part of the control plane at such a moment.
    FreezePart(Part, u64, Duration),
    /// Every connection of both controllers is closed.
    Cut,
    /// So many writes of each controller are answered with a status.
    Refuse(u16, u64),
    /// For a while every request is answered with a status, and so is each watch that is asked for anew.
    Deny(u16, Duration),
}

const LOOK: Duration = Duration::from_millis(100);
const SHORT: Duration = Duration::from_secs(3);
/// As long as the issue asks of the store.
const LONG: Duration = Duration::from_secs(20);

/// Every fault, in turn.
pub(super) const ALL: &[Strike] = &[
    Strike::Kill(Controller::Driver, 2),
    Strike::Freeze(Controller::Driver, 3, SHORT),
    Strike::Kill(Controller::Core, 2),
    Strike::Freeze(Controller::Core, 3, SHORT),
    Strike::KillPart(Part::Metallb, 2),
    Strike::KillPart(Part::Metallb, 4),
    Strike::FreezePart(Part::Metallb, 3, SHORT),
    Strike::Cut,
    Strike::Refuse(429, 10),
    Strike::Refuse(500, 10),
    Strike::Deny(500, SHORT),
    Strike::KillPart(Part::ControllerManager, 1),
    Strike::FreezePart(Part::ControllerManager, 1, SHORT),
    Strike::FreezePart(Part::Etcd, 2, LONG),
    Strike::KillPart(Part::Etcd, 3),
    Strike::FreezePart(Part::Apiserver, 2, SHORT),
    Strike::KillPart(Part::Apiserver, 3),
];

/// The processes of both controllers.
pub(super) fn pids(rig: &Rig) -> [Option<u32>; 2] {
    BOTH.map(|controller| rig.process(controller).pid())
}

const BOTH: [Controller; 2] = [Controller::Core, Controller::Driver];

impl Strike {
    pub(super) fn ends_the_api_server(self) -> bool {
        matches!(self, Self::KillPart(Part::Apiserver, _))
    }

    /// Whether anybody's work can depend on it.
    pub(super) fn touches_the_load(self) -> bool {
        !matches!(
            self,
            Self::KillPart(Part::ControllerManager, _) | Self::FreezePart(Part::ControllerManager, ..)
        )
    }

    /// MetalLB looks at everything when it starts, and at nothing else until such a look met no change of a sharing key; it
    /// doubles the time between two looks up to 16 minutes. So it needs a moment in which nobody's address changes hands.
    pub(super) fn wants_a_rest(self) -> bool {
        matches!(self, Self::KillPart(Part::Metallb, _))
    }

    pub(super) fn ends_a_controller(self) -> bool {
        matches!(self, Self::Kill(..))
    }

    /// Does it, and makes it good again.
    pub(super) async fn fall(self, rig: &Rig) {
        match self {
            Self::Kill(controller, after) => {
                killed(rig.process(controller), proxy(rig, controller), after).await;
                rig.revive(controller).await;
            }
            Self::Freeze(controller, after, long) => {
                frozen(rig.process(controller), proxy(rig, controller), after, long).await;
            }
            Self::KillPart(part, after) => {
                killed(rig.cluster.process(part).unwrap(), proxy(rig, Controller::Driver), after).await;
                rig.cluster.start_part(part).await.unwrap();
            }
            Self::FreezePart(part, after, long) => {
                let process = rig.cluster.process(part).unwrap();
                frozen(process, proxy(rig, Controller::Driver), after, long).await;
            }
            Self::Cut => {
                for controller in BOTH {
                    proxy(rig, controller).cut();
                }
            }
            Self::Refuse(status, times) => refused(rig, status, times).await,
            Self::Deny(status, long) => {
                for controller in BOTH {
                    proxy(rig, controller).add(Rule::when(|_| true).answer(status));
                    proxy(rig, controller).cut();
                }
                tokio::time::sleep(long).await;
            }
        }
        for controller in BOTH {
            proxy(rig, controller).clear();
        }
    }
}

fn proxy(rig: &Rig, controller: Controller) -> &Proxy {
    rig.proxy(controller).unwrap()
}

async fn killed(process: Process, proxy: &Proxy, after: u64) {
    let mut struck = rig::amid(proxy, after, move || {
        let process = process.clone();
        async move { process.kill().await }
    });
    struck.came_within(WITHIN).await;
}

async fn frozen(process: Process, proxy: &Proxy, after: u64, long: Duration) {
    rig::frozen_amid(proxy, after, &process).came_within(WITHIN).await;
    tokio::time::sleep(long).await;
    process.resume().unwrap();
}

async fn refused(rig: &Rig, status: u16, times: u64) {
    for controller in BOTH {
        let rule = Rule::when(|call| call.write.is_some());
        let rule = if status == 429 { rule.throttle(1) } else { rule.answer(status) };
        proxy(rig, controller).reset();
        proxy(rig, controller).add(rule.times(times));
    }
    let deadline = Instant::now() + WITHIN;
    let refused = |controller: &Controller| {
        let writes = proxy(rig, *controller).writes();
        u64::try_from(writes.iter().filter(|write| write.status.is_none()).count()).unwrap() >= times
    };
    while !BOTH.iter().all(refused) {
        assert!(Instant::now() < deadline, "a controller wrote less than {times} times");
        tokio::time::sleep(LOOK).await;
    }
}
