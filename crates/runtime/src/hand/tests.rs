use std::sync::Mutex;
use std::time::Duration;

use http::Method;
use rstest::rstest;

use super::*;
use crate::fake::{failure, server};

fn class(name: &str) -> Value {
    json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClass",
        "metadata": { "name": name, "uid": "u", "resourceVersion": "1" }, "spec": { "provisioner": "p" },
    })
}

#[tokio::test]
async fn every_page_of_a_list_is_read() {
    let (client, calls) = server(|call| {
        let (item, next) = if call.query.contains("continue=more") { ("b", "") } else { ("a", "more") };
        let meta = json!({ "continue": next });
        (200, json!({ "kind": "List", "apiVersion": "v1", "metadata": meta, "items": [class(item)] }))
    });
    let classes = Hand::new(client, "m").list(Kind::Class, None).await.unwrap();
    let names: Vec<_> = classes.iter().map(|object| object.reference().name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(calls.all().len(), 2);
}

#[tokio::test]
async fn a_kind_that_is_not_there_is_named() {
    let (client, _) = server(|_| failure(404, "NotFound", "404 page not found"));
    let words = Hand::new(client, "m").list(Kind::Pool, Some("x")).await.unwrap_err().to_string();
    assert!(words.contains("ipaddresspools") && words.contains("metallb.io/v1beta1"), "{words}");
}

/// What no controller reads is patched in the version that was read, or not at all.
#[rstest]
#[case(200, "")]
#[case(409, "stale")]
#[case(403, "write")]
#[tokio::test]
async fn a_foreign_patch_has_its_preconditions(#[case] code: u16, #[case] expected: &str) {
    let advertisement = json!({
        "apiVersion": "metallb.io/v1beta1", "kind": "L2Advertisement",
        "metadata": { "namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "7" },
    });
    let answer = advertisement.clone();
    let (client, calls) =
        server(move |_| if code == 200 { (200, answer.clone()) } else { failure(code, "Reason", "words") });
    let object = serde_json::from_value(advertisement).unwrap();
    let body = json!({ "metadata": { "ownerReferences": [] } });
    let outcome = match Hand::new(client, "m").patch_foreign(&object, body).await {
        Ok(()) => "",
        Err(HandError::Stale(_)) => "stale",
        Err(_) => "write",
    };
    assert_eq!(outcome, expected);
    let call = calls.all().pop().unwrap();
    assert_eq!(call.line(), "PATCH /apis/metallb.io/v1beta1/namespaces/ns/l2advertisements/a");
    assert_eq!(call.body["metadata"], json!({ "uid": "u", "resourceVersion": "7", "ownerReferences": [] }));
}

fn lease(holder: &str, version: u64) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "namespace": "home", "name": "x", "resourceVersion": version.to_string() },
        "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15 },
    })
}

/// A lease counts while it is renewed: not when it was let go, and not when nobody renews it for its whole duration.
#[rstest]
#[case::renewed("pod-1", true, Some("home/x is pod-1's"))]
#[case::abandoned("pod-1", false, None)]
#[case::let_go("", false, None)]
#[tokio::test(start_paused = true)]
async fn a_leader_is_one_who_renews(
    #[case] holder: &'static str,
    #[case] renews: bool,
    #[case] expected: Option<&str>,
) {
    let version = Mutex::new(1);
    let (client, calls) = server(move |call| {
        let mut version = version.lock().unwrap();
        if call.path.ends_with("/namespaces/home/leases/x") {
            *version += u64::from(renews);
            return (200, lease(holder, *version));
        }
        assert_eq!((&call.method, call.query.contains("metadata.name%3Dx")), (&Method::GET, true));
        let list = json!({ "kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "metadata": {}, "items": [lease(holder, *version)] });
        (200, list)
    });
    let began = tokio::time::Instant::now();
    let leader = Hand::new(client, "m").leader("x").await.unwrap();
    assert_eq!(leader.as_deref(), expected);
    let waited = began.elapsed();
    match (holder, renews) {
        ("", _) => assert_eq!(calls.all().len(), 1),
        (_, true) => assert!(waited < Duration::from_secs(2), "{waited:?}"),
        (_, false) => assert!(waited >= Duration::from_secs(15), "{waited:?}"),
    }
}
