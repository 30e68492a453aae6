//! Rules of `IPAddress`.

use serde_json::{Value, json};

use super::class::condition;
use super::{Accepted, Kind, Refused, Row, Verdict};

const NOT_CANONICAL: Verdict = Refused("must be one IP address in canonical form");

fn address(name: &'static str, spec: Value, verdict: Verdict) -> Row {
    Row::new(Kind::Address, name, spec, verdict)
}

fn valid() -> Value {
    json!({ "className": "pub", "address": "203.0.113.7", "source": { "fromClass": {} } })
}

/// A valid spec with one field replaced.
fn with(field: &str, value: Value) -> Value {
    let mut spec = valid();
    spec[field] = value;
    spec
}

pub fn spellings() -> Vec<Row> {
    let rows = [
        ("203.0.113.7", Accepted),
        ("0.0.0.0", Accepted),
        ("2001:db8::7", Accepted),
        ("2001:db8::", Accepted),
        ("::", Accepted),
        ("64:ff9b::cb00:7107", Accepted),
        // A1: other spellings of one IP.
        ("2001:DB8::7", NOT_CANONICAL),
        ("2001:0db8::7", NOT_CANONICAL),
        ("2001:db8:0:0:0:0:0:7", NOT_CANONICAL),
        ("2001:db8:0::7", NOT_CANONICAL),
        ("64:ff9b::203.0.113.7", NOT_CANONICAL),
        (" 203.0.113.7", NOT_CANONICAL),
        ("203.0.113.7 ", NOT_CANONICAL),
        ("203.0.113.7\n", NOT_CANONICAL),
        // A1: what is no IP at all.
        ("203.0.113.7,", NOT_CANONICAL),
        ("203.0.113.7,2001:db8::7", NOT_CANONICAL),
        ("203.0.113.8-203.0.113.9", NOT_CANONICAL),
        ("203.0.113.7/32", NOT_CANONICAL),
        ("2001:db8::/64", NOT_CANONICAL),
        ("203.0.113", NOT_CANONICAL),
        ("203.0.113.256", NOT_CANONICAL),
        ("203.0.113.7.1", NOT_CANONICAL),
        ("3405803783", NOT_CANONICAL),
        ("0xcb.0.113.7", NOT_CANONICAL),
        ("[2001:db8::7]", NOT_CANONICAL),
        ("2001:db8::7::", NOT_CANONICAL),
        ("fe80::1%eth0", NOT_CANONICAL),
        ("web.example.org", NOT_CANONICAL),
        ("\u{662}03.0.113.7", NOT_CANONICAL),
        // A2: leading zeros, and IPv4 dressed as IPv6.
        ("203.000.113.007", NOT_CANONICAL),
        ("010.0.0.1", NOT_CANONICAL),
        ("::ffff:203.0.113.7", NOT_CANONICAL),
        ("::ffff:cb00:7107", NOT_CANONICAL),
        ("::FFFF:203.0.113.7", NOT_CANONICAL),
        // The lengths that keep the rule cheap.
        ("", Refused("at least 2 chars long")),
        ("2001:0db8:0000:0000:0000:0000:203.000.113.0077", Refused("Too long")),
    ];
    let row = |(text, verdict)| address(text, with("address", json!(text)), verdict);
    rows.into_iter().map(row).collect()
}

pub fn rows() -> Vec<Row> {
    let mut rows = specs();
    rows.extend(changes());
    rows.extend(statuses());
    rows
}

fn specs() -> Vec<Row> {
    let source = |name, source, verdict| address(name, with("source", source), verdict);
    let claim = |name, claim, verdict| address(name, with("claimRef", claim), verdict);
    vec![
        address(
            "no address",
            json!({ "source": { "fromClass": {} } }),
            Refused("spec.address: Required value"),
        ),
        address("no source", json!({ "address": "203.0.113.7" }), Refused("spec.source: Required value")),
        address(
            "no class, as a static address may be",
            json!({ "address": "203.0.113.7", "source": { "fromClass": {} } }),
            Accepted,
        ),
        address("another policy", with("reclaimPolicy", json!("Recycle")), Refused("\"Recycle\"")),
        address("policy Delete", with("reclaimPolicy", json!("Delete")), Accepted),
        source("of a provider", json!({ "providerRef": { "id": "eip-1" } }), Accepted),
        source(
            "of a provider, and a null",
            json!({ "fromClass": null, "providerRef": { "id": "eip-1" } }),
            Accepted,
        ),
        source("two nulls", json!({ "fromClass": null, "providerRef": null }), Refused("exactly one of")),
        source("an empty source", json!({}), Refused("exactly one of fromClass and providerRef")),
        source(
            "both sources",
            json!({ "fromClass": {}, "providerRef": { "id": "eip-1" } }),
            Refused("exactly one of fromClass and providerRef"),
        ),
        source(
            "a provider without id",
            json!({ "providerRef": {} }),
            Refused("providerRef.id: Required value"),
        ),
        source(
            "a provider with an empty id",
            json!({ "providerRef": { "id": "" } }),
            Refused("at least 1 chars"),
        ),
        claim("a whole claimRef", json!({ "namespace": "a", "name": "web-ip", "uid": "u" }), Accepted),
        claim("a claimRef that waits for its uid", json!({ "namespace": "a", "name": "web-ip" }), Accepted),
        claim(
            "an empty uid counts as none",
            json!({ "namespace": "a", "name": "web-ip", "uid": "" }),
            Accepted,
        ),
        claim("no claim, by a null", Value::Null, Accepted),
        claim("no uid, by a null", json!({ "namespace": "a", "name": "web-ip", "uid": null }), Accepted),
        claim("no namespace", json!({ "name": "web-ip" }), Refused("claimRef.namespace: Required value")),
        claim("no name", json!({ "namespace": "a" }), Refused("claimRef.name: Required value")),
        claim("an empty name", json!({ "namespace": "a", "name": "" }), Refused("at least 1 chars long")),
        claim(
            "an empty namespace",
            json!({ "namespace": "", "name": "n" }),
            Refused("at least 1 chars long"),
        ),
    ]
}

fn changes() -> Vec<Row> {
    let changed = |name, change, verdict| address(name, valid(), verdict).then(change);
    let bound = |name, change, verdict| {
        let spec = with("claimRef", json!({ "namespace": "a", "name": "web-ip" }));
        address(name, spec, verdict).then(change)
    };
    vec![
        changed(
            "another address",
            json!({ "spec": { "address": "203.0.113.8" } }),
            Refused("spec.address cannot be changed"),
        ),
        changed(
            "another spelling of the address",
            json!({ "spec": { "address": "203.0.113.07" } }),
            Refused("spec.address cannot be changed"),
        ),
        changed(
            "no address any more",
            json!({ "spec": { "address": null } }),
            Refused("spec.address: Required"),
        ),
        changed("another policy later", json!({ "spec": { "reclaimPolicy": "Delete" } }), Accepted),
        changed(
            "a second source",
            json!({ "spec": { "source": { "providerRef": { "id": "x" } } } }),
            Refused("exactly one of fromClass and providerRef"),
        ),
        changed("bound", json!({ "spec": { "claimRef": { "namespace": "a", "name": "web-ip" } } }), Accepted),
        bound("the uid completed", json!({ "spec": { "claimRef": { "uid": "u" } } }), Accepted),
        bound("recycled by an admin", json!({ "spec": { "claimRef": null } }), Accepted),
    ]
}

fn statuses() -> Vec<Row> {
    let status = |name, status, verdict| {
        address(name, valid(), verdict)
            .with_status(status)
            .then(json!({ "metadata": { "labels": { "a": "b" } } }))
    };
    let history = |length| {
        let one =
            json!({ "namespace": "a", "name": "web", "uid": "u", "since": "2026-01-01T00:00:00.000000Z" });
        json!({ "associationHistory": vec![one; length] })
    };
    let handoff = |direction: &str, mode: &str| {
        json!({ "lastHandoff": {
            "direction": direction, "mode": mode, "from": "iad/hold", "to": "a/web",
            "startedAt": "2026-01-01T00:00:00.000000Z", "finishedAt": "2026-01-01T00:00:00.020000Z",
            "unheldMilliseconds": 0, "traceID": "0af7651916cd43dd8448eb211c80319c",
        } })
    };
    let associated = json!({ "associatedTo": { "kind": "Service", "namespace": "a", "name": "web" } });
    vec![
        status("each phase of the core", json!({ "phase": "Released" }), Accepted),
        status("each phase of the driver", json!({ "phase": "Conflict" }), Accepted),
        status("another phase", json!({ "phase": "Free" }), Refused("\"Free\"")),
        status("an association as the Go implementation wrote it", associated, Accepted),
        status(
            "an association without a name",
            json!({ "associatedTo": { "kind": "Service", "namespace": "a" } }),
            Refused("associatedTo.name: Required value"),
        ),
        status("a handoff", handoff("Associate", "Overlap"), Accepted),
        status("a handoff of another mode", handoff("Associate", "Jump"), Refused("\"Jump\"")),
        status("a handoff of another direction", handoff("Sideways", "Gap"), Refused("\"Sideways\"")),
        status("a full history", history(32), Accepted),
        status("a history too long", history(33), Refused("at most 32 items")),
        status(
            "one condition twice",
            json!({ "conditions": [condition("Held"), condition("Held")] }),
            Refused("Duplicate value"),
        ),
    ]
}
