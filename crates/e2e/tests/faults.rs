//! The world around the controllers fails amid a handoff: the API server, the store, MetalLB, the network. The same
//! processes go on when it is over, with the same IP and never with nobody.

use std::time::Duration;

use api::wellknown::driver;
use devcluster::proxy::{Proxy, Rule, Verb};
use devcluster::{Controller, Part};
use kube::ResourceExt;
use kube::api::DeleteParams;
use tokio::sync::watch;

use crate::rig::{self, Own, Pace, Rig, Setup, Stage};

static OWN: Own = Own::new("faults");
/// The fault comes after so many writes of the driver: in the middle of the handoff.
const AFTER: u64 = 2;
/// How long the store answers nothing.
const FROZEN: Duration = Duration::from_secs(20);
/// So many of the driver's writes are refused.
const REFUSED: u64 = 5;
/// A handoff tells of itself in fewer events than this, however often it was begun.
const EVENTS: usize = 4;

/// Here MetalLB is as released: what it puts off is put off the longer.
fn on_own(test: impl AsyncFnOnce(&Rig)) {
    // An API server that starts knows no roles for a moment.
    OWN.run_though_denied(Setup { metallb: Pace::AsReleased, ..Setup::proxied() }, async |rig| {
        // An earlier test may have failed amid its fault.
        for part in [Part::Etcd, Part::Apiserver, Part::Metallb] {
            let process = rig.cluster.process(part).unwrap();
            if process.is_running() {
                process.resume().unwrap();
            } else {
                rig.cluster.start_part(part).await.unwrap();
            }
        }
        proxy(rig).reset();
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

/// §3 (d): the API server is killed amid a handoff, and started again.
#[test]
fn c3_apiserver_killed() {
    on_own(async |rig| {
        let (stage, ip) = held(rig, "apiserver").await;
        let server = rig.cluster.process(Part::Apiserver).unwrap();
        let mut killed = amid(rig, move || {
            let server = server.clone();
            async move { server.kill().await }
        });
        stage.web("web", "web-ip").await;
        until_it_came(&mut killed).await;
        rig.cluster.start_part(Part::Apiserver).await.unwrap();
        stage.witness_anew().await;
        stage.served("web", &[&ip]).await;
        end(&stage).await;
    });
}

/// §3 (d): the store answers nothing for twenty seconds amid a handoff.
#[test]
fn c3_store_frozen() {
    on_own(async |rig| {
        let (stage, ip) = held(rig, "store").await;
        let store = rig.cluster.process(Part::Etcd).unwrap();
        let mut frozen = amid(rig, move || {
            let store = store.clone();
            async move { store.pause().unwrap() }
        });
        stage.web("web", "web-ip").await;
        until_it_came(&mut frozen).await;
        tokio::time::sleep(FROZEN).await;
        rig.cluster.resume(Part::Etcd).unwrap();
        stage.served("web", &[&ip]).await;
        end(&stage).await;
    });
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

/// §3 (g): the watches are cut, and that of the Services is refused for a while: what happened meanwhile is found out.
#[test]
fn c3_watch_cut() {
    on_own(async |rig| {
        let (stage, ip) = held(rig, "watch").await;
        let services = |verb: Verb| move |call: &_| is_about_services(call, verb);
        proxy(rig).add(Rule::when(services(Verb::Watch)).answer(503));
        proxy(rig).add(Rule::when(services(Verb::List)).answer(503));
        let before = asked(rig);
        proxy(rig).cut();
        stage.web("web", "web-ip").await;
        rig::eventually("the driver to ask for Services again", async || {
            (asked(rig) >= before + 3).then_some(())
        })
        .await;
        proxy(rig).clear();
        stage.served("web", &[&ip]).await;
        end(&stage).await;
    });
}

/// §3 (h): the first writes are answered with 429: the handoff completes, and tells of itself once.
#[test]
fn c3_throttled() {
    on_own(async |rig| {
        refused(rig, "throttled", || Rule::when(|call| call.write.is_some()).throttle(1)).await;
    });
}

/// §3 (h): the first writes are answered with 500: the handoff completes, and tells of itself once.
#[test]
fn c3_failed_writes() {
    on_own(async |rig| refused(rig, "failing", || Rule::when(|call| call.write.is_some()).answer(500)).await);
}

async fn refused(rig: &Rig, name: &str, rule: impl Fn() -> Rule) {
    let (stage, ip) = held(rig, name).await;
    proxy(rig).reset();
    proxy(rig).add(rule().times(REFUSED));
    stage.web("web", "web-ip").await;
    stage.served("web", &[&ip]).await;
    let refused = proxy(rig).writes().iter().filter(|write| write.status.is_none()).count();
    assert!(u64::try_from(refused).unwrap() >= REFUSED, "{refused} writes were refused");
    stage.assert_at_rest().await;
    let told = [Verb::Create, Verb::Patch, Verb::Update].map(|verb| proxy(rig).count(verb, "events"));
    assert!(told.iter().sum::<u64>() < u64::try_from(EVENTS).unwrap(), "{told:?} events");
    end(&stage).await;
}

fn is_about_services(call: &devcluster::proxy::Call, verb: Verb) -> bool {
    call.verb == verb && call.resource == "services"
}

/// How often the driver has asked for all Services.
fn asked(rig: &Rig) -> u64 {
    [Verb::Watch, Verb::List].iter().map(|verb| proxy(rig).count(*verb, "services")).sum()
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

/// Does something once the driver's writes from now on have been answered so many times, before it hears the last
/// answer; says when it is done.
fn amid<F>(rig: &Rig, fault: impl Fn() -> F + Send + Sync + 'static) -> watch::Receiver<bool>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (tell, done) = watch::channel(false);
    let rule = Rule::write(AFTER).after(move |_| {
        let (fault, tell) = (fault(), tell.clone());
        async move {
            fault.await;
            tell.send_replace(true);
        }
    });
    proxy(rig).begin_with([rule]);
    done
}

async fn until_it_came(fault: &mut watch::Receiver<bool>) {
    tokio::time::timeout(rig::WITHIN, fault.wait_for(|came| *came)).await.unwrap().unwrap();
}
