//! Actions done for real, and what the real world looks like.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams, Preconditions,
};
use plan::{Kind, Ref};
use serde_json::{Value, json};
use sim::conform::{Action, Outcome, Snapshot, owned_by};

/// What a real cluster answers.
pub struct Reality {
    client: Client,
}

impl Reality {
    pub const fn of(client: Client) -> Self {
        Self { client }
    }

    fn api(&self, of: &Ref) -> Api<DynamicObject> {
        let (group, version) = of.kind.api_version().split_once('/').unwrap_or(("", of.kind.api_version()));
        let kind = GroupVersionKind::gvk(group, version, of.kind.as_str());
        let resource = ApiResource::from_gvk_with_plural(&kind, of.kind.plural());
        match &of.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    pub async fn act(&self, action: Action) -> Outcome {
        match action {
            Action::Create(of, object) => {
                let object = serde_json::from_value(object).unwrap();
                done(self.api(&of).create(&PostParams::default(), &object).await)
            }
            Action::Patch { of, status, mut body, when } => {
                if let Some((uid, version)) = when.of(self.get(&of).await.as_ref()) {
                    body["metadata"]["uid"] = json!(uid);
                    body["metadata"]["resourceVersion"] = json!(version);
                }
                let (api, parameters, patch) = (self.api(&of), PatchParams::default(), Patch::Merge(body));
                if status {
                    done(api.patch_status(&of.name, &parameters, &patch).await)
                } else {
                    done(api.patch(&of.name, &parameters, &patch).await)
                }
            }
            Action::Own { of, owners } => {
                let now = join_all(owners.iter().map(|owner| self.get(owner))).await;
                let uid = |now: Option<Value>| Some(now?["metadata"]["uid"].as_str()?.to_owned());
                let body = owned_by(owners.iter().zip(now.into_iter().map(uid)));
                let (parameters, patch) = (PatchParams::default(), Patch::Merge(body));
                done(self.api(&of).patch(&of.name, &parameters, &patch).await)
            }
            Action::Delete { of, when } => {
                let mut parameters = DeleteParams::background();
                if let Some((uid, version)) = when.of(self.get(&of).await.as_ref()) {
                    let both = Preconditions { uid: Some(uid), resource_version: Some(version) };
                    parameters = parameters.preconditions(both);
                }
                match self.api(&of).delete(&of.name, &parameters).await {
                    // Some kinds are told of once more when they are gone, others not.
                    Ok(answer) if answer.as_ref().left().is_some_and(is_held) => Outcome::Done,
                    Ok(_) => Outcome::Gone,
                    Err(error) => refused(&error),
                }
            }
            // The process is stopped and started for all sequences at once.
            Action::Stop | Action::Start => Outcome::Done,
        }
    }

    async fn get(&self, of: &Ref) -> Option<Value> {
        let object = self.api(of).get_opt(&of.name).await.unwrap();
        object.map(|object| serde_json::to_value(object).unwrap())
    }

    pub async fn snapshot(&self, objects: &[Ref]) -> Snapshot {
        let (services, others): (Vec<_>, Vec<_>) = objects.iter().partition(|of| of.kind == Kind::Service);
        let found = others.into_iter().map(|of| async move { Some((of.clone(), self.get(of).await?)) });
        let mut snapshot: Snapshot = join_all(found).await.into_iter().flatten().collect();
        // One list for all Services of a namespace.
        for them in services.chunk_by(|one, other| one.namespace == other.namespace) {
            for found in self.api(them[0]).list(&ListParams::default()).await.unwrap() {
                if let Some(of) = them.iter().find(|of| found.metadata.name.as_ref() == Some(&of.name)) {
                    snapshot.insert((*of).clone(), serde_json::to_value(found).unwrap());
                }
            }
        }
        snapshot
    }

    /// What MetalLB said of the Services that are there.
    pub async fn events(&self, namespace: &str, now: &Snapshot) -> BTreeMap<Ref, BTreeSet<String>> {
        if now.keys().all(|of| of.kind != Kind::Service) {
            return BTreeMap::new();
        }
        let api = Api::<Event>::namespaced(self.client.clone(), namespace);
        let failed = ListParams::default().fields("reason=AllocationFailed");
        let mut events: BTreeMap<Ref, BTreeSet<String>> = BTreeMap::new();
        for event in api.list(&failed).await.unwrap() {
            let about = |of: &&Ref| {
                of.kind == Kind::Service
                    && now[*of]["metadata"]["uid"].as_str() == event.involved_object.uid.as_deref()
            };
            if let Some(of) = now.keys().find(about) {
                events.entry(of.clone()).or_default().insert(event.message.unwrap_or_default());
            }
        }
        events
    }

    /// Takes away what a sequence left.
    pub async fn clear(&self, objects: &[Ref]) {
        for of in objects.iter().filter(|of| of.kind != Kind::Namespace) {
            let (api, none) = (self.api(of), json!({ "metadata": { "finalizers": null } }));
            let _ = api.patch(&of.name, &PatchParams::default(), &Patch::Merge(none)).await;
            let _ = api.delete(&of.name, &DeleteParams::background()).await;
        }
    }
}

fn is_held(object: &DynamicObject) -> bool {
    let meta = &object.metadata;
    // A namespace has more of them, which its controller takes off.
    let of_namespace = object.data["spec"]["finalizers"].as_array().is_some_and(|held| !held.is_empty());
    let held = of_namespace || meta.finalizers.as_ref().is_some_and(|held| !held.is_empty());
    meta.deletion_timestamp.is_some() && held
}

fn done(answer: kube::Result<DynamicObject>) -> Outcome {
    match answer {
        Ok(object) if object.metadata.deletion_timestamp.is_none() || is_held(&object) => Outcome::Done,
        Ok(_) => Outcome::Gone,
        Err(error) => refused(&error),
    }
}

#[expect(clippy::panic, reason = "that is how a test fails")]
fn refused(error: &kube::Error) -> Outcome {
    match error {
        kube::Error::Api(status) => Outcome::Refused(status.code),
        error => panic!("{error}"),
    }
}
