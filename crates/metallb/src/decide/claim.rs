//! Contract §9: reservation. What a live claim of ours lacks is drawn from the class's pool by an allocation
//! placeholder, and recorded.
//!
//! **Invariant:** nobody of ours queues in MetalLB. A placeholder is made only when the pool is known (or
//! not known not) to have room for this claim in its turn and no address of the pool is unheld; it is
//! withdrawn when MetalLB says there is none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::address::{ClaimRef, Source};
use api::claim::ClaimPhase;
use api::wellknown::{PROVISIONER, TRACEPARENT, driver, metallb};
use api::{
    AddressName, ClaimKey, Family, IPAddress, IPAddressClaim, IPAddressClass, IPAddressSpec, Ip, ServiceKey,
};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use plan::trace::Timing;
use plan::{Action, Event, Guard, Moment, Object, Plan, Ref, Target};
use serde_json::json;

use super::inventory::is_observed;
use super::placeholder::{self, Beside, Wish};
use super::{class, trace};
use crate::index::{Index, class_name};
use crate::parse::service::{View, is_our_key, sharing_key};

/// The shortest and the longest wait before a failed reservation is tried again without a change of the pool.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// The families for which a reservation is to be made now. None while the claim is not ours to serve, names
/// an address or adopts what a Service has, waits for a `Released` one of its own name (§12, *Restore*), or
/// was bound before (§4.8: a lost address is never provisioned around).
pub fn missing_families(index: &Index, claim: &IPAddressClaim) -> Vec<Family> {
    let stamped = claim.annotations().get(PROVISIONER).is_some_and(|stamp| stamp == driver::PROVISIONER);
    if claim.is_deleting()
        || !stamped
        || claim.spec.address_name.is_some()
        || claim.annotations().contains_key(driver::ADOPTED)
        || claim.phase() != ClaimPhase::Pending
    {
        return Vec::new();
    }
    let uid = claim.metadata.uid.as_deref();
    let named = index.addresses_of_claim(&claim.key());
    let uid_of = |address: &IPAddress| {
        address.spec.claim_ref.as_ref().and_then(|claim| claim.uid().map(str::to_owned))
    };
    let of_other =
        |address: &Arc<IPAddress>| uid_of(address).is_some_and(|other| Some(other.as_str()) != uid);
    // An address of an earlier claim of this name is `Released`, or about to be: the claim waits for it. One
    // that the inventory found has the name of a Service, not of a claim.
    let earlier =
        |address: &&Arc<IPAddress>| of_other(address) && !address.is_deleting() && !is_observed(address);
    if named.iter().any(|address| earlier(&address)) {
        return Vec::new();
    }
    let met = |family: &Family| {
        named.iter().any(|address| !of_other(address) && address.ip().is_ok_and(|ip| ip.family() == *family))
    };
    claim.spec.family.expand().iter().copied().filter(|family| !met(family)).collect()
}

/// Reserves what the claim lacks; withdraws what is no longer wanted.
pub(super) fn reserve(index: &mut Index, key: &ClaimKey, moment: &Moment) -> Plan {
    let mut plan = Plan::default();
    let Some(claim) = index.claims.get(key) else { return plan };
    let missing = missing_families(index, &claim);
    index.unpark(key);
    let class = class_name(&claim).and_then(|name| index.classes.get(&name));
    let Some(class) = class.filter(|class| class::is_served(class)) else {
        // Nothing can be recorded without a class: what waits in MetalLB would be given an IP, and keep it for nobody.
        withdraw_unwanted(index, &claim, &[], moment, &mut plan);
        for family in missing {
            index.park(key, family);
        }
        return plan;
    };
    withdraw_unwanted(index, &claim, &missing, moment, &mut plan);
    for family in missing {
        let name = placeholder::allocation_name(&claim, family);
        let existing = ServiceKey::new(&index.config.placeholder_namespace, &name);
        match index.services.get(&existing) {
            None => {
                if !allocate(index, &claim, &class, family, moment, &mut plan) {
                    index.park(key, family);
                }
            }
            Some(service) if service.is_deleting() => index.park(key, family),
            Some(service) => match service.ingress().into_iter().find(|ip| ip.family() == family) {
                Some(ip) => record(index, &claim, &class, &service, ip, moment, &mut plan),
                None => watch_for_refusal(index, &claim, &class, &service, family, moment, &mut plan),
            },
        }
    }
    plan
}

/// An allocation placeholder that nothing backs and nobody wants is deleted: its claim is being deleted, or
/// its family was met in another way. Not while the API server may still record its address by a call whose answer was
/// given up on: that address would be held by nobody.
fn withdraw_unwanted(
    index: &Index,
    claim: &IPAddressClaim,
    missing: &[Family],
    moment: &Moment,
    plan: &mut Plan,
) {
    for family in Family::ALL.into_iter().filter(|family| !missing.contains(family)) {
        let name = placeholder::allocation_name(claim, family);
        let key = ServiceKey::new(&index.config.placeholder_namespace, name);
        let Some(service) = index.services.get(&key).filter(|service| !service.is_deleting()) else {
            continue;
        };
        let unbacked = index.address_held_by(&service).is_none() && index.is_placeholder(&service);
        if unbacked && !is_all_that_is_left(claim, &service) {
            let late = |name: &AddressName| index.may_be_recorded(name, moment);
            match service.held_address().as_ref().and_then(late) {
                Some(wait) => plan.retry(wait),
                None => withdraw(index, &service, plan),
            }
        }
    }
}

/// Whether the ledger has lost what was recorded by this placeholder: it goes on holding for the claim, until that goes or
/// the ledger is written anew.
fn is_all_that_is_left(claim: &IPAddressClaim, placeholder: &Service) -> bool {
    claim.phase() == ClaimPhase::Lost && !claim.is_deleting() && placeholder.held_address().is_some()
}

/// Deletes an allocation placeholder, after a live look that it does not hold an address which the index, behind the
/// cluster as it may be, does not know of yet (§3 g).
fn withdraw(index: &Index, service: &Arc<Service>, plan: &mut Plan) {
    let shown = service.ingress().into_iter().map(Ip::object_name);
    let names: BTreeSet<AddressName> = service.held_address().into_iter().chain(shown).collect();
    for name in names.iter().filter(|name| !index.addresses.contains(name)) {
        plan.push(Action::ConfirmAbsent { reference: Ref::address(name), uid: None });
    }
    plan.push(Action::delete(&Object::Service(Arc::clone(service))));
}

/// Makes the allocation placeholder, if it is this claim's turn, and tells whether.
fn allocate(
    index: &Index,
    claim: &Arc<IPAddressClaim>,
    class: &IPAddressClass,
    family: Family,
    moment: &Moment,
    plan: &mut Plan,
) -> bool {
    let object = Object::Claim(Arc::clone(claim));
    let key = claim.key();
    let class_name = class.name_any();
    let pool_name = match class::verdict(index, class) {
        Ok(pool) => pool,
        Err(refusal) => {
            let note = format!("class {class_name} makes no new reservations: {}", refusal.message);
            plan.standing.push(Event::warning(&object, "PoolRefused", "Reserve", note));
            return false;
        }
    };
    if let Some(attempt) = index.attempt(&key, family) {
        let pause = BACKOFF.0.saturating_mul(1 << attempt.count.min(9)).min(BACKOFF.1);
        let message = exhausted(&pool_name, family, Some(&attempt.message));
        plan.standing.push(Event::warning(&object, "PoolExhausted", "Reserve", message));
        if let Some(left) = moment.left_of(pause, attempt.at) {
            plan.retry(left);
            return false;
        }
    }
    let pool = index.pool(&pool_name);
    let room = pool.and_then(|pool| pool.room(family)).unwrap_or(usize::MAX);
    if room == 0 && pool.and_then(|pool| pool.available(family)).is_some_and(|reported| reported > 0) {
        // The Services may be behind the pool: no event need follow when they catch up.
        plan.retry(BACKOFF.0);
    }
    if !index.is_among_first(&class_name, family, &key, room) {
        let message =
            exhausted(&pool_name, family, index.attempt(&key, family).map(|last| last.message.as_str()));
        plan.standing.clear();
        plan.standing.push(Event::warning(&object, "PoolExhausted", "Reserve", message));
        return false;
    }
    if pool.is_some_and(|pool| index.unheld_in(pool).is_some()) {
        // MetalLB could give it to us: wait until every address of the pool is held again. That event
        // wakes the queue.
        return false;
    }
    let sibling = index
        .placeholders_for(&key)
        .into_iter()
        .find_map(|placeholder| placeholder.sharing_key().filter(|key| is_our_key(key)).map(str::to_owned));
    let operation = trace::reservation(index, claim);
    let wish = Wish {
        name: placeholder::allocation_name(claim, family),
        family,
        address: None,
        claim: Some(key),
        pool: Some(pool_name),
        key: sibling.unwrap_or_else(|| sharing_key(moment.entropy)),
        beside: operation.as_ref().map(|ours| Beside { trace: Some(ours.context), ..Beside::default() }),
    };
    let subject = wish.name.clone();
    let note = format!("no {family} address can be reserved: the placeholder was refused");
    plan.push(Action::Create {
        object: placeholder::make(index, wish).into(),
        refused: Some(Guard { event: Event::warning(&object, "ReservationFailed", "Reserve", note) }),
    });
    if let Some(operation) = operation {
        let about = trace::of_reservation(claim, &class_name, None);
        plan.push(operation.step("placeholder.create", &subject, Timing::Step, about));
    }
    true
}

fn exhausted(pool: &str, family: Family, words: Option<&str>) -> String {
    let words = words.map_or_else(String::new, |words| format!(" (MetalLB: {words})"));
    format!(
        "pool {pool} has no free {family} address for this claim{words}; it is tried again when the pool gains room"
    )
}

/// MetalLB said that it cannot serve the placeholder: it must not queue, so it is withdrawn.
fn watch_for_refusal(
    index: &mut Index,
    claim: &Arc<IPAddressClaim>,
    class: &IPAddressClass,
    service: &Arc<Service>,
    family: Family,
    moment: &Moment,
    plan: &mut Plan,
) {
    let spec = placeholder::type_of(index, service);
    if !spec.is_empty() {
        // Somebody changed its type: MetalLB does not look at it, and the claim would wait for ever.
        plan.push(placeholder::patch(service, json!({ "spec": spec })));
        return;
    }
    let Some(failure) = index.failure(service).cloned() else { return };
    let pool = class::verdict(index, class).unwrap_or_default();
    index.note_attempt(&claim.key(), family, moment.now, &failure.message);
    withdraw(index, service, plan);
    let note = exhausted(&pool, family, Some(&failure.message));
    plan.standing.push(Event::warning(&Object::Claim(Arc::clone(claim)), "PoolExhausted", "Reserve", note));
}

/// Records the address that MetalLB assigned: pins the placeholder to it, then makes the ledger object.
fn record(
    index: &mut Index,
    claim: &Arc<IPAddressClaim>,
    class: &IPAddressClass,
    service: &Arc<Service>,
    ip: Ip,
    moment: &Moment,
    plan: &mut Plan,
) {
    let object = Object::Claim(Arc::clone(claim));
    let name = ip.object_name();
    let rival = index.addresses_of_ip(ip).next().or_else(|| index.addresses.get(&name));
    if let Some(rival) = rival {
        // What the inventory wrote down goes when its Service has let go: this placeholder has the IP until then.
        if is_observed(&rival)
            && index.services_of_ip(ip).all(|other| View::key(&*other) == View::key(&**service))
        {
            return;
        }
        let rival = rival.name_any();
        // It belongs to somebody else's claim: given back at once, the rightful hold re-arms.
        let note = format!(
            "MetalLB assigned {ip}, which IPAddress {rival} already stands for; given back, another is reserved"
        );
        index.note_attempt(&claim.key(), ip.family(), moment.now, &note);
        plan.push(Action::delete(&Object::Service(Arc::clone(service))));
        plan.standing.push(Event::warning(&object, "LedgerMismatch", "Reserve", note));
        return;
    }
    index.forget_attempt(&claim.key(), ip.family());
    // The precondition of this write proves that the IP was still there when it was pinned: from then on
    // MetalLB can only keep it or clear it, never replace it.
    let pinned = service.pin().is_ok_and(|pin| pin == BTreeSet::from([ip]));
    if !pinned || service.held_address().as_ref() != Some(&name) {
        let body = json!({ "metadata": {
            "labels": { driver::IP_ADDRESS: name.as_str() },
            "annotations": { metallb::PIN: ip.to_string() },
        }});
        plan.push(Action::patch(Target::of(&Object::Service(Arc::clone(service))), body));
    }
    index.note_record(name.clone(), moment);
    let operation = trace::reservation(index, claim);
    let context = operation.map(|ours| (TRACEPARENT.to_owned(), ours.context.to_string()));
    plan.push(Action::create(IPAddress {
        metadata: ObjectMeta {
            name: Some(name.to_string()),
            annotations: context.map(|context| [context].into()),
            finalizers: Some(vec![driver::TEARDOWN.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: IPAddressSpec {
            class_name: class.name_any(),
            address: ip.to_string(),
            reclaim_policy: class.spec.reclaim_policy,
            claim_ref: Some(ClaimRef {
                namespace: claim.namespace().unwrap_or_default(),
                name: claim.name_any(),
                uid: claim.metadata.uid.clone(),
            }),
            source: Source::from_class(),
        },
        status: None,
    }));
    let note = format!("{ip} is reserved for this claim as IPAddress {name}");
    if let Some(operation) = &operation {
        let about = trace::of_reservation(claim, &class.name_any(), Some(ip.to_string()));
        let (now, subject) = (moment.now, service.name_any());
        let since = service.metadata.creation_timestamp.as_ref().map_or(now, |at| at.0);
        let wait = Timing::Wait { since, until: Some(now) };
        plan.push(operation.step("metallb.assign", &subject, wait, about.clone()));
        plan.push(operation.step("ledger.record", &subject, Timing::Step, about));
    }
    plan.push(Action::Emit(Event::normal(&object, "Reserved", "Reserve", note).traced(operation.as_ref())));
}
