//! Finding each program: given by the user, or built from its module.

use std::path::{Path, PathBuf};

use crate::build;
use crate::components::{Component, MONITORING_CRDS, PROMETHEUS_OPERATOR};
use crate::options::Options;
use crate::{Error, Result};

/// What only a network needs.
const DATA_PLANE: [Component; 2] = [Component::KubeProxy, Component::MetallbSpeaker];

/// Where a component's binary is, building it when neither the user nor the cache has it.
///
/// `KUBEBUILDER_ASSETS`, then PATH, are preferred for etcd and kube-apiserver, but only when both are there, since a
/// mixed pair hides which one is being tested; kube-controller-manager is taken from beside them if it exists.
pub async fn ensure(component: Component) -> Result<PathBuf> {
    blocking(move || find(component)).await
}

/// Builds whatever is missing for a cluster of the default kind and its charts, so that a later start is quick.
pub async fn ensure_all() -> Result<()> {
    let rarely_used = [Component::MetallbUnthrottled, Component::Jaeger];
    let wanted = |component: &Component| !rarely_used.contains(component) && !DATA_PLANE.contains(component);
    for component in Component::ALL.into_iter().filter(wanted) {
        ensure(component).await?;
    }
    Ok(())
}

/// Builds whatever is missing for a cluster with a [`crate::Network`]: to be done before, as there is no way out of that
/// network.
pub async fn ensure_for_network(options: &Options) -> Result<()> {
    let control_plane =
        [Component::Etcd, Component::Apiserver, Component::ControllerManager, Component::Helm];
    for component in control_plane.into_iter().chain([options.balancer()]).chain(DATA_PLANE) {
        ensure(component).await?;
    }
    Ok(())
}

/// The folder of a MetalLB controller, with its CRDs and manifests.
pub(crate) async fn metallb_folder(balancer: Component) -> Result<PathBuf> {
    blocking(move || build::ensure(balancer.recipe())).await
}

/// The folder with the CRDs of Prometheus Operator, fetched at its first use.
pub(crate) async fn monitoring_crds() -> Result<PathBuf> {
    Ok(blocking(|| build::ensure(&PROMETHEUS_OPERATOR)).await?.join(MONITORING_CRDS))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::WorkerGone("build"))?
}

fn find(component: Component) -> Result<PathBuf> {
    match given_by_user(component.name(), &user_folders()) {
        Some(path) => Ok(path),
        None => Ok(build::ensure(component.recipe())?.join(component.name())),
    }
}

/// The folders a user can offer control-plane binaries in: `KUBEBUILDER_ASSETS` alone when set, else PATH.
fn user_folders() -> Vec<PathBuf> {
    if let Some(dir) = std::env::var_os("KUBEBUILDER_ASSETS") {
        return vec![dir.into()];
    }
    path_folders().collect()
}

/// Where a program is on PATH.
pub fn on_path(program: &str) -> Option<PathBuf> {
    within(path_folders(), program)
}

fn path_folders() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

fn within(mut folders: impl Iterator<Item = PathBuf>, name: &str) -> Option<PathBuf> {
    folders.find_map(|folder| Some(folder.join(name)).filter(|file| Path::is_file(file)))
}

fn given_by_user(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let which = |name: &str| within(folders.iter().cloned(), name);
    let whole = which(Component::Etcd.name()).is_some() && which(Component::Apiserver.name()).is_some();
    let offered = [Component::Etcd, Component::Apiserver, Component::ControllerManager];
    if whole && offered.iter().any(|c| c.name() == name) { which(name) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_folder_needs_both_halves() {
        let dir = tempfile::tempdir().unwrap();
        let folders = [dir.path().to_owned()];
        std::fs::write(dir.path().join("etcd"), "").unwrap();
        std::fs::write(dir.path().join("helm"), "").unwrap();
        assert_eq!(given_by_user("etcd", &folders), None);
        std::fs::write(dir.path().join("kube-apiserver"), "").unwrap();
        assert_eq!(given_by_user("etcd", &folders), Some(dir.path().join("etcd")));
        assert_eq!(given_by_user("kube-controller-manager", &folders), None);
        assert_eq!(given_by_user("helm", &folders), None);
    }
}
