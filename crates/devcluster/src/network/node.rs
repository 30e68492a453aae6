//! The objects and parts that make a node of the network: itself, MetalLB's speaker and kube-proxy on it, and pods.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{NODE_IP, TO_CLIENT};
use crate::cluster::Cluster;
use crate::parts::{METALLB_NAMESPACE, Part};
use crate::traffic::Workload;
use crate::{Error, Result};

/// The name of the only node.
pub(crate) const NODE: &str = "n1";
/// The name of the speaker's pod.
pub(crate) const SPEAKER: &str = "speaker-n1";

impl Cluster {
    /// Makes the node, what announces addresses on it, and what leads Services to pods.
    pub(crate) async fn bring_up_node(&self) -> Result<()> {
        self.make_node().await?;
        let speaker = json!({
            "metadata": { "name": SPEAKER, "labels": { "app": "metallb", "component": "speaker" } },
            "spec": { "serviceAccountName": "speaker" },
        });
        self.make_pod(METALLB_NAMESPACE, speaker, NODE_IP).await?;
        self.announce().await?;
        tokio::try_join!(self.start_part(Part::Speaker), self.start_part(Part::KubeProxy))?;
        Ok(())
    }

    async fn make_node(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.admin());
        let node = json!({ "metadata": { "name": NODE, "labels": { "kubernetes.io/hostname": NODE } } });
        create(&nodes, node, "the node").await?;
        let now = k8s_openapi::jiff::Timestamp::now();
        let status = json!({ "status": {
            "addresses": [{ "type": "InternalIP", "address": NODE_IP }],
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Made", "message": "made by devcluster",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            }],
        } });
        let patched = nodes.patch_status(NODE, &PatchParams::default(), &Patch::Merge(status)).await;
        patched.map_err(Error::kube("writing the node's status"))?;
        Ok(())
    }

    /// Every address of every pool, on the link to the client.
    async fn announce(&self) -> Result<()> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("metallb.io", "v1beta1", "L2Advertisement"));
        let api: Api<DynamicObject> = Api::namespaced_with(self.admin(), METALLB_NAMESPACE, &kind);
        let everything = json!({
            "apiVersion": "metallb.io/v1beta1", "kind": "L2Advertisement",
            "metadata": { "name": "everything" },
            "spec": { "interfaces": [TO_CLIENT] },
        });
        create(&api, everything, "the L2Advertisement").await
    }

    /// Makes a pod's objects as a kubelet would leave them: it runs, is ready, and has this address.
    async fn make_pod(&self, namespace: &str, mut pod: Value, ip: Ipv4Addr) -> Result<()> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        pod["spec"]["nodeName"] = json!(NODE);
        pod["spec"]["containers"] = json!([{ "name": "main", "image": "none" }]);
        pod["spec"]["automountServiceAccountToken"] = json!(false);
        pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
        let pods: Api<Pod> = Api::namespaced(self.admin(), namespace);
        create(&pods, pod, &format!("the pod {namespace}/{name}")).await?;
        let status = json!({ "status": {
            "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }], "hostIP": NODE_IP,
            "conditions": [
                { "type": "Ready", "status": "True" }, { "type": "ContainersReady", "status": "True" },
            ],
        } });
        let patched = pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
        patched.map_err(Error::kube(format!("writing the status of the pod {namespace}/{name}")))?;
        Ok(())
    }

    /// Runs a workload: an HTTP server in a pod's network that tells its own name, and a Pod with each of these values of
    /// the label `app`, which Services select by.
    ///
    /// # Errors
    /// Without a network, or when the API server refuses the Pod.
    pub async fn run_workload(&self, namespace: &str, name: &str, apps: &[&str]) -> Result<Workload> {
        let Some(network) = &self.network else {
            return Err(Error::Network { words: "this cluster has none: see Options::network".to_owned() });
        };
        let (pod, ip) = network.pod()?;
        let workload = Workload::start(&pod, format!("{namespace}/{name}"))?;
        self.await_service_account(namespace, "default").await?;
        for app in apps {
            let metadata = json!({ "name": format!("{name}-{app}"), "labels": { "app": app } });
            let object = json!({ "metadata": metadata, "spec": {} });
            self.make_pod(namespace, object, ip).await?;
        }
        Ok(workload)
    }
}

async fn create<K>(api: &Api<K>, object: Value, what: &str) -> Result<()>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let malformed =
        |error: serde_json::Error| Error::Malformed { path: what.into(), message: error.to_string() };
    let object: K = serde_json::from_value(object).map_err(malformed)?;
    api.create(&PostParams::default(), &object).await.map_err(Error::kube(format!("making {what}")))?;
    Ok(())
}
