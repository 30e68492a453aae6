//! Families: what the API server makes of them, and what MetalLB gives.

use serde_json::{Value, json};

use super::sequences;
use crate::conform::place::{create, delete};
use crate::conform::{Action, Place, Sequence};

pub fn all() -> Vec<Sequence> {
    sequences![Shared:
        families_of_an_internal_service,
        families_that_do_not_fit,
        a_second_family_comes_and_goes,
        one_address_of_each_family,
        both_families_from_a_pool_of_one,
        the_second_address_follows_when_there_is_room,
        an_ipv6_service,
        a_family_policy_of_a_running_service,
        ipv6_first,
    ]
    .to_vec()
}

fn stack(policy: &str, families: &[&str]) -> Value {
    json!({ "ipFamilyPolicy": policy, "ipFamilies": families })
}

fn draws(place: &Place, name: &str, spec: Value) -> Action {
    place.balancer(name, json!({ "metallb.io/address-pool": place.name("p") }), spec)
}

fn families_of_an_internal_service(place: &Place) -> Vec<Action> {
    let of = |name: &str, mut spec: Value| {
        spec["ports"] = json!([{ "port": 80 }]);
        create(place.service(name), json!({ "spec": spec }))
    };
    vec![
        of("a", json!({ "ipFamilies": ["IPv6"] })),
        of("b", json!({ "ipFamilyPolicy": "PreferDualStack" })),
        of("c", json!({ "ipFamilyPolicy": "RequireDualStack" })),
        of("d", stack("PreferDualStack", &["IPv6"])),
        of("e", stack("RequireDualStack", &["IPv6", "IPv4"])),
        of("f", stack("SingleStack", &["IPv6"])),
        of("g", json!({ "ipFamilies": ["IPv4", "IPv6"] })),
    ]
}

fn families_that_do_not_fit(place: &Place) -> Vec<Action> {
    let of = |name: &str, mut spec: Value| {
        spec["ports"] = json!([{ "port": 80 }]);
        create(place.service(name), json!({ "spec": spec }))
    };
    vec![
        of("a", stack("SingleStack", &["IPv4", "IPv6"])),
        of("b", json!({ "ipFamilies": ["IPv4", "IPv4"] })),
        of("c", json!({ "ipFamilies": ["IPv5"] })),
        of("d", json!({ "ipFamilyPolicy": "Sometimes" })),
        place.internal("e"),
        place.edit("e", json!({ "ipFamilies": ["IPv6"] })),
        place.edit("e", json!({ "ipFamilies": ["IPv4", "IPv6"] })),
        place.edit("e", json!({ "ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack" })),
    ]
}

fn a_second_family_comes_and_goes(place: &Place) -> Vec<Action> {
    vec![
        place.internal("a"),
        place.edit("a", json!({ "ipFamilyPolicy": "RequireDualStack" })),
        place.edit("a", json!({ "ipFamilyPolicy": "PreferDualStack" })),
        place.edit("a", json!({ "ipFamilyPolicy": "SingleStack" })),
        place.edit("a", json!({ "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"] })),
        place.edit("a", json!({ "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"] })),
    ]
}

fn one_address_of_each_family(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2), &place.range6(1, 2)]),
        draws(place, "a", stack("RequireDualStack", &["IPv4", "IPv6"])),
        draws(place, "b", stack("PreferDualStack", &["IPv4", "IPv6"])),
        draws(place, "c", stack("RequireDualStack", &["IPv4", "IPv6"])),
        delete(place.service("a")),
        delete(place.service("b")),
    ]
}

fn both_families_from_a_pool_of_one(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        draws(place, "a", stack("RequireDualStack", &["IPv4", "IPv6"])),
        draws(place, "b", stack("PreferDualStack", &["IPv4", "IPv6"])),
        draws(place, "c", stack("SingleStack", &["IPv6"])),
        place.edit("a", json!({ "ipFamilyPolicy": "SingleStack" })),
    ]
}

fn the_second_address_follows_when_there_is_room(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        draws(place, "a", stack("PreferDualStack", &["IPv4", "IPv6"])),
        place.edit_pool("p", json!({ "addresses": [place.range(1, 1), place.range6(1, 1)] })),
        place.edit_pool("p", json!({ "addresses": [place.range6(1, 1)] })),
    ]
}

fn an_ipv6_service(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1), &place.range6(1, 1)]),
        draws(place, "a", json!({ "ipFamilies": ["IPv6"] })),
        draws(place, "b", json!({ "ipFamilies": ["IPv6"] })),
        draws(place, "c", json!({ "ipFamilies": ["IPv4"] })),
        delete(place.service("a")),
    ]
}

fn a_family_policy_of_a_running_service(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2), &place.range6(1, 2)]),
        draws(place, "a", json!({})),
        place.edit("a", json!({ "ipFamilyPolicy": "PreferDualStack" })),
        place.edit("a", json!({ "ipFamilyPolicy": "SingleStack" })),
        place.edit("a", json!({ "ipFamilyPolicy": "RequireDualStack" })),
        place.edit("a", json!({ "ipFamilyPolicy": "PreferDualStack" })),
    ]
}

fn ipv6_first(place: &Place) -> Vec<Action> {
    let pins = format!("{},{}", place.ip6(2), place.ip(2));
    vec![
        place.reserved("p", &[&place.range6(1, 2), &place.range(1, 2)]),
        draws(place, "a", stack("PreferDualStack", &["IPv6", "IPv4"])),
        place.balancer(
            "b",
            json!({ "metallb.io/loadBalancerIPs": pins }),
            stack("RequireDualStack", &["IPv6", "IPv4"]),
        ),
    ]
}
