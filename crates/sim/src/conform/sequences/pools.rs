//! Pools: made, edited, taken away; whom they admit.

use serde_json::{Value, json};

use super::sequences;
use crate::conform::place::{create, delete, patch};
use crate::conform::{Action, Place, Sequence};

pub fn all() -> Vec<Sequence> {
    let mut all = sequences![Shared:
        a_pool_grows,
        a_pool_is_cut,
        a_pool_is_cut_and_holders_move,
        a_pool_is_deleted_and_made_again,
        a_pool_is_renamed,
        a_range_moves_to_another_pool,
        addresses_that_end_in_0_or_255,
        a_pool_for_other_namespaces,
        a_pool_for_labelled_namespaces,
        a_pool_whose_selectors_fit_no_namespace,
        a_pool_for_labelled_services,
        a_pool_for_expressions,
        defaults_of_a_pool,
    ]
    .to_vec();
    all.extend(sequences![Alone:
        a_pool_for_everybody,
        pools_of_a_namespace_go_first,
        pools_that_overlap_are_not_read,
        a_pool_that_cannot_be_read,
    ]);
    all
}

fn allocation(place: &Place, rules: Value) -> Action {
    place.pool_of(
        "p",
        json!({
            "addresses": [place.range(1, 2)], "autoAssign": false, "serviceAllocation": rules,
        }),
    )
}

fn a_pool_grows(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        place.edit_pool("p", json!({ "addresses": [place.range(1, 2)] })),
        patch(place.pool("p"), json!({ "metadata": { "labels": { "x": "1" } } })),
    ]
}

fn a_pool_is_cut(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.pinned("a", &place.ip(1)),
        place.pinned("b", &place.ip(2)),
        place.edit_pool("p", json!({ "addresses": [place.range(1, 1)] })),
        place.edit_pool("p", json!({ "addresses": [place.range(1, 2)] })),
        place.edit_pool("p", json!({ "addresses": [] })),
    ]
}

fn a_pool_is_cut_and_holders_move(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.draws("a", "p"),
        place.edit_pool("p", json!({ "addresses": [place.range(2, 3)] })),
        place.draws("b", "p"),
        place.edit_pool("p", json!({ "addresses": [place.range(3, 3)] })),
    ]
}

fn a_pool_is_deleted_and_made_again(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.pinned("b", &place.ip(1)),
        delete(place.pool("p")),
        delete(place.service("a")),
        place.reserved("p", &[&place.range(1, 1)]),
    ]
}

fn a_pool_is_renamed(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.pinned("a", &place.ip(1)),
        place.draws("b", "p"),
        delete(place.pool("p")),
        place.reserved("q", &[&place.range(1, 2)]),
        place.annotate("b", json!({ "metallb.io/address-pool": place.name("q") })),
    ]
}

fn a_range_moves_to_another_pool(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.reserved("q", &[&place.range(8, 8)]),
        place.pinned("a", &place.ip(2)),
        place.draws("b", "p"),
        place.edit_pool("p", json!({ "addresses": [place.range(1, 1)] })),
        place.edit_pool("q", json!({ "addresses": [place.range(2, 2)] })),
    ]
}

fn addresses_that_end_in_0_or_255(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(0, 1), &place.range(254, 255)]),
        place.pinned("a", &place.ip(0)),
        place.pinned("b", &place.ip(255)),
        place.draws("c", "p"),
        place.edit_pool("p", json!({ "avoidBuggyIPs": true })),
        place.draws("d", "p"),
        place.draws("e", "p"),
        place.edit_pool("p", json!({ "avoidBuggyIPs": false })),
    ]
}

fn a_pool_for_other_namespaces(place: &Place) -> Vec<Action> {
    let admit = |names: Value| place.edit_pool("p", json!({ "serviceAllocation": { "namespaces": names } }));
    vec![
        allocation(place, json!({ "namespaces": ["somebody-else"] })),
        place.draws("a", "p"),
        place.pinned("b", &place.ip(2)),
        admit(json!([place.home()])),
        admit(json!(["somebody-else"])),
        place.edit_pool("p", json!({ "serviceAllocation": null })),
    ]
}

fn a_pool_for_labelled_namespaces(place: &Place) -> Vec<Action> {
    let fits = json!({ "matchLabels": { "conform": place.name("x") } });
    let label = |value: Value| {
        patch(place.namespace(&place.home()), json!({ "metadata": { "labels": { "conform": value } } }))
    };
    vec![
        allocation(place, json!({ "namespaces": ["somebody-else"], "namespaceSelectors": [fits] })),
        place.draws("a", "p"),
        place.pinned("b", &place.ip(2)),
        label(json!(place.name("x"))),
        label(json!("other")),
        label(Value::Null),
        create(
            place.namespace(&place.away()),
            json!({ "metadata": { "labels": { "conform": place.name("x") } } }),
        ),
    ]
}

fn a_pool_whose_selectors_fit_no_namespace(place: &Place) -> Vec<Action> {
    let fits = json!({ "matchLabels": { "conform": place.name("x") } });
    vec![
        allocation(place, json!({ "namespaceSelectors": [fits] })),
        place.draws("a", "p"),
        create(
            place.namespace(&place.away()),
            json!({ "metadata": { "labels": { "conform": place.name("x") } } }),
        ),
        place.edit_pool("p", json!({ "serviceAllocation": {} })),
    ]
}

fn a_pool_for_labelled_services(place: &Place) -> Vec<Action> {
    let fits = json!([{ "matchLabels": { "x": "1" } }, { "matchLabels": { "y": "1" } }]);
    let label = |labels: Value| patch(place.service("a"), json!({ "metadata": { "labels": labels } }));
    vec![
        allocation(place, json!({ "serviceSelectors": fits })),
        place.draws("a", "p"),
        label(json!({ "x": "1" })),
        label(json!({ "x": null, "y": "1" })),
        label(json!({ "y": "2" })),
        place.pinned("b", &place.ip(1)),
    ]
}

fn a_pool_for_expressions(place: &Place) -> Vec<Action> {
    let only = json!({ "matchExpressions": [{ "key": "x", "operator": "In", "values": ["1", "2"] }] });
    let not = json!({ "matchExpressions": [{ "key": "y", "operator": "DoesNotExist" }], "matchLabels": { "z": "1" } });
    let label = |labels: Value| patch(place.service("a"), json!({ "metadata": { "labels": labels } }));
    vec![
        allocation(place, json!({ "serviceSelectors": [only, not] })),
        place.draws("a", "p"),
        label(json!({ "x": "3" })),
        label(json!({ "x": "2" })),
        label(json!({ "x": null, "z": "1" })),
        label(json!({ "y": "" })),
    ]
}

fn defaults_of_a_pool(place: &Place) -> Vec<Action> {
    let nobody = json!({ "namespaces": ["nobody"] });
    vec![
        place.pool_of("p", json!({ "addresses": [place.range(1, 2)], "serviceAllocation": nobody })),
        place.edit_pool("p", json!({ "autoAssign": false })),
        place.edit_pool("p", json!({ "autoAssign": null, "avoidBuggyIPs": null })),
        delete(place.pool("p")),
    ]
}

fn a_pool_for_everybody(place: &Place) -> Vec<Action> {
    let plain = |name: &str| place.balancer(name, json!({}), json!({}));
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        plain("a"),
        place.edit_pool("p", json!({ "autoAssign": true })),
        plain("b"),
        plain("c"),
        place.edit_pool("p", json!({ "autoAssign": false })),
        delete(place.service("a")),
        place.edit_pool("p", json!({ "autoAssign": true })),
    ]
}

fn pools_of_a_namespace_go_first(place: &Place) -> Vec<Action> {
    let plain = |name: &str| place.balancer(name, json!({}), json!({}));
    let of = |short: &str, last: u8, rules: Value| {
        place.pool_of(short, json!({ "addresses": [place.range(last, last)], "serviceAllocation": rules }))
    };
    vec![
        of("low", 1, json!({ "namespaces": [place.home()], "priority": 20 })),
        of("high", 2, json!({ "namespaces": [place.home()], "priority": 10 })),
        of("none", 3, json!({ "serviceSelectors": [{ "matchLabels": { "nobody": "has" } }] })),
        place.pool_of("open", json!({ "addresses": [place.range(4, 4)] })),
        of("last", 5, json!({ "namespaces": [place.home()] })),
        plain("a"),
        plain("b"),
        plain("c"),
        plain("d"),
        plain("e"),
    ]
}

fn pools_that_overlap_are_not_read(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.draws("a", "p"),
        place.reserved("q", &[&place.range(2, 3)]),
        place.draws("b", "q"),
        place.edit_pool("p", json!({ "addresses": [place.range(8, 9)] })),
    ]
}

fn a_pool_that_cannot_be_read(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        place.edit_pool("p", json!({ "addresses": ["nonsense"] })),
        place.reserved("q", &[&place.range(2, 2)]),
        place.draws("c", "q"),
        delete(place.service("a")),
        place.edit_pool("p", json!({ "addresses": [place.range(3, 1)] })),
        place.edit_pool("p", json!({ "addresses": [place.range(3, 3)] })),
    ]
}
