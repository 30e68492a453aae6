//! What is looked at when the world is at rest: of both worlds by the same eyes.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Kind, Ref};
use serde_json::{Map, Value, json};

/// Objects as the API server gives them.
pub type Snapshot = BTreeMap<Ref, Value>;

/// What controllers read of a Service's spec.
const READ: [&str; 9] = [
    "type",
    "externalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "selector",
    "loadBalancerClass",
    "allocateLoadBalancerNodePorts",
    "loadBalancerIP",
    "externalIPs",
];

/// The world, as far as the sequence made it. `before`: at rest after the action before; `events`: MetalLB's words.
pub fn seen(
    objects: &[Ref],
    before: &Snapshot,
    now: &Snapshot,
    events: &BTreeMap<Ref, BTreeSet<String>>,
) -> Value {
    let look = |reference: &Ref| match now.get(reference) {
        Some(object) => one(reference, before.get(reference), object, events.get(reference)),
        None => json!("absent"),
    };
    objects.iter().map(|reference| (reference.to_string(), look(reference))).collect::<Map<_, _>>().into()
}

fn one(reference: &Ref, before: Option<&Value>, now: &Value, events: Option<&BTreeSet<String>>) -> Value {
    let meta = &now["metadata"];
    let old = |name: &str| before.map_or(&Value::Null, |before| &before["metadata"][name]);
    let moved = |name: &str| match before {
        Some(_) if meta[name] != *old(name) => "moved",
        Some(_) => "the same",
        None => "new",
    };
    let mut shown = json!({
        "uid": moved("uid"),
        "generation": generation(&meta["generation"], moved("generation")),
        "deleting": meta.get("deletionTimestamp").is_some(),
        "finalizers": meta["finalizers"],
        "labels": meta["labels"],
        "annotations": meta["annotations"],
        "owners": meta["ownerReferences"].as_array().map(|owners| names(owners)),
    });
    // MetalLB's counters blink, and what else is written to a namespace is nobody's business here.
    if !matches!(reference.kind, Kind::Pool | Kind::Namespace) {
        shown["version"] = json!(moved("resourceVersion"));
    }
    match reference.kind {
        Kind::Service => {
            shown["spec"] = spec(&now["spec"]);
            let ingress = now["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
            shown["ingress"] = ingress.map(|entry| entry["ip"].clone()).collect();
            shown["events"] =
                json!(events.into_iter().flatten().map(|words| in_order(words)).collect::<BTreeSet<_>>());
        }
        Kind::Namespace => {}
        _ => {
            shown["spec"] = now["spec"].clone();
            shown["status"] = now["status"].clone();
        }
    }
    without_nothing(shown)
}

fn names(owners: &[Value]) -> Vec<&Value> {
    owners.iter().map(|owner| &owner["name"]).collect()
}

/// MetalLB names those who share an address in any order.
fn in_order(words: &str) -> String {
    let Some((before, names)) = words.split_once("also in use by ") else { return words.to_owned() };
    let names: BTreeSet<_> = names.split(',').collect();
    format!("{before}also in use by {}", names.into_iter().collect::<Vec<_>>().join(","))
}

/// Where a kind counts none, it counts none in both worlds.
fn generation(value: &Value, moved: &str) -> Value {
    if value.is_null() { Value::Null } else { json!(moved) }
}

fn spec(spec: &Value) -> Value {
    let mut shown: Map<String, Value> =
        READ.iter().map(|name| ((*name).to_owned(), spec[*name].clone())).collect();
    let ports = spec["ports"].as_array().into_iter().flatten();
    let ports = ports.map(|port| json!([port["name"], port["protocol"], port["port"], port["targetPort"]]));
    shown.insert("ports".into(), ports.collect());
    shown.insert("clusterIPs".into(), json!(spec["clusterIPs"].as_array().map(Vec::len)));
    shown.into()
}

/// Nothing and what is empty are the same to whoever reads.
fn without_nothing(value: Value) -> Value {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, without_nothing(value)));
            fields.filter(|(_, value)| !is_nothing(value)).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

/// Where two worlds differ: `path: one | other`.
pub fn difference(one: &Value, other: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk("", one, other, &mut found);
    found
}

fn walk(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<_> = left.keys().chain(right.keys()).collect();
            for name in names {
                walk(&format!("{path}/{name}"), &one[name], &other[name], found);
            }
        }
        _ if one == other => {}
        _ => found.push(format!("{path}: {one} | {other}")),
    }
}
