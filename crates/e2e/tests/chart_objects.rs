//! Every object that the charts render is taken by the real API server, whatever the values, and every pod keeps to the restricted
//! Pod Security standard. Nothing is stored: these are dry runs.

use std::collections::{BTreeMap, BTreeSet};

use devcluster::{Cluster, Options, workspace};
use k8s_openapi::api::core::v1::{Namespace, Pod, PodTemplateSpec, ServiceAccount};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams, ValidationDirective};
use kube::discovery::{Discovery, Scope};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::rig::{self, create};
use crate::shared::apply_crds;

const CHARTS: [&str; 3] = ["address-controller", "metallb-iad", "address-dashboard"];
/// Where the rendered objects are to live, the test of helm among them.
const NAMESPACES: [&str; 4] = ["release-ns", "holds", "lb", "metallb-iad-test"];

/// The files of values beside a chart, and none.
fn values(chart: &str) -> Vec<String> {
    let folder = workspace().join("chart").join(chart).join("ci");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.map(|path| path.to_str().unwrap().to_owned()).collect();
    files.sort();
    assert_eq!(files.len(), 4, "{files:?}");
    files
}

/// What helm makes of a chart and a file of values, without the CRDs: they are there.
async fn rendered(cluster: &Cluster, chart: &str, values: Option<&str>) -> Vec<DynamicObject> {
    let folder = workspace().join("chart").join(chart);
    let mut args = vec!["template", chart, folder.to_str().unwrap(), "--namespace", "release-ns"];
    args.extend(["--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"]);
    args.extend(values.iter().flat_map(|file| ["--values", file]));
    let output = cluster.helm(&args).await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let documents = serde_yaml_ng::Deserializer::from_str(&text);
    let objects = documents.filter_map(|document| {
        let value = Value::deserialize(document).unwrap();
        (!value.is_null()).then(|| serde_json::from_value::<DynamicObject>(value).unwrap())
    });
    objects.filter(|object| kind(object) != "CustomResourceDefinition").collect()
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

/// A control plane with every kind that is rendered.
async fn cluster() -> Cluster {
    let cluster = Cluster::start(Options { metallb: false, ..Options::default() }).await.unwrap();
    apply_crds(&cluster.admin(), &api::crd::all()).await;
    for name in NAMESPACES {
        create(&Api::<Namespace>::all(cluster.admin()), json!({ "metadata": { "name": name } })).await;
    }
    // A pod is taken only where its service account is; the pods of Deployments are not made here.
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.admin(), "release-ns");
    create(&accounts, json!({ "metadata": { "name": "metallb-iad-test" } })).await;
    cluster
}

/// Which of them: no test of hostile values may be sure that a name is legal, only that it stays text.
fn is_hostile(values: Option<&str>) -> bool {
    values.is_some_and(|file| file.contains("hostile"))
}

/// Applies an object as a dry run, by the rule that an unknown or doubled field is an error.
async fn try_apply(
    cluster: &Cluster,
    discovery: &Discovery,
    object: &DynamicObject,
) -> kube::Result<DynamicObject> {
    let gvk = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
    let served = discovery.resolve_gvk(&gvk);
    assert!(served.is_some(), "{gvk:?} is not served: {object:#?}");
    let (resource, capabilities) = served.unwrap();
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Namespaced => Api::namespaced_with(cluster.admin(), &namespace, &resource),
        Scope::Cluster => Api::all_with(cluster.admin(), &resource),
    };
    let params = PatchParams {
        dry_run: true,
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply("e2e").force()
    };
    api.patch(&object.name_any(), &params, &Patch::Apply(object)).await
}

/// Each rendered object is taken.
#[tokio::test]
async fn every_rendered_object_is_taken_by_the_api_server() {
    let _room = rig::room().await;
    let cluster = cluster().await;
    cluster.serve_monitoring_kinds().await.unwrap();
    let discovery = Discovery::new(cluster.admin()).run().await.unwrap();
    let mut taken = BTreeMap::<String, usize>::new();
    for chart in CHARTS {
        let files = values(chart);
        for values in std::iter::once(None).chain(files.iter().map(|file| Some(file.as_str()))) {
            if is_hostile(values) {
                continue;
            }
            for object in rendered(&cluster, chart, values).await {
                let applied = try_apply(&cluster, &discovery, &object).await;
                assert!(applied.is_ok(), "{chart} with {values:?}: {object:#?}: {applied:?}");
                *taken.entry(kind(&object).to_owned()).or_default() += 1;
            }
        }
    }
    let kinds: BTreeSet<_> = taken.keys().map(String::as_str).collect();
    for kind in ["Deployment", "NetworkPolicy", "ValidatingAdmissionPolicy", "IPAddressPool"]
        .into_iter()
        .chain(["IPAddressClass", "PodMonitor", "ServiceMonitor", "PrometheusRule"])
    {
        assert!(kinds.contains(kind), "no {kind} in {taken:?}");
    }
}

/// What a chart tells Artifact Hub under a name, as YAML in a text.
fn told(chart: &str, name: &str) -> Vec<Value> {
    let file = std::fs::read_to_string(workspace().join("chart").join(chart).join("Chart.yaml")).unwrap();
    let chart: Value = serde_yaml_ng::from_str(&file).unwrap();
    let text = chart["annotations"][format!("artifacthub.io/{name}")].as_str().unwrap();
    serde_yaml_ng::from_str(text).unwrap()
}

/// Artifact Hub shows the kinds that there are, and examples that the API server takes.
#[tokio::test]
async fn artifact_hub_is_told_of_the_kinds_as_they_are() {
    let _room = rig::room().await;
    let cluster = cluster().await;
    let known: BTreeSet<_> = api::crd::all()
        .iter()
        .map(|crd| (crd.name_any(), crd.spec.names.kind.clone(), crd.spec.versions[0].name.clone()))
        .collect();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let shown = told("address-controller", "crds");
    let shown = shown.iter().map(|crd| (text(&crd["name"]), text(&crd["kind"]), text(&crd["version"])));
    assert_eq!(shown.collect::<BTreeSet<_>>(), known);

    let discovery = Discovery::new(cluster.admin()).run().await.unwrap();
    let mut kinds = BTreeSet::new();
    for example in told("address-controller", "crdsExamples") {
        let object: DynamicObject = serde_json::from_value(example).unwrap();
        kinds.insert(kind(&object).to_owned());
        let applied = try_apply(&cluster, &discovery, &object).await;
        assert!(applied.is_ok(), "{object:#?}: {applied:?}");
    }
    let all: BTreeSet<_> = known.into_iter().map(|(_, kind, _)| kind).collect();
    assert_eq!(kinds, all, "an example of each");
}

/// The pods of an object, if it makes any.
fn pod(object: &DynamicObject) -> Option<PodTemplateSpec> {
    match kind(object) {
        "Deployment" | "Job" => {
            Some(serde_json::from_value(object.data["spec"]["template"].clone()).unwrap())
        }
        "Pod" => {
            let spec = serde_json::from_value(object.data["spec"].clone()).unwrap();
            Some(PodTemplateSpec { metadata: Some(object.metadata.clone()), spec: Some(spec) })
        }
        _ => None,
    }
}

/// §13: every rendered pod is let into a namespace that enforces the restricted standard, whatever the values; one that is not
/// made for it is not.
#[tokio::test]
async fn c13_every_pod_is_of_the_restricted_standard() {
    let _room = rig::room().await;
    let cluster = cluster().await;
    let restricted = json!({
        "metadata": { "name": "restricted", "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    });
    create(&Api::<Namespace>::all(cluster.admin()), restricted).await;
    let pods: Api<Pod> = Api::namespaced(cluster.admin(), "restricted");
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.admin(), "restricted");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let (mut seen, mut made) = (0, BTreeSet::from(["default".to_owned()]));
    create(&accounts, json!({ "metadata": { "name": "any" } })).await;
    let plain = json!({
        "metadata": { "name": "plain" },
        "spec": { "serviceAccountName": "any", "containers": [{ "name": "c", "image": "x" }] },
    });
    let refused = pods.create(&dry, &serde_json::from_value(plain).unwrap()).await.unwrap_err().to_string();
    assert!(refused.contains("violates PodSecurity \"restricted"), "{refused}");
    for chart in CHARTS {
        let files = values(chart);
        for values in std::iter::once(None).chain(files.iter().map(|file| Some(file.as_str()))) {
            for template in rendered(&cluster, chart, values).await.iter().filter_map(pod) {
                let mut spec = template.spec.unwrap();
                // A class of this name need not be there.
                spec.priority_class_name = None;
                let account = spec.service_account_name.clone().unwrap_or_else(|| "default".to_owned());
                if made.insert(account.clone()) {
                    create(&accounts, json!({ "metadata": { "name": account } })).await;
                }
                // What is hostile in names is refused for itself; the standard is what counts.
                let mut metadata = template.metadata.unwrap_or_default();
                metadata.name = Some(format!("pod-{seen}"));
                metadata.namespace = None;
                metadata.labels = None;
                let pod = Pod { metadata, spec: Some(spec), status: None };
                let taken = pods.create(&dry, &pod).await;
                assert!(taken.is_ok() || is_hostile(values), "{chart} with {values:?}: {taken:?}");
                let words = taken.err().map(|error| error.to_string()).unwrap_or_default();
                assert!(!words.contains("PodSecurity"), "{chart} with {values:?}: {words}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 15, "{seen} pods");
}
