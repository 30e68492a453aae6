//! Rules of `IPAddressClass`.

use serde_json::{Value, json};

use super::{Accepted, Kind, Refused, Row, Verdict};

fn class(name: &'static str, spec: Value, verdict: Verdict) -> Row {
    Row::new(Kind::Class, name, spec, verdict)
}

fn valid() -> Value {
    json!({ "provisioner": "metallb.drivers.local.sdn.cozystack.io", "parameters": { "pool": "reserved" } })
}

pub fn rows() -> Vec<Row> {
    let changed = |name, change, verdict| class(name, valid(), verdict).then(change);
    let status = |name, status, verdict| {
        class(name, valid(), verdict)
            .with_status(status)
            .then(json!({ "metadata": { "labels": { "a": "b" } } }))
    };
    vec![
        class("a class as documented", valid(), Accepted),
        class("no provisioner", json!({}), Refused("spec.provisioner: Required value")),
        class("an empty provisioner", json!({ "provisioner": "" }), Refused("at least 1 chars long")),
        class("a provisioner too long", json!({ "provisioner": "p".repeat(254) }), Refused("Too long")),
        class("policy Delete", json!({ "provisioner": "p", "reclaimPolicy": "Delete" }), Accepted),
        class(
            "another policy",
            json!({ "provisioner": "p", "reclaimPolicy": "Recycle" }),
            Refused("\"Recycle\""),
        ),
        class(
            "parameters of any shape",
            json!({ "provisioner": "p", "parameters": { "a": { "b": [1, "two", null] } } }),
            Accepted,
        ),
        class("null parameters", json!({ "provisioner": "p", "parameters": null }), Accepted),
        class(
            "parameters that are no object",
            json!({ "provisioner": "p", "parameters": "pool" }),
            Refused("spec.parameters"),
        ),
        changed(
            "another provisioner",
            json!({ "spec": { "provisioner": "another" } }),
            Refused("spec.provisioner cannot be changed"),
        ),
        changed("another policy later", json!({ "spec": { "reclaimPolicy": "Delete" } }), Accepted),
        changed("another pool", json!({ "spec": { "parameters": { "pool": "another" } } }), Accepted),
        changed("no parameters any more", json!({ "spec": { "parameters": null } }), Accepted),
        status(
            "a status as the driver writes it",
            json!({
                "loadBalancerClass": "metallb", "pool": "reserved", "observedGeneration": 1,
                "conditions": [condition("Accepted"), condition("Ready")],
            }),
            Accepted,
        ),
        status(
            "one condition twice",
            json!({ "conditions": [condition("Ready"), condition("Ready")] }),
            Refused("Duplicate value"),
        ),
    ]
}

/// A condition of this type.
pub fn condition(kind: &str) -> Value {
    json!({
        "type": kind, "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}
