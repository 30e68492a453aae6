//! MetalLB's kinds on the cluster: namespace, roles, CRDs, pools.

use std::path::Path;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch};
use kube::{Client, ResourceExt as _};
use serde::Deserialize as _;
use serde_json::json;

use crate::components::{METALLB_CRDS, METALLB_MANIFESTS};
use crate::kinds::{self, apply, malformed, read};
use crate::{Error, Result};

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
    kinds::serve(client, &folder.join(METALLB_CRDS), |_| true, log).await
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
