//! Making and deleting many objects at once.

use std::collections::HashMap;
use std::fmt::Debug;
use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Result, bail};
use api::IPAddressClass;
use api::wellknown::driver;
use devcluster::Cluster;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How many requests are under way at once.
pub(super) const AT_ONCE: usize = 16;
/// How long a whole phase may take.
const WITHIN: Duration = Duration::from_secs(1800);

/// An object of one of our kinds.
pub(super) fn object<K: DeserializeOwned>(kind: &str, name: &str, spec: Value) -> Result<K> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": kind,
        "metadata": { "name": name }, "spec": spec,
    }))?)
}

/// Makes a class, and the pool of the same name that it draws from.
pub(super) async fn class(cluster: &Cluster, name: &str, addresses: &str) -> Result<()> {
    cluster.create_pool(name, &[addresses], false).await?;
    let spec = json!({ "provisioner": driver::PROVISIONER, "parameters": { "pool": name } });
    let class: IPAddressClass = object("IPAddressClass", name, spec)?;
    Api::all(cluster.admin()).create(&PostParams::default(), &class).await?;
    Ok(())
}

/// Makes a namespace.
pub(super) async fn namespace(client: &Client, name: &str) -> Result<()> {
    let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    Ok(())
}

pub(super) async fn create_all<K>(api: &Api<K>, objects: Vec<K>) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let create = |object: K| async move { api.create(&PostParams::default(), &object).await.map(|_| ()) };
    Ok(stream::iter(objects).map(create).buffer_unordered(AT_ONCE).try_collect().await?)
}

/// Makes so many a second, or as many as the API server takes.
pub(super) async fn create_paced<K>(api: &Api<K>, objects: Vec<K>, pace: Option<NonZeroU32>) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let Some(pace) = pace else { return create_all(api, objects).await };
    let mut tick = tokio::time::interval(Duration::from_secs(1) / pace.get());
    for object in objects {
        tick.tick().await;
        api.create(&PostParams::default(), &object).await?;
    }
    Ok(())
}

pub(super) async fn delete_all<K>(api: &Api<K>, names: Vec<String>) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let delete = |name: String| async move { api.delete(&name, &DeleteParams::default()).await.map(|_| ()) };
    Ok(stream::iter(names).map(delete).buffer_unordered(AT_ONCE).try_collect().await?)
}

/// Waits until there are `count` objects of a kind and all are as wanted. By a watch, which costs the API server
/// less than lists would.
pub(super) async fn all<K>(api: &Api<K>, what: &str, count: usize, is: impl Fn(&K) -> bool) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut verdicts: HashMap<ObjectRef<K>, bool> = HashMap::new();
    let watch = async {
        let mut events = watcher(api.clone(), watcher::Config::default()).boxed();
        while let Some(event) = events.try_next().await? {
            match event {
                watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                    verdicts.insert(ObjectRef::from_obj(&object), is(&object));
                }
                watcher::Event::Delete(object) => {
                    verdicts.remove(&ObjectRef::from_obj(&object));
                }
                watcher::Event::Init => {
                    verdicts.clear();
                    continue;
                }
                watcher::Event::InitDone => {}
            }
            if verdicts.len() == count && verdicts.values().all(|right| *right) {
                return Ok(());
            }
        }
        bail!("the watch for {what} ended")
    };
    match tokio::time::timeout(WITHIN, watch).await {
        Ok(done) => done,
        Err(_) => bail!("waited {} s for {count} {what}", WITHIN.as_secs()),
    }
}
