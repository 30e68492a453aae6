//! Our own kinds: defaults, rules, what may change.

use serde_json::{Value, json};

use super::sequences;
use crate::conform::place::{create, patch, patch_status};
use crate::conform::{Action, Place, Sequence, When};

pub fn all() -> Vec<Sequence> {
    sequences![Shared:
        a_status_moves_no_generation,
        status_and_spec_are_written_apart,
        a_status_that_is_emptied,
        defaults_of_our_kinds,
        an_address_cannot_change,
        an_address_that_is_refused,
        a_claim_ref_comes_and_goes,
        a_family_can_only_be_widened,
        an_address_name_stays,
        a_class_name_stays_once_bound,
        a_provisioner_stays,
    ]
    .to_vec()
}

fn spec(of: plan::Ref, spec: Value) -> Action {
    patch(of, json!({ "spec": spec }))
}

fn a_status_moves_no_generation(place: &Place) -> Vec<Action> {
    let a = || place.address("a");
    vec![
        place.address_of("a", json!({})),
        patch_status(a(), json!({ "phase": "Available" })),
        patch_status(a(), json!({ "phase": "Available" })),
        patch(a(), json!({ "metadata": { "labels": { "x": "1" } } })),
        spec(a(), json!({ "reclaimPolicy": "Delete" })),
        spec(a(), json!({ "reclaimPolicy": "Delete" })),
        spec(a(), json!({ "reclaimPolicy": "Retain" })),
    ]
}

fn status_and_spec_are_written_apart(place: &Place) -> Vec<Action> {
    let both = json!({
        "metadata": { "labels": { "x": "1" } },
        "spec": { "reclaimPolicy": "Delete" },
        "status": { "phase": "Available" },
    });
    let through =
        |status| Action::Patch { of: place.address("a"), status, body: both.clone(), when: When::Any };
    let with_status = json!({
        "spec": { "className": "any", "address": place.ip(8), "source": { "fromClass": {} } },
        "status": { "phase": "Bound" },
    });
    vec![
        place.address_of("a", json!({})),
        through(true),
        through(false),
        create(place.address("b"), with_status),
    ]
}

fn a_status_that_is_emptied(place: &Place) -> Vec<Action> {
    let a = || place.claim("a");
    let condition = json!({
        "type": "Bound", "status": "True", "reason": "Bound", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    vec![
        place.claim_of("a", json!({})),
        patch_status(a(), json!({ "phase": "Bound", "conditions": [condition] })),
        patch_status(a(), json!({ "conditions": [] })),
        patch_status(a(), json!({ "phase": null, "conditions": null })),
        patch_status(a(), json!({ "phase": "Pending" })),
        Action::Patch { of: a(), status: true, body: json!({ "status": null }), when: When::Any },
    ]
}

fn defaults_of_our_kinds(place: &Place) -> Vec<Action> {
    let source = json!({ "spec": { "address": place.ip(9), "source": { "fromClass": {} } } });
    vec![
        create(place.class("a"), json!({ "spec": { "provisioner": "nobody" } })),
        create(place.address("a"), source),
        create(place.claim("a"), json!({ "spec": {} })),
        spec(place.class("a"), json!({ "reclaimPolicy": null })),
        spec(place.address("a"), json!({ "reclaimPolicy": null })),
        spec(place.claim("a"), json!({ "family": null })),
        spec(place.claim("a"), json!({ "className": "any" })),
    ]
}

fn an_address_cannot_change(place: &Place) -> Vec<Action> {
    let edit = |value| spec(place.address("a"), value);
    vec![
        place.address_of("a", json!({})),
        edit(json!({ "address": place.ip(8) })),
        edit(json!({ "address": place.ip(7) })),
        edit(json!({ "className": "other" })),
        edit(json!({ "source": { "fromClass": {} } })),
        edit(json!({ "source": { "providerRef": null } })),
        edit(json!({ "source": { "providerRef": null, "fromClass": {} } })),
        edit(json!({ "reclaimPolicy": "Sometimes" })),
    ]
}

fn an_address_that_is_refused(place: &Place) -> Vec<Action> {
    let of = |short: &str, address: &str| place.address_of(short, json!({ "address": address }));
    vec![
        of("a", "192.0.2.01"),
        of("b", "192.0.2.0/24"),
        of("c", "::ffff:192.0.2.1"),
        of("d", "2001:DB8::1"),
        of("e", "2001:db8:0::1"),
        of("f", "2001:db8::1"),
        of("g", "fe80::1%eth0"),
        place.address_of("h", json!({ "source": { "fromClass": {} } })),
        place.address_of("i", json!({ "source": { "providerRef": null } })),
    ]
}

fn a_claim_ref_comes_and_goes(place: &Place) -> Vec<Action> {
    let edit = |value: Value| spec(place.address("a"), json!({ "claimRef": value }));
    vec![
        place.address_of("a", json!({})),
        edit(json!({ "namespace": "n", "name": "c" })),
        edit(json!({ "uid": "u" })),
        edit(json!({ "uid": null })),
        edit(json!({ "name": null })),
        edit(Value::Null),
        edit(Value::Null),
    ]
}

fn a_family_can_only_be_widened(place: &Place) -> Vec<Action> {
    let edit = |value: &str| spec(place.claim("a"), json!({ "family": value }));
    vec![place.claim_of("a", json!({})), edit("IPv6"), edit("IPv4"), edit("Dual"), edit("IPv4"), edit("Both")]
}

fn an_address_name_stays(place: &Place) -> Vec<Action> {
    let edit = |value: Value| spec(place.claim("a"), value);
    vec![
        place.claim_of("a", json!({})),
        edit(json!({ "addressName": "ip-192-0-2-1" })),
        edit(json!({ "addressName": "ip-192-0-2-2" })),
        edit(json!({ "addressName": null })),
        edit(json!({ "family": "Dual" })),
        place.claim_of("b", json!({ "family": "Dual", "addressName": "ip-192-0-2-1" })),
        place.claim_of("c", json!({ "addressName": "" })),
        place.claim_of("d", json!({ "className": "" })),
    ]
}

fn a_class_name_stays_once_bound(place: &Place) -> Vec<Action> {
    let edit = |value: Value| spec(place.claim("a"), json!({ "className": value }));
    let phase = |phase: &str| patch_status(place.claim("a"), json!({ "phase": phase }));
    vec![
        place.claim_of("a", json!({})),
        edit(json!("x")),
        phase("Pending"),
        edit(json!("y")),
        phase("Bound"),
        edit(json!("z")),
        edit(Value::Null),
        spec(place.claim("a"), json!({ "className": "y", "family": "Dual" })),
        phase("Lost"),
        edit(json!("z")),
        phase("Odd"),
    ]
}

fn a_provisioner_stays(place: &Place) -> Vec<Action> {
    let edit = |value: Value| spec(place.class("a"), value);
    vec![
        create(
            place.class("a"),
            json!({ "spec": { "provisioner": "nobody", "parameters": { "x": { "y": [1] } } } }),
        ),
        edit(json!({ "provisioner": "somebody" })),
        edit(json!({ "parameters": { "pool": "p" } })),
        edit(json!({ "parameters": null })),
        edit(json!({ "reclaimPolicy": "Delete" })),
        patch_status(place.class("a"), json!({ "pool": "p", "loadBalancerClass": "x" })),
        create(place.class("b"), json!({ "spec": { "provisioner": "" } })),
    ]
}
