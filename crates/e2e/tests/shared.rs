//! The control plane that the tests of this binary share.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use devcluster::{Cluster, Options};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

/// A client works only as long as the runtime it was made in, so the tests share that too.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();

/// Runs a test on the shared control plane, which is started by the first that asks, with our CRDs.
pub fn run<F: Future<Output = ()>>(test: impl FnOnce(&'static Cluster) -> F) {
    RUNTIME.block_on(async {
        let cluster = CLUSTER.get_or_init(start).await;
        test(cluster).await;
    });
}

async fn start() -> Cluster {
    // The handle is never dropped: the processes end with this one, the folder stays until a later run.
    let options = Options { dir: Some(folder("cluster")), ..Options::default() };
    let cluster = Cluster::start(options).await.unwrap();
    apply_crds(&cluster.admin(), &api::crd::all()).await;
    cluster
}

/// A folder of this run, after those of the same kind of runs that are over were removed.
pub fn folder(kind: &str) -> PathBuf {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for entry in std::fs::read_dir(parent).unwrap().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(kind)?.strip_prefix('-'));
        // One kind may begin as another does.
        let pid = pid.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    parent.join(format!("{kind}-{}", std::process::id()))
}

/// Applies CRDs and waits until they are served.
pub async fn apply_crds(client: &Client, crds: &[CustomResourceDefinition]) {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    for crd in crds {
        let params = PatchParams::apply("e2e").force();
        api.patch(&crd.name_any(), &params, &Patch::Apply(crd)).await.unwrap();
    }
    for crd in crds {
        await_condition(api.clone(), &crd.name_any(), conditions::is_crd_established()).await.unwrap();
    }
}
