//! Two replicas of each controller: one leads, the other stands by; the leader dies, leaves or freezes amid its work.

pub(crate) mod replicas;

use std::time::Duration;

use api::address::HandoffMode;
use devcluster::Controller;
use serde_json::json;

use self::replicas::{Blow, Pair, pairs, strike};
use crate::rig::{self, Own, Rig, Setup, Stage};

static OWN: Own = Own::new("leader");
/// A lease is taken when it was seen unchanged for its 15 seconds; the rest is for looking, and for a busy machine.
const TAKEN_WITHIN: Duration = Duration::from_secs(20);
/// A lease that was let go is taken at the next look.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(5);

fn on_replicas(test: impl AsyncFnOnce(&Rig, [&mut Pair; 2])) {
    let setup = Setup { controllers: false, ..Setup::default() };
    OWN.run(setup, async |rig| {
        let mut all = pairs(rig).await;
        let [core, driver] = &mut *all;
        core.ready(rig).await;
        driver.ready(rig).await;
        test(rig, [core, driver]).await;
    });
}

/// §3 (d), (f): a replica that stands by is ready and writes nothing, while the other does all the work.
#[test]
fn c3_standby_writes_nothing() {
    on_replicas(async |rig, pairs| {
        let before = pairs.each_ref().map(|pair| pair.standby().changes());
        let flow = Flow::begin(rig, "standby").await;
        flow.complete().await;
        for (pair, before) in pairs.into_iter().zip(before) {
            pair.standby().assert_ready().await;
            assert_eq!(pair.standby().changes(), before, "{}", pair.standby().name());
        }
    });
}

/// §14: a replica that stands by has the same in its caches, and tells nothing of it: nothing is counted twice.
#[test]
fn c14_standby_tells_nothing() {
    on_replicas(async |rig, pairs| {
        let flow = Flow::begin(rig, "told").await;
        flow.complete().await;
        for pair in pairs {
            let status = format!("leader_election_master_status{{name=\"{}\"}}", pair.name());
            let page = pair.leader().metrics().await;
            assert!(page.contains(&format!("{status} 1")) && page.contains("\nipam_"), "{page}");
            let page = pair.standby().metrics().await;
            assert!(page.contains(&format!("{status} 0")) && !page.contains("\nipam_"), "{page}");
        }
    });
}

/// §3 (d): the leader is killed amid a handoff, or a binding: the other takes over within the time of the lease, and
/// completes.
#[test]
fn c3_leader_killed() {
    on_replicas(async |rig, pairs| {
        let mut flow = Flow::prepare(rig, "killed").await;
        let mut struck = pairs.each_ref().map(|pair| strike(pair, Blow::Kill));
        flow.set_off().await;
        for (pair, struck) in pairs.iter().zip(&mut struck) {
            let at = struck.came().await;
            pair.followed(rig, at, TAKEN_WITHIN).await;
            pair.tells_of_a_lost_lease().await;
        }
        flow.complete().await;
    });
}

/// §3 (d): the leader is asked to end amid a handoff, or a binding: it gives its lease back, and the other goes on at once.
#[test]
fn c3_leader_stopped() {
    on_replicas(async |rig, pairs| {
        let mut flow = Flow::prepare(rig, "stopped").await;
        let mut struck = pairs.each_ref().map(|pair| strike(pair, Blow::Stop));
        flow.set_off().await;
        for (pair, struck) in pairs.iter().zip(&mut struck) {
            let at = struck.came().await;
            pair.followed(rig, at, FOLLOWED_WITHIN).await;
            let exit = pair.leader().process().wait().await.unwrap();
            assert_eq!(exit.code, Some(0), "{}: {exit}", pair.leader().name());
        }
        flow.complete().await;
    });
}

/// §3 (f): a leader that was frozen for longer than its lease writes nothing when it wakes, and ends with exit code 1.
#[test]
fn c3_leader_frozen() {
    on_replicas(async |rig, pairs| {
        let mut flow = Flow::prepare(rig, "frozen").await;
        let mut struck = pairs.each_ref().map(|pair| strike(pair, Blow::Freeze));
        flow.set_off().await;
        for (pair, struck) in pairs.iter().zip(&mut struck) {
            let at = struck.came().await;
            pair.followed(rig, at, TAKEN_WITHIN).await;
        }
        flow.complete().await;
        for pair in &pairs {
            pair.the_frozen_one_ends().await;
        }
        flow.stage.assert_at_rest().await;
        flow.fixed.assert_at_rest().await;
    });
}

/// §11, `--handoff=gap`: the leader is killed amid the gap before Service A has the address, and its follower is frozen amid that
/// after A was deleted: the other completes each, Service B has the same IP, and the claim that waits for it never did.
#[test]
fn c11_gap_while_the_lease_moves() {
    let driver_args = vec!["--handoff=gap".to_owned()];
    rig::alone(Setup { controllers: false, driver_args, ..Setup::default() }, async |rig| {
        rig.start(Controller::Core).await;
        let mut pair = Pair::start(rig, Controller::Driver).await;
        let stage = rig.stage("leader-gap", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.wait_in_line().await;
        stage.assert_at_rest().await;

        pair.ready(rig).await;
        let mut struck = strike(&pair, Blow::Kill);
        stage.web("web-a", "web-ip").await;
        pair.followed(rig, struck.came().await, TAKEN_WITHIN).await;
        stage.served("web-a", &[&ip]).await;
        stage.assert_at_rest().await;

        pair.ready(rig).await;
        let mut struck = strike(&pair, Blow::Freeze);
        rig::delete(&stage.services(), "web-a").await;
        pair.followed(rig, struck.came().await, TAKEN_WITHIN).await;
        rig::gone(&stage.services(), "web-a").await;
        stage.held(&ip).await;
        pair.the_frozen_one_ends().await;

        stage.web("web-b", "web-ip").await;
        stage.served("web-b", &[&ip]).await;
        let address = stage.ledger(&ip, "to be handed over", |_| true).await;
        let handoff = address.status.unwrap_or_default().last_handoff.unwrap();
        assert_eq!(handoff.mode, HandoffMode::Gap, "{handoff:?}");
        stage.assert_nothing_stolen().await;
        stage.assert_at_rest().await;
    });
}

/// Work for both: a handoff for the driver; for the core the binding of a static address that is kept for a claim.
struct Flow {
    stage: Stage,
    ip: String,
    fixed: Stage,
    fixed_ip: String,
}

impl Flow {
    async fn begin(rig: &Rig, name: &str) -> Self {
        let mut flow = Self::prepare(rig, name).await;
        flow.set_off().await;
        flow
    }

    async fn prepare(rig: &Rig, name: &str) -> Self {
        let stage = rig.stage(&format!("leader-{name}"), 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;

        let fixed = rig.stage(&format!("leader-{name}-fixed"), 1).await;
        let fixed_ip = fixed.v4[0].clone();
        fixed.address(&fixed_ip, Some(json!({ "namespace": fixed.name, "name": "web-ip" }))).await;
        fixed.held(&fixed_ip).await;
        fixed.contend(&[&fixed_ip]).await;
        stage.assert_at_rest().await;
        fixed.assert_at_rest().await;
        Self { stage, ip, fixed, fixed_ip }
    }

    async fn set_off(&mut self) {
        self.stage.web("web", "web-ip").await;
        let address = rig::address_name(&self.fixed_ip);
        self.fixed.claim_with("web-ip", json!({ "addressName": address })).await;
    }

    async fn complete(&self) {
        self.stage.served("web", &[&self.ip]).await;
        assert_eq!(self.fixed.bound("web-ip").await, self.fixed_ip);
        self.fixed.held(&self.fixed_ip).await;
        self.stage.finish().await;
        self.fixed.finish().await;
        for stage in [&self.stage, &self.fixed] {
            stage.clear_thieves().await;
        }
    }
}

/// The controllers, in the order of the pairs.
const BOTH: [Controller; 2] = [Controller::Core, Controller::Driver];
