use std::sync::Mutex;

use http::Method;
use k8s_openapi::api::core::v1;
use plan::{Event, EventType, Guard, Target};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::fake::{Call, Calls, failure, not_found, server};

#[derive(Default)]
struct Index(Mutex<Vec<Change>>);

impl Absorb for Index {
    fn absorb(&self, change: Change) {
        self.0.lock().unwrap().push(change);
    }
}

impl Index {
    /// `Applied(5)`, `Gone`, ...
    fn seen(&self) -> Vec<String> {
        let changes = self.0.lock().unwrap();
        let word = |change: &Change| match change {
            Change::Applied(object) => {
                format!("Applied({})", object.meta().resource_version.as_deref().unwrap_or("?"))
            }
            Change::Gone { uid, .. } => format!("Gone({uid})"),
            other => format!("{other:?}"),
        };
        changes.iter().map(word).collect()
    }
}

fn service(resource_version: &str, extra: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "web", "namespace": "ns", "uid": "u1", "resourceVersion": resource_version },
    });
    json_patch(&mut service, extra);
    service
}

fn json_patch(value: &mut Value, extra: Value) {
    match (value, extra) {
        (Value::Object(fields), Value::Object(extra)) => {
            for (key, extra) in extra {
                json_patch(fields.entry(key).or_insert(Value::Null), extra);
            }
        }
        (value, extra) => *value = extra,
    }
}

fn object(value: Value) -> Object {
    let service: v1::Service = serde_json::from_value(value).unwrap();
    service.into()
}

fn target() -> Target {
    Target::of(&object(service("1", json!({}))))
}

fn guard() -> Guard {
    let event = Event {
        regarding: target().reference,
        uid: "u1".into(),
        kind: EventType::Warning,
        reason: "Refused",
        action: "Create",
        note: "cannot be made".into(),
        trace: None,
    };
    Guard { event }
}

async fn carry_out(
    leadership: Leadership,
    actions: Vec<Action>,
    answer: impl Fn(&Call) -> (u16, Value) + Send + Sync + 'static,
) -> (Outcome, Calls, Vec<String>) {
    let (client, calls) = server(answer);
    let metrics = Arc::new(Metrics::new());
    let events = Writer::new(client.clone(), "me", "pod", leadership.clone(), Arc::clone(&metrics));
    let applier = Applier::new(client, "me", leadership, metrics, Arc::new(events));
    let index = Index::default();
    let outcome = applier.carry_out(actions, &index).await;
    let seen = index.seen();
    (outcome, calls, seen)
}

#[tokio::test]
async fn writes_carry_preconditions_and_follow_the_plans_own_versions() {
    let actions = vec![
        Action::patch(target(), json!({ "metadata": { "labels": { "a": "b" } } })),
        Action::patch_status(target(), json!({ "loadBalancer": {} })),
        Action::Delete { target: target() },
    ];
    let (outcome, calls, seen) = carry_out(Leadership::always(), actions, |call| match call.method {
        Method::DELETE => (200, json!({ "kind": "Status", "status": "Success" })),
        _ if call.path.ends_with("/status") => (200, service("6", json!({}))),
        _ => (200, service("5", json!({}))),
    })
    .await;
    assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
    assert_eq!(seen, ["Applied(5)", "Applied(6)", "Gone(u1)"]);
    assert_eq!(
        calls.lines(),
        [
            "PATCH /api/v1/namespaces/ns/services/web",
            "PATCH /api/v1/namespaces/ns/services/web/status",
            "DELETE /api/v1/namespaces/ns/services/web",
        ]
    );
    let calls = calls.all();
    assert_eq!(calls[0].query, "&fieldManager=me");
    assert_eq!(
        calls[0].body,
        json!({ "metadata": { "labels": { "a": "b" }, "uid": "u1", "resourceVersion": "1" } })
    );
    assert_eq!(
        calls[1].body,
        json!({ "status": { "loadBalancer": {} }, "metadata": { "uid": "u1", "resourceVersion": "5" } })
    );
    assert_eq!(calls[2].body["preconditions"], json!({ "uid": "u1", "resourceVersion": "6" }));
    assert_eq!(calls[2].body["propagationPolicy"], json!("Background"));
}

#[rstest]
#[case::still_there(json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"] }), "Applied(5)")]
#[case::gone(json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), "Gone(u1)")]
#[case::returned_as_it_was(json!({}), "Gone(u1)")]
#[tokio::test]
async fn a_delete_is_the_end_or_the_beginning_of_it(#[case] metadata: Value, #[case] expected: &str) {
    let answer = service("5", json!({ "metadata": metadata }));
    let actions = vec![Action::Delete { target: target() }];
    let (_, _, seen) = carry_out(Leadership::always(), actions, move |_| (200, answer.clone())).await;
    assert_eq!(seen, [expected]);
}

#[tokio::test]
async fn taking_the_last_finalizer_off_is_the_end_of_an_object() {
    let answer = service("5", json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
    let actions = vec![Action::patch(target(), json!({ "metadata": { "finalizers": null } }))];
    let (_, _, seen) = carry_out(Leadership::always(), actions, move |_| (200, answer.clone())).await;
    assert_eq!(seen, ["Gone(u1)"]);
}

#[rstest]
#[case::conflict(409, "Conflict", "stale", &["Applied(9)"])]
#[case::not_found(404, "NotFound", "stale", &["Applied(9)"])]
#[case::invalid(422, "Invalid", "refused", &[])]
#[case::forbidden(403, "Forbidden", "refused", &[])]
#[case::server_error(500, "InternalError", "failed", &[])]
#[case::too_many(429, "TooManyRequests", "failed", &[])]
#[tokio::test]
async fn what_an_answer_means(
    #[case] code: u16,
    #[case] reason: &'static str,
    #[case] expected: &str,
    #[case] absorbed: &[&str],
) {
    let first = Action::Patch {
        target: target(),
        status: false,
        body: json!({ "spec": {} }),
        refused: Some(guard()),
        at_once: false,
    };
    let actions = vec![first, Action::Delete { target: target() }];
    let (outcome, calls, seen) = carry_out(Leadership::always(), actions, move |call| {
        if call.method == Method::GET {
            return (200, service("9", json!({})));
        }
        failure(code, reason, "the server's words")
    })
    .await;
    let outcome = match outcome {
        Outcome::Done => "done",
        Outcome::Stale(_) => "stale",
        Outcome::Refused { tell, .. } => {
            assert_eq!(tell.unwrap().note, "cannot be made: the server's words");
            "refused"
        }
        Outcome::Failed { .. } => "failed",
    };
    assert_eq!(outcome, expected);
    assert_eq!(seen, absorbed);
    assert!(!calls.lines().iter().any(|line| line.starts_with("DELETE")), "the plan ended");
}

#[tokio::test]
async fn what_is_gone_when_looked_for_is_forgotten() {
    let actions = vec![Action::Delete { target: target() }];
    let (outcome, _, seen) = carry_out(Leadership::always(), actions, not_found).await;
    assert!(matches!(outcome, Outcome::Stale(_)));
    assert_eq!(seen, ["Gone(u1)"]);
}

#[tokio::test]
async fn a_lost_race_to_create_shows_the_winner() {
    let actions = vec![Action::create(object(service("1", json!({}))))];
    let (outcome, calls, seen) = carry_out(Leadership::always(), actions, |call| match call.method {
        Method::POST => failure(409, "AlreadyExists", "exists"),
        _ => (200, service("4", json!({ "metadata": { "uid": "winner" } }))),
    })
    .await;
    assert!(matches!(outcome, Outcome::Stale(_)));
    assert_eq!(seen, ["Applied(4)"]);
    assert_eq!(calls.all()[0].body["kind"], json!("Service"));
}

#[rstest]
#[case::absent(None, Some("u1"), true)]
#[case::another_incarnation(Some("u2"), Some("u1"), true)]
#[case::there_after_all(Some("u1"), Some("u1"), false)]
#[case::any_counts(Some("u2"), None, false)]
#[tokio::test]
async fn absence_is_confirmed_by_a_live_read(
    #[case] found: Option<&'static str>,
    #[case] uid: Option<&str>,
    #[case] goes_on: bool,
) {
    let actions = vec![
        Action::ConfirmAbsent { reference: target().reference, uid: uid.map(str::to_owned) },
        Action::Delete { target: target() },
    ];
    let (outcome, calls, _) =
        carry_out(Leadership::always(), actions, move |call| match (call.method.clone(), found) {
            (Method::GET, None) => not_found(call),
            (Method::GET, Some(uid)) => (200, service("3", json!({ "metadata": { "uid": uid } }))),
            _ => (200, json!({ "kind": "Status" })),
        })
        .await;
    assert_eq!(matches!(outcome, Outcome::Done), goes_on, "{outcome:?}");
    assert_eq!(calls.all().len(), if goes_on { 2 } else { 1 });
}

#[tokio::test]
async fn a_path_that_is_not_served_is_no_proof_of_absence() {
    let absent = Action::ConfirmAbsent { reference: target().reference, uid: None };
    let actions = vec![absent, Action::Delete { target: target() }];
    let page = |_: &Call| (404, json!("404 page not found"));
    let (outcome, calls, seen) = carry_out(Leadership::always(), actions, page).await;
    assert!(!matches!(outcome, Outcome::Done), "{outcome:?}");
    assert_eq!((calls.all().len(), seen.len()), (1, 0));

    let actions = vec![Action::Delete { target: target() }];
    let (_, _, seen) = carry_out(Leadership::always(), actions, page).await;
    assert_eq!(seen, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_call_has_a_deadline() {
    let since = tokio::time::Instant::now();
    let actions = vec![Action::patch(target(), json!({}))];
    let (outcome, ..) = carry_out(Leadership::always(), actions, |_| (0, Value::Null)).await;
    assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
    assert_eq!(since.elapsed(), DEADLINE);
}

#[tokio::test]
async fn without_the_lease_nothing_is_written() {
    let actions = vec![
        Action::Emit(guard().event),
        Action::patch(target(), json!({})),
        Action::Delete { target: target() },
    ];
    let (outcome, calls, _) =
        carry_out(Leadership::none(), actions, |_| (200, service("5", json!({})))).await;
    assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
    assert_eq!(calls.lines(), [""; 0]);
}

#[tokio::test]
async fn without_a_uid_nothing_is_written() {
    let target = Target { uid: String::new(), ..target() };
    let actions = vec![Action::patch(target, json!({}))];
    let (outcome, calls, _) = carry_out(Leadership::always(), actions, not_found).await;
    assert!(matches!(outcome, Outcome::Stale(_)), "{outcome:?}");
    assert_eq!(calls.lines(), ["GET /api/v1/namespaces/ns/services/web"]);
}

#[tokio::test]
async fn what_is_sent_at_once_does_not_wait_for_the_first_answer() {
    let other = object(service("1", json!({ "metadata": { "name": "hold", "uid": "u2" } })));
    let actions = vec![
        Action::patch(target(), json!({ "spec": {} })),
        Action::patch(Target::of(&other), json!({ "spec": {} })).at_once(),
        Action::Delete { target: target() },
    ];
    let (outcome, calls, seen) = carry_out(Leadership::always(), actions, |call| {
        if call.path.ends_with("/hold") {
            (200, service("7", json!({ "metadata": { "name": "hold", "uid": "u2" } })))
        } else {
            failure(500, "InternalError", "the server's words")
        }
    })
    .await;
    assert!(matches!(outcome, Outcome::Failed { .. }));
    assert_eq!(seen, ["Applied(7)"]);
    let services = "/api/v1/namespaces/ns/services";
    assert_eq!(calls.lines(), [format!("PATCH {services}/web"), format!("PATCH {services}/hold")]);
}
