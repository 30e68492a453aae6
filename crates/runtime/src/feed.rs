//! Feeds: one watch per kind, from the API server to whoever keeps the objects.
//!
//! A feed never ends. What goes wrong is logged once and tried again with backoff; a watch that was cut goes
//! on from where it was, or begins anew with a complete list.

use std::fmt;
use std::time::Duration;

use api::{IPAddress, IPAddressClaim, IPAddressClass};
use futures::{StreamExt, pin_mut};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use plan::{Change, Kind, Object};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::explain::with_causes;
use crate::lean::Lean;
use crate::wire;

/// How long a watch stands before it is asked for anew, in seconds. A connection that died in silence is
/// noticed after that.
const WATCH_SECONDS: u32 = 120;
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// A feed that was quiet for so long begins its backoff anew.
const CALM: Duration = Duration::from_secs(60);

/// What to watch: a kind, and which of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    kind: Kind,
    namespace: Option<String>,
    labels: Option<String>,
    fields: Option<String>,
}

impl Feed {
    /// All objects of a kind.
    pub const fn of(kind: Kind) -> Self {
        Self { kind, namespace: None, labels: None, fields: None }
    }

    /// Only those of one namespace.
    #[must_use]
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only those that a label selector matches.
    #[must_use]
    pub fn labelled(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Only those that a field selector matches.
    #[must_use]
    pub fn with_fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// The kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Follows the feed for ever and hands each change to `sink` as it comes: first a complete list, object by object, then
    /// what changes. Whoever keeps less than the whole object never holds a whole list.
    pub async fn follow(&self, client: Client, sink: impl FnMut(Change) + Send) {
        match self.kind {
            Kind::Class => self.watch(Api::<Lean<IPAddressClass>>::all(client), sink).await,
            Kind::Address => self.watch(Api::<Lean<IPAddress>>::all(client), sink).await,
            Kind::Namespace => self.watch(Api::<Lean<v1::Namespace>>::all(client), sink).await,
            Kind::Claim => self.watch(self.namespaced::<IPAddressClaim>(client), sink).await,
            Kind::Service => self.watch(self.namespaced::<v1::Service>(client), sink).await,
            Kind::Event => self.watch(self.namespaced::<v1::Event>(client), sink).await,
            Kind::Pool => {
                let resource = resource_of(self.kind);
                let api: Api<Lean<DynamicObject>> = match &self.namespace {
                    Some(namespace) => Api::namespaced_with(client, namespace, &resource),
                    None => Api::all_with(client, &resource),
                };
                self.watch(api, sink).await;
            }
        }
    }

    fn namespaced<K>(&self, client: Client) -> Api<Lean<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        }
    }

    async fn watch<K>(&self, api: Api<Lean<K>>, mut sink: impl FnMut(Change) + Send)
    where
        K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
        Object: From<K>,
    {
        let config = watcher::Config {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            timeout: Some(WATCH_SECONDS),
            ..watcher::Config::default()
        };
        let trimmed = |object| Object::from(wire::trimmed(self.kind, object));
        let stream = watcher::watcher(api, config);
        pin_mut!(stream);
        let mut count = 0_usize;
        let mut trouble = Trouble::default();
        while let Some(event) = stream.next().await {
            match event {
                Ok(watcher::Event::Init) => {
                    count = 0;
                    sink(Change::ListBegins(self.kind));
                    continue;
                }
                Ok(watcher::Event::InitApply(object)) => {
                    count += 1;
                    sink(Change::InList(trimmed(object)));
                }
                Ok(watcher::Event::InitDone) => {
                    tracing::debug!(kind = %self.kind, count, "listed");
                    sink(Change::Listed(self.kind));
                }
                Ok(watcher::Event::Apply(object)) => sink(Change::Applied(trimmed(object))),
                Ok(watcher::Event::Delete(object)) => sink(Change::Deleted(trimmed(object))),
                Err(error) => {
                    let delay = trouble.came(self, &error);
                    tokio::time::sleep(delay).await;
                    continue;
                }
            }
            trouble.went(self);
        }
    }
}

fn resource_of(kind: Kind) -> ApiResource {
    let api_version = kind.api_version();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.as_str().to_owned(),
        plural: kind.plural().to_owned(),
    }
}

/// What is wrong with a feed, told when it changes.
#[derive(Default)]
struct Trouble {
    told: Option<String>,
    count: u32,
    last: Option<Instant>,
}

impl Trouble {
    fn came(&mut self, feed: &Feed, error: &watcher::Error) -> Duration {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.duration_since(last) > CALM) {
            self.count = 0;
        }
        self.last = Some(now);
        if status_code(error) == Some(410) && self.count <= 1 {
            // Only the versions we knew are too old (the API server was started again): list anew at once.
            self.count = 2;
            return Duration::ZERO;
        }
        let delay = FIRST_DELAY.saturating_mul(1 << self.count.min(16)).min(LONGEST_DELAY);
        self.count = self.count.saturating_add(1);
        let words = explain(feed, error);
        if self.told.as_ref() != Some(&words) {
            tracing::warn!(kind = %feed.kind, "{words}");
            self.told = Some(words);
        }
        delay.mul_f64(rand::random_range(0.75..=1.25))
    }

    fn went(&mut self, feed: &Feed) {
        self.count = 0;
        if self.told.take().is_some() {
            tracing::info!(kind = %feed.kind, "watching {} again", feed.kind.plural());
        }
    }
}

fn explain(feed: &Feed, error: &watcher::Error) -> String {
    let (plural, version) = (feed.kind.plural(), feed.kind.api_version());
    match status_code(error) {
        Some(404) => format!(
            "cannot watch {plural}: this cluster does not know {version} {}; install its CustomResourceDefinition \
             (nothing is decided until then; trying again)",
            feed.kind
        ),
        Some(403) => {
            let place = feed.namespace.as_deref().map_or_else(
                || "at cluster scope".to_owned(),
                |namespace| format!("in namespace {namespace}"),
            );
            format!(
                "may not list and watch {plural} {place}; grant it by RBAC (trying again): {}",
                server_words(error)
            )
        }
        _ => format!("cannot watch {plural} (trying again): {}", with_causes(error)),
    }
}

fn server_words(error: &watcher::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), with_causes)
}

fn status_code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn an_error_is_told_in_the_servers_words() {
        let status = Status::failure("storage is (re)initializing", "TooManyRequests").with_code(429);
        let error = watcher::Error::WatchStartFailed(kube::Error::Api(status.boxed()));
        assert_eq!(
            explain(&Feed::of(Kind::Claim), &error),
            "cannot watch ipaddressclaims (trying again): failed to start watching object: storage is (re)initializing"
        );
        let status = Status::failure("no", "Forbidden").with_code(403);
        let error = watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()));
        assert_eq!(
            explain(&Feed::of(Kind::Event).within("ns"), &error),
            "may not list and watch events in namespace ns; grant it by RBAC (trying again): no"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn delays_grow_but_not_for_versions_that_are_too_old() {
        let status = |code| Status::failure("words", "Reason").with_code(code).boxed();
        let feed = Feed::of(Kind::Claim);
        let mut trouble = Trouble::default();
        let gone = watcher::Error::WatchError(status(410));
        assert_eq!(trouble.came(&feed, &gone), Duration::ZERO);
        assert!(trouble.came(&feed, &gone) > Duration::ZERO);
        let broken = watcher::Error::WatchError(status(500));
        for _ in 0..10 {
            assert!(trouble.came(&feed, &broken) <= LONGEST_DELAY.mul_f64(1.25));
        }
        trouble.went(&feed);
        assert!(trouble.came(&feed, &broken) < Duration::from_secs(1));
    }
}
