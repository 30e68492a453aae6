//! Which address a Service asks for.

use serde_json::json;

use super::sequences;
use crate::conform::place::{delete, patch};
use crate::conform::{Action, Place, Sequence};

pub fn all() -> Vec<Sequence> {
    let mut all = sequences![Shared:
        the_first_free_address_of_the_pool,
        who_waits_gets_what_becomes_free,
        several_wait_and_one_gets_it,
        a_pin_to_a_free_a_used_and_an_outside_address,
        spellings_of_a_pin,
        pins_that_cannot_be_read,
        two_pins,
        two_pins_of_a_single_stack,
        the_field_of_old,
        pin_and_field,
        a_stripped_pin_keeps_the_address,
        a_changed_pin_moves,
        a_pin_to_a_used_address_loses_the_own,
        a_pin_that_becomes_unreadable,
        a_pool_that_is_not_there,
        another_pool_moves_and_none_stays,
        the_old_name_of_the_pool_annotation,
        a_pin_waits_for_its_pool,
    ]
    .to_vec();
    all.extend(sequences![Alone: an_address_left_for_another_wakes_nobody, a_pin_and_another_pool]);
    all
}

const PIN: &str = "metallb.io/loadBalancerIPs";
const OLD_PIN: &str = "metallb.universe.tf/loadBalancerIPs";
const POOL: &str = "metallb.io/address-pool";
const OLD_POOL: &str = "metallb.universe.tf/address-pool";

fn the_first_free_address_of_the_pool(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(5, 6), &format!("{}/32", place.ip(1))]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        place.draws("c", "p"),
        place.draws("d", "p"),
        delete(place.service("b")),
    ]
}

fn who_waits_gets_what_becomes_free(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        place.annotate("a", json!({ PIN: place.ip(99) })),
        place.annotate("a", json!({ PIN: null })),
        delete(place.service("b")),
    ]
}

fn several_wait_and_one_gets_it(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        place.draws("c", "p"),
        place.pinned("d", &place.ip(1)),
        place.draws("e", "p"),
        delete(place.service("a")),
        delete(place.service("b")),
    ]
}

fn a_pin_to_a_free_a_used_and_an_outside_address(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.pinned("a", &place.ip(2)),
        place.pinned("b", &place.ip(2)),
        place.pinned("c", &place.ip(9)),
        delete(place.service("a")),
    ]
}

fn spellings_of_a_pin(place: &Place) -> Vec<Action> {
    let pin = |name: &str, key: &str, text: String| place.balancer(name, json!({ key: text }), json!({}));
    vec![
        place.reserved("p", &[&place.range(1, 6)]),
        pin("a", PIN, format!(" {} ", place.ip(1))),
        pin("b", PIN, format!("::ffff:{}", place.ip(2))),
        pin("c", OLD_PIN, place.ip(3)),
        place.balancer("d", json!({ PIN: "", OLD_PIN: place.ip(4), POOL: place.name("p") }), json!({})),
        place.annotate("a", json!({ PIN: place.ip(1) })),
    ]
}

fn pins_that_cannot_be_read(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 6)]),
        place.pinned("a", "nonsense"),
        place.pinned("b", &format!("{},", place.ip(1))),
        place.pinned("c", &format!("{}/32", place.ip(1))),
        place.annotate("a", json!({ PIN: place.ip(1) })),
    ]
}

fn two_pins(place: &Place) -> Vec<Action> {
    let dual = json!({ "ipFamilyPolicy": "RequireDualStack" });
    let pin = |name: &str, text: String| place.balancer(name, json!({ PIN: text }), dual.clone());
    vec![
        place.reserved("p", &[&place.range(1, 6), &place.range6(1, 6)]),
        pin("a", format!("{},{}", place.ip(1), place.ip6(2))),
        pin("b", format!("{},{}", place.ip6(3), place.ip(3))),
        pin("c", format!("{},{}", place.ip(4), place.ip(5))),
        pin("d", place.ip(4)),
        pin("e", format!("{},{}", place.ip(1), place.ip6(6))),
        place.annotate("a", json!({ PIN: format!("{},{}", place.ip6(2), place.ip(1)) })),
        place.annotate("a", json!({ PIN: format!("{},{}", place.ip(1), place.ip6(1)) })),
    ]
}

fn two_pins_of_a_single_stack(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 6), &place.range6(1, 6)]),
        place.pinned("a", &format!("{},{}", place.ip(1), place.ip6(2))),
        place.pinned("b", &place.ip6(2)),
        place.pinned("c", &format!("{},{}", place.ip(1), place.ip(2))),
    ]
}

fn the_field_of_old(place: &Place) -> Vec<Action> {
    let field = |ip: &str| json!({ "loadBalancerIP": ip });
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.balancer("a", json!({}), field(&place.ip(2))),
        place.edit("a", field(&place.ip(3))),
        place.balancer("b", json!({}), field(&place.ip(3))),
        place.edit("a", json!({ "loadBalancerIP": null })),
        place.balancer("c", json!({}), field("nonsense")),
        place.edit("a", json!({ "type": "ClusterIP" })),
    ]
}

fn pin_and_field(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.balancer("a", json!({ PIN: place.ip(1) }), json!({ "loadBalancerIP": place.ip(1) })),
        place.pinned("b", &place.ip(2)),
        place.edit("b", json!({ "loadBalancerIP": place.ip(2) })),
        place.edit("a", json!({ "loadBalancerIP": null })),
    ]
}

fn a_stripped_pin_keeps_the_address(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.pinned("a", &place.ip(3)),
        place.annotate("a", json!({ PIN: null })),
        place.annotate("a", json!({ PIN: "" })),
        place.draws("b", "p"),
    ]
}

fn a_changed_pin_moves(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.pinned("a", &place.ip(3)),
        place.annotate("a", json!({ PIN: place.ip(2) })),
        place.annotate("a", json!({ PIN: place.ip(1) })),
        place.pinned("b", &place.ip(3)),
    ]
}

fn an_address_left_for_another_wakes_nobody(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.pinned("a", &place.ip(1)),
        place.pinned("b", &place.ip(1)),
        place.annotate("a", json!({ PIN: place.ip(2) })),
        place.annotate("b", json!({ "x": "1" })),
    ]
}

fn a_pin_to_a_used_address_loses_the_own(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.pinned("a", &place.ip(1)),
        place.pinned("b", &place.ip(2)),
        place.annotate("a", json!({ PIN: place.ip(2) })),
        place.draws("c", "p"),
        delete(place.service("b")),
    ]
}

fn a_pin_that_becomes_unreadable(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.pinned("a", &place.ip(1)),
        place.annotate("a", json!({ PIN: "nonsense" })),
        place.annotate("a", json!({ POOL: "nowhere" })),
        place.annotate("a", json!({ PIN: null, POOL: null })),
    ]
}

fn a_pin_and_another_pool(place: &Place) -> Vec<Action> {
    let both = |name: &str, pool: &str| {
        place.balancer(name, json!({ PIN: place.ip(1), POOL: place.name(pool) }), json!({}))
    };
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.reserved("q", &[&place.range(2, 2)]),
        both("b", "p"),
        both("a", "q"),
        place.annotate("b", json!({ POOL: place.name("q") })),
        place.annotate("a", json!({ POOL: place.name("p") })),
    ]
}

fn a_pool_that_is_not_there(place: &Place) -> Vec<Action> {
    vec![
        place.draws("a", "p"),
        place.reserved("p", &[&place.range(1, 1)]),
        place.annotate("a", json!({ POOL: "nowhere" })),
        place.annotate("a", json!({ POOL: place.name("p") })),
    ]
}

fn another_pool_moves_and_none_stays(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.reserved("q", &[&place.range(2, 2)]),
        place.draws("a", "p"),
        place.annotate("a", json!({ POOL: place.name("q") })),
        place.annotate("a", json!({ POOL: null })),
        place.draws("b", "q"),
        place.annotate("a", json!({ POOL: "" })),
    ]
}

fn the_old_name_of_the_pool_annotation(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.reserved("q", &[&place.range(2, 2)]),
        place.balancer("a", json!({ OLD_POOL: place.name("p") }), json!({})),
        place.balancer("b", json!({ OLD_POOL: place.name("p"), POOL: place.name("q") }), json!({})),
        patch(place.service("b"), json!({ "metadata": { "annotations": { POOL: "" } } })),
    ]
}

fn a_pin_waits_for_its_pool(place: &Place) -> Vec<Action> {
    vec![place.pinned("a", &place.ip(1)), place.draws("b", "p"), place.reserved("p", &[&place.range(1, 1)])]
}
