//! Contract §6.

use rstest::rstest;
use serde_json::json;

use crate::lab::lab;
use crate::world::{address_ref, claim_ref, class_ref};

const ONE: &str = "ip-192-0-2-1";

#[test]
fn c6_retain_releases_and_keeps_the_claim_ref() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    let uid = lab.uid(&claim_ref("web"));
    lab.world.told.clear();
    lab.delete(&claim_ref("web")).rest();
    assert!(!lab.world.objects.contains_key(&claim_ref("web")));
    assert_eq!(lab.see_address(ONE), "Released a/web");
    assert_eq!(lab.the_address(ONE).spec.claim_ref.as_ref().unwrap().uid(), Some(&*uid));
    assert_eq!(
        lab.world.told,
        ["Normal AddressReleased on IPAddress ip-192-0-2-1", "Normal Reclaimed on IPAddressClaim a/web"]
    );
}

#[test]
fn c6_delete_deletes_and_the_drivers_finalizer_intercepts() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({"reclaimPolicy": "Delete"}))
        .edit(&address_ref(ONE), &json!({"metadata": {"finalizers": ["P/teardown"]}}))
        .claim("web", json!({}))
        .rest();
    lab.world.told.clear();
    lab.delete(&claim_ref("web")).rest();
    assert!(!lab.world.objects.contains_key(&claim_ref("web")));
    assert_eq!(lab.get(&address_ref(ONE))["metadata"]["finalizers"], json!(["P/teardown"]));
    assert_eq!(
        lab.world.told,
        ["Normal AddressDeleted on IPAddress ip-192-0-2-1", "Normal Reclaimed on IPAddressClaim a/web"]
    );
}

#[test]
fn h5_the_policy_is_the_addresss_own_and_needs_no_class() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.edit(&class_ref("pub"), &json!({"spec": {"reclaimPolicy": "Delete"}})).rest();
    lab.delete(&class_ref("pub")).delete(&claim_ref("web")).rest();
    assert_eq!(lab.see_address(ONE), "Released a/web");
}

#[test]
fn c6_both_addresses_of_a_dual_claim() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({}))
        .address("2001:db8::1", json!({"reclaimPolicy": "Delete"}))
        .claim("web", json!({"family": "Dual"}))
        .rest();
    lab.delete(&claim_ref("web")).rest();
    assert_eq!(lab.see_address(ONE), "Released a/web");
    assert!(!lab.world.objects.contains_key(&address_ref("ip-2001-db8--1")));
}

#[test]
fn c6_another_finalizer_of_the_claim_stays_and_nothing_more_is_done() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    let finalizers = json!(["x/y", "local.sdn.cozystack.io/claim-protection"]);
    lab.edit(&claim_ref("web"), &json!({"metadata": {"finalizers": finalizers}})).rest();
    lab.delete(&claim_ref("web")).rest();
    assert_eq!(lab.get(&claim_ref("web"))["metadata"]["finalizers"], json!(["x/y"]));
    assert_eq!(lab.see_address(ONE), "Released a/web");
}

#[test]
fn i2_a_claim_that_arrives_already_deleting_gets_nothing() {
    let mut lab = lab();
    let meta = json!({"finalizers": ["x/y"], "deletionTimestamp": "2026-11-29T00:00:00Z"});
    lab.world.create(&claim_ref("web"), json!({"metadata": meta, "spec": {}}));
    lab.address("192.0.2.1", json!({})).rest();
    assert_eq!(lab.get(&claim_ref("web"))["status"], serde_json::Value::Null);
    assert_eq!(lab.get(&claim_ref("web"))["metadata"]["finalizers"], json!(["x/y"]));
    assert_eq!(lab.see_address(ONE), "Available -");
}

#[rstest]
#[case::retain("Retain")]
#[case::delete("Delete")]
fn c6_what_was_pre_bound_without_a_uid_goes_with_the_claim(#[case] policy: &str) {
    let mut lab = lab();
    lab.claim("web", json!({})).rest();
    lab.delete(&claim_ref("web"));
    let spec = json!({"reclaimPolicy": policy, "claimRef": {"namespace": "a", "name": "web"}});
    lab.address("192.0.2.1", spec).rest();
    if policy == "Delete" {
        assert!(!lab.world.objects.contains_key(&address_ref(ONE)));
        return;
    }
    assert_eq!(lab.see_address(ONE), "Released a/web");
    lab.claim("web", json!({})).rest();
    assert_eq!(lab.see_claim("web"), "Pending [] AddressNotAvailable Resolved", "another uid never inherits");
}

#[test]
fn c6_a_claim_that_never_had_anything_just_goes() {
    let mut lab = lab();
    lab.claim("web", json!({})).rest();
    lab.world.told.clear();
    lab.delete(&claim_ref("web")).rest();
    assert!(!lab.world.objects.contains_key(&claim_ref("web")));
    assert_eq!(lab.world.told, [""; 0]);
}

#[test]
fn h2_claim_and_address_deleted_together_leave_nothing() {
    for policy in ["Retain", "Delete"] {
        let mut lab = lab();
        lab.address("192.0.2.1", json!({"reclaimPolicy": policy})).claim("web", json!({})).rest();
        lab.delete(&claim_ref("web")).delete(&address_ref(ONE)).rest();
        assert!(!lab.world.objects.contains_key(&address_ref(ONE)), "{policy}");
        assert!(!lab.world.objects.contains_key(&claim_ref("web")), "{policy}");
    }
}
