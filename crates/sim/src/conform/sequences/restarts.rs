//! What happens while MetalLB is away, and when it starts.

use serde_json::json;

use super::sequences;
use crate::conform::place::{delete, finalizers, patch};
use crate::conform::{Action, Place, Sequence};

pub fn all() -> Vec<Sequence> {
    sequences![Restart:
        who_shows_an_address_keeps_it,
        who_shows_it_goes_before_who_waits,
        two_show_one_address,
        deleted_while_metallb_is_away,
        made_while_metallb_is_away,
        turned_internal_while_metallb_is_away,
        a_pin_changed_while_metallb_is_away,
        a_pool_cut_while_metallb_is_away,
        sharers_after_a_restart,
        a_key_taken_off_while_metallb_is_away,
        a_status_wiped_while_metallb_is_away,
        being_deleted_over_a_restart,
        a_dual_stack_service_over_a_restart,
    ]
    .to_vec()
}

const PIN: &str = "metallb.io/loadBalancerIPs";
const KEY: &str = "metallb.io/allow-shared-ip";

fn who_shows_an_address_keeps_it(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.pinned("a", &place.ip(3)),
        place.annotate("a", json!({ PIN: null })),
        Action::Stop,
        Action::Start,
        place.draws("b", "p"),
    ]
}

fn who_shows_it_goes_before_who_waits(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("z", "p"),
        place.draws("a", "p"),
        place.pinned("b", &place.ip(1)),
        Action::Stop,
        Action::Start,
        delete(place.service("z")),
    ]
}

fn two_show_one_address(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        Action::Stop,
        place.forge("b", &[place.ip(1)]),
        Action::Start,
    ]
}

fn deleted_while_metallb_is_away(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        Action::Stop,
        delete(place.service("a")),
        Action::Start,
    ]
}

fn made_while_metallb_is_away(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        Action::Stop,
        place.draws("a", "p"),
        place.pinned("b", &place.ip(1)),
        Action::Start,
        delete(place.service("a")),
    ]
}

fn turned_internal_while_metallb_is_away(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        Action::Stop,
        place.edit("a", json!({ "type": "ClusterIP" })),
        place.pinned("c", &place.ip(1)),
        Action::Start,
    ]
}

fn a_pin_changed_while_metallb_is_away(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.pinned("a", &place.ip(1)),
        place.pinned("b", &place.ip(2)),
        Action::Stop,
        place.annotate("a", json!({ PIN: place.ip(2) })),
        place.annotate("b", json!({ PIN: null })),
        Action::Start,
    ]
}

fn a_pool_cut_while_metallb_is_away(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.pinned("a", &place.ip(1)),
        place.pinned("b", &place.ip(2)),
        Action::Stop,
        place.edit_pool("p", json!({ "addresses": [place.range(2, 2)] })),
        Action::Start,
        place.edit_pool("p", json!({ "addresses": [place.range(1, 2)] })),
    ]
}

fn sharers_after_a_restart(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.sharing("a", &place.ip(1), "k", 80),
        place.sharing("b", &place.ip(1), "k", 81),
        Action::Stop,
        Action::Start,
        place.sharing("c", &place.ip(1), "k", 80),
        delete(place.service("a")),
    ]
}

fn a_key_taken_off_while_metallb_is_away(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.sharing("a", &place.ip(1), "k", 80),
        place.sharing("b", &place.ip(1), "k", 81),
        Action::Stop,
        place.annotate("a", json!({ KEY: null })),
        Action::Start,
    ]
}

fn a_status_wiped_while_metallb_is_away(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.pinned("a", &place.ip(2)),
        place.draws("b", "p"),
        Action::Stop,
        place.forge("a", &[]),
        place.forge("b", &[place.ip(3)]),
        Action::Start,
    ]
}

fn being_deleted_over_a_restart(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        finalizers(place.service("a"), &["a.b/c"]),
        delete(place.service("a")),
        Action::Stop,
        patch(place.service("a"), json!({ "metadata": { "labels": { "x": "1" } } })),
        Action::Start,
        finalizers(place.service("a"), &[]),
    ]
}

fn a_dual_stack_service_over_a_restart(place: &Place) -> Vec<Action> {
    let dual = json!({ "ipFamilyPolicy": "PreferDualStack" });
    let draws = json!({ "metallb.io/address-pool": place.name("p") });
    vec![
        place.reserved("p", &[&place.range(1, 1), &place.range6(1, 1)]),
        place.balancer("a", draws, dual),
        place.pinned("b", &place.ip(1)),
        Action::Stop,
        place.edit("a", json!({ "ipFamilyPolicy": "SingleStack" })),
        Action::Start,
        place.pinned("c", &place.ip6(1)),
    ]
}
