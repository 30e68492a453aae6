//! Two replicas of a controller, each behind a proxy of its own.

use std::time::{Duration, Instant};

use devcluster::proxy::{Proxy, Verb};
use devcluster::{Controller, Process};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::{BOTH, FOLLOWED_WITHIN};
use crate::rig::{self, Rig, Struck};

/// The leader is struck after so many writes: in the middle of a handoff, or of a binding.
const STRUCK_AFTER: u64 = 2;

static PAIRS: OnceCell<Mutex<[Pair; 2]>> = OnceCell::const_new();

/// The replicas of the core and of the driver, started by the first test that asks.
pub(crate) async fn pairs(rig: &Rig) -> MutexGuard<'static, [Pair; 2]> {
    let start = async || {
        let [core, driver] = BOTH;
        Mutex::new([Pair::start(rig, core).await, Pair::start(rig, driver).await])
    };
    PAIRS.get_or_init(start).await.lock().await
}

/// One replica.
pub(crate) struct Replica {
    process: Process,
    proxy: Proxy,
}

impl Replica {
    async fn start(rig: &Rig, controller: Controller, number: usize) -> Self {
        let proxy = rig.cluster.proxy().await.unwrap();
        let name = format!("{}-{number}", controller.part());
        Self { process: rig.start_via(controller, &name, &proxy).await, proxy }
    }

    pub(crate) fn name(&self) -> &str {
        self.process.name()
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// How many requests for a change it has made, those of events and leases included.
    pub(crate) fn changes(&self) -> u64 {
        let reads = [Verb::Get, Verb::List, Verb::Watch];
        let counts = self.proxy.counts();
        counts.iter().filter(|((verb, _), _)| !reads.contains(verb)).map(|(_, count)| count).sum()
    }

    /// What it tells in numbers.
    pub(crate) async fn metrics(&self) -> String {
        rig::fetch(self.process.metrics_address().unwrap(), "/metrics").await
    }

    /// Its `/readyz` answers 200.
    pub(crate) async fn assert_ready(&self) {
        let url = self.process.spec().ready_url.as_deref().unwrap();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/readyz").unwrap();
        let answer = rig::fetch(address, "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{}: {answer}", self.name());
    }
}

/// Two replicas of one controller.
pub(crate) struct Pair {
    controller: Controller,
    replicas: [Replica; 2],
    /// Which of them leads, as of the beginning of the test.
    leader: usize,
}

impl Pair {
    pub(crate) async fn start(rig: &Rig, controller: Controller) -> Self {
        let first = Replica::start(rig, controller, 1).await;
        let second = Replica::start(rig, controller, 2).await;
        Self { controller, replicas: [first, second], leader: 0 }
    }

    /// Starts what an earlier test has ended, and sees who leads.
    pub(crate) async fn ready(&mut self, rig: &Rig) {
        for replica in &self.replicas {
            replica.proxy.clear();
            if replica.process.is_running() {
                replica.process.resume().unwrap();
            } else {
                rig.cluster.start_part(replica.name()).await.unwrap();
            }
        }
        self.leader = rig::eventually("a leader", async || {
            let holder = self.holder(rig).await?;
            self.replicas.iter().position(|replica| holder.starts_with(&format!("{}_", replica.name())))
        })
        .await;
    }

    /// The name of the lease.
    pub(crate) fn name(&self) -> &'static str {
        self.controller.name()
    }

    pub(crate) fn leader(&self) -> &Replica {
        &self.replicas[self.leader]
    }

    pub(crate) fn standby(&self) -> &Replica {
        &self.replicas[1 - self.leader]
    }

    /// Waits until the other has the lease, which it must within a time from a moment on.
    pub(crate) async fn followed(&self, rig: &Rig, at: Instant, within: Duration) {
        let heir = format!("{}_", self.standby().name());
        rig::eventually(&format!("{heir} to lead"), async || {
            self.holder(rig).await.filter(|holder| holder.starts_with(&heir))
        })
        .await;
        let took = at.elapsed();
        println!("{} leads after {:.1} s", self.standby().name(), took.as_secs_f32());
        assert!(took < within, "{} took over after {took:?}", self.standby().name());
    }

    /// A leader that was frozen until another had the lease writes nothing when it wakes, and ends with exit code 1.
    pub(crate) async fn the_frozen_one_ends(&self) {
        let (old, before) = (self.leader(), self.leader().changes());
        old.process().resume().unwrap();
        let exit = tokio::time::timeout(FOLLOWED_WITHIN, old.process().wait()).await.unwrap().unwrap();
        assert_eq!(exit.code, Some(1), "{}: {exit}", old.name());
        assert_eq!(old.changes(), before, "{} wrote when it woke", old.name());
    }

    /// The one that took over says that the lease was lost: the other cannot any more.
    pub(crate) async fn tells_of_a_lost_lease(&self) {
        let told = format!("leader_election_takeover_timestamp_seconds{{name=\"{}\"}} ", self.name());
        rig::eventually(&format!("{} to tell of a lost lease", self.standby().name()), async || {
            self.standby().metrics().await.contains(&told).then_some(())
        })
        .await;
    }

    /// Who has the lease.
    async fn holder(&self, rig: &Rig) -> Option<String> {
        let leases: Api<Lease> = Api::namespaced(rig.cluster.admin(), self.controller.namespace());
        let lease = leases.get_opt(self.controller.name()).await.unwrap()?;
        lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
    }
}

/// What is done to a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    Kill,
    Stop,
    Freeze,
}

/// Strikes the leader once its writes have been answered so many times, before it hears the last answer.
pub(crate) fn strike(pair: &Pair, blow: Blow) -> Struck {
    let (process, proxy) = (pair.leader().process().clone(), pair.leader().proxy());
    rig::amid(proxy, STRUCK_AFTER, move || {
        let process = process.clone();
        async move {
            match blow {
                Blow::Kill => process.kill().await,
                // It ends only when it has heard the answer.
                Blow::Stop => drop(tokio::spawn(async move { process.stop().await })),
                Blow::Freeze => process.pause().unwrap(),
            }
        }
    })
}
