//! An API server, as far as plans can tell it from a real one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use api::ServiceKey;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Service;
use plan::{Call, Change, Kind, Object, Ref, Reply, Verdict};
use serde_json::{Map, Value, json};

use crate::{defaults, rules};

/// Why a write was not done.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// Somebody else was faster (404, 409, or a uid of another incarnation).
    Stale(String),
    /// The server will not have it (403, 422).
    Refused(String),
}

impl From<Refusal> for Verdict {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Stale(words) => Self::Stale(words),
            Refusal::Refused(words) => Self::Refused { words, quiet: false },
        }
    }
}

/// What a write left.
#[derive(Clone, Debug)]
pub enum Answer {
    Object(Object),
    Gone { uid: String },
}

/// uid and resourceVersion that a write must find.
pub type Precondition<'a> = Option<(&'a str, &'a str)>;

#[derive(Clone)]
struct Stored {
    value: Value,
    object: Object,
}

#[derive(Clone, Default)]
pub struct Server {
    objects: BTreeMap<Ref, Stored>,
    version: u64,
    born: u64,
    clock: Timestamp,
    /// Watch events that the driver has not seen yet.
    pub watch: VecDeque<Change>,
    /// What MetalLB and the core have not looked at yet.
    pub touched: Vec<Ref>,
    /// Namespaces whose quota refuses another `LoadBalancer` Service.
    pub full_namespaces: BTreeSet<String>,
    /// Namespaces that are to go: nothing is created there any more.
    pub ending_namespaces: BTreeSet<String>,
    /// Those that went.
    gone_namespaces: BTreeSet<String>,
    /// Whether any object ever had an owner.
    pub has_owned: bool,
    /// Whether the cluster has no IPv6.
    pub without_v6: bool,
    /// The sharing keys that Services ever had.
    pub keys_worn: BTreeSet<String>,
}

impl Server {
    pub fn new() -> Self {
        Self { clock: "2026-11-29T12:00:00Z".parse().unwrap(), version: 100, ..Self::default() }
    }

    pub fn now(&self) -> Timestamp {
        self.clock
    }

    pub fn pass(&mut self, time: SignedDuration) {
        self.clock += time;
    }

    pub fn get(&self, reference: &Ref) -> Option<&Object> {
        self.objects.get(reference).map(|stored| &stored.object)
    }

    /// The Service of that name.
    pub fn service(&self, key: &ServiceKey) -> Option<&Arc<Service>> {
        match self.get(&Ref::service(key)) {
            Some(Object::Service(service)) => Some(service),
            _ => None,
        }
    }

    pub fn value(&self, reference: &Ref) -> Option<&Value> {
        self.objects.get(reference).map(|stored| &stored.value)
    }

    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.objects.values().map(|stored| &stored.object).filter(move |object| object.kind() == kind)
    }

    /// Whatever is there, in the order of its names.
    pub fn everything(&self) -> impl Iterator<Item = &Object> {
        self.objects.values().map(|stored| &stored.object)
    }

    pub fn create(&mut self, object: &Object) -> Result<Object, Refusal> {
        let reference = object.reference();
        if self.objects.contains_key(&reference) {
            return Err(Refusal::Stale(format!("{reference} already exists")));
        }
        let namespace = reference.namespace.clone().unwrap_or_default();
        if self.ending_namespaces.contains(&namespace) && reference.kind != Kind::Event {
            return Err(Refusal::Refused(format!("namespace {namespace} is being terminated")));
        }
        if self.gone_namespaces.contains(&namespace) {
            return Err(Refusal::Stale(format!("namespace {namespace} not found")));
        }
        let mut value = encode(object);
        let fields = value.as_object_mut().unwrap();
        if !matches!(reference.kind, Kind::Event | Kind::Namespace) {
            fields.remove("status");
        }
        self.born += 1;
        let meta = fields["metadata"].as_object_mut().unwrap();
        meta.insert("uid".into(), json!(format!("00000000-0000-4000-8000-{:012}", self.born)));
        let seconds = Timestamp::from_second(self.clock.as_second()).unwrap();
        meta.insert("creationTimestamp".into(), json!(seconds));
        if counts_generations(reference.kind) {
            meta.insert("generation".into(), json!(1));
        }
        if reference.kind == Kind::Service {
            defaults::service(None, &mut value, !self.without_v6).map_err(Refusal::Refused)?;
            self.count(&namespace, None, &value)?;
        } else {
            if reference.kind == Kind::Namespace {
                value["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(reference.name);
                self.gone_namespaces.remove(&reference.name);
            }
            rules::check(reference.kind, None, &mut value).map_err(Refusal::Refused)?;
        }
        Ok(self.put(reference, value))
    }

    /// A merge patch, of the status subresource or of everything else.
    pub fn patch(
        &mut self,
        reference: &Ref,
        status: bool,
        body: &Value,
        precondition: Precondition<'_>,
    ) -> Result<Answer, Refusal> {
        // Through the status of our own kinds nobody's uid is looked at.
        let by_uid = !status || reference.kind == Kind::Service;
        let old = self.find(reference, precondition, by_uid)?.clone();
        let mut new = old.clone();
        if status {
            let mut content = old.get("status").cloned().unwrap_or(Value::Null);
            merge(&mut content, &body["status"]);
            restore(&mut new, "status", Some(&content));
            // Of a Service, the metadata too.
            if let (Kind::Service, Some(meta)) = (reference.kind, body.get("metadata")) {
                merge(&mut new["metadata"], meta);
            }
        } else {
            merge(&mut new, body);
            restore(&mut new, "status", old.get("status"));
        }
        if new["metadata"].get("deletionTimestamp") != old["metadata"].get("deletionTimestamp") {
            return Err(Refusal::Refused(format!(
                "{reference}: metadata.deletionTimestamp: field is immutable"
            )));
        }
        let meta = new["metadata"].as_object_mut().unwrap();
        for name in ["uid", "creationTimestamp", "generation", "deletionTimestamp", "name", "namespace"] {
            match old["metadata"].get(name) {
                Some(value) => meta.insert(name.into(), value.clone()),
                None => meta.remove(name),
            };
        }
        for name in ["finalizers", "labels", "annotations", "ownerReferences"] {
            if meta.get(name).is_some_and(is_empty) {
                meta.remove(name);
            }
        }
        meta.insert("resourceVersion".into(), old["metadata"]["resourceVersion"].clone());
        let deleting = old["metadata"].get("deletionTimestamp").is_some();
        if deleting && finalizers(&new).iter().any(|name| !finalizers(&old).contains(name)) {
            let words = format!("{reference}: no new finalizers can be added if the object is being deleted");
            return Err(Refusal::Refused(words));
        }
        if reference.kind != Kind::Service {
            rules::check(reference.kind, Some(&old), &mut new).map_err(Refusal::Refused)?;
        } else if status {
            defaults::service_status(&new).map_err(Refusal::Refused)?;
        } else {
            defaults::service(Some(&old), &mut new, !self.without_v6).map_err(Refusal::Refused)?;
            self.count(reference.namespace.as_deref().unwrap_or_default(), Some(&old), &new)?;
        }
        if new == old {
            return Ok(Answer::Object(self.objects[reference].object.clone()));
        }
        if new.get("spec") != old.get("spec") {
            next_generation(&mut new);
        }
        if deleting && !is_held(reference.kind, &new) {
            return Ok(self.remove(reference, new));
        }
        Ok(Answer::Object(self.put(reference.clone(), new)))
    }

    /// The quota: on what is made, and on what becomes a load balancer.
    fn count(&self, namespace: &str, old: Option<&Value>, new: &Value) -> Result<(), Refusal> {
        let is_one = |service: &Value| service["spec"]["type"] == "LoadBalancer";
        if is_one(new) && !old.is_some_and(is_one) && self.full_namespaces.contains(namespace) {
            return Err(Refusal::Refused("exceeded quota: services.loadbalancers".to_owned()));
        }
        Ok(())
    }

    pub fn delete(&mut self, reference: &Ref, precondition: Precondition<'_>) -> Result<Answer, Refusal> {
        let mut value = self.find(reference, precondition, true)?.clone();
        if !is_held(reference.kind, &value) {
            return Ok(self.remove(reference, value));
        }
        if value["metadata"].get("deletionTimestamp").is_some() {
            return Ok(Answer::Object(self.objects[reference].object.clone()));
        }
        let seconds = Timestamp::from_second(self.clock.as_second()).unwrap();
        value["metadata"]["deletionTimestamp"] = json!(seconds);
        next_generation(&mut value);
        if reference.kind == Kind::Namespace {
            value["status"]["phase"] = json!("Terminating");
            self.ending_namespaces.insert(reference.name.clone());
        }
        Ok(Answer::Object(self.put(reference.clone(), value)))
    }

    /// Ends a namespace that is to go, when nothing is in it.
    pub fn end_namespace(&mut self, name: &str) {
        let reference = Ref { kind: Kind::Namespace, namespace: None, name: name.to_owned() };
        if let Some(value) = self.value(&reference).cloned() {
            self.remove(&reference, value);
        }
        self.ending_namespaces.remove(name);
        self.gone_namespaces.insert(name.to_owned());
    }

    /// Carries out a call that writes. An Event is nobody's object here, and a read writes nothing.
    pub fn write(&mut self, call: &Call) -> Option<Result<Answer, Refusal>> {
        Some(match call {
            Call::Create(object) => self.create(object).map(Answer::Object),
            Call::Patch { reference, status, body } => {
                let meta = &body["metadata"];
                let precondition = meta["uid"].as_str().zip(meta["resourceVersion"].as_str());
                self.patch(reference, *status, body, precondition)
            }
            Call::Delete { reference, uid, resource_version } => {
                let precondition = (!uid.is_empty()).then_some((uid.as_str(), resource_version.as_str()));
                self.delete(reference, precondition)
            }
            Call::Read(_) | Call::Tell(_) | Call::Trace(_) => return None,
        })
    }

    /// What the server answers to a read.
    pub fn read(&self, reference: &Ref) -> Reply {
        self.get(reference).map_or(Reply::Absent, |object| Reply::Object(object.clone()))
    }

    fn find(&self, reference: &Ref, precondition: Precondition<'_>, by_uid: bool) -> Result<&Value, Refusal> {
        let Some(stored) = self.objects.get(reference) else {
            return Err(Refusal::Stale(format!("{reference} not found")));
        };
        let meta = stored.object.meta();
        if let Some((uid, version)) = precondition {
            assert!(!uid.is_empty() && !version.is_empty(), "{reference}: empty precondition");
            if by_uid && meta.uid.as_deref() != Some(uid) {
                return Err(Refusal::Stale(format!("{reference} is another one of that name")));
            }
            if meta.resource_version.as_deref() != Some(version) {
                return Err(Refusal::Stale(format!("{reference} has been modified")));
            }
        }
        Ok(&stored.value)
    }

    fn put(&mut self, reference: Ref, mut value: Value) -> Object {
        self.version += 1;
        value["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = decode(reference.kind, &value);
        self.has_owned |= object.meta().owner_references.is_some();
        let key = value["metadata"]["annotations"].get(api::wellknown::metallb::SHARE);
        self.keys_worn.extend(key.and_then(Value::as_str).map(str::to_owned));
        self.watch.push_back(Change::Applied(object.clone()));
        self.touched.push(reference.clone());
        self.objects.insert(reference, Stored { value, object: object.clone() });
        object
    }

    fn remove(&mut self, reference: &Ref, mut value: Value) -> Answer {
        self.version += 1;
        value["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = decode(reference.kind, &value);
        let uid = object.meta().uid.clone().unwrap_or_default();
        self.watch.push_back(Change::Deleted(object));
        self.touched.push(reference.clone());
        self.objects.remove(reference);
        Answer::Gone { uid }
    }
}

/// The kinds defined by a `CustomResourceDefinition` do.
fn counts_generations(kind: Kind) -> bool {
    matches!(kind, Kind::Class | Kind::Address | Kind::Claim | Kind::Pool)
}

fn next_generation(value: &mut Value) {
    if let Some(generation) = value["metadata"]["generation"].as_i64() {
        value["metadata"]["generation"] = json!(generation + 1);
    }
}

fn restore(value: &mut Value, name: &str, content: Option<&Value>) {
    let fields = value.as_object_mut().unwrap();
    match content {
        Some(content) if !is_empty(content) => fields.insert(name.to_owned(), content.clone()),
        _ => fields.remove(name),
    };
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn finalizers(value: &Value) -> Vec<&str> {
    value["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether it stays when somebody deletes it, until whoever holds it lets go. A namespace is held by what is in it.
fn is_held(kind: Kind, value: &Value) -> bool {
    kind == Kind::Namespace || !finalizers(value).is_empty()
}

/// RFC 7386.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let fields = target.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

pub fn encode(object: &Object) -> Value {
    serde_json::to_value(object).unwrap()
}

pub fn decode(kind: Kind, value: &Value) -> Object {
    try_decode(kind, value).unwrap_or_else(|error| panic!("{error}: {value:#}"))
}

/// The object, if its fields have the types that its kind gives them.
///
/// # Errors
/// What is wrong with a field.
pub fn try_decode(kind: Kind, value: &Value) -> Result<Object, String> {
    fn read<T: serde::de::DeserializeOwned + Into<Object>>(value: &Value) -> Result<Object, String> {
        T::deserialize(value).map(Into::into).map_err(|error| error.to_string())
    }
    match kind {
        Kind::Class => read::<api::IPAddressClass>(value),
        Kind::Address => read::<api::IPAddress>(value),
        Kind::Claim => read::<api::IPAddressClaim>(value),
        Kind::Service => read::<k8s_openapi::api::core::v1::Service>(value),
        Kind::Namespace => read::<k8s_openapi::api::core::v1::Namespace>(value),
        Kind::Event => read::<k8s_openapi::api::core::v1::Event>(value),
        Kind::Pool => read::<kube::core::DynamicObject>(value),
    }
}
