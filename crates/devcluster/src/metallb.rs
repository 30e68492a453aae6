//! MetalLB's kinds on the cluster: namespace, roles, CRDs, pools.

use std::path::Path;

use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::wait::{Condition, conditions};
use kube::{Client, ResourceExt as _};
use serde::Deserialize as _;
use serde_json::json;

use crate::components::{METALLB_CRDS, METALLB_MANIFESTS};
use crate::{Error, Result, probe};

/// What MetalLB's install manifest is taken for; its workloads and webhooks need pods, which nothing runs here.
const TAKEN: [&str; 6] =
    ["Namespace", "ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];

/// Applies MetalLB's namespace, roles and CRDs, from the folder of its controller, and waits until they are served.
pub(crate) async fn install(client: &Client, folder: &Path, log: &Path) -> Result<()> {
    let manifest = folder.join(METALLB_MANIFESTS).join("metallb-native.yaml");
    let objects = documents(&manifest)?;
    // The manifest has the namespace first, and what lives in it after.
    for object in objects.into_iter().filter(|object| TAKEN.contains(&kind(object))) {
        apply_object(client, object).await?;
    }
    try_join_all(crds(&folder.join(METALLB_CRDS))?.into_iter().map(|crd| apply_crd(client, crd, log)))
        .await?;
    Ok(())
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

async fn apply_object(client: &Client, object: DynamicObject) -> Result<()> {
    let what = format!("applying {} {}", kind(&object), object.name_any());
    let Some(gvk) = object.types.as_ref().and_then(|types| GroupVersionKind::try_from(types).ok()) else {
        return Ok(());
    };
    let resource = ApiResource::from_gvk(&gvk);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.patch(&object.name_any(), &apply(), &Patch::Apply(&object)).await.map_err(Error::kube(what))?;
    Ok(())
}

fn documents(path: &Path) -> Result<Vec<DynamicObject>> {
    let text = read(path)?;
    serde_yaml_ng::Deserializer::from_str(&text)
        .map(|document| DynamicObject::deserialize(document).map_err(malformed(path)))
        .collect()
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(Error::io(format!("reading {}", path.display())))
}

fn malformed(path: &Path) -> impl FnOnce(serde_yaml_ng::Error) -> Error {
    move |error| Error::Malformed { path: path.to_owned(), message: error.to_string() }
}

async fn apply_crd(client: &Client, crd: CustomResourceDefinition, log: &Path) -> Result<()> {
    let name = crd.name_any();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.patch(&name, &apply(), &Patch::Apply(&crd))
        .await
        .map_err(Error::kube(format!("applying the definition {name}")))?;
    let (api, name) = (&api, &name);
    probe::until(&format!("{name} being established"), log.to_owned(), probe::READY_WITHIN, || async move {
        let crd = api.get_opt(name).await.ok().flatten();
        conditions::is_crd_established().matches_object(crd.as_ref())
    })
    .await
}

fn crds(dir: &Path) -> Result<Vec<CustomResourceDefinition>> {
    let entries = std::fs::read_dir(dir).map_err(Error::io(format!("listing {}", dir.display())))?;
    let mut crds = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::io(format!("listing {}", dir.display())))?.path();
        crds.push(serde_yaml_ng::from_str(&read(&path)?).map_err(malformed(&path))?);
    }
    Ok(crds)
}

/// Applies an `IPAddressPool`.
pub(crate) async fn create_pool(
    client: &Client,
    namespace: &str,
    name: &str,
    addresses: &[&str],
    auto_assign: bool,
) -> Result<()> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("metallb.io", "v1beta1", "IPAddressPool"));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let pool = json!({
        "apiVersion": "metallb.io/v1beta1",
        "kind": "IPAddressPool",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "addresses": addresses, "autoAssign": auto_assign },
    });
    api.patch(name, &apply(), &Patch::Apply(pool))
        .await
        .map_err(Error::kube(format!("applying the pool {name}")))?;
    Ok(())
}

fn apply() -> PatchParams {
    PatchParams::apply("devcluster").force()
}
