//! `docs/operations.md`, from the Go implementation: a cluster with its CRDs and its objects gets our charts, and no address moves.
//!
//! Its CRDs are rebuilt here, not copied: ours without the rules, fields and names that go beyond what its documents tell of it.

use api::claim::ClaimPhase;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::c8_migrate::{CLAIMS, rendered, reserved, served};
use crate::rig::{self, Rig, Setup, Stage};
use crate::shared::apply_crds;

/// Fields of ours that it does not have.
const BEYOND: [&str; 4] = ["lastHandoff", "associationHistory", "observedGeneration", "uid"];

/// Takes away the rules, and what a status tells besides. The uid in a `claimRef` is its own, that of `associatedTo` is not.
fn reduce(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            if let Some(status) = fields.get_mut("status").and_then(|status| status.get_mut("properties")) {
                let status = status.as_object_mut().unwrap();
                status.retain(|name, _| !BEYOND.contains(&name.as_str()));
                if let Some(to) = status.get_mut("associatedTo") {
                    to["properties"]
                        .as_object_mut()
                        .unwrap()
                        .retain(|name, _| !BEYOND.contains(&name.as_str()));
                }
            }
            fields.values_mut().for_each(reduce);
        }
        Value::Array(items) => items.iter_mut().for_each(reduce),
        _ => {}
    }
}

fn published() -> Vec<CustomResourceDefinition> {
    let rebuilt = api::crd::all().into_iter().map(|crd| {
        let mut crd = serde_json::to_value(&crd).unwrap();
        reduce(&mut crd);
        crd["metadata"] = json!({ "name": crd["metadata"]["name"] });
        for beyond in ["shortNames", "categories"] {
            crd["spec"]["names"].as_object_mut().unwrap().remove(beyond);
        }
        let version = crd["spec"]["versions"][0].as_object_mut().unwrap();
        version.remove("selectableFields");
        version.remove("additionalPrinterColumns");
        if version["schema"]["openAPIV3Schema"]["description"]
            .as_str()
            .is_some_and(|words| words.contains("IPAddressClass"))
        {
            // Its classes have no status.
            version.remove("subresources");
            version["schema"]["openAPIV3Schema"]["properties"].as_object_mut().unwrap().remove("status");
        }
        serde_json::from_value(crd).unwrap()
    });
    rebuilt.collect()
}

/// Which objects there are, whatever was written on them.
async fn identities(stage: &Stage) -> Vec<(String, String)> {
    let all = ListParams::default();
    let mut found = Vec::new();
    let mut take = |name: String, uid: Option<String>| found.push((name, uid.unwrap()));
    stage.classes().list(&all).await.unwrap().iter().for_each(|one| take(one.name_any(), one.uid()));
    stage.addresses().list(&all).await.unwrap().iter().for_each(|one| take(one.name_any(), one.uid()));
    stage.claims().list(&all).await.unwrap().iter().for_each(|one| take(one.name_any(), one.uid()));
    let crds: Api<CustomResourceDefinition> = Api::all(stage.client());
    let crds = crds.list(&all).await.unwrap();
    let ours = crds.iter().filter(|crd| crd.spec.group == api::wellknown::GROUP);
    ours.for_each(|one| take(one.name_any(), one.uid()));
    found
}

/// Its CRDs and objects are there, one address held and one at a Service; our charts are installed over them, our controllers run:
/// every object is the one that it was, every claim is bound to the same address, and a witness sees no address with nobody. Then
/// the Service lets go, and the ledger tells of it in fields that its CRDs did not have.
#[test]
fn c1_our_charts_over_the_go_implementation_move_no_address() {
    let ips = |stage: &Stage| [0, 1].map(|host| format!("{}.{host}", stage.subnet));
    let before = std::cell::RefCell::new(Vec::new());
    let setup = Setup { leader_elect: false, ..Setup::default() };
    Rig::later(
        setup,
        async |cluster| {
            apply_crds(&cluster.admin(), &published()).await;
            let stage = rig::stage_on(cluster, "tenant", 0, 0).await;
            stage.make_namespace(&stage.home).await;
            rendered(&stage).await;
            for (claim, ip) in CLAIMS.iter().zip(ips(&stage)) {
                reserved(&stage, claim, &ip).await;
                rig::eventually("MetalLB to have assigned it", async || {
                    (stage.holders(&ip).await.len() == 1).then_some(())
                })
                .await;
            }
            before.replace(identities(&stage).await);
            let both = ["--take-ownership", "--force-conflicts"];
            cluster.install_charts(&both, &[]).await.unwrap();
            stage
        },
        async |_, stage| {
            let ips = ips(&stage);
            stage.held(&ips[0]).await;
            served(&stage, &ips[1]).await;
            for (claim, ip) in CLAIMS.iter().zip(&ips) {
                stage.claim_is(claim, ClaimPhase::Bound).await;
                assert_eq!(&stage.bound(claim).await, ip);
            }
            stage.assert_at_rest().await;
            assert_eq!(identities(&stage).await, before.take());
            stage.delete_service("web").await;
            let address = stage.held(&ips[1]).await;
            assert!(address.status.unwrap().last_handoff.is_some());
            for ip in &ips {
                stage.assert_never_unheld(ip).await;
            }
        },
    );
}
