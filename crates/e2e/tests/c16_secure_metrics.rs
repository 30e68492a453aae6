//! Contract §16: with `metrics.secure` the metrics are told by HTTPS only, to whoever may get them by the word of the real API
//! server.

use devcluster::{Controller, Target};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::Api;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rig::{self, Rig, Setup, create, fetch_securely};

const NAMESPACE: &str = "monitoring";
const BOTH: [Controller; 2] = [Controller::Core, Controller::Driver];
const DASHBOARD: &str = "address-dashboard";

fn setup() -> Setup {
    let (flag, value) = (vec!["--metrics-secure".to_owned()], vec!["metrics.secure=true".to_owned()]);
    Setup {
        leader_elect: false,
        core_args: flag.clone(),
        driver_args: flag,
        core_values: value.clone(),
        driver_values: value,
        ..Setup::default()
    }
}

/// A token of one who may get the metrics of all three, as the charts' roles let them, and a token of one who may not.
async fn tokens(rig: &Rig) -> (String, String) {
    let client = rig.cluster.admin();
    create(&Api::<Namespace>::all(client.clone()), json!({ "metadata": { "name": NAMESPACE } })).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    for name in ["prometheus", "stranger"] {
        create(&accounts, json!({ "metadata": { "name": name } })).await;
    }
    for chart in [BOTH[0].name(), BOTH[1].name(), DASHBOARD] {
        let role = format!("{chart}-metrics-reader");
        let binding = json!({
            "metadata": { "name": format!("prometheus-{chart}") },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "namespace": NAMESPACE, "name": "prometheus" }],
        });
        create(&Api::<ClusterRoleBinding>::all(client.clone()), binding).await;
    }
    let token = async |name: &str| rig.cluster.token_for(NAMESPACE, name).await.unwrap();
    (token("prometheus").await, token("stranger").await)
}

/// What comes back when one speaks plain HTTP, with a token that would do.
async fn plainly(address: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request =
        format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // It may be cut off.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// §16: no token, or nobody's: 401; one without the right: 403; one with it: the metrics, for a real Prometheus too. Plain HTTP:
/// nothing. The rights that this takes are there, and are used.
#[test]
fn c16_secure_metrics_are_told_to_who_may_get_them() {
    rig::alone(setup(), async |rig| {
        rig.cluster.install_dashboard(&["--set", "metrics.secure=true"]).await.unwrap();
        let dashboard = rig.dashboard("dashboard", &["--metrics-secure"]).await;
        let (may, may_not) = tokens(rig).await;
        let mut targets = Vec::new();
        for (job, process) in [
            (BOTH[0].name(), rig.process(BOTH[0])),
            (BOTH[1].name(), rig.process(BOTH[1])),
            (DASHBOARD, dashboard.process),
        ] {
            let address = process.metrics_address().unwrap().to_owned();
            let answer = async |token| fetch_securely(&address, "metrics", token).await;
            assert_eq!(answer(None).await, Err(401), "{job}");
            assert_eq!(answer(Some("nonsense")).await, Err(401), "{job}");
            assert_eq!(answer(Some(may_not.as_str())).await, Err(403), "{job}");
            let text = answer(Some(may.as_str())).await.unwrap();
            assert!(
                text.contains("rest_client_requests_total") && text.ends_with("# EOF\n"),
                "{job}: {text}"
            );
            let plain = plainly(&address, &may).await;
            assert!(!plain.contains("HTTP/") && !plain.contains("# EOF"), "{job}: {plain}");
            targets.push(Target { job: job.to_owned(), address, token: Some(may.clone()) });
        }
        let prometheus = rig.cluster.run_prometheus(&targets, &[]).await.unwrap();
        rig::eventually("all three to be scraped", async || {
            let up = prometheus.query("up == 1").await.unwrap();
            (up.len() == targets.len()).then_some(())
        })
        .await;
        for controller in BOTH {
            rig.assert_used(controller, "metrics.secure=true").await;
        }
    });
}
