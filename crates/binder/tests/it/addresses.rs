//! Contract §5.

use binder::Key;
use rstest::rstest;
use serde_json::{Value, json};

use crate::lab::{Lab, lab};
use crate::world::{address_ref, claim_ref};

const ONE: &str = "ip-192-0-2-1";

fn standing(lab: &Lab, name: &str) -> Vec<String> {
    lab.standing.get(&Key::Address(api::AddressName::new(name))).cloned().unwrap_or_default()
}

#[test]
fn c5_02_finalizer_and_available() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({}))
        .edit(&address_ref(ONE), &json!({"metadata": {"finalizers": ["P/teardown"]}}))
        .rest();
    assert_eq!(lab.see_address(ONE), "Available -");
    let finalizers = &lab.get(&address_ref(ONE))["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["P/teardown", "local.sdn.cozystack.io/address-protection"]));
}

#[rstest]
#[case::mapped("::ffff:192.0.2.1")]
#[case::zeros("192.000.002.001")]
#[case::capitals("2001:DB8::1")]
#[case::long("2001:db8:0:0:0:0:0:1")]
#[case::cidr("192.0.2.1/32")]
#[case::space("192.0.2.1\n")]
fn a1_a2_other_spellings_are_pending_and_told(#[case] text: &str) {
    let mut lab = lab();
    lab.address_named("odd", text, json!({}))
        .claim("web", json!({}))
        .claim("named", json!({"addressName": "odd"}));
    lab.claim("six", json!({"family": "IPv6"})).rest();
    assert_eq!(lab.see_address("odd"), "Pending -");
    assert!(standing(&lab, "odd")[0].starts_with("InvalidAddress: spec.address: "));
    let conditions = lab.get(&address_ref("odd"))["status"]["conditions"].clone();
    assert_eq!(conditions[0]["reason"], "InvalidAddress");
    assert_eq!(lab.see_claim("web"), "Pending [] WaitingForProvisioning Resolved");
    assert_eq!(lab.see_claim("six"), "Pending [] WaitingForProvisioning Resolved");
    assert_eq!(lab.see_claim("named"), "Pending [] AddressNotAvailable Resolved");
}

#[test]
fn c3c_the_older_of_two_stands_and_the_other_follows_it() {
    let mut lab = lab();
    lab.address_named("z-older", "192.0.2.1", json!({}))
        .address_named("a-newer", "192.0.2.1", json!({}))
        .rest();
    assert_eq!(lab.see_address("z-older"), "Available -");
    assert_eq!(lab.see_address("a-newer"), "Pending -");
    let conditions = lab.get(&address_ref("a-newer"))["status"]["conditions"].clone();
    assert_eq!(
        (&conditions[0]["status"], &conditions[0]["reason"]),
        (&json!("False"), &json!("DuplicateAddress"))
    );
    assert_eq!(standing(&lab, "a-newer").len(), 1);
    lab.claim("web", json!({})).rest();
    lab.claim("other", json!({})).rest();
    assert_eq!(lab.see_address("z-older"), "Bound a/web");
    lab.delete(&claim_ref("web")).rest();
    lab.delete(&address_ref("z-older")).rest();
    assert_eq!(lab.see_address("a-newer"), "Bound a/other");
    assert_eq!(standing(&lab, "a-newer"), [""; 0]);
    let conditions = lab.get(&address_ref("a-newer"))["status"]["conditions"].clone();
    assert_eq!(conditions[0]["status"], "True");
}

#[test]
fn c3c_of_one_second_the_smaller_name_stands() {
    let mut lab = lab();
    for name in ["b", "a"] {
        let meta = json!({"creationTimestamp": "2026-01-01T00:00:00Z"});
        let spec = json!({"className": "pub", "address": "192.0.2.1", "source": {"fromClass": {}}});
        lab.world.create(&address_ref(name), json!({"metadata": meta, "spec": spec}));
    }
    lab.rest();
    assert_eq!((&*lab.see_address("a"), &*lab.see_address("b")), ("Available -", "Pending -"));
}

#[rstest]
#[case("Conflict")]
#[case("Lost")]
fn c5_04_the_drivers_phases_are_never_entered_or_left(#[case] phase: &str) {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.edit(&address_ref(ONE), &json!({"status": {"phase": phase}})).rest();
    assert_eq!(lab.see_address(ONE), format!("{phase} a/web"));
    lab.delete(&claim_ref("web")).rest();
    assert!(!lab.world.objects.contains_key(&claim_ref("web")));
    assert_eq!(lab.see_address(ONE), format!("{phase} a/web"));
    lab.edit(&address_ref(ONE), &json!({"spec": {"claimRef": null}})).claim("other", json!({})).rest();
    assert_eq!(lab.see_claim("other"), "Pending [] WaitingForProvisioning Resolved");
    assert_eq!(lab.see_address(ONE), format!("{phase} -"));
    // A duplicate in a phase of the driver's is told so, and left in that phase.
    lab.address_named("twin", "192.0.2.1", json!({}))
        .edit(&address_ref("twin"), &json!({"status": {"phase": phase}}));
    lab.rest();
    assert_eq!(lab.see_address("twin"), format!("{phase} -"));
    assert_eq!(standing(&lab, "twin").len(), 1);
    // The driver hands back: whatever it writes, the claim gets it.
    lab.edit(&address_ref(ONE), &json!({"status": {"phase": "Available"}})).rest();
    assert_eq!(lab.see_address(ONE), "Bound a/other");
}

#[test]
fn c5_04_handed_back_without_a_claim_it_is_released() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.edit(&address_ref(ONE), &json!({"status": {"phase": "Lost"}})).delete(&claim_ref("web")).rest();
    lab.edit(&address_ref(ONE), &json!({"status": {"phase": "Bound"}})).rest();
    assert_eq!(lab.see_address(ONE), "Released a/web");
}

#[test]
fn c5_05_an_admin_recycles_a_released_one() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.delete(&claim_ref("web")).rest();
    let conditions = lab.get(&address_ref(ONE))["status"]["conditions"].clone();
    let message = conditions[0]["message"].as_str().unwrap();
    assert!(
        message.contains("claim a/web") && message.contains(r#"{"spec":{"claimRef":null}}"#),
        "{message}"
    );
    lab.edit(&address_ref(ONE), &json!({"spec": {"claimRef": null}})).rest();
    assert_eq!(lab.see_address(ONE), "Available -");
}

#[test]
fn c5_05_one_that_a_service_still_wears_is_given_to_nobody() {
    let mut lab = lab();
    let worn = json!({"kind": "Service", "namespace": "a", "name": "web"});
    lab.address("192.0.2.1", json!({}))
        .edit(&address_ref(ONE), &json!({"status": {"associatedTo": worn}}))
        .claim("web", json!({}))
        .rest();
    assert_eq!(lab.see_claim("web"), "Pending [] WaitingForProvisioning Resolved");
    lab.edit(&address_ref(ONE), &json!({"status": {"associatedTo": null}})).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1] Bound Resolved");
}

#[rstest]
#[case::no_claim(None, "Pending a/web")]
#[case::stale(Some("uid-of-old"), "Released a/web")]
fn c5_06_claim_ref_of_a_claim_that_is_not_there(#[case] uid: Option<&str>, #[case] expected: &str) {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({"claimRef": {"namespace": "a", "name": "web", "uid": uid}})).rest();
    assert_eq!(lab.see_address(ONE), expected);
}

#[rstest]
#[case::retain("Retain", true)]
#[case::delete("Delete", false)]
fn c5_06_safety_net_by_the_addresss_own_policy(#[case] policy: &str, #[case] stays: bool) {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({"reclaimPolicy": policy})).claim("web", json!({})).rest();
    lab.world.vanish(&claim_ref("web"));
    lab.rest();
    assert_eq!(lab.world.objects.contains_key(&address_ref(ONE)), stays);
    let reason = if stays { "AddressReleased" } else { "AddressDeleted" };
    assert_eq!(lab.world.told.last(), Some(&format!("Normal {reason} on IPAddress ip-192-0-2-1")));
}

#[test]
fn c3g_nothing_is_released_because_a_cache_has_not_seen_the_claim() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({"reclaimPolicy": "Delete"})).claim("web", json!({})).rest();
    // The cache loses the claim; the cluster has it.
    let change = lab.world.watch.front().cloned();
    assert!(change.is_none());
    for change in plan::Change::list(plan::Kind::Claim, []) {
        lab.apply(change);
    }
    lab.rest();
    assert_eq!(lab.see_address(ONE), "Bound a/web");
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1] Bound Resolved");
}

#[test]
fn h2_e3_deletion_waits_for_the_claim_and_says_so_once() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.delete(&address_ref(ONE)).rest();
    assert_eq!(standing(&lab, ONE).len(), 1);
    assert!(standing(&lab, ONE)[0].starts_with("DeletionBlocked: claim a/web "));
    lab.delete(&claim_ref("web")).rest();
    assert!(!lab.world.objects.contains_key(&address_ref(ONE)));
    assert!(!lab.world.objects.contains_key(&claim_ref("web")));
}

#[rstest]
#[case::free(json!({}), true)]
#[case::reserved(json!({"claimRef": {"namespace": "a", "name": "nobody"}}), true)]
#[case::released(json!({"claimRef": {"namespace": "a", "name": "nobody", "uid": "u"}}), true)]
fn c5_01_nobodys_address_is_let_go(#[case] spec: Value, #[case] goes: bool) {
    let mut lab = lab();
    lab.address("192.0.2.1", spec).rest();
    lab.delete(&address_ref(ONE)).rest();
    assert_eq!(!lab.world.objects.contains_key(&address_ref(ONE)), goes);
}

#[rstest]
#[case("Bound", false)]
#[case("Conflict", false)]
#[case("Lost", true)]
fn c5_01_whom_the_deletion_waits_for(#[case] phase: &str, #[case] goes: bool) {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.edit(&address_ref(ONE), &json!({"status": {"phase": phase}})).delete(&address_ref(ONE)).rest();
    assert_eq!(!lab.world.objects.contains_key(&address_ref(ONE)), goes);
}

#[test]
fn c5_01_a_foreign_finalizer_is_left_alone() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({}))
        .edit(&address_ref(ONE), &json!({"metadata": {"finalizers": ["P/teardown"]}}))
        .rest();
    lab.delete(&address_ref(ONE)).rest();
    assert_eq!(lab.get(&address_ref(ONE))["metadata"]["finalizers"], json!(["P/teardown"]));
}
