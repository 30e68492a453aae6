//! Objects read from the server's text without what is never kept.
//!
//! Half of an object's text says who wrote which field. As a tree of JSON values it would cost more time and memory than all
//! the rest, only to be dropped at once: so it is passed over as it is read. The rest that is not kept, [`wire::trimmed`](crate::wire::trimmed) drops.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer as _, MapAccess,
    SeqAccess, Visitor,
};

/// What to do with the value of a key: nothing is said of most of them.
enum Rule {
    /// It is passed over; whoever asks for it finds null.
    Skip,
    /// So within it; within each member, if it is an array.
    Within(Rules),
}

type Rules = &'static [(&'static str, Rule)];

const OBJECT: Rules =
    &[("metadata", Rule::Within(&[("managedFields", Rule::Within(&[("fieldsV1", Rule::Skip)]))]))];

/// An object without the fields of its `managedFields`.
#[derive(Clone, Debug)]
pub(crate) struct Lean<K>(pub(crate) K);

impl<'de, K: Deserialize<'de>> Deserialize<'de> for Lean<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ruled { inner: PhantomData::<K>, rules: OBJECT }.deserialize(deserializer).map(Self)
    }
}

impl<K: Resource> Resource for Lean<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

/// A visitor, a seed or an access to which rules apply.
struct Ruled<T> {
    inner: T,
    rules: Rules,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Ruled<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.inner.deserialize(Source(Ruled { inner: deserializer, rules: self.rules }))
    }
}

/// A deserializer to whose value rules apply.
struct Source<D>(Ruled<D>);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Source<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.inner.deserialize_any(Ruled { inner: visitor, rules: self.0.rules })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.inner.deserialize_option(Ruled { inner: visitor, rules: self.0.rules })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Ruled<V> {
    type Value = V::Value;

    fn expecting(&self, words: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(words)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Keys { map, rules: self.rules, next: None })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Ruled { inner: seq, rules: self.rules })
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Source(Ruled { inner: deserializer, rules: self.rules }))
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<V::Value, E> {
        self.inner.visit_bool(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
        self.inner.visit_i64(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        self.inner.visit_u64(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        self.inner.visit_f64(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<V::Value, E> {
        self.inner.visit_str(value)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Ruled<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_element_seed(Ruled { inner: seed, rules: self.rules })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// A map with rules for some of its keys.
struct Keys<A> {
    map: A,
    rules: Rules,
    /// The rule of the value that comes next.
    next: Option<&'static Rule>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Keys<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.map.next_key_seed(Key { seed, rules: self.rules, found: &mut self.next })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.next.take() {
            None => self.map.next_value_seed(seed),
            Some(Rule::Skip) => {
                self.map.next_value::<IgnoredAny>()?;
                seed.deserialize(().into_deserializer())
            }
            Some(Rule::Within(rules)) => self.map.next_value_seed(Ruled { inner: seed, rules }),
        }
    }
}

/// A key, looked up on its way.
struct Key<'a, S> {
    seed: S,
    rules: Rules,
    found: &'a mut Option<&'static Rule>,
}

impl<S> Key<'_, S> {
    fn look_up(&mut self, key: &str) {
        *self.found = self.rules.iter().find(|(name, _)| *name == key).map(|(_, rule)| rule);
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Key<'_, S> {
    type Value = S::Value;

    fn expecting(&self, words: &mut fmt::Formatter<'_>) -> fmt::Result {
        words.write_str("a key")
    }

    fn visit_str<E: Error>(mut self, key: &str) -> Result<S::Value, E> {
        self.look_up(key);
        self.seed.deserialize(StrDeserializer::new(key))
    }

    fn visit_borrowed_str<E: Error>(mut self, key: &'de str) -> Result<S::Value, E> {
        self.look_up(key);
        self.seed.deserialize(BorrowedStrDeserializer::new(key))
    }
}

#[cfg(test)]
mod tests {
    use api::IPAddress;
    use k8s_openapi::api::core::v1::Service;
    use kube::core::WatchEvent;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn meta() -> Value {
        json!({
            "name": "a", "namespace": "b", "resourceVersion": "7", "labels": { "fieldsV1": "kept", "metadata": "kept" },
            "managedFields": [
                { "manager": "m", "operation": "Update", "subresource": "status", "fieldsType": "FieldsV1",
                  "fieldsV1": { "f:metadata": { "f:labels": { ".": {}, "f:x": {} } } } },
                { "manager": "n", "fieldsV1": null },
            ],
        })
    }

    /// As read whole, but for the fields.
    fn is_lean<K: DeserializeOwned + Resource + Clone + PartialEq + fmt::Debug>(object: &Value) {
        let mut whole: K = serde_json::from_value(object.clone()).unwrap();
        for entry in whole.meta_mut().managed_fields.iter_mut().flatten() {
            entry.fields_v1 = None;
        }
        assert_eq!(whole.meta().managed_fields.as_ref().map(Vec::len), Some(2));
        let text = object.to_string();
        assert_eq!(serde_json::from_str::<Lean<K>>(&text).unwrap().0, whole);
        assert_eq!(serde_json::from_slice::<Lean<K>>(text.as_bytes()).unwrap().0, whole);
        let event = json!({ "type": "MODIFIED", "object": object }).to_string();
        let event: WatchEvent<Lean<K>> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Modified(Lean(told)) = event else { panic!("{event:?}") };
        assert_eq!(told, whole);
    }

    #[test]
    fn only_the_fields_of_managers_are_passed_over() {
        let spec = json!({ "className": "c", "address": "192.0.2.1", "source": { "fromClass": {} } });
        is_lean::<IPAddress>(&json!({ "apiVersion": "v", "kind": "k", "metadata": meta(), "spec": spec }));
        let spec = json!({ "ports": [{ "port": 80 }], "selector": { "managedFields": "kept" } });
        let status = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } });
        is_lean::<Service>(&json!({ "metadata": meta(), "spec": spec, "status": status }));
    }

    #[test]
    fn what_is_not_there_or_null_is_no_fault() {
        for metadata in [json!({}), json!({ "managedFields": null }), json!({ "managedFields": [] })] {
            let text = json!({ "metadata": metadata }).to_string();
            serde_json::from_str::<Lean<Service>>(&text).unwrap();
        }
        let wrong = serde_json::from_str::<Lean<Service>>(r#"{"metadata":{"managedFields":[3]}}"#);
        assert!(wrong.unwrap_err().to_string().contains("invalid type: integer `3`"));
    }
}
