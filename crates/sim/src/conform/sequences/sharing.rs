//! Who may share an address.

use serde_json::{Value, json};

use super::sequences;
use crate::conform::place::{delete, patch};
use crate::conform::{Action, Place, Sequence};

pub fn all() -> Vec<Sequence> {
    let mut all = sequences![Shared:
        one_key_two_services,
        another_key,
        a_key_for_the_first_later,
        a_key_for_the_second_later,
        a_key_taken_off_one_of_two,
        a_key_changed_of_one_of_two,
        a_key_changed_of_a_single_holder,
        an_empty_key,
        the_old_name_of_the_key,
        ports_that_clash,
        the_same_port_of_another_protocol,
        local_with_one_selector,
        local_beside_cluster,
        a_selector_of_a_local_sharer_changes,
        a_traffic_policy_of_a_sharer_changes,
        who_may_share_draws_a_shared_address,
        a_port_in_use_makes_it_draw_the_next,
        the_placeholder_hands_over,
    ]
    .to_vec();
    all.extend(sequences![Alone:
        a_port_that_changes_wakes_nobody,
        a_key_that_changes_wakes_who_waits,
        a_port_of_a_sharer_changes_into_a_clash,
        a_stripped_pool_wakes_who_waits,
    ]);
    all
}

const KEY: &str = "metallb.io/allow-shared-ip";
const OLD_KEY: &str = "metallb.universe.tf/allow-shared-ip";
const PIN: &str = "metallb.io/loadBalancerIPs";

fn pool(place: &Place) -> Action {
    place.reserved("p", &[&place.range(1, 2)])
}

fn shares(place: &Place, name: &str, key: &str, port: u16) -> Action {
    place.sharing(name, &place.ip(1), key, port)
}

fn local(place: &Place, name: &str, app: &str, port: u16) -> Action {
    let spec =
        json!({ "externalTrafficPolicy": "Local", "selector": { "app": app }, "ports": [{ "port": port }] });
    place.balancer(name, json!({ PIN: place.ip(1), KEY: "k" }), spec)
}

fn ports(port: u16) -> Value {
    json!({ "ports": [{ "port": port }] })
}

fn one_key_two_services(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        shares(place, "a", "k", 80),
        shares(place, "b", "k", 81),
        delete(place.service("a")),
        delete(place.service("b")),
    ]
}

fn another_key(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        shares(place, "a", "k", 80),
        shares(place, "b", "l", 81),
        place.pinned("c", &place.ip(1)),
        delete(place.service("a")),
    ]
}

fn a_key_for_the_first_later(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        place.pinned("a", &place.ip(1)),
        shares(place, "b", "k", 81),
        place.annotate("a", json!({ KEY: "k" })),
    ]
}

fn a_key_for_the_second_later(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        shares(place, "a", "k", 80),
        shares(place, "b", "l", 81),
        place.annotate("b", json!({ KEY: "k" })),
    ]
}

fn a_key_taken_off_one_of_two(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        shares(place, "a", "k", 80),
        shares(place, "b", "k", 81),
        place.annotate("a", json!({ KEY: null })),
        place.annotate("a", json!({ PIN: null })),
        delete(place.service("b")),
    ]
}

fn a_key_changed_of_one_of_two(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        shares(place, "a", "k", 80),
        shares(place, "b", "k", 81),
        place.annotate("b", json!({ KEY: "l" })),
        shares(place, "c", "l", 82),
        place.annotate("a", json!({ KEY: "l" })),
    ]
}

fn a_key_changed_of_a_single_holder(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        shares(place, "a", "k", 80),
        place.annotate("a", json!({ KEY: "l" })),
        place.annotate("a", json!({ KEY: null })),
        shares(place, "b", "k", 81),
        delete(place.service("a")),
        shares(place, "a", "k", 80),
    ]
}

fn an_empty_key(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        shares(place, "a", "", 80),
        shares(place, "b", "", 81),
        place.annotate("b", json!({ KEY: "k" })),
        place.annotate("a", json!({ KEY: "k" })),
    ]
}

fn the_old_name_of_the_key(place: &Place) -> Vec<Action> {
    let old = |name: &str, port| place.balancer(name, json!({ PIN: place.ip(1), OLD_KEY: "k" }), ports(port));
    vec![
        pool(place),
        old("a", 80),
        shares(place, "b", "k", 81),
        old("c", 82),
        place.annotate("c", json!({ KEY: "" })),
    ]
}

fn ports_that_clash(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        shares(place, "a", "k", 80),
        shares(place, "b", "k", 80),
        place.edit("b", ports(81)),
        place.edit("b", json!({ "ports": [{ "name": "x", "port": 81 }, { "name": "y", "port": 82 }] })),
        shares(place, "c", "k", 82),
        delete(place.service("b")),
    ]
}

fn the_same_port_of_another_protocol(place: &Place) -> Vec<Action> {
    let udp = json!({ "ports": [{ "port": 80, "protocol": "UDP" }] });
    vec![
        pool(place),
        shares(place, "a", "k", 80),
        place.balancer("b", json!({ PIN: place.ip(1), KEY: "k" }), udp.clone()),
        place.balancer("c", json!({ PIN: place.ip(1), KEY: "k" }), udp),
    ]
}

fn local_with_one_selector(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        local(place, "a", "x", 80),
        local(place, "b", "x", 81),
        local(place, "c", "y", 82),
        delete(place.service("a")),
        delete(place.service("b")),
    ]
}

fn local_beside_cluster(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        shares(place, "a", "k", 80),
        local(place, "b", "x", 81),
        place.edit("a", json!({ "externalTrafficPolicy": "Local", "selector": { "app": "x" } })),
    ]
}

fn a_selector_of_a_local_sharer_changes(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        local(place, "a", "x", 80),
        local(place, "b", "x", 81),
        place.edit("a", json!({ "selector": { "app": "y" } })),
        place.edit("b", json!({ "selector": { "app": "y" } })),
    ]
}

fn a_traffic_policy_of_a_sharer_changes(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        shares(place, "a", "k", 80),
        shares(place, "b", "k", 81),
        place.edit("a", json!({ "externalTrafficPolicy": "Local" })),
        place.edit("a", json!({ "externalTrafficPolicy": "Cluster" })),
    ]
}

fn who_may_share_draws_a_shared_address(place: &Place) -> Vec<Action> {
    let draws = |name: &str, key: &str, port| {
        place.balancer(name, json!({ "metallb.io/address-pool": place.name("p"), KEY: key }), ports(port))
    };
    vec![
        pool(place),
        draws("a", "k", 80),
        draws("b", "k", 81),
        draws("c", "l", 82),
        draws("d", "l", 80),
        draws("e", "m", 83),
        delete(place.service("c")),
        delete(place.service("d")),
    ]
}

fn a_port_in_use_makes_it_draw_the_next(place: &Place) -> Vec<Action> {
    let draws = |name: &str| {
        place.balancer(name, json!({ "metallb.io/address-pool": place.name("p"), KEY: "k" }), ports(80))
    };
    vec![pool(place), draws("a"), draws("b"), draws("c"), place.annotate("a", json!({ KEY: "l" }))]
}

/// The order of a handoff, step by step, and back.
fn the_placeholder_hands_over(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.balancer("hold", json!({ PIN: place.ip(1), KEY: "h" }), ports(65535)),
        place.draws("thief", "p"),
        place.balancer("web", json!({ PIN: place.ip(1), KEY: "h" }), json!({})),
        place.annotate("hold", json!({ KEY: "other" })),
        delete(place.service("hold")),
        place.annotate("web", json!({ KEY: null })),
        place.annotate("web", json!({ KEY: "g" })),
        place.balancer("hold", json!({ PIN: place.ip(1), KEY: "g" }), ports(65535)),
        patch(place.service("web"), json!({ "metadata": { "annotations": { PIN: null, KEY: null } } })),
        place.annotate("hold", json!({ KEY: "i" })),
    ]
}

fn a_port_that_changes_wakes_nobody(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        shares(place, "a", "k", 80),
        shares(place, "b", "k", 80),
        place.edit("a", ports(81)),
        place.annotate("b", json!({ "x": "1" })),
    ]
}

fn a_key_that_changes_wakes_who_waits(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        shares(place, "a", "k", 80),
        shares(place, "b", "l", 81),
        shares(place, "c", "l", 81),
        place.annotate("a", json!({ KEY: "m" })),
        place.annotate("a", json!({ KEY: "l" })),
    ]
}

fn a_port_of_a_sharer_changes_into_a_clash(place: &Place) -> Vec<Action> {
    vec![
        pool(place),
        shares(place, "a", "k", 80),
        shares(place, "b", "k", 81),
        place.edit("b", ports(80)),
        place.edit("b", ports(82)),
        place.edit("a", ports(82)),
    ]
}

fn a_stripped_pool_wakes_who_waits(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.pinned("a", &place.ip(1)),
        place.draws("b", "p"),
        place.annotate("a", json!({ PIN: place.ip(9) })),
        place.annotate("a", json!({ PIN: place.ip(1) })),
        place.annotate("b", json!({ "metallb.io/address-pool": "nowhere" })),
    ]
}
