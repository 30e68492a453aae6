//! Faults at exact moments, against the real API server.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::time::{Duration, Instant};

use devcluster::proxy::{Rule, Verb};
use devcluster::{Cluster, ControllerSpec, Options, client_of};
use futures::TryStreamExt as _;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A service account that may edit its namespace.
async fn tester(cluster: &Cluster) {
    let create = PostParams::default();
    let account: ServiceAccount = object(json!({ "metadata": { "name": "tester" } }));
    Api::namespaced(cluster.admin(), "default").create(&create, &account).await.unwrap();
    let binding: RoleBinding = object(json!({
        "metadata": { "name": "tester" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "kind": "ServiceAccount", "name": "tester", "namespace": "default" }],
    }));
    Api::namespaced(cluster.admin(), "default").create(&create, &binding).await.unwrap();
}

#[tokio::test]
async fn faults_happen_at_exact_moments() {
    let cluster = Cluster::start(Options { metallb: false, ..Options::default() }).await.unwrap();
    tester(&cluster).await;
    let proxy = cluster.proxy().await.unwrap();
    let kubeconfig = cluster.kubeconfig_via(&proxy, "default", "tester").await.unwrap();
    let client = client_of(&kubeconfig).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let direct: Api<ConfigMap> = Api::namespaced(cluster.admin(), "default");
    let create = PostParams::default();
    let map = |name: &str| -> ConfigMap { object(json!({ "metadata": { "name": name } })) };

    // The API server sees the same identity as without the proxy, with the same limits.
    let review =
        Api::<SelfSubjectReview>::all(client.clone()).create(&create, &SelfSubjectReview::default()).await;
    let user = review.unwrap().status.unwrap().user_info.unwrap().username.unwrap();
    assert_eq!(user, "system:serviceaccount:default:tester");
    let forbidden =
        Api::<ConfigMap>::namespaced(client.clone(), "kube-system").create(&create, &map("x")).await;
    assert!(matches!(forbidden, Err(kube::Error::Api(status)) if status.code == 403));
    assert_eq!(proxy.writes().len(), 1, "the review is not counted");
    assert_eq!(proxy.writes()[0].status, Some(403));

    // A crash after the second write: it is stored, and the process is dead before the answer is seen.
    proxy.reset();
    let process = cluster
        .spawn_controller(ControllerSpec {
            name: "core".into(),
            binary: "/bin/sleep".into(),
            args: vec!["600".into()],
            kubeconfig: kubeconfig.clone(),
            ..ControllerSpec::default()
        })
        .await
        .unwrap();
    let victim = process.clone();
    proxy.add(Rule::write(2).after(move |_| {
        let victim = victim.clone();
        async move { victim.kill().await }
    }));
    maps.create(&create, &map("one")).await.unwrap();
    assert!(process.is_running());
    maps.create(&create, &map("two")).await.unwrap();
    assert_eq!(process.exit().and_then(|exit| exit.signal), Some(9));
    assert!(direct.get_opt("two").await.unwrap().is_some());

    // A crash before the third: it is dead, and nothing was stored.
    proxy.clear();
    process.start().unwrap();
    let victim = process.clone();
    proxy.add(Rule::write(3).before(move |_| {
        let victim = victim.clone();
        async move { victim.kill().await }
    }));
    let lost = tokio::time::timeout(Duration::from_millis(300), maps.create(&create, &map("three"))).await;
    assert!(lost.is_err() || lost.unwrap().is_ok(), "the client retries 503 by itself");
    assert!(!process.is_running());
    assert_eq!(proxy.writes()[2].status, None, "the third was never forwarded");

    // Refusals are the server's words; a conflict is not retried by the client.
    proxy.add(Rule::when(|call| call.verb == Verb::Delete).answer(409).times(1));
    let refused = maps.delete("one", &DeleteParams::default()).await;
    assert!(
        matches!(refused, Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "Conflict")
    );
    maps.delete("one", &DeleteParams::default()).await.unwrap();
    assert_eq!(proxy.count(Verb::Delete, "configmaps"), 2);

    // A list can be held back, a watch is streamed.
    let hold = Duration::from_millis(300);
    proxy.add(Rule::when(|call| call.verb == Verb::List && call.resource == "configmaps").delay(hold));
    let started = Instant::now();
    let listed = maps.list(&ListParams::default()).await.unwrap();
    assert!(started.elapsed() >= hold);
    let version = listed.metadata.resource_version.unwrap();
    let mut events = Box::pin(maps.watch(&WatchParams::default(), &version).await.unwrap());
    direct.create(&create, &map("seen")).await.unwrap();
    let event = tokio::time::timeout(Duration::from_secs(10), events.try_next()).await.unwrap().unwrap();
    assert!(matches!(event, Some(WatchEvent::Added(map)) if map.metadata.name.as_deref() == Some("seen")));
}
