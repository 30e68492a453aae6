//! Tenants who never stop: each does one thing after another, and what the API server does not take now it takes later.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api::claim::ClaimPhase;
use api::wellknown::CLAIM;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::watch;

use super::{CLAIMS, STATIC};
use crate::rig::{self, Stage, gone_within, ingress, until_within};

/// How long anything may take under load, a fault included: at each step MetalLB looks at all Services again.
pub(super) const WITHIN: Duration = Duration::from_secs(300);
const AGAIN: Duration = Duration::from_millis(200);

/// What all tenants have done.
pub(super) struct Work {
    steps: Vec<AtomicU64>,
    more: watch::Sender<u64>,
    /// The rounds of the movers.
    rounds: watch::Sender<u64>,
    enough: watch::Sender<bool>,
    /// Whether nobody is to begin a round.
    pause: watch::Sender<bool>,
    /// How many are in a round.
    busy: watch::Sender<usize>,
}

impl Work {
    pub(super) fn new(tenants: usize) -> Self {
        let steps = (0..tenants).map(|_| AtomicU64::new(0)).collect();
        let (more, rounds) = (watch::Sender::new(0), watch::Sender::new(0));
        let (enough, pause) = (watch::Sender::new(false), watch::Sender::new(false));
        Self { steps, more, rounds, enough, pause, busy: watch::Sender::new(0) }
    }

    /// The steps of all.
    pub(super) fn steps(&self) -> u64 {
        *self.more.borrow()
    }

    /// Lets each tenant end its round and stop.
    pub(super) fn enough(&self) {
        self.enough.send_replace(true);
    }

    /// Waits until every tenant has done a step.
    pub(super) async fn every_one_goes_on(&self) {
        let read = || -> Vec<u64> { self.steps.iter().map(|steps| steps.load(Ordering::Relaxed)).collect() };
        let before = read();
        let all = |_: &u64| read().iter().zip(&before).all(|(now, before)| now > before);
        let went = tokio::time::timeout(WITHIN, self.more.subscribe().wait_for(all)).await.is_ok();
        assert!(
            went,
            "steps of each tenant before {before:?}, and {} s later {:?}",
            WITHIN.as_secs(),
            read()
        );
    }

    /// Lets each tenant end its round, and none begin another until [`Work::go_on`].
    pub(super) async fn rest(&self) {
        self.pause.send_replace(true);
        let rest =
            tokio::time::timeout(WITHIN, self.busy.subscribe().wait_for(|busy| *busy == 0)).await.is_ok();
        assert!(rest, "{} tenants were still in a round after {} s", *self.busy.borrow(), WITHIN.as_secs());
    }

    /// Ends a rest.
    pub(super) fn go_on(&self) {
        self.pause.send_replace(false);
    }

    /// Does a round when it may begin; not while all rest.
    async fn in_turn(&self, round: impl Future<Output = ()>) {
        let mut pause = self.pause.subscribe();
        pause.wait_for(|pause| !*pause).await.unwrap();
        self.busy.send_modify(|busy| *busy += 1);
        round.await;
        self.busy.send_modify(|busy| *busy -= 1);
    }

    fn did_one(&self, tenant: usize) {
        self.steps[tenant].fetch_add(1, Ordering::Relaxed);
        self.more.send_modify(|all| *all += 1);
    }

    fn goes_on(&self) -> bool {
        !*self.enough.borrow()
    }

    /// Waits until a mover ends a round, or it is enough.
    async fn pace(&self) {
        let (mut rounds, mut enough) = (self.rounds.subscribe(), self.enough.subscribe());
        tokio::select! {
            _ = rounds.changed() => {}
            _ = enough.wait_for(|enough| *enough) => {}
        }
    }
}

/// Has two claims, and Services that come, move from one to the other and go.
pub(super) struct Mover<'a> {
    stage: &'a Stage,
    /// The claims and their addresses.
    claims: [(String, String); 2],
}

impl<'a> Mover<'a> {
    pub(super) fn new(stage: &'a Stage, book: &BTreeMap<String, String>, number: usize) -> Self {
        let claims = ["mover", "alt"].map(|kind| {
            let claim = format!("{kind}-{number}");
            (claim.clone(), book[&claim].clone())
        });
        Self { stage, claims }
    }

    /// The address of the first claim.
    pub(super) fn ip(&self) -> &str {
        &self.claims[0].1
    }

    pub(super) async fn go_on(&self, work: &Work, tenant: usize) {
        let mut round = 0;
        while work.goes_on() {
            work.in_turn(Box::pin(self.round(round, &|| work.did_one(tenant)))).await;
            work.rounds.send_modify(|rounds| *rounds += 1);
            round += 1;
        }
        // The Service of the last round may be on its way still.
        for (_, ip) in &self.claims {
            self.stage.held(ip).await;
        }
    }

    async fn round(&self, round: usize, did_one: &impl Fn()) {
        let [(claim, ip), (other, other_ip)] = &self.claims;
        let name = format!("{claim}-{round}");
        let web: k8s_openapi::api::core::v1::Service =
            serde_json::from_value(rig::load_balancer(&name, json!({ CLAIM: claim }))).unwrap();
        let services = self.stage.services();
        insist(&name, async || services.create(&PostParams::default(), &web).await.map(drop)).await;
        self.shows(&name, Some(ip)).await;
        did_one();
        match round % 3 {
            0 => {}
            1 => {
                self.name_claim(&name, Some(other)).await;
                self.shows(&name, Some(other_ip)).await;
            }
            _ => {
                self.name_claim(&name, None).await;
                self.shows(&name, None).await;
            }
        }
        did_one();
        insist(&name, async || services.delete(&name, &DeleteParams::default()).await.map(drop)).await;
        // Every other time the next is lined up while this one goes.
        if round.is_multiple_of(2) {
            gone_within(WITHIN, &services, &name).await;
        }
    }

    async fn name_claim(&self, name: &str, claim: Option<&str>) {
        let change = Patch::Merge(json!({ "metadata": { "annotations": { CLAIM: claim } } }));
        let services = self.stage.services();
        insist(name, async || services.patch(name, &PatchParams::default(), &change).await.map(drop)).await;
    }

    async fn shows(&self, name: &str, ip: Option<&String>) {
        let what = format!("to show {ip:?} alone");
        until_within(WITHIN, &self.stage.services(), name, &what, |service| ingress(service).iter().eq(ip))
            .await;
    }
}

/// Claims an address that is kept for it, gives it back, and has an admin keep it for the next claim.
pub(super) struct Renter<'a> {
    stage: &'a Stage,
    ip: String,
    number: usize,
}

/// The claim of a renter in a round.
pub(super) fn renters_claim(number: usize, round: usize) -> String {
    format!("renter-{number}-{round}")
}

/// Whether a claim is a renter's.
pub(super) fn is_renters(claim: &str) -> bool {
    claim.starts_with("renter-")
}

impl<'a> Renter<'a> {
    pub(super) fn new(stage: &'a Stage, number: usize) -> Self {
        Self { stage, ip: stage.v4[CLAIMS - STATIC + number].clone(), number }
    }

    pub(super) fn ip(&self) -> &str {
        &self.ip
    }

    pub(super) async fn go_on(&self, work: &Work, tenant: usize) {
        let mut round = 0;
        while work.goes_on() {
            work.in_turn(Box::pin(self.round(round))).await;
            work.did_one(tenant);
            round += 1;
            // It would be at it all the time, and keep the core from everything else.
            work.pace().await;
        }
    }

    async fn round(&self, round: usize) {
        let name = renters_claim(self.number, round);
        let claim = rig::claim_object(&name, json!({ "className": self.stage.name }));
        let claim = serde_json::from_value(claim).unwrap();
        let claims = self.stage.claims();
        insist(&name, async || claims.create(&PostParams::default(), &claim).await.map(drop)).await;
        let bound =
            until_within(WITHIN, &claims, &name, "to be bound", |claim| claim.phase() == ClaimPhase::Bound)
                .await;
        let has = bound.status.unwrap_or_default().addresses;
        assert!(has.len() == 1 && has[0].address == self.ip, "{name}: {has:?} and not {}", self.ip);
        insist(&name, async || claims.delete(&name, &DeleteParams::default()).await.map(drop)).await;
        gone_within(WITHIN, &claims, &name).await;
        let next = renters_claim(self.number, round + 1);
        let keep = json!({ "namespace": self.stage.name, "name": next, "uid": null });
        let keep = Patch::Merge(json!({ "spec": { "claimRef": keep } }));
        let (addresses, address) = (self.stage.addresses(), rig::address_name(&self.ip));
        insist(&address, async || addresses.patch(&address, &PatchParams::default(), &keep).await.map(drop))
            .await;
    }
}

/// Asks until the API server takes it; that it was taken before, unheard, is as good.
async fn insist(name: &str, ask: impl AsyncFn() -> kube::Result<()>) {
    let deadline = Instant::now() + WITHIN;
    loop {
        let error = match tokio::time::timeout_at(deadline.into(), ask()).await {
            Ok(Ok(())) => return,
            Ok(Err(kube::Error::Api(status))) if status.is_already_exists() || status.is_not_found() => {
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        assert!(Instant::now() < deadline, "{name}, {} s long: {error}", WITHIN.as_secs());
        tokio::time::sleep(AGAIN).await;
    }
}
