//! `MetalLB`'s kinds on the cluster: CRDs, namespace, pools.

use std::path::Path;

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::wait::{Condition, conditions};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use crate::parts::METALLB_NAMESPACE;
use crate::{Error, Result, probe};

/// Applies the namespace and the CRDs and waits until they are served.
pub(crate) async fn install(client: &Client, crds: &Path, log: &Path) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": METALLB_NAMESPACE },
    });
    namespaces
        .patch(METALLB_NAMESPACE, &apply(), &Patch::Apply(namespace))
        .await
        .map_err(Error::kube("applying the namespace of MetalLB"))?;
    try_join_all(read(crds)?.into_iter().map(|crd| apply_crd(client, crd, log))).await?;
    Ok(())
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

fn read(dir: &Path) -> Result<Vec<CustomResourceDefinition>> {
    let entries = std::fs::read_dir(dir).map_err(Error::io(format!("listing {}", dir.display())))?;
    let mut crds = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::io(format!("listing {}", dir.display())))?.path();
        let text =
            std::fs::read_to_string(&path).map_err(Error::io(format!("reading {}", path.display())))?;
        let crd = serde_yaml_ng::from_str(&text)
            .map_err(|error| Error::Malformed { path: path.clone(), message: error.to_string() })?;
        crds.push(crd);
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
