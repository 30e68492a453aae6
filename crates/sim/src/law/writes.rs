//! Whose fields are written: every write of a controller, before and after (contract §3).

use api::address::AddressPhase;
use api::wellknown::{
    ADDRESS_PROTECTION, CLAIM, CLAIM_PROTECTION, PROVISIONER, TRACEPARENT, driver, metallb as names,
};
use api::{IPAddress, ReclaimPolicy};
use kube::ResourceExt;
use metallb::Config;
use plan::{Call, Kind, Object, Ref};
use serde_json::Value;

use super::holders::{is_observed, is_our_key, is_placeholder};
use crate::server::{Server, decode};
use crate::world::env::{Env, Side};

/// The sentence that is broken, and how.
pub type Broken = (&'static str, String);

const FIELDS: &str = "§3: nobody writes a field that is another's";
const PHASES: &str = "§3 b: the phases are partitioned between the controllers";
const RETAIN: &str = "§6: an address under Retain is deleted by nobody of ours";
const PINS: &str = "§11: a hand-written pin or key is never written over";
const LEDGER_FIRST: &str = "§11: what is given to a Service is in the ledger first, and held for nobody else";

fn must(holds: bool, law: &'static str, words: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err((law, words())) }
}

/// A write that the server has taken: `before` is what it found.
pub fn judge(
    env: &Env,
    side: Side,
    call: &Call,
    reference: &Ref,
    before: Option<&Value>,
) -> Result<(), Broken> {
    match (side, call) {
        (Side::Driver, Call::Create(object)) => {
            created(&env.server, &env.config, object)?;
            reserved(env, object)
        }
        (Side::Driver, Call::Delete { .. }) => {
            before.map_or(Ok(()), |old| deleted(&env.config, &decode(reference.kind, old), true))
        }
        (Side::Driver, Call::Patch { status, body, .. }) => {
            let Some(old) = before else { return Ok(()) };
            let mut new = old.clone();
            crate::server::merge(&mut new, body);
            match patched(&env.config, reference, *status, old, &new, body, true) {
                // Whoever took the marks off: the ledger says whose the pin is.
                Err((PINS, _)) if is_in_ledger(env, reference) => {}
                judged => judged?,
            }
            if reference.kind == Kind::Service && !status { pinned(env, old, body) } else { Ok(()) }
        }
        (Side::Core, call) => core(env, call, reference, before),
        (Side::Driver, Call::Read(_) | Call::Tell(_) | Call::Trace(_)) => Ok(()),
    }
}

/// What the driver creates.
pub fn created(server: &Server, config: &Config, object: &Object) -> Result<(), Broken> {
    let words = |what: &str| format!("creates {}: {what}", object.reference());
    match object {
        Object::Service(service) => {
            must(is_placeholder(config, service), FIELDS, || words("no placeholder"))?;
            must(service.metadata.owner_references.is_none(), FIELDS, || words("with an owner"))?;
            let key = service.annotations().get(names::SHARE);
            // The driver may not have heard yet that the Service wears another.
            let known = key.is_some_and(|key| is_our_key(key) || server.keys_worn.contains(key));
            must(known, "§7: a placeholder is born with a random key", || words(&format!("key {key:?}")))?;
            let mut texts = service.annotations().keys().chain(service.labels().keys());
            let ours = |name: &String| {
                let prefixes = [driver::PROVISIONER, "metallb.io/"];
                name == TRACEPARENT || prefixes.iter().any(|prefix| name.starts_with(prefix))
            };
            must(texts.all(ours), "§7: nothing of a tenant's is copied", || words("foreign metadata"))
        }
        Object::Claim(claim) => {
            must(config.auto_claim, FIELDS, || words("without auto-claim"))?;
            let only = claim.annotations().keys().eq([driver::AUTO_CLAIMED]) && claim.labels().is_empty();
            must(only, "§7: nothing of a tenant's is copied", || words("foreign metadata"))
        }
        Object::Address(address) => {
            let wanted: &[&str] = if is_observed(address) { &[] } else { &[driver::TEARDOWN] };
            must(address.finalizers() == wanted, FIELDS, || words("finalizers"))?;
            let named = address.ip().is_ok_and(|ip| ip.object_name() == address.key());
            must(named, "§2: an address is named by its IP", || words(&address.spec.address))
        }
        _ => Err((FIELDS, words("not the driver's"))),
    }
}

/// What the driver deletes. One that has just been adopted is deleted by nobody: then the version is not fresh.
pub fn deleted(config: &Config, object: &Object, fresh: bool) -> Result<(), Broken> {
    let words = || format!("the driver deletes {}", object.reference());
    match object {
        Object::Address(address) => must(is_observed(address) || !fresh, RETAIN, words),
        Object::Service(service) => must(is_placeholder(config, service), FIELDS, words),
        _ => Err((FIELDS, words())),
    }
}

/// What the driver patches. `fresh`: whether it knew this very version.
pub fn patched(
    config: &Config,
    reference: &Ref,
    status: bool,
    old: &Value,
    new: &Value,
    body: &Value,
    fresh: bool,
) -> Result<(), Broken> {
    match reference.kind {
        Kind::Class => must(status, FIELDS, || format!("writes the spec of {reference}")),
        Kind::Address => address(old, new, status, fresh),
        Kind::Service => service(config, reference, old, new, status, body, fresh),
        _ => Err((FIELDS, format!("the driver writes {reference}"))),
    }
}

fn without(value: &Value, ours: &str) -> Vec<Value> {
    let list = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    list.into_iter().filter(|name| name != ours).collect()
}

/// The conditions that are somebody else's than the driver's, or only those of the driver.
fn conditions(value: &Value, of_driver: bool) -> Vec<&Value> {
    let list = value["conditions"].as_array().into_iter().flatten();
    let driver = |one: &&Value| ["Held", "Associated", "Conflict"].contains(&one["type"].as_str().unwrap());
    list.filter(|one| driver(one) == of_driver).collect()
}

fn is_drivers(phase: &Value) -> bool {
    *phase == "Conflict" || *phase == "Lost"
}

fn address(old: &Value, new: &Value, status: bool, fresh: bool) -> Result<(), Broken> {
    let name = || old["metadata"]["name"].to_string();
    if !status {
        must(old["spec"] == new["spec"], FIELDS, || format!("writes the spec of {}", name()))?;
        let same = !fresh || without(old, driver::TEARDOWN) == without(new, driver::TEARDOWN);
        must(same, FIELDS, || format!("writes a finalizer of somebody else on {}", name()))?;
        return must(old["metadata"]["labels"] == new["metadata"]["labels"], FIELDS, name);
    }
    let (old, new) = (&old["status"], &new["status"]);
    if old["phase"] != new["phase"] && fresh {
        let ours = is_drivers(&old["phase"]) || is_drivers(&new["phase"]);
        must(ours, PHASES, || format!("the driver moves {} to {}", old["phase"], new["phase"]))?;
    }
    let same = !fresh || conditions(old, false) == conditions(new, false);
    must(same, FIELDS, || format!("the driver writes a condition of the core's: {old} to {new}"))
}

fn service(
    config: &Config,
    reference: &Ref,
    old: &Value,
    new: &Value,
    status: bool,
    body: &Value,
    fresh: bool,
) -> Result<(), Broken> {
    must(!status, FIELDS, || format!("writes the status of {reference}"))?;
    let Object::Service(before) = decode(Kind::Service, old) else { unreachable!() };
    if is_placeholder(config, &before) {
        return Ok(());
    }
    must(old["spec"] == new["spec"], FIELDS, || format!("writes the spec of {reference}"))?;
    let meta = &body["metadata"];
    for name in meta.as_object().into_iter().flatten().map(|(name, _)| name.as_str()) {
        let known = ["annotations", "labels", "finalizers", "uid", "resourceVersion"].contains(&name);
        must(known, FIELDS, || format!("writes {name} of {reference}"))?;
    }
    let mut labels = meta["labels"].as_object().into_iter().flatten();
    must(labels.all(|(name, _)| name == driver::ASSOCIATED), FIELDS, || format!("labels of {reference}"))?;
    let ours = before.annotations().get(driver::PINNED).is_some_and(|value| value == "true");
    let recorded = before.finalizers().iter().any(|name| name == driver::HANDOFF)
        || before.labels().contains_key(driver::ASSOCIATED);
    for (name, _) in meta["annotations"].as_object().into_iter().flatten() {
        let had = before.annotations().get(name);
        let allowed = match name.as_str() {
            names::PIN => had.is_none() || ours || recorded,
            names::SHARE => had.is_none_or(|key| is_our_key(key)),
            driver::PINNED | driver::HANDOFF_STARTED => true,
            CLAIM => config.auto_claim && had.is_none(),
            _ => false,
        };
        must(allowed || !fresh, PINS, || format!("{reference}: writes annotation {name} over {had:?}"))?;
    }
    let same = !fresh || without(old, driver::HANDOFF) == without(new, driver::HANDOFF);
    must(same, FIELDS, || format!("writes a finalizer of somebody else on {reference}"))
}

/// What the driver enters into the ledger is held by a placeholder of that claim.
fn reserved(env: &Env, object: &Object) -> Result<(), Broken> {
    let Object::Address(address) = object else { return Ok(()) };
    // A call may outlive its claim: then nobody was told of the address.
    if is_observed(address) || env.law.is_lenient() || !is_claimed(&env.server, address) {
        return Ok(());
    }
    let Ok(ip) = address.ip() else { return Ok(()) };
    let law = "§9: an address is recorded while its placeholder has it";
    let mut holders = env.metallb.books.holders(ip.addr());
    let home = &env.config.placeholder_namespace;
    let held = holders.any(|holder| holder.namespace == *home);
    must(held || env.metallb.down, law, || format!("{ip} is recorded and with no placeholder"))
}

fn is_in_ledger(env: &Env, service: &Ref) -> bool {
    env.server.all(Kind::Address).any(|object| match object {
        Object::Address(address) => address
            .associated_to()
            .is_some_and(|to| Some(&to.namespace) == service.namespace.as_ref() && to.name == service.name),
        _ => false,
    })
}

/// A pin that the driver writes on a tenant's Service: the ledger names that Service first.
fn pinned(env: &Env, old: &Value, body: &Value) -> Result<(), Broken> {
    let Object::Service(service) = decode(Kind::Service, old) else { unreachable!() };
    let Some(pin) = body["metadata"]["annotations"][names::PIN].as_str() else { return Ok(()) };
    if is_placeholder(&env.config, &service) {
        return Ok(());
    }
    for text in pin.split(',') {
        let addresses = env.server.all(Kind::Address).filter_map(|object| match object {
            Object::Address(address) if address.spec.address == text => Some(address),
            _ => None,
        });
        for address in addresses.filter(|address| !is_observed(address)) {
            let to = address.associated_to();
            let named = to.is_some_and(|to| {
                Some(&to.namespace) == service.metadata.namespace.as_ref()
                    && to.name == service.name_any()
                    && to.uid.as_ref().is_none_or(|uid| Some(uid) == service.metadata.uid.as_ref())
            });
            // Of two objects with one IP only the older counts.
            let valid = address.phase() != AddressPhase::Pending;
            must(named || !valid || env.law.is_lenient(), LEDGER_FIRST, || {
                format!("{text} is pinned to {} while the ledger says {to:?}", service.name_any())
            })?;
        }
    }
    Ok(())
}

/// What the core writes.
fn core(env: &Env, call: &Call, reference: &Ref, before: Option<&Value>) -> Result<(), Broken> {
    match call {
        Call::Read(_) | Call::Tell(_) | Call::Trace(_) => Ok(()),
        Call::Create(_) => Err((FIELDS, format!("the core creates {reference}"))),
        Call::Delete { .. } => {
            let Some(Object::Address(address)) = before.map(|old| decode(reference.kind, old)) else {
                return Err((FIELDS, format!("the core deletes {reference}")));
            };
            let policy = address.spec.reclaim_policy == ReclaimPolicy::Delete;
            must(policy, RETAIN, || format!("the core deletes {reference}"))?;
            let words = || format!("the core deletes {reference}, whose claim lives");
            must(!is_claimed(&env.server, &address), "§6: only a claim that goes lets its address go", words)
        }
        Call::Patch { status, body, .. } => {
            let Some(old) = before else { return Ok(()) };
            let mut new = old.clone();
            crate::server::merge(&mut new, body);
            match reference.kind {
                Kind::Claim if *status => Ok(()),
                Kind::Claim => core_claim(reference, old, &new, body),
                Kind::Address if *status => {
                    released(env, reference, &new["status"])?;
                    core_status(reference, &old["status"], &new["status"])
                }
                Kind::Address => core_address(reference, old, &new),
                _ => Err((FIELDS, format!("the core writes {reference}"))),
            }
        }
    }
}

/// Whether the claim that the address is bound to is there and stays.
pub fn is_claimed(server: &Server, address: &IPAddress) -> bool {
    let Some(named) = &address.spec.claim_ref else { return false };
    match server.get(&Ref::claim(&named.key())) {
        Some(Object::Claim(claim)) => {
            named.uid().is_some() && claim.metadata.uid.as_deref() == named.uid() && !claim.is_deleting()
        }
        _ => false,
    }
}

fn core_claim(reference: &Ref, old: &Value, new: &Value, body: &Value) -> Result<(), Broken> {
    must(old["spec"] == new["spec"], FIELDS, || format!("the core writes the spec of {reference}"))?;
    let mut annotations = body["metadata"]["annotations"].as_object().into_iter().flatten();
    must(annotations.all(|(name, _)| name == PROVISIONER), FIELDS, || format!("annotations of {reference}"))?;
    let same = without(old, CLAIM_PROTECTION) == without(new, CLAIM_PROTECTION);
    must(same, FIELDS, || format!("the core writes a finalizer of somebody else on {reference}"))
}

fn core_address(reference: &Ref, old: &Value, new: &Value) -> Result<(), Broken> {
    let rest = |value: &Value| {
        let mut spec = value["spec"].clone();
        spec.as_object_mut().map(|fields| fields.remove("claimRef"));
        spec
    };
    must(rest(old) == rest(new), FIELDS, || format!("the core writes the spec of {reference}"))?;
    let (was, is) = (&old["spec"]["claimRef"], &new["spec"]["claimRef"]);
    let completed = was["uid"].as_str().is_none_or(str::is_empty)
        && was["name"] == is["name"]
        && was["namespace"] == is["namespace"];
    let words = || format!("{reference} goes from {was} to {is}");
    must(was.is_null() || was == is || completed, "§4: an address of one claim is given to no other", words)?;
    let same = without(old, ADDRESS_PROTECTION) == without(new, ADDRESS_PROTECTION);
    must(same, FIELDS, || format!("the core writes a finalizer of somebody else on {reference}"))
}

/// What the core releases has no claim any more: one of that uid does not come back.
fn released(env: &Env, reference: &Ref, new: &Value) -> Result<(), Broken> {
    let law = "§3 g, §6: only an address whose claim is gone, or goes, is released";
    let Some(Object::Address(address)) = env.server.get(reference) else { return Ok(()) };
    let wrong = new["phase"] == "Released" && is_claimed(&env.server, address);
    must(!wrong, law, || format!("the core releases {reference}, whose claim lives"))
}

fn core_status(reference: &Ref, old: &Value, new: &Value) -> Result<(), Broken> {
    if old["phase"] != new["phase"] {
        let ours = !is_drivers(&old["phase"]) && !is_drivers(&new["phase"]);
        must(ours, PHASES, || {
            format!("the core moves {reference} from {} to {}", old["phase"], new["phase"])
        })?;
    }
    for name in ["associatedTo", "lastHandoff", "associationHistory"] {
        must(old[name] == new[name], FIELDS, || format!("the core writes {name} of {reference}"))?;
    }
    let same = conditions(old, true) == conditions(new, true);
    must(same, FIELDS, || format!("the core writes a condition of the driver's on {reference}"))
}
