//! Services to the API server: defaults, types, and MetalLB's answer to what becomes of them.

use serde_json::json;

use super::sequences;
use crate::conform::place::{create, delete, finalizers, patch};
use crate::conform::{Action, Place, Sequence};

pub fn all() -> Vec<Sequence> {
    sequences![Shared:
        defaults_of_a_service,
        fields_that_only_a_load_balancer_has,
        ports_are_required,
        a_load_balancer_class_stays,
        a_type_change_takes_the_address_off,
        a_type_change_frees_the_address_for_a_waiter,
        a_node_port_service,
        traffic_policy_there_and_back,
        selectors_come_and_go,
        external_ips_are_nothing_to_metallb,
        a_deleted_service_frees_its_address,
        a_service_being_deleted_keeps_its_address,
        a_waiting_service_being_deleted_may_still_be_served,
        the_mark_of_the_pool_is_put_back,
        harmless_edits_move_nothing,
    ]
    .to_vec()
}

fn defaults_of_a_service(place: &Place) -> Vec<Action> {
    let port = json!([{ "port": 80 }]);
    vec![
        place.internal("a"),
        create(place.service("b"), json!({ "spec": { "type": "LoadBalancer", "ports": port } })),
        create(
            place.service("c"),
            json!({ "spec": {
            "type": "LoadBalancer", "ports": port, "allocateLoadBalancerNodePorts": false,
            "externalTrafficPolicy": "Local", "selector": {},
        } }),
        ),
        place.edit("b", json!({ "externalTrafficPolicy": null, "allocateLoadBalancerNodePorts": null })),
        place.edit("a", json!({ "type": null, "ipFamilyPolicy": null })),
    ]
}

fn fields_that_only_a_load_balancer_has(place: &Place) -> Vec<Action> {
    let of = |name: &str, field: &str, value: serde_json::Value| {
        create(place.service(name), json!({ "spec": { "ports": [{ "port": 80 }], field: value } }))
    };
    vec![
        of("a", "externalTrafficPolicy", json!("Cluster")),
        of("b", "loadBalancerClass", json!("x.y/z")),
        of("c", "allocateLoadBalancerNodePorts", json!(false)),
        of("d", "loadBalancerIP", json!("192.0.2.1")),
        place.internal("e"),
        place.edit("e", json!({ "externalTrafficPolicy": "Local" })),
        place.edit("e", json!({ "loadBalancerClass": "x.y/z" })),
    ]
}

fn ports_are_required(place: &Place) -> Vec<Action> {
    vec![
        create(place.service("a"), json!({ "spec": { "type": "LoadBalancer" } })),
        create(place.service("b"), json!({ "spec": { "ports": [] } })),
        place.internal("c"),
        place.edit("c", json!({ "ports": [] })),
        place.edit("c", json!({ "ports": [{ "port": 80 }, { "port": 81 }] })),
        place.edit("c", json!({ "ports": [{ "name": "a", "port": 80 }, { "name": "b", "port": 80 }] })),
        place.edit(
            "c",
            json!({ "ports": [{ "name": "a", "port": 80 }, { "name": "b", "port": 80, "protocol": "UDP" }] }),
        ),
        place.edit("c", json!({ "ports": [{ "port": 70000 }] })),
    ]
}

fn a_load_balancer_class_stays(place: &Place) -> Vec<Action> {
    let other = json!({ "loadBalancerClass": "x.y/z" });
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.draws("a", "p"),
        place.edit("a", other.clone()),
        place.balancer("b", json!({ "metallb.io/address-pool": place.name("p") }), other.clone()),
        place.edit("b", json!({ "loadBalancerClass": "x.y/other" })),
        place.edit("b", json!({ "loadBalancerClass": null })),
        place.edit("b", json!({ "type": "ClusterIP" })),
        place.edit("b", json!({ "type": "LoadBalancer" })),
        place.edit("a", json!({ "type": "ClusterIP" })),
        place.edit("a", json!({ "type": "LoadBalancer", "loadBalancerClass": "x.y/z" })),
    ]
}

fn a_type_change_takes_the_address_off(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 2)]),
        place.pinned("a", &place.ip(2)),
        place.edit("a", json!({ "type": "ClusterIP" })),
        place.edit("a", json!({ "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "externalTrafficPolicy": "Local" })),
        place.edit("a", json!({ "type": "ClusterIP" })),
        place.edit("a", json!({ "type": "LoadBalancer" })),
        place.edit("a", json!({ "type": "NodePort" })),
        place.edit("a", json!({ "type": "ClusterIP", "externalTrafficPolicy": null })),
    ]
}

fn a_type_change_frees_the_address_for_a_waiter(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.pinned("a", &place.ip(1)),
        place.draws("b", "p"),
        place.edit("a", json!({ "type": "ClusterIP" })),
        place.edit("a", json!({ "type": "LoadBalancer" })),
        delete(place.service("b")),
    ]
}

fn a_node_port_service(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        create(
            place.service("a"),
            json!({
                "metadata": { "annotations": { "metallb.io/address-pool": place.name("p") } },
                "spec": { "type": "NodePort", "ports": [{ "port": 80 }] },
            }),
        ),
        place.edit("a", json!({ "externalTrafficPolicy": "Local" })),
        place.edit("a", json!({ "type": "LoadBalancer" })),
        place.edit("a", json!({ "type": "NodePort" })),
    ]
}

fn traffic_policy_there_and_back(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.pinned("a", &place.ip(1)),
        place.edit("a", json!({ "externalTrafficPolicy": "Local" })),
        place.edit("a", json!({ "selector": { "app": "other" } })),
        place.edit("a", json!({ "externalTrafficPolicy": "Cluster" })),
        place.edit("a", json!({ "externalTrafficPolicy": "Odd" })),
    ]
}

fn selectors_come_and_go(place: &Place) -> Vec<Action> {
    vec![
        place.internal("a"),
        place.edit("a", json!({ "selector": { "x": "1" } })),
        place.edit("a", json!({ "selector": { "x": null } })),
        place.edit("a", json!({ "selector": { "y": "1" } })),
        place.edit("a", json!({ "selector": null })),
    ]
}

fn external_ips_are_nothing_to_metallb(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        create(
            place.service("a"),
            json!({ "spec": { "ports": [{ "port": 80 }], "externalIPs": [place.ip(1)] } }),
        ),
        place.draws("b", "p"),
        place.edit("a", json!({ "externalIPs": null })),
    ]
}

fn a_deleted_service_frees_its_address(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        place.pinned("c", &place.ip(1)),
        delete(place.service("a")),
        delete(place.service("b")),
        delete(place.service("c")),
    ]
}

fn a_service_being_deleted_keeps_its_address(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        finalizers(place.service("a"), &["a.b/c"]),
        delete(place.service("a")),
        place.annotate("a", json!({ "x": "1" })),
        finalizers(place.service("a"), &[]),
    ]
}

fn a_waiting_service_being_deleted_may_still_be_served(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.draws("b", "p"),
        finalizers(place.service("b"), &["a.b/c"]),
        delete(place.service("b")),
        delete(place.service("a")),
        place.edit("b", json!({ "type": "ClusterIP" })),
        finalizers(place.service("b"), &[]),
    ]
}

fn the_mark_of_the_pool_is_put_back(place: &Place) -> Vec<Action> {
    let mark = "metallb.io/ip-allocated-from-pool";
    vec![
        place.reserved("p", &[&place.range(1, 1)]),
        place.draws("a", "p"),
        place.annotate("a", json!({ mark: null })),
        place.annotate("a", json!({ mark: "elsewhere" })),
        patch(place.service("a"), json!({ "metadata": { "annotations": null } })),
        place.internal("b"),
        place.annotate("b", json!({ mark: "elsewhere" })),
        place.draws("c", "p"),
        place.annotate("c", json!({ mark: "elsewhere" })),
    ]
}

fn harmless_edits_move_nothing(place: &Place) -> Vec<Action> {
    vec![
        place.reserved("p", &[&place.range(1, 3)]),
        place.pinned("a", &place.ip(3)),
        place.annotate("a", json!({ "x": "1" })),
        patch(place.service("a"), json!({ "metadata": { "labels": { "x": "1" } } })),
        place.edit("a", json!({ "ports": [{ "port": 81, "targetPort": 8081 }] })),
        place.edit("a", json!({ "selector": { "app": "other" } })),
        place.edit("a", json!({ "allocateLoadBalancerNodePorts": false })),
    ]
}
