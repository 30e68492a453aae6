//! Contract §13: what people may by the cluster's own roles, into which the core's chart puts claims.

use api::{IPAddress, IPAddressClaim};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::rig::{self, Rig, Stage};

/// A client of somebody who has a role of the cluster in the stage's namespace.
async fn who_may(rig: &Rig, stage: &Stage, role: &str) -> Client {
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.client(), &stage.name);
    rig::create(&accounts, json!({ "metadata": { "name": role } })).await;
    let bindings: Api<RoleBinding> = Api::namespaced(stage.client(), &stage.name);
    let binding = json!({
        "metadata": { "name": role },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "namespace": stage.name, "name": role }],
    });
    rig::create(&bindings, binding).await;
    rig.cluster.client_for(&stage.name, role).await.unwrap()
}

fn is_forbidden<T>(outcome: kube::Result<T>) -> bool {
    matches!(outcome, Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains("cannot"))
}

/// §13: with `view` one sees the claims of one's namespace and makes none; with `edit` or `admin` one makes, edits and deletes them,
/// and gets an address by that; nobody of them sees or writes addresses, or claims of elsewhere.
#[test]
fn c13_people_claim_by_the_roles_of_the_cluster() {
    rig::run(async |rig| {
        let stage = rig.stage("people", 2).await;
        for role in ["view", "edit", "admin"] {
            let client = who_may(rig, &stage, role).await;
            let claims: Api<IPAddressClaim> = Api::namespaced(client.clone(), &stage.name);
            let elsewhere: Api<IPAddressClaim> = Api::namespaced(client.clone(), &stage.thief);
            let addresses: Api<IPAddress> = Api::all(client);
            // A binding counts a moment after it was made.
            let all = ListParams::default();
            rig::eventually(&format!("{role} to see claims"), async || claims.list(&all).await.ok()).await;
            let name = format!("{role}-ip");
            let claim = rig::claim_object(&name, json!({ "className": stage.name }));
            let claim: IPAddressClaim = serde_json::from_value(claim).unwrap();
            let post = PostParams::default();
            let made = claims.create(&post, &claim).await;
            let label = Patch::Merge(json!({ "metadata": { "labels": { "team": "x" } } }));
            let edit = PatchParams::default();
            if role == "view" {
                assert!(is_forbidden(made), "{role} makes claims");
            } else {
                made.unwrap();
                let ip = stage.bound(&name).await;
                claims.patch(&name, &edit, &label).await.unwrap();
                let of_address = addresses.patch(&rig::address_name(&ip), &edit, &label).await;
                assert!(is_forbidden(of_address), "{role} writes addresses");
                let status = Patch::Merge(json!({ "status": { "phase": "Pending" } }));
                assert!(
                    is_forbidden(claims.patch_status(&name, &edit, &status).await),
                    "{role} writes status"
                );
                claims.delete(&name, &DeleteParams::default()).await.unwrap();
                rig::gone(&stage.claims(), &name).await;
            }
            assert!(is_forbidden(addresses.list(&all).await), "{role} sees every address");
            assert!(
                is_forbidden(addresses.patch("ip-192-0-2-1", &edit, &label).await),
                "{role} writes addresses"
            );
            assert!(is_forbidden(elsewhere.list(&all).await), "{role} sees claims of elsewhere");
            assert!(is_forbidden(elsewhere.create(&post, &claim).await), "{role} makes claims elsewhere");
        }
        stage.assert_at_rest().await;
    });
}
