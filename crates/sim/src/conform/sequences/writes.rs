//! What the API server makes of any write: versions, preconditions, finalizers, the two halves of an object.

use serde_json::json;

use super::sequences;
use crate::conform::place::{create, delete, delete_when, finalizers, patch, patch_status, patch_when};
use crate::conform::{Action, Place, Sequence, When};

pub fn all() -> Vec<Sequence> {
    sequences![Shared:
        a_patch_that_changes_nothing_keeps_the_version,
        empty_finalizers_labels_and_annotations_are_none,
        a_finalizer_holds_a_deleted_object,
        one_of_two_finalizers,
        finalizers_of_an_address,
        preconditions_of_a_patch,
        preconditions_of_a_status_patch,
        preconditions_of_a_delete,
        preconditions_of_a_delete_with_finalizers,
        created_twice,
        what_a_patch_cannot_change,
        labels_and_annotations_one_by_one,
    ]
    .to_vec()
}

fn a_patch_that_changes_nothing_keeps_the_version(place: &Place) -> Vec<Action> {
    let label = |value: &str| patch(place.service("a"), json!({ "metadata": { "labels": { "x": value } } }));
    vec![
        place.internal("a"),
        label("1"),
        label("1"),
        label("2"),
        place.edit("a", json!({ "type": "ClusterIP" })),
    ]
}

fn empty_finalizers_labels_and_annotations_are_none(place: &Place) -> Vec<Action> {
    let meta = |value| patch(place.service("a"), json!({ "metadata": value }));
    let of_address = |value| patch(place.address("a"), json!({ "metadata": value }));
    let empty = || json!({ "labels": {}, "annotations": {}, "finalizers": [] });
    let none = || json!({ "labels": { "x": null }, "annotations": { "y": null }, "finalizers": null });
    vec![
        place.internal("a"),
        meta(empty()),
        meta(json!({ "labels": { "x": "1" }, "annotations": { "y": "1" }, "finalizers": ["a.b/c"] })),
        meta(none()),
        place.address_of("a", json!({})),
        of_address(empty()),
        of_address(json!({ "labels": { "x": "1" }, "annotations": { "y": "1" }, "finalizers": ["a.b/c"] })),
        of_address(none()),
    ]
}

fn a_finalizer_holds_a_deleted_object(place: &Place) -> Vec<Action> {
    let a = || place.service("a");
    vec![
        place.internal("a"),
        finalizers(a(), &["a.b/c"]),
        delete(a()),
        delete(a()),
        patch(a(), json!({ "metadata": { "labels": { "x": "1" } } })),
        place.edit("a", json!({ "selector": { "x": "1" } })),
        finalizers(a(), &["a.b/c", "a.b/d"]),
        finalizers(a(), &[]),
        finalizers(a(), &[]),
    ]
}

fn one_of_two_finalizers(place: &Place) -> Vec<Action> {
    let a = || place.service("a");
    vec![
        create(
            a(),
            json!({
                "metadata": { "finalizers": ["a.b/c", "a.b/d"] }, "spec": { "ports": [{ "port": 80 }] },
            }),
        ),
        finalizers(a(), &["a.b/d", "a.b/c"]),
        delete(a()),
        finalizers(a(), &["a.b/d"]),
        finalizers(a(), &["a.b/c"]),
        finalizers(a(), &["a.b/d", "a.b/c"]),
        patch(a(), json!({ "metadata": { "finalizers": null } })),
        place.internal("a"),
    ]
}

fn finalizers_of_an_address(place: &Place) -> Vec<Action> {
    let a = || place.address("a");
    vec![
        place.address_of("a", json!({})),
        finalizers(a(), &["a.b/c"]),
        delete(a()),
        patch_status(a(), json!({ "phase": "Released" })),
        patch(a(), json!({ "spec": { "reclaimPolicy": "Delete" } })),
        finalizers(a(), &["a.b/d", "a.b/c"]),
        delete(a()),
        finalizers(a(), &[]),
        patch_status(a(), json!({ "phase": "Released" })),
    ]
}

fn preconditions_of_a_patch(place: &Place) -> Vec<Action> {
    let label = |value: &str, when| {
        patch_when(place.service("a"), json!({ "metadata": { "labels": { "x": value } } }), when)
    };
    vec![
        label("0", When::Right),
        place.internal("a"),
        label("1", When::Right),
        label("2", When::Stale),
        label("1", When::Stale),
        label("2", When::Other),
        label("1", When::Other),
        label("1", When::Right),
        place.address_of("a", json!({})),
        patch_when(place.address("a"), json!({ "spec": { "className": "x" } }), When::Other),
        patch_when(place.address("a"), json!({ "spec": { "className": "x" } }), When::Stale),
        patch_when(place.address("a"), json!({ "spec": { "className": "x" } }), When::Right),
    ]
}

fn preconditions_of_a_status_patch(place: &Place) -> Vec<Action> {
    let phase = |phase: &str, when| {
        let body = json!({ "status": { "phase": phase } });
        Action::Patch { of: place.address("a"), status: true, body, when }
    };
    vec![
        phase("Bound", When::Right),
        place.address_of("a", json!({})),
        phase("Bound", When::Right),
        phase("Lost", When::Stale),
        phase("Lost", When::Other),
        phase("Bound", When::Stale),
        phase("Bound", When::Right),
    ]
}

fn preconditions_of_a_delete(place: &Place) -> Vec<Action> {
    let a = || place.service("a");
    vec![
        delete_when(a(), When::Right),
        place.internal("a"),
        delete_when(a(), When::Other),
        delete_when(a(), When::Stale),
        delete_when(a(), When::Right),
        delete(a()),
        place.claim_of("a", json!({})),
        delete_when(place.claim("a"), When::Stale),
        delete_when(place.claim("a"), When::Other),
        delete_when(place.claim("a"), When::Right),
    ]
}

fn preconditions_of_a_delete_with_finalizers(place: &Place) -> Vec<Action> {
    let a = || place.address("a");
    vec![
        place.address_of("a", json!({})),
        finalizers(a(), &["a.b/c"]),
        delete_when(a(), When::Stale),
        delete_when(a(), When::Right),
        delete_when(a(), When::Stale),
        delete_when(a(), When::Right),
        patch_when(a(), json!({ "metadata": { "finalizers": [] } }), When::Stale),
        patch_when(a(), json!({ "metadata": { "finalizers": [] } }), When::Right),
    ]
}

fn created_twice(place: &Place) -> Vec<Action> {
    vec![
        place.internal("a"),
        place.internal("a"),
        delete(place.service("a")),
        place.internal("a"),
        place.claim_of("a", json!({})),
        place.claim_of("a", json!({})),
        finalizers(place.claim("a"), &["a.b/c"]),
        delete(place.claim("a")),
        place.claim_of("a", json!({})),
        finalizers(place.claim("a"), &[]),
        place.claim_of("a", json!({})),
    ]
}

fn what_a_patch_cannot_change(place: &Place) -> Vec<Action> {
    let meta = |value| patch(place.service("a"), json!({ "metadata": value }));
    vec![
        place.internal("a"),
        meta(json!({ "creationTimestamp": "2020-01-01T00:00:00Z" })),
        meta(json!({ "deletionTimestamp": "2020-01-01T00:00:00Z" })),
        meta(json!({ "generation": 77 })),
        patch(
            place.service("a"),
            json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } } }),
        ),
        place.claim_of("a", json!({})),
        patch(place.claim("a"), json!({ "metadata": { "generation": 77 }, "status": { "phase": "Bound" } })),
    ]
}

fn labels_and_annotations_one_by_one(place: &Place) -> Vec<Action> {
    let meta = |value| patch(place.claim("a"), json!({ "metadata": value }));
    vec![
        place.claim_of("a", json!({})),
        meta(json!({ "annotations": { "x": "1", "y": "" } })),
        meta(json!({ "annotations": { "x": null } })),
        meta(json!({ "annotations": { "z": null } })),
        meta(json!({ "annotations": null, "labels": { "l": "1" } })),
    ]
}
