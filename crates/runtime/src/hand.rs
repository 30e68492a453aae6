//! A process that does one thing under an admin's own rights, and ends: reads what is there, writes what it is told.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, GetParams, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, ObjectList};
use kube::{Client, ResourceExt};
use plan::{Action, Change, Kind, Object, Outcome, Ref, Verdict};
use serde_json::{Value, json};

use crate::apply::{Absorb, Applier, judge};
use crate::events::Writer;
use crate::explain::with_causes;
use crate::leader::{self, Leadership};
use crate::metrics::Metrics;
use crate::wire;

/// How many objects one list call may bring.
const PAGE: u32 = 500;

/// Why something was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum HandError {
    /// It could not be read.
    #[error("cannot read {what}: {words}")]
    Read {
        /// The kind, or the object.
        what: String,
        /// The server's words.
        words: String,
    },
    /// Somebody else was faster: plan anew.
    #[error("{0}")]
    Stale(String),
    /// It could not be written.
    #[error("{0}")]
    Write(String),
}

/// Reads and writes for one errand.
pub struct Hand {
    client: Client,
    manager: String,
    applier: Applier,
}

impl Hand {
    /// A hand that writes under this field manager.
    pub fn new(client: Client, manager: &str) -> Self {
        let metrics = Arc::new(Metrics::new());
        let leadership = Leadership::always();
        let events =
            Writer::new(client.clone(), "metallb-iad", manager, leadership.clone(), Arc::clone(&metrics));
        let applier = Applier::new(client.clone(), manager, leadership, metrics, Arc::new(events));
        Self { client, manager: manager.to_owned(), applier }
    }

    /// All objects of a kind, or those of one namespace.
    ///
    /// # Errors
    /// In the server's words.
    pub async fn list(&self, kind: Kind, namespace: Option<&str>) -> Result<Vec<Object>, HandError> {
        let wrong = |words: String| HandError::Read { what: kind.plural().to_owned(), words };
        let mut objects = Vec::new();
        let mut parameters = ListParams::default().limit(PAGE);
        loop {
            let request = wire::collection(kind, namespace).list(&parameters);
            let request = request.map_err(|error| wrong(error.to_string()))?;
            let page: ObjectList<Value> =
                self.client.request(request).await.map_err(|error| wrong(unknown_kind(&error, kind)))?;
            for item in page.items {
                let object =
                    wire::decode(kind, &item.to_string()).map_err(|error| wrong(error.to_string()))?;
                objects.push(object);
            }
            match page.metadata.continue_.filter(|more| !more.is_empty()) {
                Some(more) => parameters = parameters.continue_token(&more),
                None => return Ok(objects),
            }
        }
    }

    /// One object, if it is there.
    ///
    /// # Errors
    /// In the server's words.
    pub async fn get(&self, reference: &Ref) -> Result<Option<Object>, HandError> {
        let wrong = |words: String| HandError::Read { what: reference.to_string(), words };
        let request = wire::collection_of(reference).get(&reference.name, &GetParams::default());
        let request = request.map_err(|error| wrong(error.to_string()))?;
        match self.client.request_text(request).await {
            Ok(text) => {
                wire::decode(reference.kind, &text).map(Some).map_err(|error| wrong(error.to_string()))
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(wrong(with_causes(&error))),
        }
    }

    /// The objects of one of MetalLB's kinds that no controller reads.
    ///
    /// # Errors
    /// In the server's words.
    pub async fn list_foreign(&self, kind: &str, namespace: &str) -> Result<Vec<DynamicObject>, HandError> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("metallb.io", "v1beta1", kind));
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let listed = api.list(&ListParams::default()).await;
        listed
            .map(|listed| listed.items)
            .map_err(|error| HandError::Read { what: resource.plural.clone(), words: with_causes(&error) })
    }

    /// Carries out one action, with its preconditions.
    ///
    /// # Errors
    /// When somebody else was faster, or the server will not have it.
    pub async fn carry_out(&self, action: Action) -> Result<(), HandError> {
        match self.applier.carry_out(vec![action], &Nobody).await {
            Outcome::Done => Ok(()),
            Outcome::Stale(words) => Err(HandError::Stale(words)),
            Outcome::Refused { words, .. } | Outcome::Failed { words, .. } => Err(HandError::Write(words)),
        }
    }

    /// A merge patch of an object that no controller reads, in exactly the version that was read.
    ///
    /// # Errors
    /// As [`Self::carry_out`].
    pub async fn patch_foreign(&self, object: &DynamicObject, mut body: Value) -> Result<(), HandError> {
        let kind = object.types.as_ref().map_or("", |types| &types.kind);
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("metallb.io", "v1beta1", kind));
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &resource);
        let (Some(uid), Some(version)) = (object.uid(), object.resource_version()) else {
            return Err(HandError::Write(format!("{kind} {}: its version is not known", object.name_any())));
        };
        body["metadata"]["uid"] = json!(uid);
        body["metadata"]["resourceVersion"] = json!(version);
        let parameters = PatchParams { field_manager: Some(self.manager.clone()), ..PatchParams::default() };
        let patched = api.patch(&object.name_any(), &parameters, &Patch::Merge(body)).await;
        patched.map(|_| ()).map_err(|error| {
            let words = format!("patch {kind} {namespace}/{}: {}", object.name_any(), with_causes(&error));
            match judge(&error, false) {
                Verdict::Stale(_) => HandError::Stale(words),
                _ => HandError::Write(words),
            }
        })
    }

    /// Who leads under a lease of this name, in any namespace: `namespace/name is holder's`. Waits until a lease that
    /// somebody has is renewed, or has run out before our eyes.
    ///
    /// # Errors
    /// In the server's words.
    pub async fn leader(&self, lease: &str) -> Result<Option<String>, HandError> {
        let wrong =
            |error: kube::Error| HandError::Read { what: "leases".to_owned(), words: with_causes(&error) };
        let everywhere: Api<Lease> = Api::all(self.client.clone());
        let parameters = ListParams::default().fields(&format!("metadata.name={lease}"));
        for found in everywhere.list(&parameters).await.map_err(wrong)? {
            let namespace = found.namespace().unwrap_or_default();
            let api: Api<Lease> = Api::namespaced(self.client.clone(), &namespace);
            if let Some(holder) = leader::renewed_by(&api, found).await.map_err(wrong)? {
                return Ok(Some(format!("{namespace}/{lease} is {holder}'s")));
            }
        }
        Ok(None)
    }
}

/// Nobody keeps what the server answers: the next plan is made of a fresh look.
struct Nobody;

impl Absorb for Nobody {
    fn absorb(&self, _: Change) {}
}

fn unknown_kind(error: &kube::Error, kind: Kind) -> String {
    match error {
        kube::Error::Api(status) if status.code == 404 => format!(
            "this cluster does not know {} {kind}; install its CustomResourceDefinition, or check --kubeconfig",
            kind.api_version()
        ),
        error => with_causes(error),
    }
}

#[cfg(test)]
mod tests;
