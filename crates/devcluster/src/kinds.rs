//! Kinds of others on the cluster: their CRDs, as they are published.

use std::path::Path;

use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::wait::{Condition, conditions};
use kube::{Client, ResourceExt as _};

use crate::cluster::Cluster;
use crate::{Error, Result, binaries, probe};

/// The kinds of Prometheus Operator that charts make objects of.
const MONITORING: [&str; 3] = ["podmonitors.yaml", "servicemonitors.yaml", "prometheusrules.yaml"];

impl Cluster {
    /// Has the API server serve the kinds of Prometheus Operator that charts make objects of. Nobody acts on them.
    ///
    /// # Errors
    /// When they cannot be fetched, or are not taken.
    pub async fn serve_monitoring_kinds(&self) -> Result<()> {
        let folder = binaries::monitoring_crds().await?;
        let wanted = |file: &str| MONITORING.iter().any(|end| file.ends_with(&format!("_{end}")));
        serve(&self.admin(), &folder, wanted, &self.run_dir().join("kube-apiserver.log")).await
    }
}

/// Applies the CRDs in those files of a folder that are wanted by their names, and waits until they are served.
pub(crate) async fn serve(
    client: &Client,
    folder: &Path,
    wanted: impl Fn(&str) -> bool,
    log: &Path,
) -> Result<()> {
    let crds = crds(folder, wanted)?.into_iter().map(|crd| apply_crd(client, crd, log));
    try_join_all(crds).await.map(drop)
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

fn crds(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<CustomResourceDefinition>> {
    let entries = std::fs::read_dir(folder).map_err(Error::io(format!("listing {}", folder.display())))?;
    let mut crds = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::io(format!("listing {}", folder.display())))?.path();
        if path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted) {
            crds.push(serde_yaml_ng::from_str(&read(&path)?).map_err(malformed(&path))?);
        }
    }
    Ok(crds)
}

pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(Error::io(format!("reading {}", path.display())))
}

pub(crate) fn malformed(path: &Path) -> impl FnOnce(serde_yaml_ng::Error) -> Error {
    move |error| Error::Malformed { path: path.to_owned(), message: error.to_string() }
}

pub(crate) fn apply() -> PatchParams {
    PatchParams::apply("devcluster").force()
}
