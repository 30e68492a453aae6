//! A controller is killed after each of its writes, once the API server has answered and before it hears the answer;
//! a fresh one takes over and the flow completes, contended, with the same IP and never with nobody.
//!
//! Each flow is run again and again on a stage of its own: in the k-th run the k-th write is the last of the victim,
//! until a run ends before its k-th write comes. Events and leases are not counted.

mod core;
mod driver;
mod gap;
mod shapes;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api::IPAddressClaim;
use api::wellknown::metallb;
use devcluster::proxy::{Call, Proxy, Rule};
use devcluster::{Controller, Process};
use futures::future::join_all;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;
use tokio::sync::watch;

use crate::rig::{self, BROKEN, LATE, Own, Rig, Setup, Stage};

static OWN: Own = Own::new("crash");
static GAP: Own = Own::new("crash-gap");
static FREE: Own = Own::new("crash-free");
/// How long the victim has to have written nothing before a run begins: the writes are counted from there.
const QUIET: Duration = Duration::from_millis(300);
/// No flow has so many writes: one that does never ends.
const AT_MOST: u64 = 40;

/// §9: the reservation completes, whichever write of the driver was its last.
#[test]
fn c9_record() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &driver::Record).await);
}

/// §11: the handoff to a Service completes, whichever write of the driver was its last.
#[test]
fn c11_forward() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &driver::Forward).await);
}

/// §11: the way back completes when the Service was deleted, whichever write of the driver was its last.
#[test]
fn c11_reverse_deleted() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &driver::Deleted).await);
}

/// §11: the way back completes when the annotation was taken off, whichever write of the driver was its last.
#[test]
fn c11_reverse_unannotated() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &driver::Unannotated).await);
}

/// B8: a Service moves from one claim to another, whichever write of the driver was its last.
#[test]
fn b8_moved() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &driver::Moved).await);
}

/// §11: the handoff to a Service by a gap completes, whichever write of the driver was its last.
#[test]
fn c11_gap_forward() {
    GAP.run(through_gaps(), async |rig| kill_after_each_write(rig, &gap::Forward).await);
}

/// §11: the way back through a gap completes when the Service was deleted, whichever write of the driver was its last.
#[test]
fn c11_gap_reverse_deleted() {
    GAP.run(through_gaps(), async |rig| kill_after_each_write(rig, &gap::Deleted).await);
}

/// §11: the way back through a gap completes when the annotation was taken off, whichever write of the driver was its
/// last.
#[test]
fn c11_gap_reverse_unannotated() {
    GAP.run(through_gaps(), async |rig| kill_after_each_write(rig, &gap::Unannotated).await);
}

/// §11 `--hold-on-delete=false`: the address is held again when its Service was deleted, whichever write of the driver was its
/// last.
#[test]
fn c11_free_reverse_deleted() {
    without_hold_on_delete(async |rig| kill_after_each_write(rig, &gap::Deleted).await);
}

/// §11: there and back with `externalTrafficPolicy: Local` on the port of placeholders, whichever write of the driver was its last.
#[test]
fn c11_round_local() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &shapes::Round(shapes::Local)).await);
}

/// §11: there and back with both families, whichever write of the driver was its last.
#[test]
fn c11_round_dual() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &shapes::Round(shapes::Dual)).await);
}

/// §11: there and back under a sharing key of the tenant's, whichever write of the driver was its last.
#[test]
fn c11_round_tenant_key() {
    OWN.run(Setup::proxied(), async |rig| {
        kill_after_each_write(rig, &shapes::Round(shapes::TenantKey)).await;
    });
}

/// B7: the Service that waited follows the one that was deleted, whichever write of the driver was its last.
#[test]
fn b7_waiter() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &shapes::Waiter).await);
}

/// B5: the address is held though its Service lingers behind somebody's finalizer, whichever write of the driver was its last.
#[test]
fn b5_lingering() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &shapes::Lingering).await);
}

/// B6: a Service is turned into a `ClusterIP` and back, whichever write of the driver was its last.
#[test]
fn b6_flipped() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &shapes::Flipped).await);
}

/// §12: the teardown of an address with a Service on it completes, whichever write of the driver was its last.
#[test]
fn c12_teardown() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &driver::Teardown).await);
}

/// §4: a claim that names a static address kept for it is bound, whichever write of the core was its last.
#[test]
fn c4_bind_named() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &core::Named).await);
}

/// §4: a claim is bound to the one address that is available, whichever write of the core was its last.
#[test]
fn c4_bind_available() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &core::Available).await);
}

/// §6: an address of policy Retain is released and stays held, whichever write of the core was its last.
#[test]
fn c6_retain() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &core::Retain).await);
}

/// §6: an address of policy Delete goes with its claim, whichever write of the core was its last.
#[test]
fn c6_delete() {
    OWN.run(Setup::proxied(), async |rig| kill_after_each_write(rig, &core::Delete).await);
}

/// Runs a test on a control plane whose driver keeps no Service from being deleted at once.
pub(crate) fn without_hold_on_delete(test: impl AsyncFnOnce(&'static Rig)) {
    FREE.run(Setup { driver_args: vec!["--hold-on-delete=false".to_owned()], ..Setup::proxied() }, test);
}

fn through_gaps() -> Setup {
    Setup { driver_args: vec!["--handoff=gap".to_owned()], ..Setup::proxied() }
}

/// What a flow works on.
struct Scene {
    stage: Stage,
    /// The address.
    ip: String,
    /// The uid of its `IPAddress`; empty where there is none yet.
    uid: String,
}

/// A flow that has to survive the death of a controller at any of its writes.
trait Flow {
    /// The name of its stages.
    const NAME: &'static str;
    /// Who is killed.
    const VICTIM: Controller;
    /// How many writes it takes; so many stages are prepared at once.
    const WRITES: usize;
    /// How many IPv4 addresses each stage has.
    const ADDRESSES: usize = 1;
    /// How many IPv6 addresses.
    const SIXES: usize = 0;

    /// Everything up to the first write that counts.
    async fn prepare(&self, stage: Stage) -> Scene;
    /// What sets it off.
    async fn begin(&self, scene: &Scene);
    /// What the others do while the victim is dead.
    async fn meanwhile(&self, _: &Scene) {}
    /// Waits until it has completed.
    async fn complete(&self, scene: &Scene);
    /// What holds at the end.
    async fn after(&self, scene: &Scene) {
        scene.stage.assert_nothing_stolen().await;
        scene.stage.assert_never_unheld(&scene.ip).await;
    }
}

async fn kill_after_each_write<F: Flow>(rig: &Rig, flow: &F) {
    let started = Instant::now();
    let victim = rig.process(F::VICTIM);
    let proxy = rig.proxy(F::VICTIM).unwrap();
    rig.mend().await;
    let prepare = async |k: usize| {
        flow.prepare(rig.stage_dual(&format!("{}-{k}", F::NAME), F::ADDRESSES, F::SIXES).await).await
    };
    let mut scenes = join_all((1..=F::WRITES + 1).map(&prepare)).await;
    println!("{}: {} stages after {:.1} s", F::NAME, scenes.len(), started.elapsed().as_secs_f32());
    let mut kills = 0;
    for k in 1..=AT_MOST {
        let index = usize::try_from(k).unwrap();
        if scenes.len() < index {
            scenes.push(prepare(index).await);
        }
        let Some(call) = run(rig, flow, &scenes[index - 1], proxy, &victim, k).await else { break };
        kills = k;
        let what = format!("{:?} {} {}/{}", call.verb, call.resource, call.namespace, call.name);
        println!("{}: survived write {k}: {what} ({:.1} s)", F::NAME, started.elapsed().as_secs_f32());
    }
    assert!(kills > 0 && kills < AT_MOST, "{kills} writes");
    // One more run came to its end with the victim alive.
    let spare = scenes.split_off(usize::try_from(kills).unwrap() + 1);
    let ends = scenes.iter().map(async |scene| {
        flow.after(scene).await;
        scene.stage.assert_at_rest().await;
        // The rivals of this flow would only keep MetalLB busy during the next.
        clear_rivals(&scene.stage).await;
    });
    join_all(ends).await;
    join_all(spare.iter().map(|scene| clear_rivals(&scene.stage))).await;
    println!("{}: {kills} deaths in {:.1} s", F::NAME, started.elapsed().as_secs_f32());
}

/// Runs the flow with a victim that dies of its k-th write; returns that write, or none if it did not come.
async fn run<F: Flow>(
    rig: &Rig,
    flow: &F,
    scene: &Scene,
    proxy: &Proxy,
    victim: &Process,
    k: u64,
) -> Option<Call> {
    until_quiet(proxy).await;
    proxy.reset();
    let (tell, mut died) = watch::channel(None);
    let process = victim.clone();
    let mine = writes_of(scene).await;
    let seen = AtomicU64::new(0);
    let is_last = move |call: &Call| mine(call) && seen.fetch_add(1, Ordering::Relaxed) + 1 == k;
    proxy.add(Rule::when(is_last).after(move |call| {
        let (process, tell) = (process.clone(), tell.clone());
        async move {
            process.kill().await;
            tell.send_replace(Some(call));
        }
    }));
    flow.begin(scene).await;
    tokio::select! {
        biased;
        _ = died.wait_for(Option::is_some) => {}
        () = flow.complete(scene) => {
            // The write may come after what the others see as the end.
            until_quiet(proxy).await;
        }
    }
    proxy.clear();
    let last = died.borrow().clone();
    if last.is_some() {
        flow.meanwhile(scene).await;
        rig.revive(F::VICTIM).await;
        flow.complete(scene).await;
    }
    last
}

/// Whether a write is about the scene, and about neither another one nor the claim that waits.
async fn writes_of(scene: &Scene) -> impl Fn(&Call) -> bool + Send + Sync + use<> {
    let stage = scene.stage.name.clone();
    let addresses = scene.stage.v4.iter().chain(&scene.stage.v6);
    let addresses: Vec<String> = addresses.map(|ip| rig::address_name(ip)).collect();
    let claims: Api<IPAddressClaim> = Api::all(scene.stage.client());
    let mut others = claims.list(&ListParams::default()).await.unwrap().items;
    others.retain(|claim| claim.namespace().as_ref() != Some(&stage) || claim.name_any().starts_with(LATE));
    let others: Vec<String> = others.iter().filter_map(ResourceExt::uid).collect();
    move |call| {
        // A placeholder is named after the address, or after the claim that it was made for.
        let placeholder = |after: &str| {
            call.resource == "services" && call.name.starts_with("iad-") && call.name.contains(after)
        };
        let held = placeholder("") && !placeholder("iad-ip-") && !others.iter().any(|uid| placeholder(uid));
        let named = call.namespace == stage
            || call.name == stage
            || addresses.iter().any(|address| call.name.contains(address));
        call.write.is_some() && (named || held)
    }
}

/// Waits until the proxy has seen no write for a while.
async fn until_quiet(proxy: &Proxy) {
    let mut seen = proxy.writes().len();
    loop {
        tokio::time::sleep(QUIET).await;
        let now = proxy.writes().len();
        if now == seen {
            return;
        }
        seen = now;
    }
}

/// A stage with a claim that holds its only address, and everything contended.
async fn held(stage: Stage) -> Scene {
    stage.claim("web-ip").await;
    let ip = stage.bound("web-ip").await;
    let address = stage.held(&ip).await;
    stage.contend(&[&ip]).await;
    Scene { stage, ip, uid: address.metadata.uid.unwrap() }
}

/// As [`held`], handed to Service `web`.
async fn served(stage: Stage) -> Scene {
    let scene = held(stage).await;
    scene.stage.web("web", "web-ip").await;
    scene.stage.served("web", &[&scene.ip]).await;
    scene
}

/// Waits until the `IPAddress` of the scene is gone; one of the same name may have come after it.
async fn address_gone(scene: &Scene) {
    let name = rig::address_name(&scene.ip);
    rig::eventually(&format!("{name} ({}) to be gone", scene.uid), async || {
        let address = scene.stage.addresses().get_opt(&name).await.ok()?;
        address.is_none_or(|address| address.metadata.uid.as_deref() != Some(&scene.uid)).then_some(())
    })
    .await;
}

/// A stage with a claim that holds its only address, and one that waits for it; whoever else waits in MetalLB would
/// have as good a right to an address that is given back.
async fn waited_for(stage: Stage) -> Scene {
    stage.claim("web-ip").await;
    let ip = stage.bound("web-ip").await;
    let address = stage.held(&ip).await;
    stage.wait_in_line().await;
    Scene { stage, ip, uid: address.metadata.uid.unwrap() }
}

/// Waits until the claim that waited has the address; nobody had it only at the moment when it was given back.
async fn inherited(scene: &Scene) {
    assert_eq!(scene.stage.bound(LATE).await, scene.ip);
    scene.stage.held(&scene.ip).await;
    let timeline = scene.stage.timeline(&scene.ip).await;
    let unheld = timeline.iter().filter(|holders| holders.services.is_empty()).count();
    assert!(unheld <= 1, "{BROKEN}nobody had {} {unheld} times: {timeline:#?}", scene.ip);
}

/// A thief that is pinned to an address and was refused.
async fn thief(stage: &Stage, ip: &str) {
    stage.thief_service(rig::load_balancer("grab", json!({ metallb::PIN: ip }))).await;
    stage.event_in(&stage.thief, "grab", "AllocationFailed").await;
}

async fn clear_rivals(stage: &Stage) {
    stage.clear_thieves().await;
    for claim in stage.claims().list(&ListParams::default()).await.unwrap() {
        if claim.name_any().starts_with(LATE) {
            stage.delete_claim(&claim.name_any()).await;
        }
    }
}
