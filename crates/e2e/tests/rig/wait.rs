//! Waiting for what objects become: by watch, with a deadline, and with the last look in the message.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use kube::Resource;
use kube::api::Api;
use kube::runtime::wait::await_condition;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long anything may take to come true.
pub const WITHIN: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(50);

/// Waits until an object is there and as described, and returns it.
pub async fn until<K>(api: &Api<K>, name: &str, what: &str, is: impl Fn(&K) -> bool) -> K
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    until_within(WITHIN, api, name, what, is).await
}

/// The same, for as long as one likes.
pub async fn until_within<K>(
    within: Duration,
    api: &Api<K>,
    name: &str,
    what: &str,
    is: impl Fn(&K) -> bool,
) -> K
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let found = watch(within, api, name, |object: Option<&K>| object.is_some_and(&is)).await;
    match found {
        Some(object) => object.unwrap(),
        None => fail(within, api, name, what).await,
    }
}

/// Waits until an object is gone.
pub async fn gone<K>(api: &Api<K>, name: &str)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    gone_within(WITHIN, api, name).await;
}

/// The same, for as long as one likes.
pub async fn gone_within<K>(within: Duration, api: &Api<K>, name: &str)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    if watch(within, api, name, |object: Option<&K>| object.is_none()).await.is_none() {
        fail(within, api, name, "to be gone").await;
    }
}

async fn watch<K>(
    within: Duration,
    api: &Api<K>,
    name: &str,
    is: impl Fn(Option<&K>) -> bool,
) -> Option<Option<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let deadline = tokio::time::Instant::now() + within;
    loop {
        match tokio::time::timeout_at(deadline, await_condition(api.clone(), name, &is)).await {
            Ok(Ok(object)) => return Some(object),
            // The API server was away; the watch begins again.
            Ok(Err(_)) => tokio::time::sleep(EVERY).await,
            Err(_) => return None,
        }
    }
}

#[expect(clippy::panic, reason = "that is how a test fails")]
async fn fail<K>(within: Duration, api: &Api<K>, name: &str, what: &str) -> !
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let mut last = api.get_opt(name).await.ok().flatten();
    if let Some(object) = &mut last {
        object.meta_mut().managed_fields = None;
    }
    let last = serde_yaml_ng::to_string(&last).unwrap();
    panic!("waited {} s for {} {name} {what}; last seen:\n{last}", within.as_secs(), K::kind(&()));
}

/// Asks again and again until there is an answer.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WITHIN;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {} s for {what}", WITHIN.as_secs());
        tokio::time::sleep(EVERY).await;
    }
}
