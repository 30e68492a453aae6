//! Many claims, few addresses: nobody shares, nobody is forgotten, no herd.

use api::{AddressName, ClaimKey};
use binder::Key;
use plan::Brain;
use serde_json::json;

use crate::lab::{Lab, lab};
use crate::world::{Did, address_ref, claim_ref};

fn claim(name: &str) -> Key {
    Key::Claim(ClaimKey::new("a", name))
}

fn bound(lab: &Lab) -> Vec<String> {
    let all = lab.world.objects.iter().filter(|(_, value)| value["status"]["phase"] == "Bound");
    all.filter(|(reference, _)| reference.namespace.is_some())
        .map(|(reference, _)| reference.name.clone())
        .collect()
}

#[test]
fn c4_07_two_claims_in_flight_never_choose_one_address() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).address("192.0.2.2", json!({}));
    lab.claim("x", json!({})).claim("y", json!({})).claim("z", json!({"addressName": "ip-192-0-2-1"}));
    lab.deliver();
    let x = lab.decide(&claim("x"));
    let y = lab.decide(&claim("y"));
    let z = lab.decide(&claim("z"));
    assert!(z.again_after.is_some(), "what is chosen may be left");
    // The address's own pass keeps out of the way.
    let address = lab.decide(&Key::Address(AddressName::new("ip-192-0-2-1")));
    assert!(address.is_empty() && address.again_after.is_some());
    for (key, plan) in [(claim("y"), y), (claim("x"), x), (claim("z"), z)] {
        assert_eq!(lab.carry_out(&key, &plan), Did::Fine);
    }
    lab.rest();
    assert_eq!(lab.see_claim("x"), "Bound [192.0.2.1] Bound Resolved");
    assert_eq!(lab.see_claim("y"), "Bound [192.0.2.2] Bound Resolved");
    assert!(lab.claim_message("z", "Bound").contains("is taken"));
}

#[test]
fn c4_07_a_loser_of_a_race_takes_the_next() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).address("192.0.2.2", json!({})).claim("x", json!({}));
    lab.deliver();
    let plan = lab.decide(&claim("x"));
    // Somebody else was faster; the watch has not told yet.
    let theirs = json!({"namespace": "b", "name": "theirs"});
    lab.edit(&address_ref("ip-192-0-2-1"), &json!({"spec": {"claimRef": theirs}}));
    assert_eq!(lab.carry_out(&claim("x"), &plan), Did::Stale);
    lab.rest();
    assert_eq!(lab.see_claim("x"), "Bound [192.0.2.2] Bound Resolved");
}

#[test]
fn c3h_a_freed_address_wakes_the_oldest_claim_and_no_herd() {
    let mut lab = lab();
    for n in 0..100 {
        lab.claim(&format!("c{n:02}"), json!({}));
    }
    lab.rest();
    lab.address("192.0.2.1", json!({})).address("192.0.2.2", json!({}));
    lab.deliver();
    let woken: Vec<_> = lab.dirty.iter().filter(|(lane, _)| *lane == 0).map(|(_, key)| key.clone()).collect();
    assert_eq!(woken, [claim("c00"), claim("c01")]);
    lab.rest();
    assert_eq!(bound(&lab), ["c00", "c01"]);
}

#[test]
fn c3h_no_wake_up_is_lost_when_the_woken_one_goes_away() {
    let mut lab = lab();
    for name in ["c0", "c1", "c2"] {
        lab.claim(name, json!({}));
    }
    lab.rest();
    lab.address("192.0.2.1", json!({}));
    lab.deliver();
    lab.world.vanish(&claim_ref("c0"));
    lab.rest();
    assert_eq!(bound(&lab), ["c1"]);
    lab.edit(&claim_ref("c2"), &json!({"spec": {"family": "Dual"}})).address("192.0.2.2", json!({})).rest();
    assert_eq!(lab.see_claim("c2"), "Pending [192.0.2.2] WaitingForProvisioning Resolved");
}

#[test]
fn c3h_bad_claims_never_delay_the_others() {
    let mut lab = lab();
    for name in ["c0", "c1", "c2"] {
        lab.claim(name, json!({}));
    }
    // What is refused is the write of the claim, as by an admission policy: c0 and c1 fail again and again.
    lab.rest();
    for name in ["c0", "c1"] {
        lab.edit(&claim_ref(name), &json!({"metadata": {"finalizers": null}}));
    }
    lab.world.watch.clear();
    for name in ["c0", "c1"] {
        let value = lab.get(&claim_ref(name)).clone();
        lab.apply(plan::Change::Applied(crate::world::object(&claim_ref(name), &value)));
    }
    lab.dirty.clear();
    lab.address("192.0.2.1", json!({}));
    lab.deliver();
    for name in ["c0", "c1"] {
        assert!(lab.dirty.remove(&(0, claim(name))), "{name} is next");
        lab.world.refuse = Some(claim_ref(name));
        let plan = lab.decide(&claim(name));
        assert_eq!(lab.carry_out(&claim(name), &plan), Did::Refused);
    }
    lab.world.refuse = None;
    assert!(lab.work());
    assert_eq!(bound(&lab), ["c2"]);
}

#[test]
fn c3h_bad_claims_that_name_one_address_do_not_wake_each_other_for_ever() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({}));
    for name in ["c0", "c1"] {
        lab.claim(name, json!({"addressName": "ip-192-0-2-1"}));
    }
    lab.deliver();
    lab.dirty.clear();
    lab.world.refuse = Some(claim_ref("c0"));
    let plan = lab.decide(&claim("c0"));
    assert_eq!(lab.carry_out(&claim("c0"), &plan), Did::Refused);
    assert!(lab.dirty.remove(&(0, claim("c1"))));
    lab.world.refuse = Some(claim_ref("c1"));
    let plan = lab.decide(&claim("c1"));
    assert_eq!(lab.carry_out(&claim("c1"), &plan), Did::Refused);
    assert!(!lab.dirty.iter().any(|(lane, _)| *lane == 0));
}

#[test]
fn c4_07_as_many_claims_as_addresses_cost_four_writes_each() {
    let mut lab = lab();
    for n in 1..=200 {
        lab.claim(&format!("c{n:03}"), json!({})).address(&format!("192.0.2.{n}"), json!({}));
    }
    lab.rest();
    assert_eq!(bound(&lab).len(), 200);
    assert_eq!(lab.world.writes.len(), 4 * 200);
    assert_eq!(lab.world.told.len(), 200);
}

#[test]
fn c3f_two_binders_at_once_end_well() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("x", json!({})).claim("y", json!({}));
    lab.deliver();
    // The old leader decided for y, and is frozen.
    let old = lab.decide(&claim("y"));
    lab.binder.settle(&claim("y"));
    lab.rest();
    assert_eq!(lab.see_claim("x"), "Bound [192.0.2.1] Bound Resolved");
    assert_eq!(lab.carry_out(&claim("y"), &old), Did::Stale);
    lab.rest();
    assert_eq!(lab.see_claim("y"), "Pending [] WaitingForProvisioning Resolved");
}

#[test]
fn c5_06_an_address_does_not_wait_for_the_rest_of_its_claims_plan() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("x", json!({}));
    lab.deliver();
    let address = Key::Address(AddressName::new("ip-192-0-2-1"));
    let plan = lab.decide(&claim("x"));
    assert!(lab.decide(&address).is_empty(), "chosen");
    let bound = json!({"namespace": "a", "name": "x", "uid": lab.uid(&claim_ref("x"))});
    lab.edit(&address_ref("ip-192-0-2-1"), &json!({"spec": {"claimRef": bound}})).deliver();
    assert!(!lab.decide(&address).is_empty(), "the claimRef is there");
    lab.carry_out(&claim("x"), &plan);
    lab.rest();
}

#[test]
fn c5_04_an_address_that_kept_out_of_the_way_is_looked_at_when_the_claim_left_it() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("x", json!({}));
    lab.deliver();
    let plan = lab.decide(&claim("x"));
    lab.edit(&address_ref("ip-192-0-2-1"), &json!({"status": {"phase": "Conflict"}})).deliver();
    assert!(lab.pass(&Key::Address(AddressName::new("ip-192-0-2-1"))));
    lab.dirty.clear();
    assert_eq!(lab.carry_out(&claim("x"), &plan), Did::Stale);
    lab.rest();
    let finalizers = &lab.get(&address_ref("ip-192-0-2-1"))["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["local.sdn.cozystack.io/address-protection"]));
}

/// How many keys a change makes dirty, in a fleet of any size.
#[test]
fn one_change_concerns_few_keys_whatever_the_fleet() {
    let count = |fleet: usize| {
        let mut lab = lab();
        lab.class("other", false);
        for n in 0..fleet {
            let ip = format!("10.0.{}.{}", n / 250, n % 250 + 1);
            lab.address(&ip, json!({})).claim(&format!("c{n:04}"), json!({}));
            lab.claim(&format!("w{n:04}"), json!({"className": "other"}));
        }
        lab.rest();
        let mut counts = Vec::new();
        let mut dirty = |lab: &mut Lab| {
            lab.deliver();
            counts.push(lab.dirty.len());
            lab.rest();
        };
        lab.address("192.0.2.1", json!({}));
        dirty(&mut lab);
        lab.claim("new", json!({}));
        dirty(&mut lab);
        lab.delete(&claim_ref("c0000"));
        dirty(&mut lab);
        lab.edit(&address_ref("ip-10-0-0-2"), &json!({"status": {"phase": "Lost"}}));
        dirty(&mut lab);
        lab.edit(&crate::world::class_ref("pub"), &json!({"spec": {"parameters": {"pool": "x"}}}));
        dirty(&mut lab);
        lab.delete(&crate::world::class_ref("pub"));
        dirty(&mut lab);
        lab.address("192.0.2.2", json!({"className": "other"}));
        dirty(&mut lab);
        counts
    };
    assert_eq!(count(5), [1, 1, 2, 2, 0, 0, 2]);
    assert_eq!(count(300), count(5));
}

#[test]
fn keys_come_oldest_first() {
    let mut lab = lab();
    lab.claim("b", json!({})).address("192.0.2.1", json!({})).claim("a", json!({}));
    lab.deliver();
    let keys: Vec<String> = lab.binder.keys().iter().map(ToString::to_string).collect();
    assert_eq!(keys, ["claim a/b", "address ip-192-0-2-1", "claim a/a"]);
}
