//! Status: computed from scratch, compared with the present one, written only where it differs (§3 e).

use api::address::AddressPhase;
use api::claim::{ClaimAddress, ClaimPhase};
use api::conditions::{self, types};
use api::{IPAddress, IPAddressClaim, IPAddressClaimStatus, IPAddressStatus};
use plan::{Action, Moment, Object, Target};
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// One condition that is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) status: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Verdict {
    pub(super) fn yes(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: true, reason, message: message.into() }
    }

    pub(super) fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: false, reason, message: message.into() }
    }
}

/// What a claim's status is to say.
#[derive(Debug)]
pub(super) struct ClaimVerdict {
    pub(super) phase: ClaimPhase,
    pub(super) class_name: Option<String>,
    /// None where no class is known, and none is needed.
    pub(super) class: Option<Verdict>,
    pub(super) bound: Verdict,
    pub(super) addresses: Vec<ClaimAddress>,
}

/// The write that makes a claim's status say so, if it does not already.
pub(super) fn write_claim(
    claim: &Arc<IPAddressClaim>,
    verdict: ClaimVerdict,
    moment: &Moment,
) -> Option<Action> {
    let old = claim.status.clone().unwrap_or_default();
    let generation = claim.metadata.generation;
    let mut new = IPAddressClaimStatus {
        phase: Some(verdict.phase),
        class_name: verdict.class_name,
        addresses: verdict.addresses,
        conditions: old.conditions.clone(),
        observed_generation: generation,
    };
    match verdict.class {
        Some(class) => set(&mut new.conditions, moment, generation, types::CLASS_RESOLVED, &class),
        None => _ = conditions::clear(&mut new.conditions, types::CLASS_RESOLVED),
    }
    set(&mut new.conditions, moment, generation, types::BOUND, &verdict.bound);
    set(&mut new.conditions, moment, generation, types::READY, &verdict.bound);
    let body = difference(&old, &new)?;
    Some(Action::patch_status(Target::of(&Object::Claim(Arc::clone(claim))), body))
}

/// What an address's status is to say. `None` leaves a field as it is.
#[derive(Debug, Default)]
pub(super) struct AddressVerdict {
    pub(super) phase: Option<AddressPhase>,
    pub(super) valid: Option<Verdict>,
    /// Cleared if there is a phase and nothing to say.
    pub(super) bound: Option<Verdict>,
}

/// Said only where the contrary was said before: that all is well is no news.
pub(super) fn valid_again(address: &IPAddress) -> Option<Verdict> {
    let status = address.status.as_ref()?;
    conditions::find(&status.conditions, types::VALID)
        .map(|_| Verdict::yes("Valid", "spec.address is valid, and this object stands for it"))
}

/// The write that makes an address's status say so, if it does not already.
pub(super) fn write_address(
    address: &Arc<IPAddress>,
    verdict: AddressVerdict,
    generation: Option<i64>,
    moment: &Moment,
) -> Option<Action> {
    let old = address.status.clone().unwrap_or_default();
    let mut new = IPAddressStatus { conditions: old.conditions.clone(), ..old.clone() };
    if let Some(valid) = &verdict.valid {
        set(&mut new.conditions, moment, generation, types::VALID, valid);
    }
    if let Some(phase) = verdict.phase {
        new.phase = Some(phase);
        new.observed_generation = generation;
        match &verdict.bound {
            Some(bound) => set(&mut new.conditions, moment, generation, types::BOUND, bound),
            None => _ = conditions::clear(&mut new.conditions, types::BOUND),
        }
    }
    let body = difference(&old, &new)?;
    Some(Action::patch_status(Target::of(&Object::Address(Arc::clone(address))), body))
}

fn set(
    all: &mut Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>,
    moment: &Moment,
    generation: Option<i64>,
    kind: &str,
    verdict: &Verdict,
) {
    conditions::set(all, moment.now, generation, kind, verdict.status, verdict.reason, &verdict.message);
}

/// The fields of `new` that differ from `old`, `null` for those that go; none if nothing does.
fn difference<T: Serialize>(old: &T, new: &T) -> Option<Value> {
    let (old, new) = (fields(old), fields(new));
    let mut body = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        body.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        if old.get(&name) != Some(&value) {
            body.insert(name, value);
        }
    }
    (!body.is_empty()).then_some(Value::Object(body))
}

fn fields<T: Serialize>(status: &T) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        // A status is a struct of texts, numbers and lists of them.
        Ok(_) | Err(_) => Map::new(),
    }
}
