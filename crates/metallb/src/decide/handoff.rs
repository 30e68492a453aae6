//! Contract §11: the handoff. Two holders for a moment, never none.
//!
//! Forward: record in the ledger, pin the Service beside the placeholder under one sharing key, see it
//! served, give the placeholder another key so that MetalLB takes the IP off it, delete it, take the key off
//! the Service. Reverse: the same way back. Each step is derived from what the cluster shows, so that a crash
//! after any of them is continued by the next decision.
//!
//! A sharing key that somebody else put on the Service is no obstacle: the placeholder borrows it for the moment.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::address::HandoffMode;
use api::conditions::{find, types};
use api::wellknown::{driver, metallb};
use api::{IPAddress, Ip};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use plan::{Action, Event, Moment, Object, Plan};
use serde_json::json;

use super::address::{arm_again, refused};
use super::ledger::{Edit, is_under_way};
use super::marks::{banish, dress, foreign_key, ips, is_pin_ours, is_pinned, our_key, undress};
use super::placeholder::{self, Beside};
use super::rehold::clear;
use super::serviceable::serviceable;
use super::trace::{self, Trace};
use super::{Unit, gap, marks};
use crate::index::Index;
use crate::parse::service::{View, sharing_key};

/// A gap that lasts longer is told.
const LONG: Duration = Duration::from_secs(2);
/// For so long a Service has been served before it is told that it is not.
const STEADY: Duration = Duration::from_secs(5);
/// The reason of MetalLB's events, and of the conditions that repeat their words.
const FAILED: &str = "AllocationFailed";

/// The way to the Service, or the keeping of what it has.
pub(super) fn forward(
    index: &Index,
    service: &Arc<Service>,
    targets: &[Arc<IPAddress>],
    moment: &Moment,
    plan: &mut Plan,
) {
    let ips = ips(targets);
    let mode = if index.config.gap { HandoffMode::Gap } else { HandoffMode::Overlap };
    let mut recorded = true;
    let trace = trace::association(index, service, targets, moment.now);
    let id = trace.as_ref().map(|trace| trace.operation.trace_id());
    if let Some(trace) = trace.as_ref().filter(|_| targets.iter().any(|one| one.associated_to().is_none())) {
        plan.push(trace.step("serviceability.check", ""));
    }
    for address in targets.iter().filter(|address| address.associated_to().is_none()) {
        recorded = false;
        let from =
            index.placeholders_of(&address.key()).first().map(|holder| View::key(&**holder).to_string());
        let mut edit = Edit::of(address);
        edit.associate(service, mode, &from.unwrap_or_default(), id.clone(), moment.now);
        plan.actions.extend(edit.action());
    }
    plan.actions.extend(trace.as_ref().filter(|_| !recorded).map(|trace| trace.step("ledger.associate", "")));
    let set: BTreeSet<Ip> = ips.iter().copied().collect();
    let served = set.is_subset(&service.ingress());
    if recorded && served && is_pinned(service, &set) {
        finish(index, service, targets, trace.as_ref(), moment, plan);
        return;
    }
    if let Some(pause) = index.pause(service) {
        // Somebody takes our marks off again and again. MetalLB leaves an IP where it is: nothing is urgent.
        plan.retry(pause);
        return;
    }
    if index.config.gap {
        gap::forward(index, service, targets, recorded, trace.as_ref(), moment, plan);
    } else {
        pin(index, service, targets, &ips, trace.as_ref(), moment, plan);
    }
    if recorded && !served {
        tell_unserved(index, service, targets, moment, plan);
    }
}

/// Pins the Service beside the placeholders.
fn pin(
    index: &Index,
    service: &Arc<Service>,
    targets: &[Arc<IPAddress>],
    ips: &[Ip],
    trace: Option<&Trace>,
    moment: &Moment,
    plan: &mut Plan,
) {
    let holds: Vec<_> = targets
        .iter()
        .flat_map(|address| {
            index.placeholders_of(&address.key()).into_iter().map(move |hold| (address, hold))
        })
        // Somebody's finalizer may keep one that is being deleted, with the address.
        .filter(|(address, hold)| !hold.is_deleting() || shows(hold, address))
        .collect();
    let beside = Beside::of(service);
    // MetalLB looks again at a Service it refused when a key changes, not when a port does: with the port
    // goes the key.
    let clash = holds.iter().any(|(_, hold)| !hold.ports().is_disjoint(&beside.ports));
    let foreign = foreign_key(service);
    let key = foreign.map(str::to_owned);
    let key = key.or_else(|| holds.iter().find_map(|(_, hold)| our_key(hold).map(str::to_owned)));
    let key = key.filter(|_| !clash).unwrap_or_else(|| sharing_key(moment.entropy));
    for (address, hold) in &holds {
        if let Some(body) = placeholder::mend(index, hold, address, &key, Some(&beside)) {
            plan.push(placeholder::patch(hold, body));
        }
    }
    let list = ips.iter().map(Ip::to_string).collect::<Vec<_>>().join(",");
    let mut wanted = vec![(metallb::PIN, list.as_str()), (driver::PINNED, "true")];
    if !holds.is_empty() && foreign.is_none() {
        wanted.push((metallb::SHARE, key.as_str()));
    }
    if let Some(action) = dress(index, service, &wanted, &[]) {
        plan.push(action);
        let pinned = is_pinned(service, &ips.iter().copied().collect());
        plan.actions.extend(trace.filter(|_| !pinned).map(|trace| trace.step("service.pin", "")));
    }
}

/// The Service is served: the placeholders let go, one write after the other, and the ledger says so.
fn finish(
    index: &Index,
    service: &Arc<Service>,
    targets: &[Arc<IPAddress>],
    trace: Option<&Trace>,
    moment: &Moment,
    plan: &mut Plan,
) {
    let mut waiting = false;
    let mut seen = false;
    for hold in targets.iter().flat_map(|address| index.placeholders_of(&address.key())) {
        if hold.sharing_key().is_some() && hold.sharing_key() == service.sharing_key() {
            waiting = true;
            // Made a moment ago, for a way back that was turned round. MetalLB may count it in already and only not have
            // shown it: then it would take the IP off a Service that has no key any more.
            let counts = hold.is_load_balancer() && !hold.is_deleting();
            let unseen = counts && hold.ingress().is_empty() && index.failure(&hold).is_none();
            if !unseen {
                // With another key MetalLB takes the IP off the placeholder, while the Service keeps it.
                let other = sharing_key(moment.entropy);
                plan.push(placeholder::patch(
                    &hold,
                    json!({ "metadata": { "annotations": { metallb::SHARE: other } } }),
                ));
                seen = true;
            }
        } else if hold.is_deleting() {
            // One that has let go and is kept by somebody's finalizer is in nobody's way.
            waiting |= !hold.ingress().is_empty();
        } else if hold.ingress().is_empty() {
            let name = hold.name_any();
            plan.push(Action::delete(&Object::Service(hold)));
            plan.actions.extend(trace.map(|trace| trace.wait("hold.release", &name, None)));
        } else {
            waiting = true;
        }
    }
    plan.actions
        .extend(trace.filter(|_| seen).map(|trace| trace.wait("metallb.assign", "", Some(moment.now))));
    if waiting {
        return;
    }
    // A key left on the Service would let a stranger share its address.
    let key_is_ours = our_key(service).is_some();
    if let Some(pause) = index.pause(service).filter(|_| !key_is_ours) {
        plan.retry(pause);
    } else {
        let remove: &[&str] = if key_is_ours { &[metallb::SHARE] } else { &[] };
        plan.actions.extend(dress(index, service, &[(driver::PINNED, "true")], remove));
    }
    let name = View::key(&**service);
    let object = Object::Service(Arc::clone(service));
    let risk = serviceable(index, service, targets).err();
    if let Some(words) = &risk {
        let note = format!(
            "{} still serves this Service, and will not when MetalLB looks at it anew: {words}",
            text(targets)
        );
        plan.standing.push(Event::warning(&object, "AssociationAtRisk", "Associate", note));
    }
    let mut begun = false;
    let mut ended = None;
    for address in targets {
        begun |= is_under_way(address);
        let mut edit = Edit::of(address);
        edit.associated(&name, service.object_uid(), risk.as_deref(), moment.now);
        ended = edit.finishes().cloned().or(ended);
        plan.actions.extend(edit.action());
    }
    if begun {
        let note =
            format!("Service {} is served by {} of claim {}", name, text(targets), claim_name(service));
        let event = Event::normal(&object, "Associated", "Associate", note);
        plan.push(Action::Emit(event.traced(trace.map(|trace| &trace.operation))));
    }
    if let Some((trace, ended)) = trace.zip(ended) {
        // In a gap the placeholder went first, and only now the Service is seen to have the address.
        let late =
            (ended.mode == HandoffMode::Gap).then(|| trace.wait("metallb.assign", "", Some(moment.now)));
        plan.actions.extend(late);
        plan.actions.extend(trace.end(&ended));
    }
}

pub(super) fn text(group: &[Arc<IPAddress>]) -> String {
    ips(group).iter().map(Ip::to_string).collect::<Vec<_>>().join(" and ")
}

fn claim_name(service: &Service) -> String {
    service.claim().map(|claim| claim.name).unwrap_or_default()
}

/// The Service was served once and is not any more, or a gap does not close: the pin stays, the ledger tells, in
/// MetalLB's own words if it has any.
fn tell_unserved(
    index: &Index,
    service: &Service,
    targets: &[Arc<IPAddress>],
    moment: &Moment,
    plan: &mut Plan,
) {
    for address in targets {
        if is_under_way(address) {
            let since = gap::is_open(address).then(|| gap::begun(address)).flatten();
            let Some(since) = since else { continue };
            if let Some(left) = moment.left_of(LONG, since) {
                plan.retry(left);
                continue;
            }
        }
        // A status that flaps is no news at each flip.
        let told = address.status.as_ref().and_then(|status| find(&status.conditions, types::ASSOCIATED));
        let well = told.filter(|told| told.status == "True");
        if let Some(left) = well.and_then(|told| moment.left_of(STEADY, told.last_transition_time.0)) {
            plan.retry(left);
            continue;
        }
        let failure = index.failure_after(service, settled(address));
        let is_reason = |told: &Condition| {
            told.status == "False"
                && told.reason == FAILED
                && told.last_transition_time.0.as_second() >= settled(address).as_second()
        };
        // Another process heard why, and this one has heard of it no more.
        if failure.is_none() && told.is_some_and(is_reason) {
            continue;
        }
        let (reason, words) = failure.map_or_else(
            || {
                let name = View::key(service);
                ("NotServed", format!("MetalLB does not serve Service {name} with the address"))
            },
            |failure| (FAILED, failure.message.clone()),
        );
        let mut edit = Edit::of(address);
        edit.condition(types::ASSOCIATED, false, reason, &words, moment.now);
        plan.actions.extend(edit.action());
    }
}

/// After which moment MetalLB's words are about what is now: the last handoff is over, or, to the second, the gap is
/// open.
fn settled(address: &IPAddress) -> Timestamp {
    let handoff = address.status.as_ref().and_then(|status| status.last_handoff.as_ref());
    let at = handoff.map(|handoff| match &handoff.finished_at {
        Some(finished) => finished.0,
        None => handoff.started_at.0 - SignedDuration::from_secs(1),
    });
    at.unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The way back to the placeholder, while the Service is there.
pub(super) fn reverse(
    index: &Index,
    unit: &Unit,
    service: &Arc<Service>,
    group: &[Arc<IPAddress>],
    moment: &Moment,
    plan: &mut Plan,
) {
    if index.config.gap {
        gap::reverse(index, unit, service, group, moment, plan);
        return;
    }
    let trace = trace::disassociation(index, Some(service), group, moment.now);
    let shown = ips(group).iter().any(|ip| service.ingress().contains(ip));
    let ours = is_pin_ours(service, group);
    // A key that the Service's owner put there is not ours to change: the placeholder takes it for a while.
    let foreign = foreign_key(service).is_some();
    if undress(service, ours, false).is_none() {
        if !shown {
            plan.actions.extend(undress(service, ours, true));
            clear(index, unit, Some(service), group, moment, plan);
            return;
        }
        // MetalLB is about to take the IP off the Service, if a placeholder has it. If none has, somebody
        // else took our marks off: MetalLB leaves an IP where it is then.
        if !foreign && group.iter().all(|address| is_assigned(index, address)) {
            return;
        }
    }
    let key = service.sharing_key().map_or_else(|| sharing_key(moment.entropy), str::to_owned);
    let keyed = service.sharing_key() == Some(&key);
    // When the Service gets its key MetalLB walks over all Services as soon as it is done with this one, and who comes meanwhile waits
    // for the end of that. A change of a placeholder that is sent at once with the key comes before it. One that is made comes after
    // it, since the API server takes the longer for that the more Services there are: so it is made first, and MetalLB not to see it.
    let is_missing = |address: &Arc<IPAddress>| {
        index.placeholders_of(&address.key()).iter().all(|hold| hold.is_deleting())
    };
    let unseen = !keyed && shown && index.is_crowded() && group.iter().any(is_missing);
    if !keyed && !unseen {
        let body = json!({ "metadata": { "annotations": { metallb::SHARE: key } } });
        plan.push(marks::patch(service, body));
    }
    let mut ready = keyed;
    for address in group {
        let holds = index.placeholders_of(&address.key());
        let Some(hold) = holds.iter().find(|hold| !hold.is_deleting()) else {
            ready = false;
            let beside = Beside { started: Some(moment.now), unseen, ..Beside::of(service) };
            arm_again(index, unit, address, &key, beside, trace.as_ref(), plan);
            continue;
        };
        let assigned = shows(hold, address);
        // One that shares already has the IP for good: to change its shape now could only lose it.
        if !(unseen || assigned && hold.sharing_key() == Some(&key))
            && let Some(body) = placeholder::mend(index, hold, address, &key, Some(&Beside::of(service)))
        {
            let patch = placeholder::patch(hold, body).or_tell(refused(address));
            plan.push(if keyed || assigned { patch } else { patch.at_once() });
            ready = false;
        }
        // Nothing is left to keep when neither has the IP and MetalLB says why.
        let hopeless = !shown && index.failure(hold).is_some();
        ready &= assigned || hopeless;
    }
    if ready && foreign && shown {
        plan.actions
            .extend(banish(service, None).filter(|_| ours || service.annotation(metallb::PIN).is_none()));
    } else if ready {
        let wears = undress(service, ours, false).is_some();
        // One that is being deleted keeps the finalizer until MetalLB has taken the IP off it: a Service that
        // is gone while MetalLB still counts it in would stand in the way of the placeholder's next change.
        plan.actions.extend(undress(service, ours, !service.is_deleting()));
        if let Some(trace) = trace.filter(|_| wears) {
            plan.push(trace.wait("metallb.assign", "", Some(moment.now)));
            plan.push(trace.step("service.unpin", ""));
        }
    }
}

/// Whether a placeholder that stays shows the address.
pub(super) fn is_assigned(index: &Index, address: &IPAddress) -> bool {
    index.placeholders_of(&address.key()).iter().any(|hold| !hold.is_deleting() && shows(hold, address))
}

/// Whether this placeholder shows the address.
pub(super) fn shows(hold: &Service, address: &IPAddress) -> bool {
    address.ip().is_ok_and(|ip| hold.ingress().contains(&ip))
}
