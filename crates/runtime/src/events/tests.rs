use std::collections::BTreeSet;

use plan::{EventType, Ref};
use serde_json::{Value, json};

use super::*;
use crate::fake::{Calls, failure, server};

fn event(note: &str) -> Event {
    Event {
        regarding: Ref { kind: plan::Kind::Address, namespace: None, name: "ip-203-0-113-7".into() },
        uid: "u1".into(),
        kind: EventType::Warning,
        reason: "InUse",
        action: "Bind",
        note: note.into(),
        trace: None,
    }
}

/// An events endpoint that knows the names it was given.
fn endpoint(known: &Arc<Mutex<BTreeSet<String>>>) -> (Standing<&'static str>, Calls) {
    let known = Arc::clone(known);
    let (client, calls) = server(move |call| {
        let name = call.body["metadata"]["name"].as_str().unwrap().to_owned();
        if known.lock().unwrap().insert(name) {
            (201, json!({}))
        } else {
            failure(409, "AlreadyExists", "exists")
        }
    });
    let writer = Writer::new(client, "me", "pod-1", Leadership::always(), Arc::new(Metrics::new()));
    (Standing::new(Arc::new(writer)), calls)
}

#[tokio::test]
async fn what_stands_is_told_when_it_is_new() {
    let known = Arc::default();
    let (standing, calls) = endpoint(&known);
    let count = || calls.all().len();
    standing.tell(&"a", &[event("one")]).await;
    standing.tell(&"a", &[event("one"), event("one")]).await;
    assert_eq!(count(), 1);
    standing.tell(&"a", &[event("one"), event("two")]).await;
    assert_eq!(count(), 2);
    standing.tell(&"a", &[]).await;
    assert_eq!(count(), 2);
    // Back again: the name is taken, so it is told under another one.
    standing.tell(&"a", &[event("two")]).await;
    assert_eq!((count(), known.lock().unwrap().len()), (4, 3));

    let (restarted, calls) = endpoint(&known);
    restarted.inherit(&["a"]);
    restarted.tell(&"a", &[event("two")]).await;
    restarted.tell(&"a", &[event("two")]).await;
    assert_eq!((calls.all().len(), known.lock().unwrap().len()), (1, 3), "told before the restart");
}

#[tokio::test]
async fn an_event_is_what_the_server_wants() {
    let known = Arc::default();
    let (standing, calls) = endpoint(&known);
    standing.tell(&"a", &[event(&"ü".repeat(1000))]).await;
    let call = calls.all().remove(0);
    assert_eq!(call.line(), "POST /apis/events.k8s.io/v1/namespaces/default/events");
    let body = call.body;
    assert_eq!(body["note"].as_str().unwrap().len(), 1024);
    assert_eq!(body["reportingController"], "me");
    assert_eq!(body["reportingInstance"], "pod-1");
    assert_eq!(body["type"], "Warning");
    assert!(body["eventTime"].is_string());
    assert_eq!(
        body["regarding"],
        json!({
            "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
            "name": "ip-203-0-113-7", "uid": "u1",
        })
    );
}

#[tokio::test]
async fn what_could_not_be_told_is_told_next_time() {
    let broken = Arc::new(Mutex::new(true));
    let answer = Arc::clone(&broken);
    let (client, calls) = server(move |_| {
        if *answer.lock().unwrap() { failure(500, "InternalError", "no") } else { (201, Value::Null) }
    });
    let writer = Writer::new(client, "me", "pod", Leadership::always(), Arc::new(Metrics::new()));
    let standing = Standing::new(Arc::new(writer));
    standing.tell(&"a", &[event("one")]).await;
    *broken.lock().unwrap() = false;
    standing.tell(&"a", &[event("one")]).await;
    standing.tell(&"a", &[event("one")]).await;
    assert_eq!(calls.all().len(), 2);
}

#[test]
fn names_are_short_and_the_same_in_every_process() {
    assert_eq!(fingerprint(&event("one")), fingerprint(&event("one")));
    assert_ne!(fingerprint(&event("one")), fingerprint(&event("two")));
    assert_eq!(shortened("aü", 2), "a");
    assert_eq!(shortened("aü", 3), "aü");
}
