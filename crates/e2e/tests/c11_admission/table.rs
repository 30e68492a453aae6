//! The pools and who asks them for an address: what MetalLB answers, pair by pair.

use std::slice;

use api::wellknown::{driver, metallb};
use serde_json::{Value, json};

/// One of those who ask each pool of [`allocations`].
pub struct Asker {
    /// The namespace it lives in.
    pub namespace: &'static str,
    /// The labels of that namespace.
    pub namespace_labels: Value,
    /// The labels of its Services.
    pub labels: Value,
}

/// Who asks; the verdicts of [`allocations`] are in this order.
pub fn askers() -> [Asker; 4] {
    [
        Asker {
            namespace: "alloc-a",
            namespace_labels: json!({ "team": "a", "env": "prod" }),
            labels: json!({ "app": "web", "tier": "front", driver::ASSOCIATED: "true" }),
        },
        Asker {
            namespace: "alloc-b",
            namespace_labels: json!({ "team": "b" }),
            labels: json!({ "app": "db", driver::ASSOCIATED: "true" }),
        },
        Asker {
            namespace: "alloc-bare",
            namespace_labels: json!({}),
            labels: json!({ driver::ASSOCIATED: "true" }),
        },
        // A placeholder.
        Asker {
            namespace: "alloc-home",
            namespace_labels: json!({}),
            labels: json!({ driver::PLACEHOLDER: "true" }),
        },
    ]
}

/// A pool's `serviceAllocation`, and whom of [`askers`] MetalLB serves from it: `ab-h` means all but the third.
pub fn allocations() -> Vec<(&'static str, Value, &'static str)> {
    let equal = |key: &str, value: &str| json!({ "matchLabels": { key: value } });
    let one_of = |key: &str, operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
    let has =
        |key: &str, operator: &str| json!({ "matchExpressions": [{ "key": key, "operator": operator }] });
    let namespaces = |selectors: &[Value]| json!({ "namespaceSelectors": selectors });
    let services = |selectors: &[Value]| json!({ "serviceSelectors": selectors });
    let both = |one: Value, two: Value| {
        let mut all = one;
        all.as_object_mut().unwrap().extend(two.as_object().unwrap().clone());
        all
    };
    let names = |names: &[&str]| json!({ "namespaces": names });
    let mine = equal(driver::ASSOCIATED, "true");
    let holds = equal(driver::PLACEHOLDER, "true");
    vec![
        ("absent", Value::Null, "abch"),
        ("empty", json!({}), "abch"),
        ("priority", json!({ "priority": 7 }), "abch"),
        (
            "empty-lists",
            json!({ "namespaces": [], "namespaceSelectors": [], "serviceSelectors": [] }),
            "abch",
        ),
        ("name", names(&["alloc-a"]), "a---"),
        ("names", names(&["alloc-a", "alloc-b"]), "ab--"),
        ("name-unknown", names(&["alloc-gone"]), "----"),
        ("names-one-unknown", names(&["alloc-gone", "alloc-a"]), "a---"),
        ("name-priority", both(names(&["alloc-bare"]), json!({ "priority": 1 })), "--c-"),
        ("ns-equal", namespaces(&[equal("team", "a")]), "a---"),
        ("ns-in", namespaces(&[one_of("team", "In", &["a", "b"])]), "ab--"),
        ("ns-not-in", namespaces(&[one_of("team", "NotIn", &["a"])]), "-bch"),
        ("ns-exists", namespaces(&[has("team", "Exists")]), "ab--"),
        ("ns-absent", namespaces(&[has("team", "DoesNotExist")]), "--ch"),
        ("ns-by-name", namespaces(&[equal("kubernetes.io/metadata.name", "alloc-bare")]), "--c-"),
        ("ns-either", namespaces(&[equal("team", "b"), equal("env", "prod")]), "ab--"),
        (
            "ns-and",
            namespaces(&[json!({ "matchLabels": { "team": "a" }, "matchExpressions": [
            { "key": "env", "operator": "In", "values": ["prod", "test"] }] })]),
            "a---",
        ),
        ("ns-everything", namespaces(&[json!({})]), "abch"),
        // A selector that no namespace fits restricts nobody.
        ("ns-nobody", namespaces(&[equal("team", "z")]), "abch"),
        ("ns-nobody-and", namespaces(&[json!({ "matchLabels": { "team": "b", "env": "prod" } })]), "abch"),
        ("ns-nobody-twice", namespaces(&[equal("team", "z"), equal("team", "")]), "abch"),
        ("ns-nobody-but-name", both(names(&["alloc-a"]), namespaces(&[equal("team", "z")])), "a---"),
        (
            "ns-nobody-but-service",
            both(namespaces(&[equal("team", "z")]), services(&[equal("app", "web")])),
            "a---",
        ),
        ("ns-one-of-two", namespaces(&[equal("team", "z"), equal("team", "b")]), "-b--"),
        ("ns-and-name", both(names(&["alloc-a"]), namespaces(&[equal("team", "b")])), "ab--"),
        ("svc-equal", services(&[equal("app", "web")]), "a---"),
        ("svc-in", services(&[one_of("app", "In", &["web", "db"])]), "ab--"),
        ("svc-not-in", services(&[one_of("app", "NotIn", &["web"])]), "-bch"),
        ("svc-exists", services(&[has("app", "Exists")]), "ab--"),
        ("svc-absent", services(&[has("app", "DoesNotExist")]), "--ch"),
        ("svc-associated", services(slice::from_ref(&mine)), "abc-"),
        ("svc-placeholders", services(slice::from_ref(&holds)), "---h"),
        ("svc-ours", services(&[mine, holds]), "abch"),
        ("svc-everything", services(&[json!({})]), "abch"),
        ("svc-nobody", services(&[equal("app", "Web")]), "----"),
        ("svc-empty-value", services(&[equal("app", "")]), "----"),
        ("svc-and", services(&[json!({ "matchLabels": { "app": "web", "tier": "back" } })]), "----"),
        ("svc-either", services(&[equal("app", "db"), equal("tier", "front")]), "ab--"),
        ("name-and-svc", both(names(&["alloc-a", "alloc-b"]), services(&[equal("app", "db")])), "-b--"),
        (
            "ns-and-svc",
            both(namespaces(&[has("team", "Exists")]), services(&[has("tier", "DoesNotExist")])),
            "-b--",
        ),
    ]
}

/// What a pool consists of, what a Service of the first asker asks of it, and whether it is served.
pub struct Shape {
    /// The pool's name, and with a number the Services'.
    pub name: &'static str,
    /// `spec` of the pool.
    pub spec: Value,
    /// Annotations of the Service, with whether MetalLB serves it.
    pub asks: Vec<(Value, bool)>,
}

/// Pools of every shape.
pub fn shapes() -> Vec<Shape> {
    let pin = |ip: &str| json!({ metallb::PIN: ip });
    let pool = |name: &str| json!({ metallb::POOL: name });
    let shape = |name, spec, asks| Shape { name, spec, asks };
    let only = |namespace: &str| json!({ "namespaces": [namespace] });
    vec![
        shape(
            "buggy",
            json!({ "addresses": ["198.19.0.0/24"], "autoAssign": false, "avoidBuggyIPs": true }),
            vec![(pin("198.19.0.0"), false), (pin("198.19.0.255"), false), (pin("198.19.0.1"), true)],
        ),
        shape(
            "not-buggy",
            json!({ "addresses": ["198.19.1.0/24"], "autoAssign": false, "avoidBuggyIPs": false }),
            vec![(pin("198.19.1.0"), true), (pin("198.19.1.255"), true)],
        ),
        shape(
            "buggy-across",
            json!({ "addresses": ["198.19.2.254-198.19.3.1"], "avoidBuggyIPs": true }),
            vec![
                (pin("198.19.2.254"), true),
                (pin("198.19.2.255"), false),
                (pin("198.19.3.0"), false),
                (pin("198.19.3.1"), true),
            ],
        ),
        shape(
            "buggy-six",
            json!({ "addresses": ["2001:db8:ffff::/120"], "autoAssign": false, "avoidBuggyIPs": true }),
            vec![
                (pin("2001:db8:ffff::"), true),
                (pin("2001:db8:ffff::ff"), true),
                (pin("2001:db8:ffff::100"), false),
            ],
        ),
        shape(
            "unaligned",
            json!({ "addresses": ["198.19.4.9/29"], "autoAssign": false }),
            vec![
                (pin("198.19.4.8"), true),
                (pin("198.19.4.15"), true),
                (pin("198.19.4.16"), false),
                (pin("198.19.4.7"), false),
            ],
        ),
        shape(
            "several",
            json!({ "addresses": [" 198.19.5.2 - 198.19.5.3 ", "198.19.5.9/32", "2001:DB8:FFFF:5::1-2001:db8:ffff:5::2"] }),
            vec![
                (pin("198.19.5.2"), true),
                (pin("198.19.5.4"), false),
                (pin("198.19.5.9"), true),
                (pin("2001:db8:ffff:5:0:0:0:2"), true),
                (pin("2001:db8:ffff:5::3"), false),
            ],
        ),
        // IPv4 written as IPv6 is IPv4.
        shape(
            "mapped",
            json!({ "addresses": ["::ffff:198.19.9.0/126", "::ffff:198.19.9.8-198.19.9.9"], "autoAssign": false }),
            vec![
                (pin("198.19.9.0"), true),
                (pin("::ffff:198.19.9.3"), true),
                (pin("198.19.9.4"), false),
                (pin("198.19.9.9"), true),
            ],
        ),
        shape(
            "auto-only",
            json!({ "addresses": ["198.19.6.0/30"], "autoAssign": true, "serviceAllocation": only("alloc-b") }),
            vec![(pin("198.19.6.1"), false), (pool("auto-only"), false)],
        ),
        shape(
            "by-pool",
            json!({ "addresses": ["198.19.7.0/30"], "autoAssign": false, "serviceAllocation": only("alloc-a") }),
            vec![
                (pool("by-pool"), true),
                (json!({ metallb::POOL: "by-pool", metallb::PIN: "198.19.7.3" }), true),
            ],
        ),
        shape(
            "by-pool-not",
            json!({ "addresses": ["198.19.8.0/30"], "autoAssign": false, "serviceAllocation": only("alloc-b") }),
            vec![(pool("by-pool-not"), false)],
        ),
    ]
}
