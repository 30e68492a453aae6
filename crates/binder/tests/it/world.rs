//! A tiny cluster: objects, versions, finalizers, a watch.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use api::{IPAddress, IPAddressClaim, IPAddressClass};
use jiff::Timestamp;
use plan::{Action, Change, Kind, Object, Ref, Target};
use serde_json::{Value, json};

pub const P: &str = "metallb.drivers.local.sdn.cozystack.io";
const GROUP: &str = "local.sdn.cozystack.io/v1alpha1";

pub fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub fn claim_ref(name: &str) -> Ref {
    Ref { kind: Kind::Claim, namespace: Some("a".to_owned()), name: name.to_owned() }
}

pub fn address_ref(name: &str) -> Ref {
    Ref { kind: Kind::Address, namespace: None, name: name.to_owned() }
}

pub fn class_ref(name: &str) -> Ref {
    Ref::class(name)
}

/// What came of an action.
#[derive(Debug, PartialEq, Eq)]
pub enum Did {
    Fine,
    Stale,
    Refused,
    /// The process died before the action.
    Died,
}

/// The API server.
#[derive(Default)]
pub struct World {
    pub objects: BTreeMap<Ref, Value>,
    pub watch: VecDeque<Change>,
    pub version: u64,
    uids: u64,
    pub writes: Vec<String>,
    pub told: Vec<String>,
    /// Writes to this object are refused.
    pub refuse: Option<Ref>,
    /// The process dies when it has made this many writes.
    pub lives: Option<usize>,
}

pub fn object(reference: &Ref, value: &Value) -> Object {
    match reference.kind {
        Kind::Class => serde_json::from_value::<IPAddressClass>(value.clone()).unwrap().into(),
        Kind::Address => serde_json::from_value::<IPAddress>(value.clone()).unwrap().into(),
        Kind::Claim => serde_json::from_value::<IPAddressClaim>(value.clone()).unwrap().into(),
        kind => panic!("no {kind} here"),
    }
}

pub fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut into[name], value);
        }
    }
}

impl World {
    pub fn create(&mut self, reference: &Ref, mut value: Value) {
        self.uids += 1;
        let created = Timestamp::from_second(1_700_000_000 + i64::try_from(self.uids).unwrap()).unwrap();
        let meta = json!({
            "name": reference.name,
            "namespace": reference.namespace,
            "generation": 1,
        });
        merge(&mut value["metadata"], &meta);
        let meta = &mut value["metadata"];
        if meta["uid"].is_null() {
            meta["uid"] = format!("uid-{}", self.uids).into();
        }
        if meta["creationTimestamp"].is_null() {
            meta["creationTimestamp"] = created.to_string().into();
        }
        value["apiVersion"] = GROUP.into();
        value["kind"] = reference.kind.as_str().into();
        assert!(!self.objects.contains_key(reference), "{reference} exists");
        self.store(reference, value);
    }

    /// Somebody else's write; `status` may be in it.
    pub fn edit(&mut self, reference: &Ref, patch: &Value) -> bool {
        let Some(old) = self.objects.get(reference).cloned() else { return false };
        let mut new = old.clone();
        merge(&mut new, patch);
        self.update(reference, &old, new);
        true
    }

    fn update(&mut self, reference: &Ref, old: &Value, mut new: Value) {
        if *old == new {
            return;
        }
        if old["spec"] != new["spec"] {
            let generation = new["metadata"]["generation"].as_i64().unwrap() + 1;
            new["metadata"]["generation"] = generation.into();
        }
        let finalizers = new["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if !new["metadata"]["deletionTimestamp"].is_null() && finalizers {
            self.remove(reference, &new);
        } else {
            self.store(reference, new);
        }
    }

    pub fn delete(&mut self, reference: &Ref) -> bool {
        let Some(old) = self.objects.get(reference).cloned() else { return false };
        let mut new = old.clone();
        new["metadata"]["deletionTimestamp"] = "2026-11-29T00:00:00Z".into();
        if old["metadata"]["deletionTimestamp"].is_null() {
            self.update(reference, &old, new);
        }
        true
    }

    /// Gone at once, whatever finalizers it has.
    pub fn vanish(&mut self, reference: &Ref) {
        let old = self.objects[reference].clone();
        self.remove(reference, &old);
    }

    fn store(&mut self, reference: &Ref, mut value: Value) {
        self.version += 1;
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.watch.push_back(Change::Applied(object(reference, &value)));
        self.objects.insert(reference.clone(), value);
    }

    fn remove(&mut self, reference: &Ref, value: &Value) {
        self.version += 1;
        let mut value = value.clone();
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.watch.push_back(Change::Deleted(object(reference, &value)));
        self.objects.remove(reference);
    }

    fn answer(&self, target: &Target) -> Change {
        let reference = target.reference.clone();
        match self.objects.get(&reference) {
            Some(value) => Change::Applied(object(&reference, value)),
            None => Change::Gone { reference, uid: target.uid.clone() },
        }
    }

    /// Carries out one action, as the runtime does; `written` are the versions this plan has made.
    pub fn act(&mut self, action: &Action, written: &mut BTreeMap<Ref, String>) -> (Did, Option<Change>) {
        if action.is_write() && self.lives == Some(self.writes.len()) {
            return (Did::Died, None);
        }
        match action {
            Action::Trace(_) => (Did::Fine, None),
            Action::Emit(event) => {
                let kind = event.kind.as_str();
                self.told.push(format!("{kind} {} on {}", event.reason, event.regarding));
                (Did::Fine, None)
            }
            Action::ConfirmAbsent { reference, uid } => match self.objects.get(reference) {
                Some(value) => {
                    let there = uid.is_none() || value["metadata"]["uid"].as_str() == uid.as_deref();
                    let change = Change::Applied(object(reference, value));
                    (if there { Did::Stale } else { Did::Fine }, Some(change))
                }
                None => (Did::Fine, None),
            },
            Action::Create { .. } => panic!("the core creates nothing (contract §3)"),
            Action::Patch { target, .. } | Action::Delete { target } => {
                assert!(!target.uid.is_empty() && !target.resource_version.is_empty());
                let reference = &target.reference;
                if self.refuse.as_ref() == Some(reference) {
                    return (Did::Refused, None);
                }
                let version = written.get(reference).unwrap_or(&target.resource_version);
                let Some(old) = self.objects.get(reference).cloned() else {
                    return (Did::Stale, Some(self.answer(target)));
                };
                let meta = &old["metadata"];
                if meta["uid"] != target.uid.as_str() || meta["resourceVersion"] != version.as_str() {
                    return (Did::Stale, Some(Change::Applied(object(reference, &old))));
                }
                if let Action::Patch { status, body, .. } = action {
                    may_patch(reference, &old, *status, body);
                    let mut new = old.clone();
                    assert_eq!(*status, body.as_object().unwrap().contains_key("status"), "{body}");
                    merge(&mut new, body);
                    assert_ne!(old, new, "a write that changes nothing: {reference} {body}");
                    self.update(reference, &old, new);
                } else {
                    assert_eq!(reference.kind, Kind::Address, "nothing else is deleted");
                    assert_eq!(old["spec"]["reclaimPolicy"], "Delete", "Retain never deletes: {reference}");
                    self.delete(reference);
                }
                let verb = if matches!(action, Action::Delete { .. }) { "delete" } else { "patch" };
                let status =
                    if matches!(action, Action::Patch { status: true, .. }) { "/status" } else { "" };
                self.writes.push(format!("{verb} {reference}{status}"));
                written.insert(reference.clone(), self.version.to_string());
                (Did::Fine, Some(self.answer(target)))
            }
        }
    }

    /// Everything but versions and times.
    pub fn picture(&self) -> String {
        let mut text = String::new();
        for (reference, value) in &self.objects {
            let mut value = value.clone();
            value["metadata"]["resourceVersion"] = Value::Null;
            value["metadata"]["creationTimestamp"] = Value::Null;
            writeln!(text, "{reference} {value}").unwrap();
        }
        text
    }
}

/// What the core may write at all (contract §3).
fn may_patch(reference: &Ref, old: &Value, status: bool, body: &Value) {
    let mut new = old.clone();
    merge(&mut new, body);
    let others = |value: &Value| {
        let all = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let ours = |name: &Value| name.as_str().unwrap().ends_with("-protection");
        all.into_iter().filter(|name| !ours(name)).collect::<Vec<_>>()
    };
    assert_eq!(others(old), others(&new), "{reference}: somebody else's finalizer");
    let deleting = !old["metadata"]["deletionTimestamp"].is_null();
    let count = |value: &Value| value["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
    assert!(!deleting || count(&new) <= count(old), "{reference}: no finalizer on what is being deleted");
    if reference.kind == Kind::Address {
        let drivers =
            |value: &Value| ["Conflict", "Lost"].iter().any(|phase| value["status"]["phase"] == *phase);
        assert!(!drivers(&new) || old["status"]["phase"] == new["status"]["phase"]);
        assert!(!drivers(old) || old["status"]["phase"] == new["status"]["phase"]);
        let uid = &old["spec"]["claimRef"]["uid"];
        let unbound = uid.as_str().is_none_or(str::is_empty);
        assert!(unbound || old["spec"] == new["spec"], "{reference}: a binding is never turned round");
        for field in ["associatedTo", "lastHandoff", "associationHistory"] {
            assert_eq!(old["status"][field], new["status"][field]);
        }
    } else {
        assert_eq!(old["spec"], new["spec"], "{reference}: a claim's spec is the tenant's");
    }
    assert!(status || old["status"] == new["status"]);
}
