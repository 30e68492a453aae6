//! Addresses (contract §5): finalizer, validity, phase, the safety net.

use std::sync::Arc;
use std::time::Duration;

use api::address::{AddressPhase, ClaimRef};
use api::wellknown::ADDRESS_PROTECTION;
use api::{AddressName, IPAddress, ReclaimPolicy};
use plan::{Action, Event, Moment, Object, Plan, Ref, Target};

use super::status::{self, AddressVerdict, Verdict};
use super::{field, reclaim, with_finalizer, without_finalizer, words};
use crate::index::Index;

/// When to look again at an address that a claim in flight has chosen, should that claim leave it.
const ASSUMED: Duration = Duration::from_secs(1);

/// Decides about an address.
pub fn decide(index: &Index, name: &AddressName, moment: &Moment) -> Plan {
    let mut plan = Plan::default();
    let Some(address) = index.address(name) else { return plan };
    if index.assumed_for(name).is_some() && address.spec.claim_ref.is_none() {
        // The claim's plan writes the finalizer and the claimRef at once; a write of ours would only race it.
        plan.retry(ASSUMED);
        return plan;
    }
    if address.is_deleting() {
        return deleting(index, &address);
    }
    let object = Object::Address(Arc::clone(&address));
    let invalid = invalid(index, &address);
    let fate = if invalid.is_some() { Fate::Invalid } else { fate(index, &address) };
    match &fate {
        // The claim's pass writes the uid, and the finalizer with it.
        Fate::AwaitsUid => return plan,
        Fate::Orphaned(_) if address.spec.reclaim_policy == ReclaimPolicy::Delete => {}
        _ => plan.actions.extend(protect(&address)),
    }
    let valid = match &invalid {
        Some(verdict) => {
            plan.standing.push(Event::warning(
                &object,
                "InvalidAddress",
                "Validate",
                verdict.message.clone(),
            ));
            invalid.clone()
        }
        None => status::valid_again(&address),
    };
    let said = |phase, bound| AddressVerdict { phase: Some(phase), valid: valid.clone(), bound };
    let verdict = match fate {
        Fate::Orphaned(claim) => {
            plan.append(orphaned(index, &address, &claim, moment));
            return plan;
        }
        Fate::Invalid if !address.phase().is_drivers() => said(AddressPhase::Pending, None),
        Fate::Available => {
            let message = if address.associated_to().is_some() {
                "free as soon as the workload that still has it lets go"
            } else {
                "free: the next claim of its class and family gets it"
            };
            said(AddressPhase::Available, Some(Verdict::no("Available", message)))
        }
        Fate::Bound(claim) => {
            let message = format!("bound to claim {}", claim.key());
            said(AddressPhase::Bound, Some(Verdict::yes("Bound", message)))
        }
        Fate::Reserved(claim) => {
            let message = format!("kept for claim {}, which does not exist yet", claim.key());
            said(AddressPhase::Pending, Some(Verdict::no("WaitingForClaim", message)))
        }
        Fate::Invalid | Fate::AwaitsUid | Fate::AwaitsClaim | Fate::Drivers => {
            AddressVerdict { valid, ..AddressVerdict::default() }
        }
    };
    plan.actions.extend(status::write_address(&address, verdict, address.metadata.generation, moment));
    plan
}

/// What is to become of an address that is not being deleted.
enum Fate {
    /// No text to trust, or an older object has the IP.
    Invalid,
    /// `Conflict` or `Lost`: only the driver leaves these.
    Drivers,
    /// Free.
    Available,
    /// Bound to a claim that is there.
    Bound(ClaimRef),
    /// Kept for a claim that is not there yet.
    Reserved(ClaimRef),
    /// The claim is there and its pass will write its uid.
    AwaitsUid,
    /// The claim is being deleted and its pass decides (§6).
    AwaitsClaim,
    /// The claim is gone.
    Orphaned(ClaimRef),
}

fn fate(index: &Index, address: &IPAddress) -> Fate {
    if address.phase().is_drivers() {
        return Fate::Drivers;
    }
    let Some(claim_ref) = address.spec.claim_ref.clone() else { return Fate::Available };
    let claim = index.claim(&claim_ref.key());
    let Some(uid) = claim_ref.uid() else {
        return match claim {
            Some(claim) if !claim.is_deleting() => Fate::AwaitsUid,
            // One that goes takes no new address; it is kept for the next of that name.
            Some(_) | None => Fate::Reserved(claim_ref),
        };
    };
    match claim.filter(|claim| claim.metadata.uid.as_deref() == Some(uid)) {
        Some(claim) if claim.is_deleting() => Fate::AwaitsClaim,
        Some(_) => Fate::Bound(claim_ref),
        None => Fate::Orphaned(claim_ref),
    }
}

fn protect(address: &Arc<IPAddress>) -> Option<Action> {
    let finalizers = with_finalizer(&address.metadata, ADDRESS_PROTECTION)?;
    let target = Target::of(&Object::Address(Arc::clone(address)));
    Some(Action::patch(target, field("metadata", field("finalizers", finalizers))))
}

/// §5.1: our finalizer goes, unless a live claim holds the address. One in `Conflict` is held too: it still
/// meets its claim. One that is `Lost` is not: nobody is served by it.
fn deleting(index: &Index, address: &Arc<IPAddress>) -> Plan {
    let mut plan = Plan::default();
    let Some(finalizers) = without_finalizer(&address.metadata, ADDRESS_PROTECTION) else { return plan };
    let object = Object::Address(Arc::clone(address));
    let holder = address.spec.claim_ref.as_ref().filter(|claim_ref| {
        let claim = index.claim(&claim_ref.key()).filter(|claim| !claim.is_deleting());
        claim.is_some_and(|claim| {
            claim_ref.uid().is_some() && claim_ref.uid() == claim.metadata.uid.as_deref()
        })
    });
    match holder {
        Some(claim) if address.phase() != AddressPhase::Lost && index.valid_ip(address).is_some() => {
            let key = claim.key();
            let note = format!("claim {key} is bound to this address; delete that claim to let it go");
            plan.standing.push(Event::warning(&object, "DeletionBlocked", "Delete", note));
        }
        Some(_) | None => {
            // Whoever bound it may have done so to a claim that was not heard of yet.
            let unheard = address.spec.claim_ref.as_ref().filter(|to| {
                let heard = index.claim(&to.key());
                to.uid().is_some() && heard.is_none_or(|claim| claim.metadata.uid.as_deref() != to.uid())
            });
            plan.actions.extend(unheard.map(confirm_absent));
            let body = field("metadata", field("finalizers", finalizers));
            plan.push(Action::patch(Target::of(&object), body));
        }
    }
    plan
}

/// §5.3: what is wrong with the text, or that an older object has the IP.
fn invalid(index: &Index, address: &IPAddress) -> Option<Verdict> {
    let ip = match address.ip() {
        Ok(ip) => ip,
        Err(error) => return Some(Verdict::no("InvalidAddress", format!("spec.address: {error}"))),
    };
    let elder = index.elder(ip).filter(|elder| **elder != address.key())?;
    Some(Verdict::no("DuplicateAddress", words::duplicate(&address.spec.address, elder.as_str())))
}

/// §5.6, the safety net: the claim is gone without the reclaim flow. A live read confirms it first.
fn orphaned(index: &Index, address: &Arc<IPAddress>, claim: &ClaimRef, moment: &Moment) -> Plan {
    let mut give_up = reclaim::give_up(index, address, None, moment);
    if !give_up.actions.is_empty() {
        give_up.actions.insert(0, confirm_absent(claim));
    }
    give_up
}

fn confirm_absent(claim: &ClaimRef) -> Action {
    Action::ConfirmAbsent { reference: Ref::claim(&claim.key()), uid: claim.uid().map(str::to_owned) }
}
