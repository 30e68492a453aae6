//! A status that somebody else than MetalLB wrote.

use serde_json::json;

use super::sequences;
use crate::conform::place::{delete, patch_status};
use crate::conform::{Action, Place, Sequence};

pub fn all() -> Vec<Sequence> {
    sequences![Shared:
        forged_to_a_free_address,
        forged_to_a_used_address,
        forged_to_an_address_of_no_pool,
        forged_of_a_service_with_a_pin,
        forged_of_a_waiting_service,
        forged_of_another_family,
        forged_to_two_addresses,
        forged_of_another_class,
        forged_of_an_internal_service,
        forged_text_that_is_no_address,
        a_status_wiped,
        a_status_wiped_while_another_waits,
    ]
    .to_vec()
}

fn forged_to_a_free_address(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.draws("a", "p"),
        place.forge("a", &[place.ip(3)]),
        place.draws("b", "p"),
    ]
}

fn forged_to_a_used_address(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.pinned("a", &place.ip(1)),
        place.draws("b", "p"),
        place.forge("b", &[place.ip(1)]),
        place.forge("a", &[place.ip(2)]),
    ]
}

fn forged_to_an_address_of_no_pool(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.draws("a", "p"),
        place.forge("a", &[place.ip(99)]),
        place.balancer("b", json!({ "metallb.io/address-pool": "nowhere" }), json!({})),
        place.forge("b", &[place.ip(99)]),
        place.forge("b", &[place.ip(2)]),
    ]
}

fn forged_of_a_service_with_a_pin(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.pinned("a", &place.ip(1)),
        place.forge("a", &[place.ip(2)]),
        place.pinned("b", &place.ip(2)),
        place.forge("a", &[place.ip(2)]),
    ]
}

fn forged_of_a_waiting_service(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        place.forge("b", &[place.ip(1)]),
        delete(place.service("a")),
    ]
}

fn forged_of_another_family(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2), &place.range6(1, 2)]),
        place.draws("a", "p"),
        place.forge("a", &[place.ip6(1)]),
        place.forge("a", &[place.ip(2), place.ip6(1)]),
    ]
}

fn forged_to_two_addresses(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.draws("a", "p"),
        place.forge("a", &[place.ip(2), place.ip(3)]),
    ]
}

fn forged_of_another_class(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.balancer("a", json!({}), json!({ "loadBalancerClass": "x.y/z" })),
        place.forge("a", &[place.ip(1)]),
        place.draws("b", "p"),
        place.edit("a", json!({ "type": "ClusterIP" })),
    ]
}

fn forged_of_an_internal_service(place: &Place) -> Vec<Action> {
    vec![place.internal("a"), place.forge("a", &[place.ip(1)])]
}

fn forged_text_that_is_no_address(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.forge("a", &["nonsense".to_owned()]),
        patch_status(
            place.service("a"),
            json!({ "loadBalancer": { "ingress": [{ "hostname": "x.example" }] } }),
        ),
    ]
}

fn a_status_wiped(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.draws("a", "p"),
        place.pinned("b", &place.ip(3)),
        delete(place.service("a")),
        place.draws("c", "p"),
        place.forge("c", &[]),
        place.forge("b", &[]),
        patch_status(place.service("b"), json!({ "loadBalancer": null })),
    ]
}

fn a_status_wiped_while_another_waits(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        place.forge("a", &[]),
    ]
}
