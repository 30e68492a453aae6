//! Making and deleting many objects at once.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Resource;
use kube::api::{Api, ListParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How many requests are under way at once.
const AT_ONCE: usize = 16;
/// How long a whole phase may take.
const WITHIN: Duration = Duration::from_secs(1800);
const EVERY: Duration = Duration::from_millis(200);

pub(super) async fn create_all<K>(api: &Api<K>, objects: Vec<K>) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let create = |object: K| async move { api.create(&PostParams::default(), &object).await.map(|_| ()) };
    Ok(stream::iter(objects).map(create).buffer_unordered(AT_ONCE).try_collect().await?)
}

/// Waits until all objects of a kind are as wanted, by lists read from the API server's cache.
pub(super) async fn all<K>(api: &Api<K>, what: &str, count: usize, is: impl Fn(&K) -> bool) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let deadline = Instant::now() + WITHIN;
    loop {
        let list = api.list(&ListParams::default().match_any()).await?;
        let right = list.items.iter().filter(|object| is(object)).count();
        if right == count && list.items.len() == count {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("waited {} s for {count} {what}; there are {right}", WITHIN.as_secs());
        }
        tokio::time::sleep(EVERY).await;
    }
}
