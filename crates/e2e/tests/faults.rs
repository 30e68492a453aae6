//! The world around the controllers fails amid a handoff: the API server, the store, MetalLB, the network. The same
//! processes go on when it is over, with the same IP and never with nobody.

use std::time::Duration;

use api::address::AddressPhase;
use api::wellknown::driver;
use devcluster::proxy::{Proxy, Rule, Verb};
use devcluster::{Controller, Part};
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

use crate::rig::{self, Own, Pace, Rig, Setup, Stage};

static OWN: Own = Own::new("faults");
/// The fault comes after so many writes of the driver: in the middle of the handoff.
const AFTER: u64 = 2;
/// How long the store answers nothing.
const FROZEN: Duration = Duration::from_secs(20);
/// How long anybody else stands still.
const STILL: Duration = Duration::from_secs(3);
/// So many of the driver's writes are refused.
const REFUSED: u64 = 5;
/// A handoff tells of itself in fewer events than this, however often it was begun.
const EVENTS: usize = 4;

/// Here MetalLB is as released: what it puts off is put off the longer.
fn on_own(test: impl AsyncFnOnce(&Rig)) {
    // An API server that starts knows no roles for a moment.
    OWN.run_though_denied(Setup { metallb: Pace::AsReleased, ..Setup::proxied() }, async |rig| {
        rig.mend().await;
        let pids = pids(rig);
        test(rig).await;
        assert_eq!(self::pids(rig), pids, "a controller ended, or was started again");
    });
}

fn proxy(rig: &Rig) -> &Proxy {
    rig.proxy(Controller::Driver).unwrap()
}

fn pids(rig: &Rig) -> [Option<u32>; 2] {
    [Controller::Core, Controller::Driver].map(|controller| rig.process(controller).pid())
}

/// §3 (d): the API server is killed amid a handoff and amid the way back, and started again.
#[test]
fn c3_apiserver_killed() {
    on_own(async |rig| {
        let server = rig.cluster.process(Part::Apiserver).unwrap();
        let kill = move || {
            let server = server.clone();
            async move { server.kill().await }
        };
        flagship(rig, "apiserver", kill, async |stage| {
            rig.cluster.start_part(Part::Apiserver).await.unwrap();
            stage.witness_anew().await;
        })
        .await;
    });
}

/// §3 (d): the store answers nothing for twenty seconds amid a handoff, and again amid the way back.
#[test]
fn c3_store_frozen() {
    on_own(async |rig| frozen(rig, Part::Etcd, FROZEN).await);
}

/// §3 (d): the API server stands still amid a handoff, and amid the way back.
#[test]
fn c3_apiserver_frozen() {
    on_own(async |rig| frozen(rig, Part::Apiserver, STILL).await);
}

/// §3 (d): MetalLB stands still amid a handoff, and amid the way back.
#[test]
fn c11_metallb_frozen() {
    on_own(async |rig| frozen(rig, Part::Metallb, STILL).await);
}

/// §3 (d): the cluster's own controllers, the garbage collector among them, stand still amid a handoff, and amid the way back.
#[test]
fn c3_controller_manager_frozen() {
    on_own(async |rig| frozen(rig, Part::ControllerManager, STILL).await);
}

async fn frozen(rig: &Rig, part: Part, long: Duration) {
    let process = rig.cluster.process(part).unwrap();
    let pause = move || {
        let process = process.clone();
        async move { process.pause().unwrap() }
    };
    flagship(rig, &format!("frozen-{part}"), pause, async |_| {
        tokio::time::sleep(long).await;
        rig.cluster.resume(part).unwrap();
    })
    .await;
}

/// §11: while MetalLB is away, a handoff waits with the hold in the ledger, and so does a deleted Service; when it is
/// back, both complete.
#[test]
fn c11_metallb_away() {
    on_own(async |rig| {
        let (there, there_ip) = held(rig, "away-there").await;
        let (back, back_ip) = held(rig, "away-back").await;
        back.web("web", "web-ip").await;
        back.served("web", &[&back_ip]).await;
        rig.cluster.kill(Part::Metallb).await.unwrap();

        there.web("web", "web-ip").await;
        back.services().delete("web", &DeleteParams::default()).await.unwrap();
        rig::until(&there.services(), "web", "to be pinned", |service| {
            service.annotations().contains_key(driver::PINNED)
        })
        .await;
        rig::eventually("a placeholder beside the deleted Service", async || {
            (back.placeholders_of(&back_ip).await.len() == 1).then_some(())
        })
        .await;
        for stage in [&there, &back] {
            stage.assert_at_rest().await;
        }
        assert_eq!(
            there.placeholders_of(&there_ip).await.len(),
            1,
            "the hold went before the Service was served"
        );
        let address = there.ledger(&there_ip, "to be handed over", |_| true).await;
        let handoff = address.status.unwrap_or_default().last_handoff.unwrap();
        assert!(handoff.finished_at.is_none(), "{handoff:?}");
        let service = back.services().get("web").await.unwrap();
        assert!(rig::ingress(&service).contains(&back_ip), "{service:?}");

        rig.cluster.start_part(Part::Metallb).await.unwrap();
        there.served("web", &[&there_ip]).await;
        rig::gone(&back.services(), "web").await;
        back.held(&back_ip).await;
        for stage in [&there, &back] {
            end(stage).await;
        }
    });
}

/// §3 (g): the watches are cut amid a handoff and amid the way back, and that of the Services is refused for a while: what
/// happened meanwhile is found out.
#[test]
fn c3_watch_cut() {
    on_own(async |rig| {
        let cut = || async {};
        flagship(rig, "watch", cut, async |_| {
            is_cut(rig, Controller::Driver, "services").await;
        })
        .await;
    });
}

/// Cuts the watches of a controller, and refuses that of one kind until it was asked for a few times.
async fn is_cut(rig: &Rig, controller: Controller, resource: &'static str) {
    let proxy = rig.proxy(controller).unwrap();
    let asks = [Verb::Watch, Verb::List];
    let asked = || -> u64 { asks.iter().map(|verb| proxy.count(*verb, resource)).sum() };
    proxy.add(Rule::when(move |call| asks.contains(&call.verb) && call.resource == resource).answer(503));
    let before = asked();
    proxy.cut();
    rig::eventually(&format!("the {controller:?} to ask for {resource} again"), async || {
        (asked() >= before + 3).then_some(())
    })
    .await;
    proxy.clear();
}

/// §3 (h): the first writes of each way are answered with 429: both complete, and tell of themselves once.
#[test]
fn c3_throttled() {
    on_own(async |rig| {
        refused(rig, "throttled", || Rule::when(|call| call.write.is_some()).throttle(1)).await;
    });
}

/// §3 (h): the first writes of each way are answered with 500: both complete, and tell of themselves once.
#[test]
fn c3_failed_writes() {
    on_own(async |rig| refused(rig, "failing", || Rule::when(|call| call.write.is_some()).answer(500)).await);
}

async fn refused(rig: &Rig, name: &str, rule: impl Fn() -> Rule) {
    let (stage, ip) = held(rig, name).await;
    let begin = || {
        proxy(rig).reset();
        proxy(rig).add(rule().times(REFUSED));
    };
    let check = async || {
        assert_refused(proxy(rig));
        stage.assert_at_rest().await;
        let told = [Verb::Create, Verb::Patch, Verb::Update].map(|verb| proxy(rig).count(verb, "events"));
        assert!(told.iter().sum::<u64>() < u64::try_from(EVENTS).unwrap(), "{told:?} events");
    };
    begin();
    stage.web("web-a", "web-ip").await;
    stage.served("web-a", &[&ip]).await;
    check().await;
    begin();
    stage.delete_service("web-a").await;
    stage.held(&ip).await;
    check().await;
    stage.web("web-b", "web-ip").await;
    stage.served("web-b", &[&ip]).await;
    end(&stage).await;
}

fn assert_refused(proxy: &Proxy) {
    let refused = proxy.writes().iter().filter(|write| write.status.is_none()).count();
    assert!(u64::try_from(refused).unwrap() >= REFUSED, "{refused} writes were refused");
}

/// §3 (g), (h): the core's first writes are answered with 429, with 500, and its watches are cut: a claim gets the address that
/// is kept for it all the same, contended, and gives it back held.
#[test]
fn c4_core_throttled_failing_and_cut() {
    on_own(async |rig| {
        let core = rig.proxy(Controller::Core).unwrap();
        let refuse = |status: u16| {
            let rule = Rule::when(|call| call.write.is_some());
            let rule = if status == 429 { rule.throttle(1) } else { rule.answer(status) };
            core.reset();
            core.add(rule.times(REFUSED));
        };
        let stage = rig.stage("fault-core", 1).await;
        let ip = stage.v4[0].clone();
        let kept = json!({ "namespace": stage.name, "name": "web-ip", "uid": null });
        stage.address(&ip, Some(kept.clone())).await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;
        for status in [Some(429), Some(500), None] {
            if let Some(status) = status {
                refuse(status);
            }
            stage.claim_with("web-ip", json!({ "addressName": rig::address_name(&ip) })).await;
            if status.is_none() {
                is_cut(rig, Controller::Core, "ipaddressclaims").await;
            }
            assert_eq!(stage.bound("web-ip").await, ip);
            if let Some(status) = status {
                assert_refused(core);
                refuse(status);
            }
            rig::delete(&stage.claims(), "web-ip").await;
            if status.is_none() {
                is_cut(rig, Controller::Core, "ipaddressclaims").await;
            }
            rig::gone(&stage.claims(), "web-ip").await;
            stage.address_is(&ip, AddressPhase::Released).await;
            core.reset();
            stage.held(&ip).await;
            let keep = json!({ "spec": { "claimRef": kept } });
            rig::patch(&stage.addresses(), &rig::address_name(&ip), keep).await;
        }
        end(&stage).await;
    });
}

/// The whole promise: Service A gets the address and is deleted, Service B gets it. A fault comes amid the handoff to A, and
/// again amid the way back, each time once the driver's writes have been answered so many times; then it is made good.
async fn flagship<F>(
    rig: &Rig,
    name: &str,
    fault: impl Fn() -> F + Clone + Send + Sync + 'static,
    mend: impl AsyncFn(&Stage),
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (stage, ip) = held(rig, name).await;
    let mut struck = rig::amid(proxy(rig), AFTER, fault.clone());
    stage.web("web-a", "web-ip").await;
    struck.came().await;
    mend(&stage).await;
    stage.served("web-a", &[&ip]).await;
    stage.assert_at_rest().await;
    let mut struck = rig::amid(proxy(rig), AFTER, fault);
    rig::delete(&stage.services(), "web-a").await;
    struck.came().await;
    mend(&stage).await;
    rig::gone(&stage.services(), "web-a").await;
    stage.held(&ip).await;
    stage.web("web-b", "web-ip").await;
    stage.served("web-b", &[&ip]).await;
    end(&stage).await;
}

/// A stage with a claim that holds its only address, contended and at rest.
async fn held(rig: &Rig, name: &str) -> (Stage, String) {
    let stage = rig.stage(&format!("fault-{name}"), 1).await;
    stage.claim("web-ip").await;
    let ip = stage.bound("web-ip").await;
    stage.held(&ip).await;
    stage.contend(&[&ip]).await;
    stage.assert_at_rest().await;
    (stage, ip)
}

/// What holds at the end; the thieves would only keep MetalLB busy during the next test.
async fn end(stage: &Stage) {
    stage.finish().await;
    stage.clear_thieves().await;
}
