//! A chart is installed, and its service account can what its roles let it, no more.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::path::Path;

use devcluster::{Cluster, Options};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};

const RULES: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: {{ .Release.Namespace }}}]
"#;

fn chart(dir: &Path) -> String {
    std::fs::create_dir_all(dir.join("templates")).unwrap();
    std::fs::write(dir.join("Chart.yaml"), "apiVersion: v2\nname: reader\nversion: 0.1.0\n").unwrap();
    std::fs::write(dir.join("templates/rules.yaml"), RULES).unwrap();
    dir.to_string_lossy().into_owned()
}

#[tokio::test]
async fn a_chart_brings_its_own_rights() {
    let cluster = Cluster::start(Options { metallb: false, ..Options::default() }).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let chart = chart(dir.path());
    cluster.helm(&["install", "reader", &chart, "-n", "readers", "--create-namespace"]).await.unwrap();
    let listed = cluster.helm(&["list", "-n", "readers", "-q"]).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout).trim(), "reader");
    let error = cluster.helm(&["install", "x", "/nowhere"]).await.unwrap_err().to_string();
    assert!(error.starts_with("helm install x /nowhere failed"), "{error}");

    let client = cluster.client_for("readers", "reader").await.unwrap();
    let own: Api<ConfigMap> = Api::namespaced(client.clone(), "readers");
    own.list(&ListParams::default()).await.unwrap();
    let other: Api<ConfigMap> = Api::namespaced(client, "default");
    let refused = other.list(&ListParams::default()).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));

    let audit = std::fs::read_to_string(cluster.audit_log()).unwrap();
    let mine = |line: &&str| line.contains(r#""username":"system:serviceaccount:readers:reader""#);
    assert_eq!(audit.lines().filter(mine).count(), 2);
}
