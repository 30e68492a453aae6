//! Rules of `IPAddressClaim`.

use serde_json::{Value, json};

use super::class::condition;
use super::{Accepted, Kind, Refused, Row, Verdict};

const CLASS_FIXED: Verdict = Refused("spec.className cannot be changed once the claim is bound");
const NAME_FIXED: Verdict = Refused("spec.addressName cannot be changed once set");
const ONLY_WIDER: Verdict = Refused("spec.family can only be widened to Dual");
const NOT_DUAL: Verdict = Refused("spec.addressName names one address and cannot be used with family Dual");

fn claim(name: &'static str, spec: Value, verdict: Verdict) -> Row {
    Row::new(Kind::Claim, name, spec, verdict)
}

pub fn rows() -> Vec<Row> {
    let mut rows = specs();
    rows.extend(families());
    rows.extend(address_names());
    rows.extend(class_names());
    rows.extend(statuses());
    rows
}

fn specs() -> Vec<Row> {
    vec![
        claim("nothing asked for but an address", json!({}), Accepted),
        claim("everything", json!({ "className": "pub", "family": "IPv6", "addressName": "ip-x" }), Accepted),
        claim("both families", json!({ "family": "Dual" }), Accepted),
        // A template renders an empty value as null.
        claim("nulls for all that is optional", json!({ "className": null, "addressName": null }), Accepted),
        claim("both families and a null name", json!({ "family": "Dual", "addressName": null }), Accepted),
        claim("a null family", json!({ "family": null }), Accepted),
        claim("another family", json!({ "family": "IPv5" }), Refused("\"IPv5\"")),
        claim("a class without a name", json!({ "className": "" }), Refused("at least 1 chars long")),
        claim("an address without a name", json!({ "addressName": "" }), Refused("at least 1 chars long")),
        claim("one address for two families", json!({ "family": "Dual", "addressName": "ip-x" }), NOT_DUAL),
    ]
}

fn families() -> Vec<Row> {
    let from = |name, family: &str, to: Value, verdict| {
        claim(name, json!({ "family": family }), verdict).then(json!({ "spec": { "family": to } }))
    };
    vec![
        from("IPv4 to Dual", "IPv4", json!("Dual"), Accepted),
        from("IPv6 to Dual", "IPv6", json!("Dual"), Accepted),
        from("IPv4 to IPv6", "IPv4", json!("IPv6"), ONLY_WIDER),
        from("IPv6 to IPv4", "IPv6", json!("IPv4"), ONLY_WIDER),
        from("IPv6 to the default", "IPv6", Value::Null, ONLY_WIDER),
        from("IPv4 to the default, which it is", "IPv4", Value::Null, Accepted),
        from("Dual to IPv4", "Dual", json!("IPv4"), ONLY_WIDER),
        from("Dual to IPv6", "Dual", json!("IPv6"), ONLY_WIDER),
        from("Dual to the default", "Dual", Value::Null, ONLY_WIDER),
        claim("widened with a name", json!({ "addressName": "ip-x" }), NOT_DUAL)
            .then(json!({ "spec": { "family": "Dual" } })),
    ]
}

fn address_names() -> Vec<Row> {
    let named = |name, to: Value, verdict| {
        claim(name, json!({ "addressName": "ip-x" }), verdict).then(json!({ "spec": { "addressName": to } }))
    };
    vec![
        claim("a name later", json!({}), Accepted).then(json!({ "spec": { "addressName": "ip-x" } })),
        claim("a name later, for two families", json!({ "family": "Dual" }), NOT_DUAL)
            .then(json!({ "spec": { "addressName": "ip-x" } })),
        named("another name", json!("ip-y"), NAME_FIXED),
        named("no name any more", Value::Null, NAME_FIXED),
        named("the same name", json!("ip-x"), Accepted),
        claim("a name after a null one", json!({ "addressName": null }), Accepted)
            .then(json!({ "spec": { "addressName": "ip-x" } })),
    ]
}

fn class_names() -> Vec<Row> {
    let to = |name, status: Option<&str>, from: Value, to: Value, verdict| {
        let row = claim(name, from, verdict).then(json!({ "spec": { "className": to } }));
        match status {
            Some(phase) => row.with_status(json!({ "phase": phase })),
            None => row,
        }
    };
    let a = || json!({ "className": "a" });
    vec![
        to("another class before anybody looked", None, a(), json!("b"), Accepted),
        to("another class while waiting", Some("Pending"), a(), json!("b"), Accepted),
        to("no class while waiting", Some("Pending"), a(), Value::Null, Accepted),
        to("a class while waiting", Some("Pending"), json!({}), json!("b"), Accepted),
        to("another class when bound", Some("Bound"), a(), json!("b"), CLASS_FIXED),
        to("no class when bound", Some("Bound"), a(), Value::Null, CLASS_FIXED),
        to("a class when bound to the default", Some("Bound"), json!({}), json!("b"), CLASS_FIXED),
        to("the same class when bound", Some("Bound"), a(), json!("a"), Accepted),
        to("a class after a null one", Some("Bound"), json!({ "className": null }), json!("b"), CLASS_FIXED),
        to(
            "null, which it is, when bound",
            Some("Bound"),
            json!({ "className": null }),
            Value::Null,
            Accepted,
        ),
        to("another class when lost", Some("Lost"), a(), json!("b"), CLASS_FIXED),
        claim("wider when bound, as the class stays", json!({ "className": "a" }), Accepted)
            .with_status(json!({ "phase": "Bound" }))
            .then(json!({ "spec": { "family": "Dual" } })),
    ]
}

fn statuses() -> Vec<Row> {
    let status = |name, status, verdict| {
        claim(name, json!({}), verdict)
            .with_status(status)
            .then(json!({ "metadata": { "labels": { "a": "b" } } }))
    };
    vec![
        status(
            "a status as the core writes it",
            json!({
                "phase": "Bound", "className": "pub", "observedGeneration": 1,
                "addresses": [{ "name": "ip-203-0-113-7", "address": "203.0.113.7" }],
                "conditions": [condition("ClassResolved"), condition("Bound"), condition("Ready")],
            }),
            Accepted,
        ),
        status("another phase", json!({ "phase": "Released" }), Refused("\"Released\"")),
        status(
            "an address without a name",
            json!({ "addresses": [{ "address": "x" }] }),
            Refused("name: Required"),
        ),
        status(
            "one condition twice",
            json!({ "conditions": [condition("Ready"), condition("Ready")] }),
            Refused("Duplicate value"),
        ),
    ]
}
