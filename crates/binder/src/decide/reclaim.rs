//! What becomes of an address whose claim goes (contract §6, and the safety net of §5.6).

use std::sync::Arc;

use api::address::AddressPhase;
use api::wellknown::CLAIM_PROTECTION;
use api::{IPAddress, IPAddressClaim, ReclaimPolicy};
use kube::ResourceExt;
use plan::{Action, Event, Moment, Object, Plan, Target};

use super::status::{self, AddressVerdict, Verdict};
use super::{field, trace, without_finalizer, words};
use crate::index::Index;

/// A claim that is being deleted: its addresses first, then the finalizer that guards them. One that arrived
/// without our finalizer never had anything of ours, and gets none (a finalizer cannot be added to it).
pub(super) fn claim(index: &Index, claim: &Arc<IPAddressClaim>, moment: &Moment) -> Plan {
    let mut plan = Plan::default();
    let Some(finalizers) = without_finalizer(&claim.metadata, CLAIM_PROTECTION) else { return plan };
    let uid = claim.metadata.uid.as_deref();
    let mut told = Vec::new();
    for address in index.addresses_naming(&claim.key()) {
        let own = address.spec.claim_ref.as_ref().and_then(|claim_ref| claim_ref.uid());
        if own.is_some() && own != uid {
            continue;
        }
        told.push(Arc::clone(&address));
        plan.append(give_up(index, &address, uid.filter(|_| own.is_none()), moment));
    }
    let object = Object::Claim(Arc::clone(claim));
    plan.push(Action::patch(Target::of(&object), field("metadata", field("finalizers", finalizers))));
    if !told.is_empty() {
        let note = format!("let go of {}", words::addresses(&told));
        let operation = trace::reclaimed(index, claim);
        let event = Event::normal(&object, "Reclaimed", "Reclaim", note).traced(operation.as_ref());
        plan.push(Action::Emit(event));
        plan.actions.extend(operation.map(|ours| trace::end_of_reclaim(&ours, claim, &told, moment.now)));
    }
    plan
}

/// An address is given up by its claim, by the policy copied onto it at its birth. `complete` is the uid to
/// write into a `claimRef` that had none: what was this claim's must not fall to the next one of that name.
pub(super) fn give_up(
    index: &Index,
    address: &Arc<IPAddress>,
    complete: Option<&str>,
    moment: &Moment,
) -> Plan {
    let mut plan = Plan::default();
    if address.is_deleting() {
        return plan;
    }
    let object = Object::Address(Arc::clone(address));
    let claim = address.spec.claim_ref.as_ref().map(|claim_ref| claim_ref.key().to_string());
    let claim = claim.unwrap_or_default();
    if address.spec.reclaim_policy == ReclaimPolicy::Delete {
        plan.push(Action::delete(&object));
        let note = format!("deleted with its claim {claim}, as spec.reclaimPolicy says");
        plan.push(Action::Emit(Event::normal(&object, "AddressDeleted", "Reclaim", note)));
        return plan;
    }
    let mut generation = address.metadata.generation;
    if let Some(uid) = complete {
        let body = field("spec", field("claimRef", field("uid", uid)));
        plan.push(Action::patch(Target::of(&object), body));
        generation = generation.map(|generation| generation + 1);
    }
    // An address in Conflict or Lost is the driver's to move; once it has, §5.6 releases it. One that is not
    // valid stays Pending.
    if address.phase().is_drivers() || index.valid_ip(address).is_none() {
        return plan;
    }
    let news = address.phase() != AddressPhase::Released;
    plan.actions.extend(status::write_address(address, released(address, &claim), generation, moment));
    if news {
        let name = address.name_any();
        let note =
            format!("kept after its claim {claim}; to free it for any claim: {}", words::recycle(&name));
        plan.push(Action::Emit(Event::normal(&object, "AddressReleased", "Reclaim", note)));
    }
    plan
}

fn released(address: &IPAddress, claim: &str) -> AddressVerdict {
    AddressVerdict {
        phase: Some(AddressPhase::Released),
        bound: Some(Verdict::no("Released", words::released(address, claim))),
        valid: status::valid_again(address),
    }
}
