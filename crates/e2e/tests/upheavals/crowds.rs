//! Cases J1, J2: many addresses while controllers restart, and while two drivers are at work. At the sizes that the cases ask
//! for, which take minutes, `cargo xtask load` runs them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::claim::ClaimPhase;
use devcluster::proxy::{Call, Rule, Verb};
use devcluster::{Controller, Part, Process};
use futures::future::join_all;
use kube::ResourceExt;

use super::on_own;
use crate::rig::{self, Rig, Stage, Struck};

/// How much is restarted, and how often.
struct Restarts {
    held: usize,
    associated: usize,
    /// Claims that wait, beside the one that always does.
    waiting: usize,
    /// How often MetalLB, the driver, and both; then both once with a slow list for each of these.
    rounds: usize,
    /// How long the list of Services takes to come, for a driver that starts.
    slow: Duration,
}

/// J1: ten holds, five associations and claims that wait: MetalLB, the driver and both restart, the driver also with a list
/// of Services that comes last and late: nothing moves, and the driver writes nothing at all.
#[test]
fn j1_restarts_move_nothing() {
    let slow = Duration::from_secs(3);
    on_own(async |rig| {
        restarts(rig, &Restarts { held: 10, associated: 5, waiting: 2, rounds: 1, slow }).await;
    });
}

/// J1, as the case has it: fifty holds, ten associations, five that wait, ten rounds of each kind, a list ten seconds late.
#[test]
#[ignore = "minutes long: `cargo xtask load` runs it"]
fn j1_restarts_move_nothing_at_full_size() {
    let slow = Duration::from_secs(10);
    on_own(async |rig| {
        restarts(rig, &Restarts { held: 50, associated: 10, waiting: 4, rounds: 10, slow }).await;
    });
}

async fn restarts(rig: &Rig, size: &Restarts) {
    let all = size.held + size.associated;
    let stage = rig.stage(&format!("restarts-{all}"), all).await;
    let claims: Vec<_> = (0..all).map(|number| format!("web-{number}")).collect();
    join_all(claims.iter().map(|claim| stage.claim(claim))).await;
    let ips = join_all(claims.iter().map(|claim| stage.bound(claim))).await;
    join_all(ips.iter().map(|ip| stage.held(ip))).await;
    for claim in &claims[..size.associated] {
        stage.web(claim, claim).await;
    }
    for (claim, ip) in claims.iter().zip(&ips).take(size.associated) {
        stage.served(claim, &[ip]).await;
    }
    let some: Vec<&str> =
        [&ips[0], &ips[size.associated], &ips[size.associated + 1]].map(String::as_str).to_vec();
    stage.contend(&some).await;
    let waiting: Vec<_> = (0..size.waiting).map(|number| format!("waits-{number}")).collect();
    for claim in &waiting {
        stage.claim(claim).await;
        stage.event(claim, "PoolExhausted").await;
    }
    stage.assert_at_rest().await;
    let before = versions(&stage).await;
    let holders = join_all(ips.iter().map(|ip| stage.holders(ip))).await;
    // Which of the two restarts, and whether the list is slow.
    for (metallb, driver, slow) in
        [(true, false, false), (false, true, false), (true, true, false), (true, true, true)]
    {
        for round in 0..size.rounds {
            let slow = slow.then_some(size.slow);
            restart(rig, metallb, driver, slow).await;
            stage.assert_at_rest().await;
            let wrote = rig.proxy(Controller::Driver).unwrap().writes();
            let wrote: Vec<_> = wrote.into_iter().filter(|write| write.call.resource != "events").collect();
            assert!(
                wrote.is_empty(),
                "MetalLB {metallb}, driver {driver}, {slow:?}, round {round}: {wrote:#?}"
            );
        }
    }
    assert_eq!(versions(&stage).await, before);
    assert_eq!(join_all(ips.iter().map(|ip| stage.holders(ip))).await, holders);
    for ip in &ips {
        stage.assert_never_unheld(ip).await;
    }
    for claim in &waiting {
        stage.claim_is(claim, ClaimPhase::Pending).await;
    }
    stage.finish().await;
    stage.clear_thieves().await;
}

async fn restart(rig: &Rig, metallb: bool, driver: bool, slow: Option<Duration>) {
    let proxy = rig.proxy(Controller::Driver).unwrap();
    if metallb {
        rig.cluster.kill(Part::Metallb).await.unwrap();
    }
    if driver {
        rig.process(Controller::Driver).kill().await;
    }
    proxy.reset();
    if let Some(slow) = slow {
        let services =
            |call: &Call| call.resource == "services" && [Verb::List, Verb::Watch].contains(&call.verb);
        proxy.add(Rule::when(services).delay(slow));
    }
    if metallb {
        rig.cluster.start_part(Part::Metallb).await.unwrap();
    }
    if driver {
        rig.revive(Controller::Driver).await;
    }
    proxy.clear();
}

/// The versions of the ledger and of the placeholders.
async fn versions(stage: &Stage) -> BTreeMap<String, Option<String>> {
    let mut versions = BTreeMap::new();
    for address in stage.own_addresses().await {
        for placeholder in stage.placeholders_of(&address.spec.address).await {
            versions.insert(placeholder.name_any(), placeholder.resource_version());
        }
        versions.insert(address.name_any(), address.resource_version());
    }
    versions
}

/// J2: two drivers with the election off, one of them frozen for a while in the middle of a write, amid handoffs: fifty claims
/// have fifty addresses, twenty Services theirs, and nobody ever lost one.
#[test]
fn j2_two_drivers_at_once() {
    on_own(async |rig| rivals(rig, 50, 20, Duration::from_secs(2)).await);
}

/// J2, as the case has it: two hundred claims, fifty handoffs, half a minute in the middle of a write.
#[test]
#[ignore = "minutes long: `cargo xtask load` runs it"]
fn j2_two_drivers_at_once_at_full_size() {
    on_own(async |rig| rivals(rig, 200, 50, Duration::from_secs(30)).await);
}

async fn rivals(rig: &Rig, all: usize, handoffs: usize, long: Duration) {
    let proxy = rig.cluster.proxy().await.unwrap();
    let second = rig.start_via(Controller::Driver, &format!("driver-second-{all}"), &proxy).await;
    let stage = rig.stage(&format!("rivals-{all}"), all).await;
    let claims: Vec<_> = (0..all).map(|number| format!("web-{number}")).collect();
    join_all(claims.iter().map(|claim| stage.claim(claim))).await;
    let ips = join_all(claims.iter().map(|claim| stage.bound(claim))).await;
    assert_eq!(ips.iter().collect::<BTreeSet<_>>().len(), all);
    join_all(ips.iter().map(|ip| stage.held(ip))).await;
    stage.contend(&[&ips[0], &ips[1]]).await;
    let served = || claims.iter().zip(&ips).take(handoffs);
    let mut frozen = rig::frozen_amid(&proxy, 1, &second);
    join_all(served().map(|(claim, _)| stage.web(claim, claim))).await;
    sleeps(&second, &mut frozen, long).await;
    let mut uids = Vec::new();
    for (claim, ip) in served() {
        uids.push(stage.served(claim, &[ip]).await.uid().unwrap());
    }
    let mut frozen = rig::frozen_amid(&proxy, 1, &second);
    join_all(served().map(async |(claim, _)| rig::delete(&stage.services(), claim).await)).await;
    sleeps(&second, &mut frozen, long).await;
    for ip in &ips {
        stage.held(ip).await;
    }
    stage.finish().await;
    for ip in &ips {
        stage.assert_never_unheld(ip).await;
    }
    for ((claim, ip), uid) in served().zip(uids) {
        let address = stage.addresses().get(&rig::address_name(ip)).await.unwrap();
        let history = address.status.unwrap_or_default().association_history;
        // Who wakes may hear of the address before it hears that the Service is gone, and records it once more, for as long as
        // it takes to hear that: the placeholder has the address all the while.
        assert!([1, 2].contains(&history.len()), "{claim}: {history:#?}");
        assert!(history.iter().all(|line| line.uid == uid && line.until.is_some()), "{claim}: {history:#?}");
    }
    second.stop().await;
    stage.clear_thieves().await;
}

/// Waits until it is frozen, and for as long as it is to be.
async fn sleeps(driver: &Process, frozen: &mut Struck, long: Duration) {
    frozen.came().await;
    tokio::time::sleep(long).await;
    driver.resume().unwrap();
}
