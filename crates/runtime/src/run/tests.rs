use std::collections::BTreeMap;

use http::Method;
use plan::{Action, Kind, Object, Target};
use serde_json::{Value, json};

use super::*;
use crate::args::MetricsSecurity;
use crate::fake::{Call, Calls, failure, server};

/// Gives every Service the label it lacks.
#[derive(Default)]
struct Labeller {
    services: BTreeMap<String, Object>,
}

impl Labeller {
    fn keep(&mut self, object: Object) -> Vec<String> {
        let key = object.reference().name;
        let known = self.services.insert(key.clone(), object.clone());
        let version = |object: &Object| object.meta().resource_version.clone();
        if known.as_ref().map(version) == Some(version(&object)) { vec![] } else { vec![key] }
    }
}

impl Brain for Labeller {
    type Key = String;

    fn apply(&mut self, change: Change) -> Vec<String> {
        match change {
            Change::Applied(object) | Change::InList(object) => self.keep(object),
            _ => vec![],
        }
    }

    fn keys(&self) -> Vec<String> {
        self.services.keys().cloned().collect()
    }

    fn lane(_: &String) -> u8 {
        0
    }

    fn controller(_: &String) -> &'static str {
        "service"
    }

    fn decide(&mut self, key: &String, _: &Moment) -> Plan {
        assert_ne!(key, "bug", "a brain with a bug");
        let mut plan = Plan::default();
        let service = &self.services[key];
        if service.meta().labels.is_none() {
            let body = json!({ "metadata": { "labels": { "a": "b" } } });
            plan.push(Action::patch(Target::of(service), body));
        }
        plan
    }

    fn settle(&mut self, _: &String) {}

    fn timers() -> &'static [plan::Timer] {
        &[plan::Timer {
            name: "change_seconds",
            help: "Changes",
            buckets: &[1.0],
            sorts: &[&[("way", "back")]],
        }]
    }

    fn ended(&mut self) -> Vec<plan::Timing> {
        let took = plan::Took::Seconds(0.5);
        vec![plan::Timing { timer: "change_seconds", labels: vec![], took, trace_id: None }]
    }

    fn gauges(&self) -> Vec<plan::Gauge> {
        vec![plan::Gauge { name: "services", help: "Services", samples: vec![(vec![], 7.0)] }]
    }
}

fn service(name: &str, version: u32) -> Value {
    json!({ "metadata": {
        "name": name, "namespace": "ns", "uid": name, "resourceVersion": version.to_string(),
    } })
}

/// Lists these Services; watches show nothing; patches are accepted, but the first of each as `first` says.
fn cluster(names: &'static [&'static str], first: Option<u16>) -> (kube::Client, Calls) {
    let tries = Mutex::new(BTreeMap::<String, u32>::new());
    server(move |call: &Call| match call.method {
        Method::GET if call.query.contains("watch=true") => (0, Value::Null),
        Method::GET if call.path.contains("ipaddresspools") => (404, json!("404 page not found")),
        Method::GET if call.path.ends_with("/services") => {
            let items: Vec<Value> = names.iter().map(|name| service(name, 1)).collect();
            (
                200,
                json!({ "kind": "ServiceList", "apiVersion": "v1", "items": items,
                "metadata": { "resourceVersion": "1" } }),
            )
        }
        Method::PATCH => {
            let name = call.path.rsplit('/').next().unwrap();
            let mut tries = tries.lock().unwrap();
            let tries = tries.entry(name.to_owned()).or_default();
            *tries += 1;
            if let (1, Some(code)) = (*tries, first) {
                return failure(code, "Reason", "not now");
            }
            let mut answer = service(name, 1 + *tries);
            answer["metadata"]["labels"] = call.body["metadata"]["labels"].clone();
            (200, answer)
        }
        _ => (200, service(call.path.rsplit('/').next().unwrap(), 1)),
    })
}

fn settings(client: kube::Client) -> Settings {
    Settings {
        controller: "labeller",
        client,
        requests: crate::Requests::default(),
        namespace: "ns".into(),
        instance: "pod".into(),
        leader_elect: false,
        metrics_address: "0".into(),
        metrics_security: MetricsSecurity::default(),
        probe_address: "0".into(),
        workers: 2,
        traces: crate::trace::Traces::default(),
        stop: CancellationToken::new(),
    }
}

/// Runs for a while, then stops.
async fn run_for(
    seconds: u64,
    kinds: &[Kind],
    (client, calls): (kube::Client, Calls),
) -> (Result<(), RunError>, Vec<String>) {
    let settings = settings(client);
    let stop = settings.stop.clone();
    let feeds = kinds.iter().copied().map(Feed::of).collect();
    let task = tokio::spawn(run(Labeller::default(), feeds, settings));
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    stop.cancel();
    let ended = task.await.unwrap();
    let writes = calls.lines().into_iter().filter(|line| !line.starts_with("GET")).collect();
    (ended, writes)
}

fn patches(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("PATCH /api/v1/namespaces/ns/services/{name}")).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_listed_is_decided_once() {
    let (ended, mut writes) = run_for(5, &[Kind::Service], cluster(&["a", "b", "c"], None)).await;
    assert!(ended.is_ok(), "{ended:?}");
    writes.sort();
    assert_eq!(writes, patches(&["a", "b", "c"]));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_before_every_cache_is_complete() {
    let kinds = [Kind::Service, Kind::Pool];
    let (ended, writes) = run_for(600, &kinds, cluster(&["a"], None)).await;
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(writes, [""; 0]);
}

#[rstest::rstest]
#[case::conflict(409)]
#[case::refused(422)]
#[case::failed(500)]
#[tokio::test(start_paused = true)]
async fn what_did_not_work_is_tried_again(#[case] code: u16) {
    let (_, writes) = run_for(5, &[Kind::Service], cluster(&["a"], Some(code))).await;
    assert_eq!(writes, patches(&["a", "a"]));
}

#[tokio::test(start_paused = true)]
async fn a_bug_ends_the_process() {
    let (ended, _) = run_for(5, &[Kind::Service], cluster(&["bug"], None)).await;
    assert!(matches!(ended, Err(RunError::Bug(_))), "{ended:?}");
}

/// §14: a replica that stands by has the same in its caches, and tells nothing of it.
#[tokio::test]
async fn c14_only_who_leads_and_decides_tells_what_there_is() {
    let (client, _) = cluster(&[], None);
    let settings = settings(client);
    for (leadership, begun, expected) in [
        (Leadership::always(), true, true),
        (Leadership::always(), false, false),
        (Leadership::none(), false, false),
        (Leadership::none(), true, false),
    ] {
        let metrics = Arc::new(Metrics::with(Labeller::timers(), &settings.requests));
        let caches = Arc::new(Caches::new([]));
        let engine = Engine::new(Labeller::default(), &settings, &leadership, &metrics, caches);
        if begun {
            engine.begin();
        }
        engine.absorb(Change::Listed(Kind::Service));
        let page = engine.page();
        assert_eq!(page.contains("services 7.0"), expected, "{page}");
        assert_eq!(page.contains("change_seconds_count 1"), begun, "{page}");
        assert_eq!(page.contains("change_seconds_count{way=\"back\"} 0"), begun, "{page}");
        assert!(page.ends_with("# EOF\n"), "{page}");
    }
}
