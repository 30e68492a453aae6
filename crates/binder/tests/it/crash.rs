//! The process dies after each write in turn, and starts again: the end is the same.

use rstest::rstest;
use serde_json::json;

use crate::lab::Lab;
use crate::world::{address_ref, claim_ref, class_ref};

type Scenario = fn(&mut Lab);

fn bound(lab: &mut Lab) {
    lab.class("pub", true).address("192.0.2.1", json!({})).claim("web", json!({})).rest();
}

fn static_match(lab: &mut Lab) {
    lab.class("pub", true).address("192.0.2.1", json!({})).claim("web", json!({}));
}

fn dual(lab: &mut Lab) {
    lab.class("pub", true)
        .address("192.0.2.1", json!({}))
        .address("2001:db8::1", json!({}))
        .claim("web", json!({"family": "Dual"}));
}

fn pre_bound(lab: &mut Lab) {
    let claim = json!({"namespace": "a", "name": "web"});
    lab.class("pub", true).address("192.0.2.1", json!({"claimRef": claim})).claim("web", json!({}));
}

fn fresh_addresses(lab: &mut Lab) {
    lab.address("192.0.2.1", json!({})).address_named("twin", "192.0.2.1", json!({}));
}

fn claim_deleted_retain(lab: &mut Lab) {
    bound(lab);
    lab.delete(&claim_ref("web"));
}

fn claim_deleted_delete(lab: &mut Lab) {
    bound(lab);
    lab.edit(&address_ref("ip-192-0-2-1"), &json!({"spec": {"reclaimPolicy": "Delete"}}));
    lab.edit(&address_ref("ip-192-0-2-1"), &json!({"metadata": {"finalizers": ["P/teardown"]}})).rest();
    lab.delete(&claim_ref("web"));
}

fn dual_deleted(lab: &mut Lab) {
    dual(lab);
    lab.edit(&address_ref("ip-2001-db8--1"), &json!({"spec": {"reclaimPolicy": "Delete"}})).rest();
    lab.delete(&claim_ref("web"));
}

fn incomplete_deleted(lab: &mut Lab) {
    lab.class("pub", true).claim("web", json!({})).rest();
    let claim = json!({"namespace": "a", "name": "web"});
    lab.delete(&claim_ref("web")).address("192.0.2.1", json!({"claimRef": claim}));
}

fn safety_net_retain(lab: &mut Lab) {
    bound(lab);
    lab.world.vanish(&claim_ref("web"));
}

fn safety_net_delete(lab: &mut Lab) {
    bound(lab);
    lab.edit(&address_ref("ip-192-0-2-1"), &json!({"spec": {"reclaimPolicy": "Delete"}})).rest();
    lab.world.vanish(&claim_ref("web"));
}

fn restored(lab: &mut Lab) {
    bound(lab);
    lab.delete(&claim_ref("web")).rest();
    lab.claim("web", json!({})).rest();
    lab.edit(&address_ref("ip-192-0-2-1"), &json!({"spec": {"claimRef": {"uid": null}}}));
}

fn address_and_claim_deleted(lab: &mut Lab) {
    bound(lab);
    lab.delete(&address_ref("ip-192-0-2-1")).delete(&claim_ref("web"));
}

fn widened(lab: &mut Lab) {
    bound(lab);
    lab.edit(&claim_ref("web"), &json!({"spec": {"family": "Dual"}})).rest();
    lab.address("2001:db8::1", json!({}));
}

fn elder_goes(lab: &mut Lab) {
    bound(lab);
    lab.address_named("twin", "192.0.2.1", json!({})).claim("late", json!({})).rest();
    lab.delete(&claim_ref("web")).delete(&address_ref("ip-192-0-2-1"));
}

fn class_comes_late(lab: &mut Lab) {
    lab.claim("web", json!({})).address("192.0.2.1", json!({})).rest();
    lab.class("pub", true);
}

fn class_replaced(lab: &mut Lab) {
    lab.class("pub", true).claim("web", json!({})).rest();
    lab.delete(&class_ref("pub"));
    lab.world.create(&class_ref("pub"), json!({"spec": {"provisioner": "other.example"}}));
}

#[rstest]
#[case::c4_07_static_match(static_match)]
#[case::c4_07_dual(dual)]
#[case::c4_04_pre_bound(pre_bound)]
#[case::c5_02_fresh_addresses(fresh_addresses)]
#[case::c6_retain(claim_deleted_retain)]
#[case::c6_delete(claim_deleted_delete)]
#[case::c6_dual(dual_deleted)]
#[case::c6_incomplete(incomplete_deleted)]
#[case::c5_06_safety_net_retain(safety_net_retain)]
#[case::c5_06_safety_net_delete(safety_net_delete)]
#[case::c12_restored(restored)]
#[case::h2_both_deleted(address_and_claim_deleted)]
#[case::c4_08_widened(widened)]
#[case::c3c_elder_goes(elder_goes)]
#[case::h6_class_comes_late(class_comes_late)]
#[case::c4_06_class_replaced(class_replaced)]
fn crashed_after_each_write(#[case] scenario: Scenario) {
    let mut whole = Lab::new();
    scenario(&mut whole);
    whole.world.writes.clear();
    whole.rest();
    let writes = whole.world.writes.len();
    assert!(writes > 0, "a scenario without writes shows nothing");
    for lives in 0..writes {
        let mut lab = Lab::new();
        scenario(&mut lab);
        lab.world.writes.clear();
        lab.world.lives = Some(lives);
        assert!(!lab.work(), "died before write {lives}");
        lab.world.lives = None;
        lab.restart().rest();
        assert_eq!(lab.world.picture(), whole.world.picture(), "died before write {lives}");
        assert_eq!(lab.world.writes.len(), writes, "no write twice: {:#?}", lab.world.writes);
    }
}
