//! Contract §11: an associated Service changes its shape, and every way back works from each. Everything contended.

use api::wellknown::CLAIM;
use rstest::rstest;
use serde_json::{Value, json};

use super::c11_reverse::associated;
use crate::world::build::{IP, Setup, key, service_ref};
use crate::world::crash;

fn shape(spec: Value) -> Value {
    json!({ "spec": spec })
}

#[rstest]
#[case::c11_140_cluster_to_local("Cluster", &[json!({ "externalTrafficPolicy": "Local" })])]
#[case::c11_141_local_to_cluster("Local", &[json!({ "externalTrafficPolicy": "Cluster" })])]
#[case::c11_142_and_back("Cluster", &[
    json!({ "externalTrafficPolicy": "Local" }), json!({ "externalTrafficPolicy": "Cluster" }),
])]
#[case::c11_143_local_and_another_selector("Local", &[json!({ "selector": { "app": "other" } })])]
#[case::c11_144_a_port_that_clashes_is_added("Cluster", &[json!({ "ports": [
    { "name": "a", "port": 80 }, { "name": "b", "port": 65535 },
] })])]
#[case::c11_145_local_and_a_port_that_clashes("Local", &[json!({ "ports": [
    { "name": "a", "port": 80 }, { "name": "b", "port": 65535 },
] })])]
fn c11_140_switched_while_associated(#[case] policy: &str, #[case] edits: &[Value]) {
    for delete in [false, true] {
        for hold_on_delete in [true, false] {
            let mut setup = Setup::default();
            setup.config.hold_on_delete = hold_on_delete;
            // Without the finalizer a deletion frees the address before anybody can act.
            let frees = !hold_on_delete && delete;
            setup.contended = !frees;
            crash::from(
                associated(&setup, json!({ "externalTrafficPolicy": policy })),
                |world| {
                    for edit in edits {
                        world.patch(&service_ref("web"), shape(edit.clone()));
                        assert_eq!(world.shows("web"), [IP]);
                        world.settle();
                        world.assert_associated("web", &[IP]);
                        assert_eq!(world.writes, 0, "{}", world.last_words(20));
                    }
                    world.law.gap = frees;
                    if delete {
                        world.delete(&service_ref("web"));
                    } else {
                        world.annotate("web", json!({ CLAIM: null }));
                    }
                },
                |world| {
                    world.assert_held(IP);
                    if world.service_at(&key("web")).is_some() {
                        world.assert_bare("web");
                    }
                },
            );
        }
    }
}
