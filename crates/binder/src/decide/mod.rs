//! The decisions, in the order of the contract.

pub mod address;
pub mod claim;
pub mod reclaim;
mod seek;
mod status;
mod trace;
mod words;

use kube::core::ObjectMeta;
use serde_json::{Map, Value};

/// The finalizers of an object with ours among them; none if it is there already.
fn with_finalizer(meta: &ObjectMeta, ours: &str) -> Option<Vec<String>> {
    let mut finalizers = meta.finalizers.clone().unwrap_or_default();
    if finalizers.iter().any(|finalizer| finalizer == ours) {
        return None;
    }
    finalizers.push(ours.to_owned());
    Some(finalizers)
}

/// The finalizers of an object without ours; none if it is not there.
fn without_finalizer(meta: &ObjectMeta, ours: &str) -> Option<Vec<String>> {
    let finalizers = meta.finalizers.as_ref()?;
    let rest: Vec<String> = finalizers.iter().filter(|finalizer| *finalizer != ours).cloned().collect();
    (rest.len() != finalizers.len()).then_some(rest)
}

/// An object with one field.
fn field(name: &str, value: impl Into<Value>) -> Value {
    Value::Object(std::iter::once((name.to_owned(), value.into())).collect::<Map<_, _>>())
}
