//! Two replicas of a controller, each behind a proxy of its own.

use std::time::{Duration, Instant};

use devcluster::proxy::{Proxy, Verb};
use devcluster::{Controller, Process};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::BOTH;
use crate::rig::{self, Rig};

static PAIRS: OnceCell<Mutex<[Pair; 2]>> = OnceCell::const_new();

/// The replicas of the core and of the driver, started by the first test that asks.
pub(super) async fn pairs(rig: &Rig) -> MutexGuard<'static, [Pair; 2]> {
    let start = async || {
        let [core, driver] = BOTH;
        Mutex::new([Pair::start(rig, core).await, Pair::start(rig, driver).await])
    };
    PAIRS.get_or_init(start).await.lock().await
}

/// One replica.
pub(super) struct Replica {
    process: Process,
    proxy: Proxy,
}

impl Replica {
    async fn start(rig: &Rig, controller: Controller, number: usize) -> Self {
        let proxy = rig.cluster.proxy().await.unwrap();
        let name = format!("{}-{number}", controller.part());
        Self { process: rig.start_via(controller, &name, &proxy).await, proxy }
    }

    pub(super) fn name(&self) -> &str {
        self.process.name()
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    pub(super) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// How many requests for a change it has made, those of events and leases included.
    pub(super) fn changes(&self) -> u64 {
        let reads = [Verb::Get, Verb::List, Verb::Watch];
        let counts = self.proxy.counts();
        counts.iter().filter(|((verb, _), _)| !reads.contains(verb)).map(|(_, count)| count).sum()
    }

    /// What it tells in numbers.
    pub(super) async fn metrics(&self) -> String {
        rig::fetch(self.process.metrics_address().unwrap(), "/metrics").await
    }

    /// Its `/readyz` answers 200.
    pub(super) async fn assert_ready(&self) {
        let url = self.process.spec().ready_url.as_deref().unwrap();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/readyz").unwrap();
        let answer = rig::fetch(address, "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{}: {answer}", self.name());
    }
}

/// Two replicas of one controller.
pub(super) struct Pair {
    controller: Controller,
    replicas: [Replica; 2],
    /// Which of them leads, as of the beginning of the test.
    leader: usize,
}

impl Pair {
    async fn start(rig: &Rig, controller: Controller) -> Self {
        let first = Replica::start(rig, controller, 1).await;
        let second = Replica::start(rig, controller, 2).await;
        Self { controller, replicas: [first, second], leader: 0 }
    }

    /// Starts what an earlier test has ended, and sees who leads.
    pub(super) async fn ready(&mut self, rig: &Rig) {
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
    pub(super) fn name(&self) -> &'static str {
        self.controller.name()
    }

    pub(super) fn leader(&self) -> &Replica {
        &self.replicas[self.leader]
    }

    pub(super) fn standby(&self) -> &Replica {
        &self.replicas[1 - self.leader]
    }

    /// Waits until the other has the lease, which it must within a time from a moment on.
    pub(super) async fn followed(&self, rig: &Rig, at: Instant, within: Duration) {
        let heir = format!("{}_", self.standby().name());
        rig::eventually(&format!("{heir} to lead"), async || {
            self.holder(rig).await.filter(|holder| holder.starts_with(&heir))
        })
        .await;
        let took = at.elapsed();
        println!("{} leads after {:.1} s", self.standby().name(), took.as_secs_f32());
        assert!(took < within, "{} took over after {took:?}", self.standby().name());
    }

    /// The one that took over says that the lease was lost: the other cannot any more.
    pub(super) async fn tells_of_a_lost_lease(&self) {
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
