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

fn named(name: &str, version: &str) -> Object {
    let service: Service = serde_json::from_value(json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": version },
    }))
    .unwrap();
    service.into()
}

/// Both answers are taken in, also when the first is a failure; that says how the plan ended, and nothing after it is called for.
#[test]
fn what_is_sent_at_once_is_answered_alone() {
    let patch = |name: &str| Action::patch(Target::of(&named(name, "1")), json!({}));
    let plan = vec![patch("a"), patch("b").at_once(), patch("c")];
    let mut execution = Execution::new(plan.clone());
    assert_eq!(execution.also(), None);
    assert!(execution.call().is_some());
    assert!(matches!(execution.also(), Some(Call::Patch { reference, .. }) if reference.name == "b"));
    assert_eq!(execution.also(), None);
    assert_eq!(seen(execution.answer(Reply::Object(named("a", "5")))), "applied 5");
    assert_eq!(seen(execution.answer(Reply::Object(named("b", "6")))), "applied 6");
    assert!(matches!(execution.call(), Some(Call::Patch { reference, .. }) if reference.name == "c"));

    let mut execution = Execution::new(plan);
    execution.call();
    execution.also();
    let stale = || Reply::Failed(Verdict::Stale("somebody was faster".to_owned()));
    assert_eq!(seen(execution.answer(stale())), "None");
    assert_eq!(seen(execution.answer(Reply::Object(named("b", "6")))), "applied 6");
    assert!(matches!(execution.call(), Some(Call::Read(reference)) if reference.name == "a"));
    assert_eq!(seen(execution.answer(Reply::Object(named("a", "7")))), "applied 7");
    assert_eq!(execution.call(), None);
    assert!(matches!(execution.outcome(), Outcome::Stale(words) if words.contains("ns/a")));
}

/// Two writes of one object follow each other whatever is asked for, since the second names the version that the first left.
#[test]
fn one_object_is_not_written_twice_at_once() {
    let target = Target::of(&service("u1", "5"));
    let actions = vec![Action::patch(target.clone(), json!({})), Action::patch(target, json!({})).at_once()];
    let mut execution = Execution::new(actions);
    execution.call();
    assert_eq!(execution.also(), None);
    execution.answer(Reply::Object(service("u1", "6")));
    let Some(Call::Patch { body, .. }) = execution.call() else { panic!("no patch") };
    assert_eq!(body["metadata"]["resourceVersion"], "6");
}
