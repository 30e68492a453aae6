//! `helm test`: what its pod would run, on the host, under the service account and the rights that the chart brings for it.

use devcluster::Controller;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::discovery::{Discovery, Scope};
use serde::Deserialize;
use serde_json::Value;

use crate::rig::{self, Rig, Said};

/// The hooks of `helm test`, for a class.
async fn hooks(rig: &Rig, class: &str) -> Vec<DynamicObject> {
    let chart = Controller::Driver.chart();
    let class = format!("test.className={class}");
    let mut args = vec!["template", Controller::Driver.name(), chart.to_str().unwrap(), "--set", &class];
    args.extend(["--namespace", Controller::Driver.namespace(), "--show-only", "templates/tests/trial.yaml"]);
    let output = rig.cluster.helm(&args).await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let documents = serde_yaml_ng::Deserializer::from_str(&text);
    documents.map(|document| serde_json::from_value(Value::deserialize(document).unwrap()).unwrap()).collect()
}

/// Makes what helm would make, and runs what the kubelet would run.
async fn helm_test(rig: &Rig, class: &str, more: &[&str]) -> Said {
    let discovery = Discovery::new(rig.cluster.admin()).run().await.unwrap();
    let mut run = Vec::new();
    for object in hooks(rig, class).await {
        let gvk = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
        if gvk.kind == "Pod" {
            let container = &object.data["spec"]["containers"][0];
            assert_eq!(object.data["spec"]["serviceAccountName"], "metallb-iad-test");
            run = container["args"]
                .as_array()
                .unwrap()
                .iter()
                .map(|arg| arg.as_str().unwrap().to_owned())
                .collect();
            continue;
        }
        let (resource, capabilities) = discovery.resolve_gvk(&gvk).unwrap();
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Namespaced => {
                Api::namespaced_with(rig.cluster.admin(), &object.namespace().unwrap(), &resource)
            }
            Scope::Cluster => Api::all_with(rig.cluster.admin(), &resource),
        };
        let params = PatchParams::apply("helm").force();
        api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await.unwrap();
    }
    let args: Vec<&str> = run.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let account =
        rig.cluster.kubeconfig_for(Controller::Driver.namespace(), "metallb-iad-test").await.unwrap();
    rig.errand_as(&account, &args).await
}

/// A claim, a hold, a handoff and back, and the address is free again, so that it can be tried as often as one likes; one that
/// cannot succeed says why and leaves nothing behind.
#[test]
fn helm_test_claims_hands_over_and_frees() {
    rig::run(async |rig| {
        let stage = rig.stage("helm-test", 1).await;
        for _ in 0..2 {
            let said = helm_test(rig, &stage.name, &[]).await;
            let lines = said.lines();
            let ip = &stage.v4[0];
            let name = "metallb-iad-test/metallb-iad-trial";
            let expected = [
                "nothing is left of an earlier trial".to_owned(),
                format!("IPAddressClaim {name} is bound to {ip}"),
                format!("{ip} is held by a placeholder"),
                format!("Service {name} has {ip}"),
                format!("the Service is gone, and {ip} is held again"),
                "the claim is gone, and the address is free".to_owned(),
            ];
            assert_eq!(lines, expected);
            assert!(stage.own_addresses().await.is_empty());
        }
        let said = helm_test(rig, "no-such-class", &["--timeout=1"]).await;
        assert!(said.refused().contains("the claim to be bound: "), "{said:?}");
        assert!(said.refused().contains("no-such-class"), "{said:?}");
        let claims: Api<api::IPAddressClaim> = Api::namespaced(rig.cluster.admin(), "metallb-iad-test");
        assert!(claims.list(&ListParams::default()).await.unwrap().items.is_empty());
    });
}
