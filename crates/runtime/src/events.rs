//! Events, as `events.k8s.io/v1` objects.
//!
//! What has been done is told each time. What stands in the way is told when it is new: once per key, until
//! it went away and came back. The name of such an Event is made of what it says, so that a process that was
//! restarted, and finds the same thing in the way, finds it told as well.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::wellknown::TRACE_ID;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::PostParams;
use kube::core::{ObjectMeta, Request};
use plan::Event;
use sha2::{Digest, Sha256};

use crate::apply::namespace_terminates;
use crate::explain::with_causes;
use crate::leader::Leadership;
use crate::metrics::Metrics;

const LONGEST_NOTE: usize = 1024;
const LONGEST_NAME: usize = 200;
const LONGEST_INSTANCE: usize = 128;
const DEADLINE: Duration = Duration::from_secs(5);

/// Writes Events under one name.
pub(crate) struct Writer {
    client: Client,
    controller: String,
    instance: String,
    leadership: Leadership,
    metrics: Arc<Metrics>,
}

/// What became of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Now,
    Before,
    NotYet,
}

impl Writer {
    pub(crate) fn new(
        client: Client,
        controller: &str,
        instance: &str,
        leadership: Leadership,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            client,
            controller: controller.to_owned(),
            instance: shortened(instance, LONGEST_INSTANCE).to_owned(),
            leadership,
            metrics,
        }
    }

    /// Tells of something that was done.
    pub(crate) async fn tell(&self, event: &Event) {
        self.write(event, rand::random()).await;
    }

    /// Writes an Event. One that cannot be written is logged: no plan fails for it.
    async fn write(&self, event: &Event, suffix: u64) -> Told {
        if self.leadership.allows().is_none() {
            return Told::NotYet;
        }
        let object = self.object(event, suffix);
        let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
        let collection = Request::new(format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"));
        let parameters = PostParams { field_manager: Some(self.controller.clone()), ..PostParams::default() };
        let request = match serde_json::to_vec(&object).map(|body| collection.create(&parameters, body)) {
            Ok(Ok(request)) => request,
            Ok(Err(error)) => return not_written(event, &error),
            Err(error) => return not_written(event, &error),
        };
        match tokio::time::timeout(DEADLINE, self.client.request_text(request)).await {
            Ok(Ok(_)) => {
                self.metrics.wrote("create", "events");
                tracing::info!(
                    object = %event.regarding, reason = event.reason, action = event.action,
                    r#type = event.kind.as_str(), trace_id = event.trace.map(|trace| trace.to_string()),
                    "{}", event.note
                );
                Told::Now
            }
            Ok(Err(kube::Error::Api(status))) if status.is_already_exists() => Told::Before,
            // Nobody is left there to be told.
            Ok(Err(error)) if namespace_terminates(&error) => Told::Now,
            Ok(Err(error)) => not_written(event, &error),
            Err(elapsed) => not_written(event, &elapsed),
        }
    }

    fn object(&self, event: &Event, suffix: u64) -> v1::Event {
        let regarding = &event.regarding;
        let name = shortened(&regarding.name, LONGEST_NAME).trim_end_matches(['-', '.']);
        let namespace = regarding.namespace.as_deref().unwrap_or("default");
        v1::Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{suffix:016x}")),
                namespace: Some(namespace.to_owned()),
                annotations: event.trace.map(|trace| [(TRACE_ID.to_owned(), trace.to_string())].into()),
                ..ObjectMeta::default()
            },
            action: Some(event.action.to_owned()),
            event_time: Some(MicroTime(jiff::Timestamp::now())),
            note: Some(shortened(&event.note, LONGEST_NOTE).to_owned()),
            reason: Some(event.reason.to_owned()),
            regarding: Some(ObjectReference {
                api_version: Some(regarding.kind.api_version().to_owned()),
                kind: Some(regarding.kind.as_str().to_owned()),
                name: Some(regarding.name.clone()),
                namespace: regarding.namespace.clone(),
                uid: Some(event.uid.clone()).filter(|uid| !uid.is_empty()),
                ..ObjectReference::default()
            }),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(event.kind.as_str().to_owned()),
            ..v1::Event::default()
        }
    }
}

/// What stands in the way of each key, as far as it was told.
pub(crate) struct Standing<K> {
    writer: Arc<Writer>,
    told: Mutex<Memory<K>>,
}

struct Memory<K> {
    told: HashMap<K, Vec<u64>>,
    /// The keys that a predecessor of this process may have told of already. As hashes, for they are all keys there
    /// are: of two that share one, an Event may be told once more.
    unseen: HashSet<u64>,
    hasher: RandomState,
}

impl<K: Clone + Eq + Hash> Standing<K> {
    pub(crate) fn new(writer: Arc<Writer>) -> Self {
        Self {
            writer,
            told: Mutex::new(Memory {
                told: HashMap::new(),
                unseen: HashSet::new(),
                hasher: RandomState::new(),
            }),
        }
    }

    /// These keys are about to be decided for the first time: what stands in their way may have been told
    /// by a predecessor.
    pub(crate) fn inherit(&self, keys: &[K]) {
        let mut memory = self.lock();
        let hashes: HashSet<u64> = keys.iter().map(|key| memory.hasher.hash_one(key)).collect();
        memory.unseen.extend(hashes);
    }

    /// Tells what is new of what stands in the way of a key, and forgets what does not any more.
    pub(crate) async fn tell(&self, key: &K, events: &[Event]) {
        let (before, inherited) = {
            let mut memory = self.lock();
            let hash = memory.hasher.hash_one(key);
            let inherited = memory.unseen.remove(&hash);
            if events.is_empty() {
                memory.told.remove(key);
                return;
            }
            (memory.told.get(key).cloned().unwrap_or_default(), inherited)
        };
        let mut now = Vec::with_capacity(events.len());
        for event in events {
            let said = fingerprint(event);
            if now.contains(&said) {
                continue;
            }
            if before.contains(&said) || self.tell_anew(event, said, inherited).await != Told::NotYet {
                now.push(said);
            }
        }
        self.lock().told.insert(key.clone(), now);
    }

    async fn tell_anew(&self, event: &Event, said: u64, inherited: bool) -> Told {
        match self.writer.write(event, said).await {
            // It was told once, went away, and is back.
            Told::Before if !inherited => self.writer.write(event, rand::random()).await,
            told => told,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Memory<K>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_written(event: &Event, error: &(dyn std::error::Error + 'static)) -> Told {
    tracing::warn!(
        object = %event.regarding, reason = event.reason, error = with_causes(error),
        "event not written: {}", event.note
    );
    Told::NotYet
}

/// What an event says, in 64 bits that are the same in every process and version.
fn fingerprint(event: &Event) -> u64 {
    let mut hash = Sha256::new();
    for part in [&event.uid, event.reason, event.kind.as_str(), &event.note] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digest = hash.finalize();
    digest.iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// The beginning of a text, at most `longest` bytes of it.
fn shortened(text: &str, longest: usize) -> &str {
    let end = (0..=longest.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or(text)
}

#[cfg(test)]
mod tests;
