use std::sync::Mutex;

use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::fake::{failure, server};

#[tokio::test(start_paused = true)]
async fn a_process_that_slept_past_its_lease_may_not_write() {
    let leadership = Leadership::none();
    assert_eq!(leadership.allows(), None);
    leadership.renewed(Instant::now());
    assert_eq!(leadership.allows(), Some(LEASE));
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(leadership.allows(), Some(Duration::from_secs(6)));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(leadership.allows(), None);
    assert_eq!(Leadership::always().allows(), Some(Duration::MAX));
}

/// One Lease, with versions.
struct Store {
    lease: Mutex<Option<Value>>,
}

impl Store {
    fn new(lease: Option<Value>) -> Arc<Self> {
        Arc::new(Self { lease: Mutex::new(lease) })
    }

    fn holder(&self) -> String {
        self.lease.lock().unwrap().as_ref().unwrap()["spec"]["holderIdentity"].as_str().unwrap().to_owned()
    }

    fn client(self: &Arc<Self>) -> Client {
        let store = Arc::clone(self);
        server(move |call| {
            let mut lease = store.lease.lock().unwrap();
            let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
            match (call.method.clone(), lease.as_mut()) {
                (Method::GET, None) => failure(404, "NotFound", "leases \"x\" not found"),
                (Method::GET, Some(lease)) => (200, lease.clone()),
                (Method::POST, None) => {
                    let mut new = call.body.clone();
                    new["metadata"]["resourceVersion"] = json!("1");
                    *lease = Some(new.clone());
                    (201, new)
                }
                (Method::PATCH, Some(lease)) if version(lease) == version(&call.body) => {
                    let next = version(lease).as_str().unwrap().parse::<u64>().unwrap() + 1;
                    lease["spec"] = call.body["spec"].clone();
                    lease["metadata"]["resourceVersion"] = json!(next.to_string());
                    (200, lease.clone())
                }
                _ => failure(409, "Conflict", "changed"),
            }
        })
        .0
    }

    fn candidate(self: &Arc<Self>, name: &str) -> Candidate {
        let (leadership, stop) = (Leadership::none(), CancellationToken::new());
        let leading = watch::Sender::new(false);
        let led = leading.subscribe();
        let metrics = Arc::new(Metrics::new());
        let told = Arc::clone(&metrics);
        let elector = Elector::new(self.client(), "ns", "x", name, leadership.clone(), told);
        let task = tokio::spawn(elector.run(leading, stop.clone()));
        Candidate { leadership, stop, led, metrics, task }
    }
}

struct Candidate {
    leadership: Leadership,
    stop: CancellationToken,
    led: watch::Receiver<bool>,
    metrics: Arc<Metrics>,
    task: tokio::task::JoinHandle<Ended>,
}

impl Candidate {
    async fn leads(&mut self) {
        self.led.wait_for(|leads| *leads).await.unwrap();
    }

    /// Whether it says that its lease was lost by another.
    fn took_over(&self) -> bool {
        self.metrics.text(Vec::new()).contains("leader_election_takeover_timestamp_seconds{name=\"x\"}")
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_waits_and_follows_at_once_when_the_first_lets_go() {
    let store = Store::new(None);
    let mut first = store.candidate("first");
    first.leads().await;
    let mut second = store.candidate("second");
    sleep(Duration::from_secs(60)).await;
    assert!(store.holder().starts_with("first_") && first.leadership.allows().is_some());
    assert!(second.leadership.allows().is_none());

    first.stop.cancel();
    assert_eq!(first.task.await.unwrap(), Ended::Stopped);
    assert!(first.leadership.allows().is_none());
    let since = Instant::now();
    second.leads().await;
    assert!(since.elapsed() <= LOOK_EVERY && store.holder().starts_with("second_"));
    assert!(!second.took_over(), "what is let go of is not lost");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_taken_only_after_it_was_seen_unchanged_for_its_duration() {
    // Its time of renewal is long ago by our clock: clocks of two nodes are not compared.
    let lease = json!({
        "metadata": { "name": "x", "resourceVersion": "7" },
        "spec": {
            "holderIdentity": "elsewhere", "leaseDurationSeconds": 15,
            "renewTime": "2001-01-01T00:00:00.000000Z", "leaseTransitions": 3,
        },
    });
    let store = Store::new(Some(lease));
    let mut candidate = store.candidate("new");
    let since = Instant::now();
    candidate.leads().await;
    assert!(since.elapsed() >= LEASE, "{:?}", since.elapsed());
    let spec = store.lease.lock().unwrap().clone().unwrap()["spec"].clone();
    assert_eq!(spec["leaseTransitions"], json!(4));
    assert!(candidate.took_over(), "what ran out was lost");
}

#[tokio::test(start_paused = true)]
async fn who_cannot_renew_is_lost_and_who_is_robbed_too() {
    let store = Store::new(None);
    let mut robbed = store.candidate("robbed");
    robbed.leads().await;
    {
        let mut lease = store.lease.lock().unwrap();
        let lease = lease.as_mut().unwrap();
        lease["spec"]["holderIdentity"] = json!("thief");
        lease["metadata"]["resourceVersion"] = json!("99");
    }
    let Ended::Lost(why) = robbed.task.await.unwrap() else { panic!("not lost") };
    assert!(why.contains("thief"), "{why}");
    assert!(robbed.leadership.allows().is_none());

    let cut = Arc::new(Mutex::new(false));
    let dead = Arc::clone(&cut);
    let (client, _) = server(move |call| {
        if *dead.lock().unwrap() {
            return (0, Value::Null);
        }
        let mut lease = call.body.clone();
        lease["metadata"]["resourceVersion"] = json!("1");
        if call.method == Method::GET { failure(404, "NotFound", "no") } else { (200, lease) }
    });
    let leadership = Leadership::none();
    let leading = watch::Sender::new(false);
    let mut led = leading.subscribe();
    let elector = Elector::new(client, "ns", "x", "me", leadership.clone(), Arc::new(Metrics::new()));
    let task = tokio::spawn(elector.run(leading, CancellationToken::new()));
    led.wait_for(|leads| *leads).await.unwrap();
    *cut.lock().unwrap() = true;
    let since = Instant::now();
    assert!(matches!(task.await.unwrap(), Ended::Lost(_)));
    assert!(
        since.elapsed() <= RENEW_DEADLINE + RENEW_EVERY,
        "ended before another may take the lease: {:?}",
        since.elapsed()
    );
}
