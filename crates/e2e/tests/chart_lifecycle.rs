//! Case E6: what becomes of CRDs and objects when charts are installed, upgraded, rolled back and uninstalled.
//!
//! These have control planes of their own, since they take CRDs away from under everybody else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use api::{IPAddress, IPAddressClaim, IPAddressClass};
use devcluster::{Cluster, Options};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::SemaphorePermit;

use crate::rig;
use crate::shared::apply_crds;

const CORE: &str = "address-controller";
const DRIVER: &str = "metallb-iad";

fn chart(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chart").join(name)
}

async fn cluster() -> (Cluster, SemaphorePermit<'static>) {
    let room = rig::room().await;
    (Cluster::start(Options { metallb: false, ..Options::default() }).await.unwrap(), room)
}

/// `helm upgrade --install`, as the README of the chart has it.
async fn install(cluster: &Cluster, release: &str, chart: &Path, more: &[&str]) -> Result<(), String> {
    let namespace = format!("{release}-system");
    let mut args = vec!["upgrade", "--install", release, chart.to_str().unwrap()];
    args.extend(["--namespace", &namespace, "--create-namespace"]);
    args.extend(more);
    cluster.helm(&args).await.map(|_| ()).map_err(|error| error.to_string())
}

async fn uninstall(cluster: &Cluster, release: &str) {
    cluster.helm(&["uninstall", release, "--namespace", &format!("{release}-system")]).await.unwrap();
}

async fn create<K>(api: Api<K>, object: Value)
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// One object of each kind; the address is in use, as its finalizers say.
async fn make_ledger(cluster: &Cluster, address: &str) {
    let client = cluster.admin();
    let version = "local.sdn.cozystack.io/v1alpha1";
    create::<IPAddressClass>(
        Api::all(client.clone()),
        json!({
            "apiVersion": version, "kind": "IPAddressClass", "metadata": { "name": "pub" },
            "spec": { "provisioner": api::wellknown::driver::PROVISIONER, "parameters": { "pool": "reserved" } },
        }),
    )
    .await;
    create::<IPAddress>(
        Api::all(client.clone()),
        json!({
            "apiVersion": version, "kind": "IPAddress",
            "metadata": { "name": "ip-203-0-113-7", "finalizers": [api::wellknown::driver::TEARDOWN] },
            "spec": {
                "className": "pub", "address": address, "source": { "fromClass": {} },
                "claimRef": { "namespace": "default", "name": "web-ip" },
            },
        }),
    )
    .await;
    create::<IPAddressClaim>(
        Api::default_namespaced(client),
        json!({
            "apiVersion": version, "kind": "IPAddressClaim", "metadata": { "name": "web-ip" },
            "spec": { "className": "pub" },
        }),
    )
    .await;
}

/// Uid and version of every object and the uid of every CRD: equal as long as nothing was touched.
async fn ledger(cluster: &Cluster) -> BTreeMap<String, String> {
    async fn of<K>(api: Api<K>, ledger: &mut BTreeMap<String, String>)
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        for object in api.list(&ListParams::default()).await.unwrap() {
            let identity = format!("{:?} {:?}", object.uid(), object.resource_version());
            ledger.insert(format!("{}/{}", K::kind(&()), object.name_any()), identity);
        }
    }
    let mut ledger = BTreeMap::new();
    of::<IPAddressClass>(Api::all(cluster.admin()), &mut ledger).await;
    of::<IPAddress>(Api::all(cluster.admin()), &mut ledger).await;
    of::<IPAddressClaim>(Api::all(cluster.admin()), &mut ledger).await;
    for crd in crds(cluster).await {
        ledger.insert(crd.name_any(), format!("{:?}", crd.uid()));
    }
    assert_eq!(ledger.len(), 6, "{ledger:?}");
    ledger
}

async fn crds(cluster: &Cluster) -> Vec<CustomResourceDefinition> {
    let all =
        Api::<CustomResourceDefinition>::all(cluster.admin()).list(&ListParams::default()).await.unwrap();
    all.into_iter().filter(|crd| crd.spec.group == api::wellknown::GROUP).collect()
}

/// Whether the CRDs in the cluster carry the rules of ours, and are to be kept.
async fn crds_are_ours(cluster: &Cluster) -> bool {
    let crds = crds(cluster).await;
    let ours = |crd: &CustomResourceDefinition| {
        let text = serde_json::to_string(crd).unwrap();
        text.contains("x-kubernetes-validations") && crd.annotations().contains_key("helm.sh/resource-policy")
    };
    crds.len() == 3 && crds.iter().all(ours)
}

/// A copy of the core's chart in which the CRD of addresses differs.
fn newer_core(folder: &Path, description: &str) -> PathBuf {
    let newer = folder.join("newer");
    copy(&chart(CORE), &newer);
    let file = newer.join("templates/crds/ipaddresses.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("IPAddress is one IP", description)).unwrap();
    newer
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::write(target, std::fs::read(path).unwrap()).unwrap();
        }
    }
}

async fn description(cluster: &Cluster) -> String {
    let name = format!("ipaddresses.{}", api::wellknown::GROUP);
    let crd = Api::<CustomResourceDefinition>::all(cluster.admin()).get(&name).await.unwrap();
    let schema = crd.spec.versions[0].schema.clone().and_then(|schema| schema.open_api_v3_schema);
    schema.and_then(|schema| schema.description).unwrap()
}

/// CRDs without a rule, an owner and a `keep`, as the Go implementation's chart has them in `crds/`.
fn older_crds() -> Vec<CustomResourceDefinition> {
    fn without_rules(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("x-kubernetes-validations");
                fields.values_mut().for_each(without_rules);
            }
            Value::Array(items) => items.iter_mut().for_each(without_rules),
            _ => {}
        }
    }
    let older = api::crd::all().into_iter().map(|mut crd| {
        crd.metadata.annotations = None;
        let mut value = serde_json::to_value(&crd).unwrap();
        without_rules(&mut value);
        serde_json::from_value(value).unwrap()
    });
    older.collect()
}

/// A chart of the core as the Go implementation has it: the CRDs lie in `crds/`.
fn go_core(folder: &Path) -> PathBuf {
    let root = folder.join("go");
    for folder in ["crds", "templates"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::fs::write(root.join("Chart.yaml"), format!("apiVersion: v2\nname: {CORE}\nversion: 0.0.1\n"))
        .unwrap();
    for crd in older_crds() {
        let file = root.join("crds").join(format!("{}.yaml", crd.spec.names.plural));
        std::fs::write(file, serde_yaml_ng::to_string(&crd).unwrap()).unwrap();
    }
    root
}

#[tokio::test]
async fn e6_uninstalling_touches_nothing_and_a_reinstall_picks_all_up() {
    let (cluster, _room) = cluster().await;
    let own_namespace = ["--set", "placeholderNamespace=holds"];
    install(&cluster, CORE, &chart(CORE), &[]).await.unwrap();
    install(&cluster, DRIVER, &chart(DRIVER), &own_namespace).await.unwrap();
    make_ledger(&cluster, "203.0.113.7").await;
    let before = ledger(&cluster).await;

    uninstall(&cluster, DRIVER).await;
    uninstall(&cluster, CORE).await;
    assert_eq!(ledger(&cluster).await, before);
    let holds = Api::<Namespace>::all(cluster.admin()).get("holds").await.unwrap();
    assert_eq!(holds.metadata.deletion_timestamp, None, "the placeholders would go, and free every address");

    install(&cluster, CORE, &chart(CORE), &[]).await.unwrap();
    install(&cluster, DRIVER, &chart(DRIVER), &own_namespace).await.unwrap();
    assert_eq!(ledger(&cluster).await, before);
}

#[tokio::test]
async fn an_upgrade_brings_the_crds_along_and_a_rollback_takes_them_back() {
    let ((cluster, _room), folder) = (cluster().await, tempfile::tempdir().unwrap());
    install(&cluster, CORE, &chart(CORE), &[]).await.unwrap();
    make_ledger(&cluster, "203.0.113.7").await;
    let (before, words) = (ledger(&cluster).await, description(&cluster).await);

    install(&cluster, CORE, &newer_core(folder.path(), "IPAddress is another thing"), &[]).await.unwrap();
    assert!(description(&cluster).await.starts_with("IPAddress is another thing"));
    cluster.helm(&["rollback", CORE, "1", "--namespace", "address-controller-system"]).await.unwrap();
    assert_eq!(description(&cluster).await, words);
    assert_eq!(ledger(&cluster).await, before);
}

/// A release whose chart has no CRDs any more, as if a value had switched them off: they stay, with all that is in them, and the
/// next one has them again.
#[tokio::test]
async fn e6_a_release_without_the_crds_leaves_them() {
    let ((cluster, _room), folder) = (cluster().await, tempfile::tempdir().unwrap());
    install(&cluster, CORE, &chart(CORE), &[]).await.unwrap();
    make_ledger(&cluster, "203.0.113.7").await;
    let before = ledger(&cluster).await;

    let bare = folder.path().join("bare");
    copy(&chart(CORE), &bare);
    std::fs::remove_dir_all(bare.join("templates/crds")).unwrap();
    install(&cluster, CORE, &bare, &[]).await.unwrap();
    let manifest = cluster.helm(&["get", "manifest", CORE, "--namespace", "address-controller-system"]).await;
    let manifest = String::from_utf8(manifest.unwrap().stdout).unwrap();
    assert!(manifest.contains("kind: Deployment") && !manifest.contains("CustomResourceDefinition"));
    assert_eq!(ledger(&cluster).await, before);

    install(&cluster, CORE, &newer_core(folder.path(), "IPAddress is another thing"), &[]).await.unwrap();
    assert!(description(&cluster).await.starts_with("IPAddress is another thing"));
    assert!(crds_are_ours(&cluster).await);
    assert_eq!(ledger(&cluster).await, before);
}

#[tokio::test]
async fn crds_of_the_go_chart_are_handed_over_by_one_flag() {
    let ((cluster, _room), folder) = (cluster().await, tempfile::tempdir().unwrap());
    install(&cluster, CORE, &go_core(folder.path()), &[]).await.unwrap();
    // Older than the rule that would refuse its spelling.
    make_ledger(&cluster, "203.0.113.007").await;
    let before = ledger(&cluster).await;

    let refused = install(&cluster, CORE, &chart(CORE), &[]).await.unwrap_err();
    assert!(refused.contains("cannot be imported into the current release"), "{refused}");
    install(&cluster, CORE, &chart(CORE), &["--take-ownership"]).await.unwrap();
    assert!(crds_are_ours(&cluster).await);
    assert_eq!(ledger(&cluster).await, before);
    // From now on like any other release.
    install(&cluster, CORE, &chart(CORE), &[]).await.unwrap();

    // What was stored before a rule existed can still be edited elsewhere and deleted.
    let addresses = Api::<IPAddress>::all(cluster.admin());
    addresses.delete("ip-203-0-113-7", &DeleteParams::default()).await.unwrap();
    let freed = json!({ "metadata": { "finalizers": [] } });
    addresses.patch("ip-203-0-113-7", &PatchParams::default(), &Patch::Merge(freed)).await.unwrap();
    assert!(addresses.get_opt("ip-203-0-113-7").await.unwrap().is_none());
}

#[tokio::test]
async fn crds_that_somebody_applied_are_handed_over_by_two_flags() {
    let (cluster, _room) = cluster().await;
    apply_crds(&cluster.admin(), &older_crds()).await;
    make_ledger(&cluster, "203.0.113.7").await;
    let before = ledger(&cluster).await;

    let refused = install(&cluster, CORE, &chart(CORE), &["--take-ownership"]).await.unwrap_err();
    assert!(refused.contains("conflict"), "{refused}");
    let both = ["--take-ownership", "--force-conflicts"];
    install(&cluster, CORE, &chart(CORE), &both).await.unwrap();
    assert!(crds_are_ours(&cluster).await);
    assert_eq!(ledger(&cluster).await, before);
}

#[tokio::test]
async fn a_namespace_that_is_there_already_is_used_as_it_is() {
    let (cluster, _room) = cluster().await;
    let namespaces = Api::<Namespace>::all(cluster.admin());
    create(namespaces.clone(), json!({ "metadata": { "name": "holds", "labels": { "theirs": "yes" } } }))
        .await;
    let before = namespaces.get("holds").await.unwrap();
    install(&cluster, DRIVER, &chart(DRIVER), &["--set", "placeholderNamespace=holds"]).await.unwrap();
    uninstall(&cluster, DRIVER).await;
    let after = namespaces.get("holds").await.unwrap();
    assert_eq!((after.uid(), after.labels()), (before.uid(), before.labels()));
}

#[tokio::test]
async fn an_election_can_be_switched_off_and_on() {
    let (cluster, _room) = cluster().await;
    for elect in ["true", "false", "true"] {
        let set = format!("controller.leaderElect={elect}");
        install(&cluster, CORE, &chart(CORE), &["--set", &set]).await.unwrap();
    }
}
