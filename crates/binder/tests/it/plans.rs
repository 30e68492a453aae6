//! Some plans, to be read.

use std::fmt::Write;

use api::{AddressName, ClaimKey};
use binder::Key;
use plan::{Action, Plan};
use serde_json::{Value, json};

use crate::lab::{Lab, lab};
use crate::world::{address_ref, claim_ref};

fn read(plan: &Plan) -> String {
    let mut text = String::new();
    for action in &plan.actions {
        match action {
            Action::Patch { target, status, body, .. } => {
                let what = if *status { "patch status of" } else { "patch" };
                writeln!(text, "{what} {}", target.reference).unwrap();
                fields(&mut text, "", body);
            }
            Action::Delete { target } => writeln!(text, "delete {}", target.reference).unwrap(),
            Action::ConfirmAbsent { reference, uid } => {
                writeln!(text, "confirm absent {reference} uid={}", uid.as_deref().unwrap_or("any")).unwrap();
            }
            Action::Emit(event) => {
                writeln!(text, "emit {} on {}: {}", event.reason, event.regarding, event.note).unwrap();
            }
            Action::Trace(span) => writeln!(text, "trace {}", span.name).unwrap(),
            Action::Create { .. } => writeln!(text, "create").unwrap(),
        }
    }
    for event in &plan.standing {
        writeln!(text, "standing {} {}: {}", event.kind.as_str(), event.reason, event.note).unwrap();
    }
    text
}

fn fields(text: &mut String, path: &str, value: &Value) {
    match value {
        Value::Object(map) if path.ends_with("conditions") => {
            let word = |name: &str| map[name].as_str().unwrap().to_owned();
            let (kind, status) = (word("type"), word("status"));
            writeln!(text, "  {kind}={status} {}: {}", word("reason"), word("message")).unwrap();
        }
        Value::Object(map) => {
            for (name, value) in map {
                fields(text, &format!("{path}.{name}"), value);
            }
        }
        Value::Array(all) if path.ends_with("conditions") => {
            for value in all {
                fields(text, path, value);
            }
        }
        value => writeln!(text, "  {path} = {value}").unwrap(),
    }
}

fn claim() -> Key {
    Key::Claim(ClaimKey::new("a", "web"))
}

fn address() -> Key {
    Key::Address(AddressName::new("ip-192-0-2-1"))
}

fn plan(lab: &mut Lab, key: &Key) -> String {
    lab.deliver();
    read(&lab.decide(key))
}

#[test]
fn c4_07_static_match() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({}));
    insta::assert_snapshot!(plan(&mut lab, &claim()));
}

#[test]
fn c4_08_lost() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.edit(&address_ref("ip-192-0-2-1"), &json!({"status": {"phase": "Lost"}}));
    insta::assert_snapshot!(plan(&mut lab, &claim()));
}

#[test]
fn c5_02_fresh_address() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({}));
    insta::assert_snapshot!(plan(&mut lab, &address()));
}

#[test]
fn c5_01_deletion_blocked() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.delete(&address_ref("ip-192-0-2-1"));
    insta::assert_snapshot!(plan(&mut lab, &address()));
}

#[test]
fn c5_06_safety_net() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.world.vanish(&claim_ref("web"));
    insta::assert_snapshot!(plan(&mut lab, &address()));
}

/// Whoever adopts or restores binds an address to a claim that the core may not have heard of yet: nothing is said of it, and nothing
/// lets it go, before a live look.
#[test]
fn c5_08_a_claim_that_was_not_heard_of_is_looked_for() {
    let is_looked_for = |text: &str| text.starts_with("confirm absent IPAddressClaim a/new uid=uid-new");
    let bind = |lab: &mut Lab| {
        let to = json!({ "namespace": "a", "name": "new", "uid": "uid-new" });
        lab.edit(&address_ref("ip-192-0-2-1"), &json!({ "spec": { "claimRef": to } }));
    };
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.delete(&claim_ref("web")).rest();
    bind(&mut lab);
    let text = plan(&mut lab, &address());
    assert!(is_looked_for(&text), "one that is Released: {text}");
    lab.delete(&address_ref("ip-192-0-2-1"));
    let text = plan(&mut lab, &address());
    assert!(is_looked_for(&text), "one that is being deleted: {text}");
}

#[test]
fn c6_reclaim_of_both_policies() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({}))
        .address("2001:db8::1", json!({"reclaimPolicy": "Delete"}))
        .claim("web", json!({"family": "Dual"}))
        .rest();
    lab.delete(&claim_ref("web"));
    insta::assert_snapshot!(plan(&mut lab, &claim()));
}

#[test]
fn c12_restored_claim_waits() {
    let mut lab = lab();
    lab.address("192.0.2.1", json!({})).claim("web", json!({})).rest();
    lab.delete(&claim_ref("web")).rest();
    lab.claim("web", json!({}));
    insta::assert_snapshot!(plan(&mut lab, &claim()));
}

#[test]
fn c3c_duplicate() {
    let mut lab = lab();
    lab.address_named("older", "192.0.2.1", json!({})).address("192.0.2.1", json!({}));
    insta::assert_snapshot!(plan(&mut lab, &address()));
}
