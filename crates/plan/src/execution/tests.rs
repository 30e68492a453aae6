use k8s_openapi::api::core::v1::Service;

use super::*;
use crate::Kind;

fn service(uid: &str, version: &str) -> Object {
    let service: Service = serde_json::from_value(json!({
        "metadata": { "namespace": "ns", "name": "web", "uid": uid, "resourceVersion": version },
    }))
    .unwrap();
    service.into()
}

fn seen(change: Option<Change>) -> String {
    match change {
        Some(Change::Applied(object)) => {
            format!("applied {}", object.meta().resource_version.as_deref().unwrap())
        }
        Some(Change::Gone { uid, .. }) => format!("gone {uid}"),
        other => format!("{other:?}"),
    }
}

/// A target without a uid is what this plan created, and nothing else.
#[test]
fn what_a_plan_created_is_written_in_the_version_it_left() {
    let target = Target { uid: String::new(), ..Target::of(&service("", "")) };
    let actions = vec![
        Action::create(service("", "")),
        Action::patch(target.clone(), json!({ "metadata": { "labels": { "a": "b" } } })),
        Action::Delete { target: target.clone() },
        Action::patch(target, json!({})),
    ];
    let mut execution = Execution::new(actions);
    assert!(matches!(execution.call(), Some(Call::Create(_))));
    assert_eq!(seen(execution.answer(Reply::Object(service("u1", "5")))), "applied 5");
    let Some(Call::Patch { body, .. }) = execution.call() else { panic!("no patch") };
    assert_eq!(body["metadata"], json!({ "labels": { "a": "b" }, "uid": "u1", "resourceVersion": "5" }));
    assert_eq!(seen(execution.answer(Reply::Object(service("u1", "6")))), "applied 6");
    let Some(Call::Delete { uid, resource_version, .. }) = execution.call() else { panic!("no delete") };
    assert_eq!((uid.as_str(), resource_version.as_str()), ("u1", "6"));
    assert_eq!(seen(execution.answer(Reply::Gone)), "gone u1");
    // What is gone has no version any more: the plan ends by a look.
    assert!(matches!(execution.call(), Some(Call::Read(reference)) if reference.kind == Kind::Service));
    assert_eq!(seen(execution.answer(Reply::Absent)), "None");
    assert_eq!(execution.call(), None);
    assert!(matches!(execution.outcome(), Outcome::Stale(_)));
}

/// A failure says nothing of what the server did: the plan ends, and nothing is taken in.
#[test]
fn an_answer_that_is_lost_ends_the_plan() {
    let target = Target::of(&service("u1", "5"));
    let mut execution =
        Execution::new(vec![Action::patch(target.clone(), json!({})), Action::Delete { target }]);
    execution.call();
    let lost = Verdict::Failed("no answer".to_owned(), Duration::ZERO);
    assert_eq!(seen(execution.answer(Reply::Failed(lost))), "None");
    assert_eq!(execution.call(), None);
    assert!(matches!(execution.outcome(), Outcome::Failed { .. }));
}
