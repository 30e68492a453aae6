//! What goes with something else: with its owners, or with its namespace.

use serde_json::{Value, json};

use super::sequences;
use crate::conform::place::{create, delete, finalizers, own, patch};
use crate::conform::{Action, OTHER_UID, Place, Sequence};

pub fn all() -> Vec<Sequence> {
    sequences![Shared:
        what_is_owned_goes_with_its_owner,
        an_owner_of_another_uid_is_none,
        one_of_two_owners_goes,
        an_owner_that_a_finalizer_holds_still_owns,
        a_finalizer_holds_what_lost_its_owner,
        an_owner_in_another_namespace_is_none,
        an_owner_of_the_whole_cluster,
        an_owner_of_a_kind_that_nobody_knows,
        what_is_disowned_stays,
        owners_of_owners,
        an_owned_balancer_gives_its_address_back,
        a_namespace_ends_with_all_that_is_in_it,
        a_finalizer_holds_a_namespace,
        a_namespace_that_ends_gives_addresses_back,
    ]
    .to_vec()
}

fn label(of: plan::Ref, value: &str) -> Action {
    patch(of, json!({ "metadata": { "labels": { "x": value } } }))
}

/// Owner references by hand.
fn owned(of: plan::Ref, owners: Value) -> Action {
    patch(of, json!({ "metadata": { "ownerReferences": owners } }))
}

fn what_is_owned_goes_with_its_owner(place: &Place) -> Vec<Action> {
    let (owner, claim, balancer) = (place.service("owner"), place.claim("c"), place.service("b"));
    vec![
        place.internal("owner"),
        place.claim_of("c", json!({})),
        place.internal("b"),
        place.claim_of("free", json!({})),
        own(claim.clone(), std::slice::from_ref(&owner)),
        own(balancer, std::slice::from_ref(&owner)),
        delete(owner),
        place.claim_of("c", json!({})),
        label(claim, "1"),
    ]
}

fn an_owner_of_another_uid_is_none(place: &Place) -> Vec<Action> {
    let owner = json!([{ "apiVersion": "v1", "kind": "Service", "name": "owner", "uid": OTHER_UID }]);
    vec![
        place.internal("owner"),
        place.claim_of("c", json!({})),
        owned(place.claim("c"), owner.clone()),
        create(place.claim("d"), json!({ "metadata": { "ownerReferences": owner }, "spec": {} })),
        label(place.service("owner"), "1"),
    ]
}

fn one_of_two_owners_goes(place: &Place) -> Vec<Action> {
    let (a, b) = (place.service("a"), place.service("b"));
    vec![
        place.internal("a"),
        place.internal("b"),
        place.claim_of("of-both", json!({})),
        place.claim_of("of-one", json!({})),
        own(place.claim("of-both"), &[a.clone(), b.clone()]),
        own(place.claim("of-one"), std::slice::from_ref(&a)),
        delete(a),
        delete(b),
    ]
}

fn an_owner_that_a_finalizer_holds_still_owns(place: &Place) -> Vec<Action> {
    let owner = place.service("owner");
    vec![
        place.internal("owner"),
        finalizers(owner.clone(), &["a.b/c"]),
        place.claim_of("c", json!({})),
        own(place.claim("c"), std::slice::from_ref(&owner)),
        delete(owner.clone()),
        label(place.claim("c"), "1"),
        finalizers(owner, &[]),
    ]
}

fn a_finalizer_holds_what_lost_its_owner(place: &Place) -> Vec<Action> {
    let (owner, claim) = (place.service("owner"), place.claim("c"));
    vec![
        place.internal("owner"),
        place.claim_of("c", json!({})),
        finalizers(claim.clone(), &["a.b/c"]),
        own(claim.clone(), std::slice::from_ref(&owner)),
        delete(owner),
        label(claim.clone(), "1"),
        finalizers(claim, &[]),
    ]
}

fn an_owner_in_another_namespace_is_none(place: &Place) -> Vec<Action> {
    let owner = place.there(place.service("owner"));
    vec![
        place.second(),
        create(owner.clone(), json!({ "spec": { "ports": [{ "port": 80 }] } })),
        place.claim_of("c", json!({})),
        own(place.claim("c"), std::slice::from_ref(&owner)),
        label(owner, "1"),
    ]
}

fn an_owner_of_the_whole_cluster(place: &Place) -> Vec<Action> {
    vec![
        place.address_of("a", json!({})),
        place.claim_of("c", json!({})),
        place.internal("s"),
        own(place.claim("c"), &[place.address("a")]),
        own(place.service("s"), &[place.address("a")]),
        delete(place.address("a")),
    ]
}

fn an_owner_of_a_kind_that_nobody_knows(place: &Place) -> Vec<Action> {
    let thing = json!({ "apiVersion": "example.org/v1", "kind": "Thing", "name": "a", "uid": OTHER_UID });
    let gone = json!({ "apiVersion": "v1", "kind": "Service", "name": "a", "uid": OTHER_UID });
    vec![
        place.claim_of("of-a-thing", json!({})),
        place.claim_of("of-nobody", json!({})),
        owned(place.claim("of-a-thing"), json!([thing])),
        owned(place.claim("of-nobody"), json!([gone])),
        label(place.claim("of-a-thing"), "1"),
    ]
}

fn what_is_disowned_stays(place: &Place) -> Vec<Action> {
    let owner = place.service("owner");
    vec![
        place.internal("owner"),
        place.claim_of("c", json!({})),
        place.claim_of("d", json!({})),
        own(place.claim("c"), std::slice::from_ref(&owner)),
        own(place.claim("d"), std::slice::from_ref(&owner)),
        owned(place.claim("c"), json!([])),
        delete(owner),
        label(place.claim("c"), "1"),
    ]
}

fn owners_of_owners(place: &Place) -> Vec<Action> {
    vec![
        place.internal("a"),
        place.claim_of("b", json!({})),
        place.internal("c"),
        own(place.claim("b"), &[place.service("a")]),
        own(place.service("c"), &[place.claim("b")]),
        delete(place.service("a")),
    ]
}

fn an_owned_balancer_gives_its_address_back(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.internal("owner"),
        place.draws("a", "p"),
        own(place.service("a"), &[place.service("owner")]),
        delete(place.service("owner")),
        place.draws("b", "p"),
    ]
}

fn a_namespace_ends_with_all_that_is_in_it(place: &Place) -> Vec<Action> {
    let home = place.namespace(&place.away());
    let (service, claim) = (place.there(place.service("a")), place.there(place.claim("a")));
    let ports = || json!({ "spec": { "ports": [{ "port": 80 }] } });
    vec![
        place.second(),
        create(service.clone(), ports()),
        create(claim.clone(), json!({ "spec": {} })),
        place.claim_of("a", json!({})),
        delete(home.clone()),
        create(service.clone(), ports()),
        create(claim.clone(), json!({ "spec": {} })),
        delete(home),
        place.second(),
        create(service, ports()),
        create(claim, json!({ "spec": {} })),
    ]
}

fn a_finalizer_holds_a_namespace(place: &Place) -> Vec<Action> {
    let home = place.namespace(&place.away());
    let (held, free) = (place.there(place.claim("held")), place.there(place.claim("free")));
    let new = create(place.there(place.service("new")), json!({ "spec": { "ports": [{ "port": 80 }] } }));
    vec![
        place.second(),
        create(held.clone(), json!({ "metadata": { "finalizers": ["a.b/c"] }, "spec": {} })),
        create(free, json!({ "spec": {} })),
        delete(home.clone()),
        label(held.clone(), "1"),
        new,
        create(place.there(place.claim("new")), json!({ "spec": {} })),
        label(home.clone(), "1"),
        delete(home),
        finalizers(held, &[]),
    ]
}

fn a_namespace_that_ends_gives_addresses_back(place: &Place) -> Vec<Action> {
    let pool = json!({ "metallb.io/address-pool": place.name("p") });
    let balancer = json!({
        "metadata": { "annotations": pool },
        "spec": { "type": "LoadBalancer", "selector": { "app": "a" }, "ports": [{ "port": 80 }] },
    });
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.second(),
        create(place.there(place.service("a")), balancer),
        delete(place.namespace(&place.away())),
        place.draws("b", "p"),
    ]
}
