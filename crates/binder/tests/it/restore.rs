//! Contract §12 *Restore*: what was a claim's goes to nobody else unasked.

use serde_json::{Value, json};

use crate::lab::{lab, pre_bound};
use crate::world::{P, address_ref, claim_ref};

const WEB: &str = "ip-192-0-2-1";

#[test]
fn c12_a_restored_claim_waits_for_its_released_address() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.delete(&claim_ref("web")).rest();
    assert_eq!(lab.see_address(WEB), "Released a/web");
    // Restored with its annotations, the stamp among them: the driver must not see it.
    lab.world.create(
        &claim_ref("web"),
        json!({"metadata": {"annotations": {"local.sdn.cozystack.io/provisioner": P}}, "spec": {}}),
    );
    lab.address("192.0.2.2", json!({})).rest();
    assert_eq!(lab.see_claim("web"), "Pending [] AddressNotAvailable Resolved");
    let claim = lab.get(&claim_ref("web")).clone();
    assert_eq!(claim["metadata"]["annotations"]["local.sdn.cozystack.io/provisioner"], Value::Null);
    let message = lab.claim_message("web", "Bound");
    assert!(message.contains("ip-192-0-2-1 (192.0.2.1)") && message.contains("kubectl patch"), "{message}");
    lab.edit(&address_ref(WEB), &json!({"spec": {"claimRef": {"uid": null}}})).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1] Bound Resolved");
    assert_eq!(lab.see_address("ip-192-0-2-2"), "Available -");
}

#[test]
fn c12_addresses_restored_without_status_are_waited_for_at_once() {
    let mut lab = lab();
    lab.claim("web", json!({})).address("192.0.2.2", json!({}));
    lab.address("192.0.2.1", pre_bound(Some("uid-of-old"))).rest();
    assert_eq!(lab.see_claim("web"), "Pending [] AddressNotAvailable Resolved");
    assert_eq!(lab.see_address(WEB), "Released a/web");
}

#[test]
fn c12_what_the_inventory_found_is_no_claims_and_not_waited_for() {
    let mut lab = lab();
    let label = api::wellknown::driver::OBSERVED;
    lab.address("192.0.2.1", pre_bound(Some("uid-of-service")))
        .edit(&address_ref(WEB), &json!({"metadata": {"labels": {label: "true"}}}));
    lab.claim("web", json!({})).address("192.0.2.2", json!({})).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.2] Bound Resolved");
    assert_eq!(lab.see_address(WEB), "Released a/web");
}

/// It is a Service's that no claim covers: also if an admin frees it as one frees an address.
#[test]
fn c12_a_note_of_the_inventory_is_bound_to_nobody_however_it_is_edited() {
    let mut lab = lab();
    let label = api::wellknown::driver::OBSERVED;
    lab.address("192.0.2.1", pre_bound(Some("uid-of-service")))
        .edit(&address_ref(WEB), &json!({"metadata": {"labels": {label: "true"}}}));
    lab.claim("web", json!({})).claim("other", json!({})).claim("named", json!({"addressName": WEB})).rest();
    for claim_ref in [json!({"uid": null}), json!(null)] {
        lab.edit(&address_ref(WEB), &json!({"spec": {"claimRef": claim_ref}})).rest();
        for claim in ["web", "other", "named"] {
            let seen = lab.see_claim(claim);
            assert!(seen.starts_with("Pending []"), "{claim}: {seen}");
        }
    }
}

#[test]
fn h1_recreated_in_no_time_never_inherits_and_a_recycled_one_goes_to_its_name_before_rivals() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.claim("rival-1", json!({})).claim("rival-2", json!({})).rest();
    for _ in 0..5 {
        lab.delete(&claim_ref("web"));
        assert!(lab.work());
        lab.claim("web", json!({})).rest();
        assert_eq!(lab.see_claim("web"), "Pending [] AddressNotAvailable Resolved");
    }
    lab.edit(&address_ref(WEB), &json!({"spec": {"claimRef": {"uid": null}}})).rest();
    assert_eq!(lab.see_claim("web"), "Bound [192.0.2.1] Bound Resolved");
    lab.delete(&claim_ref("web")).rest();
    lab.edit(&address_ref(WEB), &json!({"spec": {"claimRef": null}})).rest();
    assert_eq!(lab.see_claim("rival-1"), "Bound [192.0.2.1] Bound Resolved");
}
