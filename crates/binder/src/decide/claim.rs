//! Claims (contract §4): class, stamp, binding, status.

use std::sync::Arc;
use std::time::Duration;

use api::claim::{ClaimAddress, ClaimPhase};
use api::wellknown::{ADDRESS_PROTECTION, CLAIM_PROTECTION, PROVISIONER, TRACEPARENT};
use api::{ClaimKey, IPAddress, IPAddressClaim};
use kube::ResourceExt;
use plan::{Action, Event, Moment, Object, Plan, Target};
use serde_json::{Map, Value};

use super::seek::{self, Sought, Stamp};
use super::status::{self, ClaimVerdict, Verdict};
use super::{field, reclaim, trace, with_finalizer, words};
use crate::index::{Index, Need};

/// When to look again for an address that another claim has chosen and may yet leave.
const CONTESTED: Duration = Duration::from_secs(1);

/// Decides about a claim; what it takes is assumed in the index until the plan is settled.
pub fn decide(index: &mut Index, key: &ClaimKey, moment: &Moment) -> Plan {
    // One that is gone is no business of this pass: its addresses look after themselves (§5.6).
    let Some(claim) = index.claim(key) else { return Plan::default() };
    if claim.is_deleting() {
        return reclaim::claim(index, &claim, moment);
    }
    let need = index.need(&claim);
    let unbound = !need.missing.is_empty() && !need.lost;
    // All met: no class is looked at, so that a deleted class disturbs no binding (§4.5).
    let sought = unbound.then(|| seek::seek(index, &claim, &need));

    // One that is bound has nothing to be traced: it costs nothing.
    let under_way = claim.phase() == ClaimPhase::Pending;
    let operation = under_way.then(|| trace::reservation(index, &claim)).flatten();
    let mut plan = Plan::default();
    let stamp = sought.as_ref().map_or(&Stamp::Keep, |sought| &sought.stamp);
    plan.actions.extend(mark(&claim, stamp, trace::annotation(operation.as_ref(), &claim)));
    let mut newly = need.incomplete.clone();
    newly.extend(sought.iter().flat_map(|sought| &sought.taken).map(|(_, address)| Arc::clone(address)));
    for address in &newly {
        plan.push(bind(address, &claim));
    }
    for (_, address) in sought.iter().flat_map(|sought| &sought.taken) {
        index.assume(address, key);
    }
    if sought.as_ref().is_some_and(|sought| sought.contested) {
        plan.retry(CONTESTED);
    }
    index.decided(key);

    let verdict = judge(&claim, &need, sought.as_ref());
    let becomes_bound = verdict.phase == ClaimPhase::Bound && claim.phase() == ClaimPhase::Pending;
    if !newly.is_empty() || becomes_bound {
        let told = if newly.is_empty() { &need.met } else { &newly };
        let note = format!("bound to {}", words::addresses(told));
        let object = Object::Claim(Arc::clone(&claim));
        let event = Event::normal(&object, "Matched", "Bind", note).traced(operation.as_ref());
        plan.push(Action::Emit(event));
    }
    complain(&claim, &verdict, &mut plan);
    let class = verdict.class_name.clone();
    plan.actions.extend(status::write_claim(&claim, verdict, moment));
    if let Some(operation) = operation.filter(|_| becomes_bound) {
        let taken = sought.iter().flat_map(|sought| &sought.taken).map(|(_, address)| address);
        let serving: Vec<_> = need.met.iter().chain(taken).cloned().collect();
        trace::bound(&operation, &claim, class.as_deref(), &serving, &mut plan);
    }
    plan
}

/// The finalizer and the stamp, in one write (§4.2, §4.6).
fn mark(claim: &Arc<IPAddressClaim>, stamp: &Stamp, trace: Option<String>) -> Option<Action> {
    let mut metadata = Map::new();
    if let Some(finalizers) = with_finalizer(&claim.metadata, CLAIM_PROTECTION) {
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
    let present = claim.annotations().get(PROVISIONER);
    let annotation = match stamp {
        Stamp::Provisioner(name) if present != Some(name) => Some(Value::from(name.as_str())),
        Stamp::Remove if present.is_some() => Some(Value::Null),
        Stamp::Provisioner(_) | Stamp::Remove | Stamp::Keep => None,
    };
    let mut annotations = Map::new();
    annotations.extend(annotation.map(|value| (PROVISIONER.to_owned(), value)));
    // Only in a write that is due anyway.
    if !metadata.is_empty() || !annotations.is_empty() {
        annotations.extend(trace.map(|context| (TRACEPARENT.to_owned(), context.into())));
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    let target = Target::of(&Object::Claim(Arc::clone(claim)));
    (!metadata.is_empty()).then(|| Action::patch(target, field("metadata", metadata)))
}

/// An address becomes the claim's: `claimRef`, and our finalizer if it is due, in one write (§4.4, §4.7).
fn bind(address: &Arc<IPAddress>, claim: &IPAddressClaim) -> Action {
    let key = claim.key();
    let mut claim_ref = Map::new();
    claim_ref.insert("namespace".to_owned(), key.namespace.into());
    claim_ref.insert("name".to_owned(), key.name.into());
    claim_ref.insert("uid".to_owned(), claim.metadata.uid.clone().into());
    let mut body = Map::new();
    if let Some(finalizers) = with_finalizer(&address.metadata, ADDRESS_PROTECTION) {
        body.insert("metadata".to_owned(), field("finalizers", finalizers));
    }
    body.insert("spec".to_owned(), field("claimRef", claim_ref));
    Action::patch(Target::of(&Object::Address(Arc::clone(address))), Value::Object(body))
}

/// The status, as it will be when this plan has been carried out (§4.8).
fn judge(claim: &IPAddressClaim, need: &Need, sought: Option<&Sought>) -> ClaimVerdict {
    let taken = sought.map_or(&[][..], |sought| &sought.taken);
    let mut serving = need.met.clone();
    serving.extend(taken.iter().map(|(_, address)| Arc::clone(address)));
    serving.sort_by_key(|address| address.name_any());
    let still_ill = need.ill.iter().filter(|(family, _)| !taken.iter().any(|(of, _)| of == family));
    let mut listed = serving.clone();
    listed.extend(still_ill.map(|(_, address)| Arc::clone(address)));
    listed.sort_by_key(|address| address.name_any());

    let (phase, bound) = if need.lost {
        let lost = need.missing.first().map(|&family| match need.ill_of(family) {
            Some(address) => words::ill(address),
            None => words::gone(family),
        });
        (ClaimPhase::Lost, Verdict::no("AddressLost", lost.unwrap_or_default()))
    } else if let Some(obstacle) = sought.and_then(|sought| sought.obstacle.clone()) {
        (ClaimPhase::Pending, obstacle)
    } else {
        let message = format!("bound to {}", words::addresses(&serving));
        (ClaimPhase::Bound, Verdict::yes("Bound", message))
    };
    let (class_name, class) = class(claim, need, sought);
    let addresses = listed
        .iter()
        .map(|address| ClaimAddress { name: address.name_any(), address: address.spec.address.clone() })
        .collect();
    ClaimVerdict { phase, class_name, class, bound, addresses }
}

/// The sticky class, and what is to be said of it.
fn class(claim: &IPAddressClaim, need: &Need, sought: Option<&Sought>) -> (Option<String>, Option<Verdict>) {
    let sticky = claim.status.as_ref().and_then(|status| status.class_name.clone());
    match sought.map(|sought| &sought.class) {
        Some(Ok(class)) => {
            let name = class.name_any();
            let verdict = resolved(&name);
            (Some(name), Some(verdict))
        }
        // A class of its own that does not exist leaves nothing to stick to.
        Some(Err(verdict)) => (sticky.filter(|_| claim.spec.class_name.is_none()), Some(verdict.clone())),
        // No class was looked at, existing or not. The claim stays with the one it has its addresses from,
        // should it be widened later.
        None => {
            let held = need.met.iter().chain(need.ill.iter().map(|(_, address)| address));
            let of_address = held.map(|address| &address.spec.class_name).find(|name| !name.is_empty());
            let name = claim.spec.class_name.clone().or(sticky).or_else(|| of_address.cloned());
            let verdict = name.as_deref().map(resolved);
            (name, verdict)
        }
    }
}

fn resolved(class: &str) -> Verdict {
    Verdict::yes("Resolved", format!("the class is {class}"))
}

/// What a tenant or an admin has to mend is told as an event too, once.
fn complain(claim: &Arc<IPAddressClaim>, verdict: &ClaimVerdict, plan: &mut Plan) {
    let object = Object::Claim(Arc::clone(claim));
    let class = verdict.class.as_ref().filter(|class| !class.status);
    let bound =
        Some(&verdict.bound).filter(|bound| !bound.status && bound.reason != "WaitingForProvisioning");
    for trouble in class.into_iter().chain(bound) {
        let event = Event::warning(&object, trouble.reason, "Bind", trouble.message.clone());
        plan.standing.push(event);
    }
}
