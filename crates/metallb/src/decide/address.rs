//! Contract §10 and §12: holding and teardown of one address.

use std::sync::Arc;
use std::time::Duration;

use api::claim::ClaimPhase;
use api::conditions::{find, types};
use api::wellknown::{ADDRESS_PROTECTION, driver};
use api::{IPAddress, Ip};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Action, Event, Guard, Moment, Object, Plan, Target};
use serde_json::json;

use super::Unit;
use super::ledger::Edit;
use super::placeholder::{self, Beside, Wish};
use super::trace::{self, Trace};
use super::unholdable::is_unholdable;
use crate::index::{Failure, Index};
use crate::parse::service::{View, is_our_key, sharing_key};

/// How soon, and how late at most, MetalLB is made to look again at a hold that it refused.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

/// Whether the address carries our finalizer.
pub fn has_teardown(address: &IPAddress) -> bool {
    address.metadata.finalizers.iter().flatten().any(|name| name == driver::TEARDOWN)
}

/// An address of a class of ours gets the finalizer, so that a class deleted later never loses a hold.
pub(super) fn ensure_finalizer(address: &Arc<IPAddress>, plan: &mut Plan) {
    if address.is_deleting() || has_teardown(address) {
        return;
    }
    let mut finalizers = address.metadata.finalizers.clone().unwrap_or_default();
    finalizers.push(driver::TEARDOWN.to_owned());
    let target = Target::of(&Object::Address(Arc::clone(address)));
    plan.push(Action::patch(target, json!({ "metadata": { "finalizers": finalizers } })));
}

/// Whether the address is to be given up: it is being deleted, the core has let go of it, and no live claim
/// is bound to it.
pub(super) fn is_to_be_torn_down(unit: &Unit, address: &IPAddress) -> bool {
    let core = address.metadata.finalizers.iter().flatten().any(|name| name == ADDRESS_PROTECTION);
    address.is_deleting() && !core && !unit.owns(address)
}

/// Says so in the ledger, deletes the placeholders, sees the IP free, drops the finalizer. The first write proves that the
/// address is the one that is given up, and not another of its name which the placeholder holds by now (§3 g).
pub(super) fn tear_down(index: &Index, address: &Arc<IPAddress>, moment: &Moment, plan: &mut Plan) {
    let placeholders = index.placeholders_of(&address.key());
    let standing: Vec<_> = placeholders.iter().filter(|placeholder| !placeholder.is_deleting()).collect();
    if !standing.is_empty() {
        tell_not_held(address, "GivenUp", "the address is being deleted", moment, plan);
    }
    for placeholder in standing {
        plan.push(Action::delete(&Object::Service(Arc::clone(placeholder))));
    }
    let still_ours = |ip: Ip| index.services_of_ip(ip).any(|service| index.is_placeholder(&service));
    if !has_teardown(address) || !placeholders.is_empty() || address.ip().is_ok_and(still_ours) {
        return;
    }
    let finalizers: Vec<_> =
        address.metadata.finalizers.iter().flatten().filter(|name| *name != driver::TEARDOWN).collect();
    let target = Target::of(&Object::Address(Arc::clone(address)));
    plan.push(Action::patch(target, json!({ "metadata": { "finalizers": finalizers } })));
}

/// A placeholder pinned to the address exists and has the IP (contract §10). For addresses that no Service
/// has.
pub(super) fn hold(
    index: &Index,
    unit: &Unit,
    address: &Arc<IPAddress>,
    moment: &Moment,
    plan: &mut Plan,
    arms: &mut Plan,
) {
    if address.is_deleting() && !has_teardown(address) {
        return;
    }
    let Ok(ip) = address.ip() else { return };
    let has_ip = |placeholder: &&Arc<Service>| placeholder.ingress().contains(&ip);
    // One that somebody labelled with an address of another family can never have it: its family stays as it was made.
    let (placeholders, misfits): (Vec<_>, Vec<_>) = index
        .placeholders_of(&address.key())
        .into_iter()
        .partition(|placeholder| has_ip(&placeholder) || placeholder::is_of_family(placeholder, ip.family()));
    for misfit in misfits.iter().filter(|misfit| !misfit.is_deleting()) {
        plan.push(Action::delete(&Object::Service(Arc::clone(misfit))));
    }
    let keeper = placeholders
        .iter()
        .find(has_ip)
        .or_else(|| placeholders.iter().find(|placeholder| !placeholder.is_deleting()));
    let Some(keeper) = keeper else {
        // A Service of the claim that has the address already (it was adopted) is about to be associated.
        let claimant =
            index.services_of_ip(ip).find(|service| unit.owns(address) && service.claim() == unit.key);
        match claimant {
            // It will not be associated any more; who keeps it from going is nobody of ours.
            Some(leaver) if leaver.is_deleting() => tell_held_by_other(address, &leaver, moment, plan),
            // Nor will one that could be by now, for it was refused; nor, perhaps ever, one that was not adopted.
            Some(other)
                if !other.is_pinned_by_us()
                    || unit.live_claim().is_some_and(|claim| claim.phase() == ClaimPhase::Bound) =>
            {
                tell_held_by_other(address, &other, moment, plan);
            }
            Some(_) => {}
            // Somebody's finalizer keeps one that has nothing: it has to go before another of its name can come.
            None => match placeholder::in_the_way(address, &placeholders) {
                Some(lingering) => tell_lingering(address, lingering, moment, plan),
                None => arm(index, unit, address, &hold_key(index, unit, moment), None, arms),
            },
        }
        return;
    };
    if has_ip(&keeper) {
        for other in placeholders
            .iter()
            .filter(|other| other.object_uid() != keeper.object_uid() && !other.is_deleting())
        {
            plan.push(Action::delete(&Object::Service(Arc::clone(other))));
        }
    }
    let own_key = keeper.sharing_key().filter(|key| is_our_key(key)).map(str::to_owned);
    let key = own_key.unwrap_or_else(|| hold_key(index, unit, moment));
    if let Some(body) = placeholder::mend(index, keeper, address, &key, None)
        && !keeper.is_deleting()
    {
        plan.push(placeholder::patch(keeper, body));
    }
    tell_held(index, unit, address, keeper, ip, moment, plan);
}

/// The condition `Held`: whether MetalLB really has the IP assigned to the placeholder, and if not, who has
/// it or why.
fn tell_held(
    index: &Index,
    unit: &Unit,
    address: &Arc<IPAddress>,
    placeholder: &Arc<Service>,
    ip: Ip,
    moment: &Moment,
    plan: &mut Plan,
) {
    let name = View::key(&**placeholder);
    let mut edit = Edit::of(address);
    let mut ended = None;
    let told = address.status.as_ref().and_then(|status| find(&status.conditions, types::HELD));
    if placeholder.ingress().contains(&ip) {
        edit.condition(
            types::HELD,
            true,
            "Held",
            &format!("placeholder {name} holds the address"),
            moment.now,
        );
        edit.held_again(moment.now);
        ended = edit.finishes().cloned();
    } else if let Some(other) = index.services_of_ip(ip).next() {
        return tell_held_by_other(address, &other, moment, plan);
    } else if index.pool_containing(&[ip]).is_none() {
        let message = format!("no IPAddressPool contains {ip}; put it back into a pool");
        edit.condition(types::HELD, false, "NoPool", &message, moment.now);
    } else if let Some(failure) = index.failure(placeholder) {
        edit.condition(types::HELD, false, "NotAssigned", &failure.message, moment.now);
        ask_again(index, address, placeholder, failure, moment, plan);
    } else if told.is_some_and(|condition| condition.status == "True") {
        let message = format!("MetalLB has not assigned the address to placeholder {name}");
        edit.condition(types::HELD, false, "NotAssigned", &message, moment.now);
    }
    if let Some(action) = edit.action() {
        plan.push(action);
        plan.actions.extend(ended.iter().flat_map(|ended| trace::held_again(index, unit, address, ended)));
    }
}

/// MetalLB refused the hold an address that no Service shows: whoever had it in its books may be gone from them since, and
/// MetalLB looks at nobody again for that. It looks at a placeholder that is written. First soon, then ever more rarely.
fn ask_again(
    index: &Index,
    address: &IPAddress,
    placeholder: &Arc<Service>,
    failure: &Failure,
    moment: &Moment,
    plan: &mut Plan,
) {
    if placeholder.is_deleting() || is_unholdable(index, address) {
        return;
    }
    let asked: Option<Timestamp> =
        placeholder.annotation(driver::ASKED_AGAIN).and_then(|asked| asked.parse().ok());
    let made = placeholder.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let tried = asked
        .zip(made)
        .map(|(asked, made)| Duration::try_from(asked.duration_since(made)).unwrap_or_default());
    let pause = tried.unwrap_or_default().clamp(ASK_AGAIN.0, ASK_AGAIN.1);
    let Some(since) = asked.max(failure.at) else { return };
    if let Some(left) = moment.left_of(pause, since) {
        plan.retry(left);
        return;
    }
    let body = json!({ "metadata": { "annotations": { driver::ASKED_AGAIN: moment.now.to_string() } } });
    plan.push(placeholder::patch(placeholder, body));
}

fn tell_held_by_other(address: &Arc<IPAddress>, other: &Arc<Service>, moment: &Moment, plan: &mut Plan) {
    let message = format!("Service {} has the address", View::key(&**other));
    tell_not_held(address, "HeldByOther", &message, moment, plan);
}

fn tell_lingering(address: &Arc<IPAddress>, placeholder: &Arc<Service>, moment: &Moment, plan: &mut Plan) {
    let message = format!(
        "placeholder {} is being deleted and has the address no more; take its finalizers off ({}), and another is made",
        View::key(&**placeholder),
        placeholder.finalizers().join(", ")
    );
    tell_not_held(address, "PlaceholderLingers", &message, moment, plan);
}

fn tell_not_held(address: &Arc<IPAddress>, reason: &str, message: &str, moment: &Moment, plan: &mut Plan) {
    let mut edit = Edit::of(address);
    edit.condition(types::HELD, false, reason, message, moment.now);
    plan.actions.extend(edit.action());
}

/// The sharing key of a new hold: one with the other placeholders of the claim, so that a dual-stack Service
/// can share with all of them.
fn hold_key(index: &Index, unit: &Unit, moment: &Moment) -> String {
    let mut siblings = unit.addresses.iter().flat_map(|address| index.placeholders_of(&address.key()));
    siblings
        .find_map(|placeholder| placeholder.sharing_key().filter(|key| is_our_key(key)).map(str::to_owned))
        .unwrap_or_else(|| sharing_key(moment.entropy))
}

/// Creates the placeholder that holds the address.
pub(super) fn arm(
    index: &Index,
    unit: &Unit,
    address: &Arc<IPAddress>,
    key: &str,
    beside: Option<Beside>,
    plan: &mut Plan,
) {
    let Ok(ip) = address.ip() else { return };
    let object = Object::Address(Arc::clone(address));
    let name = placeholder::hold_name(address);
    let home = &index.config.placeholder_namespace;
    let stranger = index.services.get(&api::ServiceKey::new(home, &name));
    if stranger.is_some_and(|service| !index.is_placeholder(&service)) {
        let note =
            format!("Service {home}/{name} is in the way of the placeholder of this address; delete it");
        plan.standing.push(Event::warning(&object, "PlaceholderBlocked", "Hold", note));
        return;
    }
    let pool = index.pool_of_class(&address.spec.class_name).filter(|(_, pool)| pool.contains(ip));
    let wish = Wish {
        name,
        family: ip.family(),
        address: Some((address.key(), ip)),
        claim: unit.key.clone(),
        pool: pool.map(|(name, _)| name),
        key: key.to_owned(),
        beside,
    };
    let refused = Some(Guard { event: refused(address) });
    plan.push(Action::Create { object: placeholder::make(index, wish).into(), refused });
}

/// Creates the placeholder to which an address is on its way back, unless one that lingers has its name.
pub(super) fn arm_again(
    index: &Index,
    unit: &Unit,
    address: &Arc<IPAddress>,
    key: &str,
    beside: Beside,
    trace: Option<&Trace>,
    plan: &mut Plan,
) {
    if placeholder::in_the_way(address, &index.placeholders_of(&address.key())).is_none() {
        let beside = Beside { trace: trace.map(|trace| trace.operation.context), ..beside };
        arm(index, unit, address, key, Some(beside), plan);
        plan.actions.extend(trace.map(|trace| trace.step("hold.arm", address.key().as_str())));
    }
}

/// What is told when the API server will not have a placeholder.
pub(super) fn refused(address: &Arc<IPAddress>) -> Event {
    let note = "the placeholder that holds this address was refused".to_owned();
    Event::warning(&Object::Address(Arc::clone(address)), "PlaceholderRefused", "Hold", note)
}
