//! Who had an IP, version by version: a witness that watches the statuses of all Services.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::{Error, Result};

/// How long an event may take to arrive.
const WITHIN: Duration = Duration::from_secs(30);

/// Who had an IP from one version of the Services on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holders {
    /// The `resourceVersion` of the change.
    pub version: String,
    /// The Services whose status showed the IP, as `namespace/name`.
    pub services: BTreeSet<String>,
    /// When the change was seen.
    pub at: Instant,
}

#[derive(Default)]
struct Book {
    shown: BTreeMap<String, BTreeSet<String>>,
    timeline: BTreeMap<String, Vec<Holders>>,
    broken: Option<String>,
}

/// Watches every Service from a first list on, without a gap, in the order of the versions.
pub struct Witness {
    client: Client,
    book: Arc<Mutex<Book>>,
    last: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl Witness {
    /// Begins to watch.
    ///
    /// # Errors
    /// When the Services cannot be listed.
    pub async fn start(client: Client) -> Result<Self> {
        let services: Api<Service> = Api::all(client.clone());
        let listed =
            services.list(&ListParams::default()).await.map_err(Error::kube("listing the Services"))?;
        let mut version = listed.metadata.resource_version.clone().unwrap_or_default();
        let book = Arc::new(Mutex::new(Book::default()));
        for service in &listed.items {
            lock(&book).saw(service, true);
        }
        let (said, last) = watch::channel(number(&version));
        let task = tokio::spawn({
            let book = Arc::clone(&book);
            async move {
                loop {
                    // An API server that restarts ends the watch; it goes on at the same version.
                    if let Err(error) = follow(&services, &mut version, &book, &said).await
                        && matches!(&error, kube::Error::Api(status) if status.code == 410)
                    {
                        lock(&book).broken = Some(error.to_string());
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        });
        Ok(Self { client, book, last, task })
    }

    /// Who had the IP, change by change, up to this moment.
    ///
    /// # Errors
    /// When the watch broke: then the witness saw not everything.
    pub async fn timeline(&mut self, ip: &str) -> Result<Vec<Holders>> {
        self.read(|timelines| timelines.get(ip).cloned().unwrap_or_default()).await
    }

    /// Who had which IP, change by change, up to this moment.
    ///
    /// # Errors
    /// As [`Self::timeline`].
    pub async fn timelines(&mut self) -> Result<BTreeMap<String, Vec<Holders>>> {
        self.read(Clone::clone).await
    }

    /// Who had which IP, change by change, as far as was seen by now: of an API server that is away, or was started again.
    pub fn seen(&self) -> BTreeMap<String, Vec<Holders>> {
        lock(&self.book).timeline.clone()
    }

    async fn read<T>(&mut self, read: impl FnOnce(&BTreeMap<String, Vec<Holders>>) -> T) -> Result<T> {
        self.catch_up().await?;
        let book = lock(&self.book);
        match &book.broken {
            Some(words) => Err(Error::Witness { words: words.clone() }),
            None => Ok(read(&book.timeline)),
        }
    }

    /// The versions at which nobody had the IP, although somebody had before.
    ///
    /// # Errors
    /// As [`Self::timeline`].
    pub async fn gaps(&mut self, ip: &str) -> Result<Vec<String>> {
        let timeline = self.timeline(ip).await?;
        let gap = |holders: &Holders| holders.services.is_empty().then(|| holders.version.clone());
        Ok(timeline.iter().filter_map(gap).collect())
    }

    /// Makes a change and waits until it is seen: then everything before it was.
    async fn catch_up(&mut self) -> Result<()> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), "default");
        let mark = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "witness", "annotations": { "witness": format!("{:?}", Instant::now()) } },
            "spec": { "clusterIP": "None" },
        });
        let parameters = PatchParams::apply("witness").force();
        let marked = services.patch("witness", &parameters, &Patch::Apply(mark)).await;
        let marked = marked.map_err(Error::kube("marking the witness's Service"))?;
        let version = number(&marked.resource_version().unwrap_or_default());
        let seen = tokio::time::timeout(WITHIN, self.last.wait_for(|last| *last >= version)).await;
        match seen {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Error::Witness { words: "the last change did not arrive in time".to_owned() }),
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(
    services: &Api<Service>,
    version: &mut String,
    book: &Mutex<Book>,
    said: &watch::Sender<u64>,
) -> kube::Result<()> {
    let mut events = services.watch(&WatchParams::default(), version).await?.boxed();
    while let Some(event) = events.try_next().await? {
        let (service, present) = match &event {
            WatchEvent::Added(service) | WatchEvent::Modified(service) => (service, true),
            WatchEvent::Deleted(service) => (service, false),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => return Err(kube::Error::Api(status.clone())),
        };
        *version = service.resource_version().unwrap_or_default();
        lock(book).saw(service, present);
        said.send_replace(number(version));
    }
    Ok(())
}

impl Book {
    fn saw(&mut self, service: &Service, present: bool) {
        let name = format!("{}/{}", service.namespace().unwrap_or_default(), service.name_any());
        let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref()).filter(|_| present);
        let now: BTreeSet<String> =
            ingress.into_iter().flatten().filter_map(|entry| entry.ip.clone()).collect();
        let before = if present {
            self.shown.insert(name.clone(), now.clone()).unwrap_or_default()
        } else {
            self.shown.remove(&name).unwrap_or_default()
        };
        for ip in before.symmetric_difference(&now) {
            let line = self.timeline.entry(ip.clone()).or_default();
            let mut services = line.last().map(|last| last.services.clone()).unwrap_or_default();
            if now.contains(ip) {
                services.insert(name.clone());
            } else {
                services.remove(&name);
            }
            let version = service.resource_version().unwrap_or_default();
            line.push(Holders { version, services, at: Instant::now() });
        }
    }
}

fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}
