//! Contract §4.

use rstest::rstest;
use serde_json::{Value, json};

use crate::lab::{Lab, lab, pre_bound};
use crate::world::{P, address_ref, claim_ref, class_ref};

const WEB: &str = "ip-192-0-2-1";

#[test]
fn c4_02_finalizer_and_stamp_go_out_in_one_patch_and_keep_what_is_there() {
    let mut lab = lab();
    lab.world.create(
        &claim_ref("web"),
        json!({"metadata": {"finalizers": ["x/y"], "annotations": {"k": "v"}}, "spec": {}}),
    );
    lab.rest();
    assert_eq!(lab.world.writes, ["patch IPAddressClaim a/web", "patch IPAddressClaim a/web/status"]);
    let meta = &lab.get(&claim_ref("web"))["metadata"];
    assert_eq!(meta["finalizers"], json!(["x/y", "local.sdn.cozystack.io/claim-protection"]));
    assert_eq!(meta["annotations"], json!({"k": "v", "local.sdn.cozystack.io/provisioner": P}));
    assert_eq!(lab.see_claim("web"), "Pending [] WaitingForProvisioning Resolved");
}

#[rstest]
#[case::another_uid(Some("uid-of-old"), json!({}), "Pending [] AddressNotAvailable Resolved")]
#[case::another_uid_deleted_by_policy(Some("uid-of-old"), json!({"reclaimPolicy": "Delete"}), "Pending [] WaitingForProvisioning Resolved")]
#[case::no_uid(None, json!({}), "Bound [192.0.2.1] Bound Resolved")]
#[case::empty_uid(Some(""), json!({}), "Bound [192.0.2.1] Bound Resolved")]
#[case::other_class(None, json!({"className": "other"}), "Bound [192.0.2.1] Bound Resolved")]
fn c4_03_only_its_own_uid_or_none_is_adopted(
    #[case] uid: Option<&str>,
    #[case] spec: Value,
    #[case] expected: &str,
) {
    let mut lab = lab();
    lab.address("192.0.2.1", pre_bound(uid)).edit(&address_ref(WEB), &json!({"spec": spec}));
    lab.claim("web", json!({})).rest();
    assert_eq!(lab.see_claim("web"), expected);
}

#[test]
fn c4_04_a_missing_uid_is_completed_before_any_rival_gets_it() {
    let mut lab = lab();
    lab.claim("rival", json!({})).claim("rival-2", json!({"addressName": WEB})).rest();
    lab.address("192.0.2.1", pre_bound(None)).rest();
    assert_eq!(lab.see_address(WEB), "Pending a/web");
    lab.claim("web", json!({})).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1] Bound Resolved");
    assert_eq!(
        lab.the_address(WEB).spec.claim_ref.as_ref().unwrap().uid(),
        Some(&*lab.uid(&claim_ref("web")))
    );
    assert_eq!(lab.see_claim("rival"), "Pending [] WaitingForProvisioning Resolved");
    assert!(lab.claim_message("rival-2", "Bound").contains("is taken"));
}

#[test]
fn c4_04_a_driver_binds_with_the_uid_and_the_core_follows() {
    let mut lab = lab();
    lab.claim("web", json!({})).rest();
    let uid = lab.uid(&claim_ref("web"));
    lab.world.writes.clear();
    lab.address("192.0.2.1", pre_bound(Some(&uid))).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1] Bound Resolved");
    assert_eq!(lab.see_address(WEB), "Bound a/web");
    assert_eq!(lab.world.writes.len(), 3, "{:#?}", lab.world.writes);
    assert_eq!(lab.world.told, ["Normal Matched on IPAddressClaim a/web"]);
}

#[test]
fn c4_05_a_deleted_class_disturbs_no_binding() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({"className": "pub"})).rest();
    lab.world.writes.clear();
    lab.delete(&class_ref("pub")).rest();
    lab.class("other", true).rest();
    assert_eq!(lab.world.writes, [""; 0]);
    lab.restart().rest();
    assert_eq!(lab.world.writes, [""; 0]);
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1] Bound Resolved");
}

#[test]
fn c4_04_one_that_is_being_deleted_is_not_bound_on_its_way_out() {
    let mut lab = lab();
    lab.address("192.0.2.1", pre_bound(None))
        .edit(&address_ref(WEB), &json!({"metadata": {"finalizers": ["P/teardown"]}}))
        .delete(&address_ref(WEB));
    lab.claim("web", json!({})).address("192.0.2.2", json!({})).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.2] Bound Resolved");
    assert_eq!(lab.the_address(WEB).spec.claim_ref.as_ref().unwrap().uid(), None);
}

#[test]
fn c4_05_surplus_addresses_stay_bound_and_are_not_shown() {
    let mut lab = lab();
    lab.address("192.0.2.5", pre_bound(None)).claim("web", json!({})).rest();
    lab.address("192.0.2.1", pre_bound(None)).address("2001:db8::1", pre_bound(None)).rest();
    // The one that is shown stays, though another has the smaller name.
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.5] Bound Resolved");
    assert_eq!(lab.see_address(WEB), "Bound a/web");
    assert_eq!(lab.see_address("ip-2001-db8--1"), "Bound a/web");
    // The surplus one steps in when the first is lost.
    lab.edit(&address_ref("ip-192-0-2-5"), &json!({"status": {"phase": "Lost"}})).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1] Bound Resolved");
}

#[rstest]
#[case::none(&[], "Pending [] WaitingForProvisioning NoDefaultClass", "no IPAddressClass is marked")]
#[case::two(&["gold", "iron"], "Pending [] WaitingForProvisioning MultipleDefaultClasses", "gold, iron")]
fn c4_06_no_class_is_guessed(#[case] defaults: &[&str], #[case] expected: &str, #[case] told: &str) {
    let mut lab = Lab::new();
    lab.class("pub", false);
    for name in defaults {
        lab.class(name, true);
    }
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    assert_eq!(lab.see_claim("web"), expected);
    assert!(lab.claim_message("web", "ClassResolved").contains(told));
    assert_eq!(lab.get(&claim_ref("web"))["metadata"]["annotations"], Value::Null);
    let key = binder::Key::Claim(api::ClaimKey::new("a", "web"));
    assert_eq!(lab.standing[&key].len(), 1, "a condition and an event, once");
}

/// What a class's driver says of a family is said to the claims that wait for it, until it is so no more.
#[test]
fn f3_claims_that_wait_are_told_which_family_there_is_none_of() {
    let lacks = |status: &str| {
        json!({ "status": { "conditions": [{
            "type": "IPv6Available", "status": status, "reason": "FamilyNotConfigured", "message": "no IPv6 here",
            "lastTransitionTime": "2026-11-30T00:00:00Z",
        }] } })
    };
    let mut lab = lab();
    lab.claim("six", json!({"family": "IPv6"}))
        .claim("both", json!({"family": "Dual"}))
        .claim("four", json!({}));
    lab.rest();
    lab.edit(&class_ref("pub"), &lacks("False")).rest();
    for (claim, told) in [("six", true), ("both", true), ("four", false)] {
        assert_eq!(lab.see_claim(claim), "Pending [] WaitingForProvisioning Resolved");
        let said = lab.claim_message(claim, "Bound");
        assert_eq!(said.ends_with("; no IPv6 here"), told, "{claim}: {said}");
    }
    lab.claim("late", json!({"family": "IPv6"})).rest();
    assert!(lab.claim_message("late", "Bound").contains("no IPv6 here"));
    for mended in [lacks("True"), json!({ "status": { "conditions": null } })] {
        lab.edit(&class_ref("pub"), &lacks("False")).rest();
        assert!(lab.claim_message("six", "Bound").contains("no IPv6 here"));
        lab.edit(&class_ref("pub"), &mended).rest();
        assert!(!lab.claim_message("six", "Bound").contains("no IPv6 here"));
    }
}

#[test]
fn c4_06_a_missing_class_is_waited_for() {
    let mut lab = Lab::new();
    lab.claim("web", json!({"className": "pub"})).address("192.0.2.1", json!({})).rest();
    assert_eq!(lab.see_claim("web"), "Pending [] WaitingForProvisioning ClassNotFound");
    lab.class("pub", false).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1] Bound Resolved");
}

#[test]
fn c4_06_the_stamp_follows_the_class_while_unbound() {
    let mut lab = lab();
    lab.world.create(&class_ref("cloud"), json!({"spec": {"provisioner": "cloud.example"}}));
    lab.claim("web", json!({"className": "pub"})).rest();
    lab.edit(&claim_ref("web"), &json!({"spec": {"className": "cloud"}})).rest();
    let annotations = &lab.get(&claim_ref("web"))["metadata"]["annotations"];
    assert_eq!(annotations["local.sdn.cozystack.io/provisioner"], "cloud.example");
    // Deleted and made anew with another provisioner (its spec is immutable).
    lab.delete(&class_ref("cloud"));
    lab.world.create(&class_ref("cloud"), json!({"spec": {"provisioner": "other.example"}}));
    lab.rest();
    let annotations = &lab.get(&claim_ref("web"))["metadata"]["annotations"];
    assert_eq!(annotations["local.sdn.cozystack.io/provisioner"], "other.example");
}

#[test]
fn h6_default_class_changed_none_or_two() {
    let mut lab = Lab::new();
    lab.claim("one", json!({})).rest();
    assert_eq!(lab.see_claim("one"), "Pending [] WaitingForProvisioning NoDefaultClass");
    lab.class("gold", true).rest();
    assert_eq!(lab.see_claim("one"), "Pending [] WaitingForProvisioning Resolved");
    lab.class("iron", true).claim("two", json!({})).rest();
    assert_eq!(lab.see_claim("two"), "Pending [] WaitingForProvisioning MultipleDefaultClasses");
    let class = |lab: &Lab, name| lab.get(&claim_ref(name))["status"]["className"].clone();
    assert_eq!(class(&lab, "one"), "gold");
    lab.delete(&class_ref("gold")).rest();
    assert_eq!(class(&lab, "two"), "iron");
    assert_eq!(class(&lab, "one"), "gold", "a resolved claim never changes class");
    assert_eq!(lab.see_claim("one"), "Pending [] WaitingForProvisioning ClassNotFound");
}

#[test]
fn c4_07_a_static_match_costs_five_writes_and_one_event() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    assert_eq!(
        lab.world.writes,
        [
            "patch IPAddressClaim a/web",
            "patch IPAddress ip-192-0-2-1",
            "patch IPAddressClaim a/web/status",
            "patch IPAddress ip-192-0-2-1/status",
        ]
    );
    assert_eq!(lab.world.told, ["Normal Matched on IPAddressClaim a/web"]);
    assert_eq!(lab.see_address(WEB), "Bound a/web");
}

#[test]
fn c4_07_the_smallest_name_of_class_and_family() {
    let mut lab = lab();
    lab.address_named("b", "192.0.2.2", json!({}))
        .address_named("a", "192.0.2.9", json!({"className": "other"}))
        .address_named("aa", "2001:db8::1", json!({}))
        .address_named("c", "192.0.2.1", json!({}))
        .claim("web", json!({}))
        .rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.2] Bound Resolved");
}

#[rstest]
#[case::missing(json!({"addressName": "ip-10-0-0-1"}), "does not exist")]
#[case::taken(json!({"addressName": "taken"}), "is taken")]
#[case::other_class(json!({"addressName": "other"}), "of class \"other\"")]
#[case::other_family(json!({"addressName": "six"}), "of family IPv6")]
#[case::conflict(json!({"addressName": "conflict"}), "Conflict")]
#[case::lost(json!({"addressName": "lost"}), "Lost")]
#[case::worn(json!({"addressName": "worn"}), "still in use")]
#[case::duplicate(json!({"addressName": "twin"}), "not valid")]
#[case::own_but_stale(json!({"addressName": "stale"}), "claimRef\":{\"uid\":null")]
fn l1_a_named_address_that_cannot_be_had(#[case] spec: Value, #[case] told: &str) {
    let mut lab = lab();
    let somebody = json!({"claimRef": {"namespace": "secret-tenant", "name": "theirs", "uid": "u"}});
    let own = json!({"claimRef": {"namespace": "a", "name": "web", "uid": "uid-of-old"}});
    lab.address_named("taken", "192.0.2.1", somebody)
        .address_named("other", "192.0.2.2", json!({"className": "other"}))
        .address_named("six", "2001:db8::1", json!({}))
        .address_named("conflict", "192.0.2.3", json!({}))
        .edit(&address_ref("conflict"), &json!({"status": {"phase": "Conflict"}}))
        .address_named("lost", "192.0.2.4", json!({}))
        .edit(&address_ref("lost"), &json!({"status": {"phase": "Lost"}}))
        .address_named("worn", "192.0.2.5", json!({}))
        .edit(
            &address_ref("worn"),
            &json!({"status": {"associatedTo": {"kind": "Service", "namespace": "secret-tenant", "name": "theirs"}}}),
        )
        .address_named("free", "192.0.2.6", json!({}))
        .address_named("twin", "192.0.2.6", json!({}))
        .address_named("stale", "192.0.2.7", own)
        .claim("web", spec)
        .rest();
    assert_eq!(lab.see_claim("web"), "Pending [] AddressNotAvailable Resolved");
    let message = lab.claim_message("web", "Bound");
    assert!(message.contains(told), "{message}");
    assert!(!message.contains("secret-tenant") && !message.contains("theirs"), "{message}");
}

#[test]
fn l1_a_named_address_is_had_when_it_becomes_available() {
    let mut lab = lab();
    let somebody = json!({"claimRef": {"namespace": "b", "name": "old", "uid": "u"}});
    lab.address("192.0.2.1", somebody).claim("web", json!({"addressName": WEB})).rest();
    assert_eq!(lab.see_address(WEB), "Released b/old");
    lab.edit(&address_ref(WEB), &json!({"spec": {"claimRef": null}})).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1] Bound Resolved");
}

#[test]
fn c4_08_bound_then_lost_then_back_by_itself() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.address("192.0.2.2", json!({})).rest();
    lab.edit(&address_ref(WEB), &json!({"status": {"phase": "Lost"}})).rest();
    assert_eq!(lab.see_claim("web"), "Lost [192.0.2.1] AddressLost Resolved");
    assert_eq!(lab.see_address("ip-192-0-2-2"), "Available -", "never provisioned around");
    lab.restart().rest();
    lab.edit(&address_ref(WEB), &json!({"status": {"phase": "Bound"}})).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1] Bound Resolved");
}

#[test]
fn c4_08_an_address_that_vanished_is_lost_too() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.world.vanish(&address_ref(WEB));
    lab.address("192.0.2.2", json!({})).rest();
    assert_eq!(lab.see_claim("web"), "Lost [] AddressLost Resolved");
    lab.restart().rest();
    assert_eq!(lab.see_claim("web"), "Lost [] AddressLost Resolved");
    lab.address("192.0.2.1", pre_bound(None)).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1] Bound Resolved");
}

#[test]
fn c4_08_a_pending_claim_does_not_take_around_a_lost_address_either() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({"family": "Dual"})).rest();
    lab.edit(&address_ref(WEB), &json!({"status": {"phase": "Lost"}}));
    lab.address("192.0.2.2", json!({})).rest();
    assert_eq!(lab.see_claim("web"), "Pending [192.0.2.1] AddressLost Resolved");
    assert_eq!(lab.see_address("ip-192-0-2-2"), "Available -");
}

#[test]
fn c4_05_an_address_being_deleted_meets_nothing() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.delete(&address_ref(WEB)).rest();
    assert_eq!(lab.see_claim("web"), "Lost [192.0.2.1] AddressLost Resolved");
}

#[test]
fn f2_dual_half_satisfied_says_what_is_missing() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({"family": "Dual"})).rest();
    assert_eq!(lab.see_claim("web"), "Pending [192.0.2.1] WaitingForProvisioning Resolved");
    assert!(lab.claim_message("web", "Bound").contains("no IPv6 address"));
    lab.address("2001:db8::7", json!({})).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1 2001:db8::7] Bound Resolved");
}

#[test]
fn c4_08_widening_is_a_new_wish_and_no_loss() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.edit(&claim_ref("web"), &json!({"spec": {"family": "Dual"}})).rest();
    assert_eq!(lab.see_claim("web"), "Pending [192.0.2.1] WaitingForProvisioning Resolved");
    assert_eq!(lab.get(&claim_ref("web"))["status"]["observedGeneration"], 2);
    lab.restart().rest();
    lab.address("2001:db8::7", json!({})).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1 2001:db8::7] Bound Resolved");
}

#[test]
fn c1_objects_of_the_go_implementation_are_taken_over_as_they_are() {
    let mut lab = lab();
    let status =
        json!({"phase": "Bound", "className": "pub", "addresses": [{"name": WEB, "address": "192.0.2.1"}]});
    lab.claim("web", json!({"className": "pub", "family": "IPv4"}))
        .edit(&claim_ref("web"), &json!({"status": status}));
    let uid = lab.uid(&claim_ref("web"));
    lab.address("192.0.2.1", pre_bound(Some(&uid)))
        .edit(&address_ref(WEB), &json!({"status": {"phase": "Bound"}}))
        .rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1] Bound Resolved");
    assert_eq!(lab.see_address(WEB), "Bound a/web");
    assert_eq!(lab.world.told, [""; 0]);
}

#[test]
fn c3e_nothing_is_written_at_rest_whatever_the_metadata() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.world.writes.clear();
    lab.edit(&claim_ref("web"), &json!({"metadata": {"labels": {"argocd.argoproj.io/instance": "x"}}}));
    lab.edit(&address_ref(WEB), &json!({"metadata": {"labels": {"k": "v"}}})).rest();
    lab.restart().rest();
    assert_eq!(lab.world.writes, [""; 0]);
}
