//! Objects as they come and go over the wire: paths, texts, and what is left out before one is kept.

use std::mem;

use api::{IPAddress, IPAddressClaim, IPAddressClass};
use k8s_openapi::api::core::v1;
use kube::Resource;
use kube::core::{DynamicObject, Request};
use plan::{Kind, Object, Ref};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::lean::Lean;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The requests for one collection.
pub(crate) fn collection(kind: Kind, namespace: Option<&str>) -> Request {
    let version = kind.api_version();
    let root = if version.contains('/') { "/apis" } else { "/api" };
    Request::new(match namespace {
        Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{}", kind.plural()),
        None => format!("{root}/{version}/{}", kind.plural()),
    })
}

/// The requests for the collection that an object is in.
pub(crate) fn collection_of(reference: &Ref) -> Request {
    collection(reference.kind, reference.namespace.as_deref())
}

/// An object from the server's text, trimmed.
pub(crate) fn decode(kind: Kind, text: &str) -> Result<Object, serde_json::Error> {
    Ok(match kind {
        Kind::Class => parse::<IPAddressClass>(kind, text)?.into(),
        Kind::Address => parse::<IPAddress>(kind, text)?.into(),
        Kind::Claim => parse::<IPAddressClaim>(kind, text)?.into(),
        Kind::Service => parse::<v1::Service>(kind, text)?.into(),
        Kind::Namespace => parse::<v1::Namespace>(kind, text)?.into(),
        Kind::Event => parse::<v1::Event>(kind, text)?.into(),
        Kind::Pool => parse::<DynamicObject>(kind, text)?.into(),
    })
}

fn parse<K: DeserializeOwned + Resource>(kind: Kind, text: &str) -> Result<K, serde_json::Error> {
    Ok(trimmed(kind, serde_json::from_str(text)?))
}

/// Leaves out what no decision reads, before an object is kept: it is most of an object's memory. Who wrote
/// last, and when, stays on Services (contract §11 names the field manager of a foreign edit); which fields, does not.
pub(crate) fn trimmed<K: Resource>(kind: Kind, Lean(mut object): Lean<K>) -> K {
    let meta = object.meta_mut();
    if kind != Kind::Service {
        meta.managed_fields = None;
    }
    if let Some(entries) = &mut meta.managed_fields {
        for entry in entries {
            mem::take(&mut entry.fields_type);
            mem::take(&mut entry.api_version);
        }
    }
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
    object
}

/// The answer to a delete: the last words about the object, or a `Status`.
#[derive(Deserialize)]
pub(crate) struct Answer {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: AnswerMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerMeta {
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
    #[serde(default)]
    finalizers: Vec<String>,
}

impl Answer {
    /// Whether a delete with this answer was the object's end, not the beginning of it.
    pub(crate) fn is_gone(&self) -> bool {
        let meta = &self.metadata;
        self.kind == "Status"
            || meta.deletion_timestamp.is_none()
            || (meta.finalizers.is_empty() && meta.deletion_grace_period_seconds.unwrap_or_default() == 0)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(r#"{"kind":"Status","status":"Success"}"#, true)]
    #[case(r#"{"kind":"Service","metadata":{"name":"a"}}"#, true)]
    #[case(
        r#"{"kind":"Service","metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["x"]}}"#,
        false
    )]
    #[case(
        r#"{"kind":"Service","metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0}}"#,
        true
    )]
    fn which_answers_mean_gone(#[case] text: &str, #[case] gone: bool) {
        assert_eq!(serde_json::from_str::<Answer>(text).unwrap().is_gone(), gone);
    }

    #[test]
    fn kept_objects_are_trimmed() {
        let text = r#"{"metadata":{"name":"a","annotations":{"k":"v",
            "kubectl.kubernetes.io/last-applied-configuration":"{}"},
            "managedFields":[{"manager":"m","operation":"Update","fieldsV1":{"f:spec":{}}}]}}"#;
        let object = decode(Kind::Service, text).unwrap();
        let meta = object.meta();
        assert_eq!(meta.annotations.as_ref().unwrap().len(), 1);
        let entries = meta.managed_fields.as_ref().unwrap();
        assert_eq!((entries[0].manager.as_deref(), &entries[0].fields_v1), (Some("m"), &None));
    }
}
