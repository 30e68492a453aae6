//! A load that never stops, through every fault in turn: 200 claims of one full pool, Services that come, move and go, claims
//! that come and go, thieves pinned to their addresses, a claim and a thief that wait for any. `cargo xtask load` runs it: it
//! takes longer than all other tests together.

mod strikes;
mod tenants;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::address::HandoffMode;
use api::wellknown::metallb;
use devcluster::Controller;
use futures::future::join_all;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use self::strikes::Strike;
use self::tenants::{Mover, Renter, Work};
use crate::leader::replicas::{self, Blow, Pair};
use crate::rig::{self, LATE, Own, Rig, Setup, Stage};

static OWN: Own = Own::new("load");
static ELECTED: Own = Own::new("load-elected");
/// How soon another must lead: a lease is taken when it was seen unchanged for its 15 seconds, and the machine is busy.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// The claims of the pool, and so its addresses.
const CLAIMS: usize = 200;
/// Tenants whose Services come, move and go, between two claims each.
const MOVERS: usize = 5;
/// Tenants whose claims come and go, for one address each.
const RENTERS: usize = 2;
/// Services that have their address all the time.
const SETTLED: usize = 24;
/// Addresses that an admin made for claims of a certain name; the renters' are among them.
const STATIC: usize = 20;

/// §3 (d), (f), §10, §11: every process is killed and frozen, the watches are cut, requests are refused, and the load goes on:
/// every claim keeps its address, at no version nobody had one or a thief did, and in the end nothing is written.
#[test]
#[ignore = "many minutes long: `cargo xtask load` runs it"]
fn c3_a_load_goes_through_every_fault() {
    // An API server that starts knows no roles for a moment.
    OWN.run_though_denied(Setup::proxied(), async |rig| {
        let stage = rig.stage("load", CLAIMS).await;
        under_load(&stage, async |work| {
            for strike in strikes::ALL {
                let began = Instant::now();
                strike_once(rig, &stage, *strike).await;
                let over = began.elapsed();
                if strike.touches_the_load() {
                    work.every_one_goes_on().await;
                }
                if strike.wants_a_rest() {
                    work.rest().await;
                    // The look that sees the second begins after all is at rest, and so ends what MetalLB begins with.
                    for ask in ["first", "second"] {
                        metallb_sees(&stage, &format!("{ask}-{}", work.steps())).await;
                    }
                    work.go_on();
                }
                let (over, all) = (over.as_secs_f32(), began.elapsed().as_secs_f32());
                println!("{strike:?}: over after {over:.1} s, all had gone on after {all:.1} s");
            }
        })
        .await;
    });
}

/// §3 (d), (f): two replicas of each controller under the same load. The leader is frozen for longer than its lease, killed, and
/// stopped, each in the middle of its writes: the other takes over, the load goes on, and who wakes without the lease writes
/// nothing and ends.
#[test]
#[ignore = "minutes long: `cargo xtask load` runs it"]
fn c3_a_load_outlives_its_leaders() {
    ELECTED.run(Setup { controllers: false, ..Setup::default() }, async |rig| {
        let [core, driver] = [Controller::Core, Controller::Driver];
        let mut pairs = [Pair::start(rig, core).await, Pair::start(rig, driver).await];
        let stage = rig.stage("leaders", CLAIMS).await;
        under_load(&stage, async |work| {
            for blow in [Blow::Freeze, Blow::Kill, Blow::Stop] {
                for pair in &mut pairs {
                    pair.ready(rig).await;
                    let mut struck = replicas::strike(pair, blow);
                    let at = struck.came().await;
                    pair.followed(rig, at, TAKEN_WITHIN).await;
                    work.every_one_goes_on().await;
                    if blow == Blow::Freeze {
                        pair.the_frozen_one_ends().await;
                    }
                    println!(
                        "{} {blow:?}: all had gone on after {:.1} s",
                        pair.name(),
                        at.elapsed().as_secs_f32()
                    );
                }
            }
        })
        .await;
    });
}

/// Lets all tenants work while something happens to them; then all is as it was, at no version nobody had an address or a
/// thief did, and nothing is written.
async fn under_load(stage: &Stage, happens: impl AsyncFnOnce(&Work)) {
    let started = Instant::now();
    let book = scene(stage).await;
    println!("{} claims bound after {:.1} s", book.len(), started.elapsed().as_secs_f32());
    let movers: Vec<_> = (0..MOVERS).map(|number| Mover::new(stage, &book, number)).collect();
    let renters: Vec<_> = (0..RENTERS).map(|number| Renter::new(stage, number)).collect();
    let contested: Vec<&str> =
        movers.iter().map(Mover::ip).chain([renters[0].ip(), book["plain-0"].as_str()]).collect();
    stage.contend(&contested).await;
    stage.guard(&stage.v4);
    stage.assert_at_rest().await;
    println!("contended after {:.1} s", started.elapsed().as_secs_f32());

    let work = Work::new(MOVERS + RENTERS);
    let load = async {
        let movers = join_all(movers.iter().enumerate().map(|(number, mover)| mover.go_on(&work, number)));
        let renters =
            join_all(renters.iter().enumerate().map(|(number, renter)| renter.go_on(&work, MOVERS + number)));
        tokio::join!(movers, renters);
    };
    let faults = async {
        happens(&work).await;
        work.enough();
    };
    tokio::join!(load, faults);
    println!("{} steps after {:.1} s", work.steps(), started.elapsed().as_secs_f32());
    all_is_well(stage, &book).await;
    println!("all is well after {:.1} s", started.elapsed().as_secs_f32());
    stage.clear_thieves().await;
}

/// Who has what is as it was, each handoff was without a gap, and nothing was stolen.
async fn all_is_well(stage: &Stage, book: &BTreeMap<String, String>) {
    assert_eq!(self::book(stage).await, *book);
    for address in stage.own_addresses().await {
        let handoff = address.status.as_ref().and_then(|status| status.last_handoff.as_ref());
        let well = handoff.is_none_or(|handoff| {
            handoff.finished_at.is_some()
                && handoff.mode == HandoffMode::Overlap
                && handoff.unheld_milliseconds == Some(0)
        });
        assert!(well, "{}: {handoff:?}", address.name_any());
    }
    stage.finish().await;
    for number in 0..SETTLED {
        let name = format!("settled-{number}");
        stage.served(&name, &[&book[&name]]).await;
    }
    let settled: Vec<_> = (0..SETTLED).map(|number| &book[&format!("settled-{number}")]).collect();
    for ip in stage.v4.iter().filter(|ip| !settled.contains(ip)) {
        stage.held(ip).await;
    }
}

/// A strike; the same controllers go on if it is not they who are struck.
async fn strike_once(rig: &Rig, stage: &Stage, strike: Strike) {
    let before = strikes::pids(rig);
    strike.fall(rig).await;
    if strike.ends_the_api_server() {
        stage.witness_anew().await;
    }
    if !strike.ends_a_controller() {
        assert_eq!(strikes::pids(rig), before, "{strike:?}: a controller ended");
    }
}

/// Waits until MetalLB has looked at a new Service: it has nothing for it.
async fn metallb_sees(stage: &Stage, ask: &str) {
    let pool = json!({ metallb::POOL: stage.name });
    stage.thief_service(rig::load_balancer(ask, pool)).await;
    stage.event_in(&stage.thief, ask, "AllocationFailed").await;
    rig::delete(&stage.thief_services(), ask).await;
}

/// Makes all claims, the settled Services, and says who has which address.
async fn scene(stage: &Stage) -> BTreeMap<String, String> {
    let fixed = &stage.v4[CLAIMS - STATIC..];
    let kept_for = |number: usize| {
        let claim =
            if number < RENTERS { tenants::renters_claim(number, 0) } else { format!("fixed-{number}") };
        (claim, &fixed[number])
    };
    let kept: Vec<_> = (0..STATIC).map(kept_for).collect();
    let make = kept.iter().map(async |(claim, ip)| {
        stage.address(ip, Some(json!({ "namespace": stage.name, "name": claim }))).await;
    });
    join_all(make).await;
    let mut names: Vec<String> = Vec::new();
    names.extend((0..MOVERS).flat_map(|number| [format!("mover-{number}"), format!("alt-{number}")]));
    names.extend((0..SETTLED).map(|number| format!("settled-{number}")));
    let plain = CLAIMS - STATIC - names.len();
    names.extend((0..plain).map(|number| format!("plain-{number}")));
    join_all(names.iter().map(|claim| stage.claim(claim))).await;
    join_all(kept.iter().skip(RENTERS).map(async |(claim, ip)| {
        stage.claim_with(claim, json!({ "addressName": rig::address_name(ip) })).await;
    }))
    .await;
    names.extend(kept.into_iter().skip(RENTERS).map(|(claim, _)| claim));
    join_all(names.iter().map(|claim| stage.bound(claim))).await;
    for number in 0..SETTLED {
        let name = format!("settled-{number}");
        stage.web(&name, &name).await;
    }
    let book = book(stage).await;
    for number in 0..SETTLED {
        let name = format!("settled-{number}");
        stage.served(&name, &[&book[&name]]).await;
    }
    book
}

/// Which claim has which address; the renters' come and go.
async fn book(stage: &Stage) -> BTreeMap<String, String> {
    let mut book = BTreeMap::new();
    for claim in stage.claims().list(&ListParams::default()).await.unwrap() {
        let addresses = claim.status.clone().unwrap_or_default().addresses;
        if claim.name_any() != LATE && !tenants::is_renters(&claim.name_any()) {
            book.insert(claim.name_any(), addresses.into_iter().map(|address| address.address).collect());
        }
    }
    book
}
