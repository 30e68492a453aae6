//! Contract §11: the handoff. Two holders for a moment, never none.
//!
//! Forward: record in the ledger, pin the Service beside the placeholder under one sharing key, see it
//! served, give the placeholder another key so that MetalLB takes the IP off it, delete it, take the key off
//! the Service. Reverse: the same way back. Each step is derived from what the cluster shows, so that a crash
//! after any of them is continued by the next decision.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::conditions::types;
use api::wellknown::{driver, metallb};
use api::{IPAddress, Ip, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use plan::{Action, Event, Moment, Object, Plan, Ref, Target};
use serde_json::{Map, Value, json};

use super::Unit;
use super::address::arm;
use super::ledger::Edit;
use super::placeholder::{self, Beside};
use crate::index::Index;
use crate::parse::service::{View, is_our_key, sharing_key};

/// An address that no pool can have.
const NOWHERE: &str = "0.0.0.0";

fn ips(group: &[Arc<IPAddress>]) -> Vec<Ip> {
    let mut ips: Vec<Ip> = group.iter().filter_map(|address| address.ip().ok()).collect();
    ips.sort();
    ips
}

fn our_key(service: &Service) -> Option<&str> {
    service.sharing_key().filter(|key| is_our_key(key))
}

/// The way to the Service, or the keeping of what it has.
pub(super) fn forward(
    index: &Index,
    service: &Arc<Service>,
    targets: &[Arc<IPAddress>],
    moment: &Moment,
    plan: &mut Plan,
) {
    let ips = ips(targets);
    let mut recorded = true;
    for address in targets.iter().filter(|address| address.associated_to().is_none()) {
        recorded = false;
        let from =
            index.placeholders_of(&address.key()).first().map(|holder| View::key(&**holder).to_string());
        let mut edit = Edit::of(address);
        edit.associate(service, &from.unwrap_or_default(), moment.now);
        plan.actions.extend(edit.action());
    }
    let set: BTreeSet<Ip> = ips.iter().copied().collect();
    let pinned = service.is_pinned_by_us() && service.pin().ok().as_ref() == Some(&set);
    let served = set.is_subset(&service.ingress());
    if recorded && pinned && served {
        finish(index, service, targets, moment, plan);
    } else {
        pin(index, service, targets, &ips, moment, plan);
        if recorded && !served {
            tell_unserved(service, targets, moment, plan);
        }
    }
}

/// Pins the Service beside the placeholders.
fn pin(
    index: &Index,
    service: &Arc<Service>,
    targets: &[Arc<IPAddress>],
    ips: &[Ip],
    moment: &Moment,
    plan: &mut Plan,
) {
    let holds: Vec<_> = targets
        .iter()
        .flat_map(|address| {
            index.placeholders_of(&address.key()).into_iter().map(move |hold| (address, hold))
        })
        .filter(|(_, hold)| !hold.is_deleting())
        .collect();
    let beside = Beside::of(service);
    // MetalLB looks again at a Service it refused when a key changes, not when a port does: with the port
    // goes the key.
    let clash = holds.iter().any(|(_, hold)| !hold.ports().is_disjoint(&beside.ports));
    let key = holds.iter().find_map(|(_, hold)| our_key(hold).map(str::to_owned)).filter(|_| !clash);
    let key = key.unwrap_or_else(|| sharing_key(moment.entropy));
    for (address, hold) in &holds {
        if let Some(body) = placeholder::mend(index, hold, address, &key, Some(&beside)) {
            plan.push(placeholder::patch(hold, body));
        }
    }
    let list = ips.iter().map(Ip::to_string).collect::<Vec<_>>().join(",");
    let mut wanted = vec![(metallb::PIN, list.as_str()), (driver::PINNED, "true")];
    if !holds.is_empty() {
        wanted.push((metallb::SHARE, key.as_str()));
    }
    plan.actions.extend(dress(index, service, &wanted, &[]));
}

/// The write that puts our marks on a Service, as far as they are missing.
fn dress(index: &Index, service: &Arc<Service>, set: &[(&str, &str)], remove: &[&str]) -> Option<Action> {
    let mut annotations: Map<String, Value> = set
        .iter()
        .filter(|(name, value)| service.annotation(name) != Some(value))
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let present = remove.iter().filter(|name| service.annotation(name).is_some());
    annotations.extend(present.map(|name| ((*name).to_owned(), Value::Null)));
    let mut metadata = Map::new();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    if !service.labelled(driver::ASSOCIATED) {
        metadata.insert("labels".to_owned(), json!({ driver::ASSOCIATED: "true" }));
    }
    if index.config.hold_on_delete && !service.has_finalizer(driver::HANDOFF) && !service.is_deleting() {
        let mut finalizers = service.metadata.finalizers.clone().unwrap_or_default();
        finalizers.push(driver::HANDOFF.to_owned());
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    (!metadata.is_empty()).then(|| {
        Action::patch(Target::of(&Object::Service(Arc::clone(service))), json!({ "metadata": metadata }))
    })
}

/// The Service is served: the placeholders let go, one write after the other, and the ledger says so.
fn finish(
    index: &Index,
    service: &Arc<Service>,
    targets: &[Arc<IPAddress>],
    moment: &Moment,
    plan: &mut Plan,
) {
    let mut waiting = false;
    for hold in targets.iter().flat_map(|address| index.placeholders_of(&address.key())) {
        if hold.is_deleting() {
            waiting = true;
        } else if hold.sharing_key().is_some() && hold.sharing_key() == service.sharing_key() {
            // With another key MetalLB takes the IP off the placeholder, while the Service keeps it.
            let body =
                json!({ "metadata": { "annotations": { metallb::SHARE: sharing_key(moment.entropy) } } });
            plan.push(placeholder::patch(&hold, body));
            waiting = true;
        } else if hold.ingress().is_empty() {
            plan.push(Action::delete(&Object::Service(hold)));
        } else {
            waiting = true;
        }
    }
    if waiting {
        return;
    }
    // A key left on the Service would let a stranger share its address.
    let key_is_ours = our_key(service).is_some();
    let remove: &[&str] = if key_is_ours { &[metallb::SHARE] } else { &[] };
    plan.actions.extend(dress(index, service, &[(driver::PINNED, "true")], remove));
    let name = View::key(&**service);
    let mut begun = false;
    for address in targets {
        let handoff = address.status.as_ref().and_then(|status| status.last_handoff.as_ref());
        begun |= handoff.is_some_and(|handoff| handoff.finished_at.is_none());
        let mut edit = Edit::of(address);
        edit.associated(&name, service.object_uid(), moment.now);
        plan.actions.extend(edit.action());
    }
    if begun {
        let note =
            format!("Service {} is served by {} of claim {}", name, text(targets), claim_name(service));
        plan.push(Action::Emit(Event::normal(
            &Object::Service(Arc::clone(service)),
            "Associated",
            "Associate",
            note,
        )));
    }
}

fn text(group: &[Arc<IPAddress>]) -> String {
    ips(group).iter().map(Ip::to_string).collect::<Vec<_>>().join(" and ")
}

fn claim_name(service: &Service) -> String {
    service.claim().map(|claim| claim.name).unwrap_or_default()
}

/// The Service was served once and is not any more: the pin stays, the ledger tells.
fn tell_unserved(service: &Service, targets: &[Arc<IPAddress>], moment: &Moment, plan: &mut Plan) {
    let done = |address: &&Arc<IPAddress>| {
        let handoff = address.status.as_ref().and_then(|status| status.last_handoff.as_ref());
        handoff.is_none_or(|handoff| handoff.finished_at.is_some())
    };
    for address in targets.iter().filter(done) {
        let message = format!("MetalLB does not serve Service {} with the address", View::key(service));
        let mut edit = Edit::of(address);
        edit.condition(types::ASSOCIATED, false, "NotServed", &message, moment.now);
        plan.actions.extend(edit.action());
    }
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
    let shown = ips(group).iter().any(|ip| service.ingress().contains(ip));
    let ours = is_pin_ours(service, group);
    // A key that the Service's owner put there is not ours to change: the placeholder takes it for a while.
    let foreign = service.sharing_key().is_some() && our_key(service).is_none();
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
    if !keyed {
        let body = json!({ "metadata": { "annotations": { metallb::SHARE: key } } });
        plan.push(Action::patch(Target::of(&Object::Service(Arc::clone(service))), body));
    }
    let mut ready = keyed;
    for address in group {
        let holds = index.placeholders_of(&address.key());
        let Some(hold) = holds.iter().find(|hold| !hold.is_deleting()) else {
            ready = false;
            if holds.is_empty() {
                let beside = Beside { started: Some(moment.now), ..Beside::of(service) };
                arm(index, unit, address, &key, Some(beside), plan);
            }
            continue;
        };
        let assigned = address.ip().is_ok_and(|ip| hold.ingress().contains(&ip));
        // One that shares already has the IP for good: to change its shape now could only lose it.
        if !(assigned && hold.sharing_key() == Some(&key))
            && let Some(body) = placeholder::mend(index, hold, address, &key, Some(&Beside::of(service)))
        {
            plan.push(placeholder::patch(hold, body));
            ready = false;
        }
        // Nothing is left to keep when neither has the IP and MetalLB says why.
        let hopeless = !shown && index.failure(hold).is_some();
        ready &= assigned || hopeless;
    }
    if ready && foreign && shown {
        plan.actions.extend(banish(service).filter(|_| ours || service.annotation(metallb::PIN).is_none()));
    } else if ready {
        // One that is being deleted keeps the finalizer until MetalLB has taken the IP off it: a Service that
        // is gone while MetalLB still counts it in would stand in the way of the placeholder's next change.
        plan.actions.extend(undress(service, ours, !service.is_deleting()));
    }
}

/// With its marker gone a pin is still ours: the ledger says so.
fn is_pin_ours(service: &Service, group: &[Arc<IPAddress>]) -> bool {
    service.is_pinned_by_us() || service.pin().is_ok_and(|pin| pin.into_iter().eq(ips(group)))
}

/// The write that makes MetalLB take the IP off a Service whose key lets it go on sharing: a pin that no pool
/// has.
fn banish(service: &Arc<Service>) -> Option<Action> {
    if service.annotation(metallb::PIN) == Some(NOWHERE) && service.is_pinned_by_us() {
        return None;
    }
    let body = json!({ "metadata": { "annotations": { metallb::PIN: NOWHERE, driver::PINNED: "true" } } });
    Some(Action::patch(Target::of(&Object::Service(Arc::clone(service))), body))
}

/// Whether a placeholder shows the address.
fn is_assigned(index: &Index, address: &IPAddress) -> bool {
    let shows = |hold: &Arc<Service>| address.ip().is_ok_and(|ip| hold.ingress().contains(&ip));
    index.placeholders_of(&address.key()).iter().any(|hold| !hold.is_deleting() && shows(hold))
}

/// The write that takes all our marks off a Service; none if it wears none.
pub(super) fn strip(service: &Arc<Service>) -> Option<Action> {
    undress(service, service.is_pinned_by_us(), true)
}

fn undress(service: &Arc<Service>, pinned: bool, finalizer: bool) -> Option<Action> {
    let mut annotations = Map::new();
    let keyed = our_key(service).is_some();
    for (name, ours) in [(metallb::PIN, pinned), (driver::PINNED, true), (metallb::SHARE, keyed)] {
        if ours && service.annotation(name).is_some() {
            annotations.insert(name.to_owned(), Value::Null);
        }
    }
    let mut metadata = Map::new();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    if service.labelled(driver::ASSOCIATED) {
        metadata.insert("labels".to_owned(), json!({ driver::ASSOCIATED: null }));
    }
    if finalizer && service.has_finalizer(driver::HANDOFF) {
        let finalizers: Vec<_> =
            service.metadata.finalizers.iter().flatten().filter(|name| *name != driver::HANDOFF).collect();
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    (!metadata.is_empty()).then(|| {
        Action::patch(Target::of(&Object::Service(Arc::clone(service))), json!({ "metadata": metadata }))
    })
}

/// Clears the association: the placeholder alone has the address.
fn clear(
    index: &Index,
    unit: &Unit,
    service: Option<&Arc<Service>>,
    group: &[Arc<IPAddress>],
    moment: &Moment,
    plan: &mut Plan,
) {
    let mut all_assigned = true;
    for address in group {
        let holds = index.placeholders_of(&address.key());
        let hold = holds.iter().find(|hold| !hold.is_deleting());
        let to = ServiceKey::new(&index.config.placeholder_namespace, placeholder::hold_name(address));
        let to = hold.map_or(to, |hold| View::key(&**hold));
        let started = hold.and_then(|hold| hold.annotation(driver::HANDOFF_STARTED)?.parse().ok());
        let assigned = address.ip().is_ok_and(|ip| hold.is_some_and(|hold| hold.ingress().contains(&ip)));
        all_assigned &= assigned;
        if holds.is_empty() {
            arm(index, unit, address, &sharing_key(moment.entropy), None, plan);
        }
        let mut edit = Edit::of(address);
        edit.disassociate(&to.to_string(), assigned, started.unwrap_or(moment.now), moment.now);
        let (reason, message) = if assigned {
            ("Held", format!("placeholder {to} holds the address"))
        } else {
            ("NotAssigned", format!("MetalLB has not assigned the address to placeholder {to}"))
        };
        edit.condition(types::HELD, assigned, reason, &message, moment.now);
        plan.actions.extend(edit.action());
        // A hold that still wears the last tenant's shape never shares with the next.
        if let Some(hold) = hold {
            let key = our_key(hold).map_or_else(|| sharing_key(moment.entropy), str::to_owned);
            let body = placeholder::mend(index, hold, address, &key, None);
            plan.actions.extend(body.map(|body| placeholder::patch(hold, body)));
        }
    }
    let about = service.filter(|service| !service.is_deleting());
    let object = about.map(|service| Object::Service(Arc::clone(service)));
    let object = object.or_else(|| group.first().map(|address| Object::Address(Arc::clone(address))));
    if let Some(object) = object {
        let state = if all_assigned { "is held again" } else { "is about to be held again" };
        let note = format!("{} {state} and attached to nothing", text(group));
        plan.push(Action::Emit(Event::normal(&object, "Disassociated", "Disassociate", note)));
    }
}

/// The holder is gone, or another of its name has come: the address is held again in the same pass.
pub(super) fn bury(
    index: &Index,
    unit: &Unit,
    holder: &ServiceKey,
    group: &[Arc<IPAddress>],
    moment: &Moment,
    plan: &mut Plan,
) {
    let uid = group.iter().find_map(|address| address.associated_to().and_then(|to| to.uid.clone()));
    plan.push(Action::ConfirmAbsent { reference: Ref::service(holder), uid });
    clear(index, unit, None, group, moment, plan);
}

/// The holder is no longer a load balancer: the API server has freed the IP already, so it is held again at
/// once.
pub(super) fn rehold(
    index: &Index,
    unit: &Unit,
    service: &Arc<Service>,
    group: &[Arc<IPAddress>],
    moment: &Moment,
    plan: &mut Plan,
) {
    let mut cleared = Plan::default();
    clear(index, unit, Some(service), group, moment, &mut cleared);
    // The new hold first: everything else can wait for a moment.
    let (first, rest): (Vec<_>, Vec<_>) =
        cleared.actions.into_iter().partition(|action| matches!(action, Action::Create { .. }));
    plan.actions.extend(first);
    plan.actions.extend(undress(service, is_pin_ours(service, group), true));
    plan.actions.extend(rest);
    plan.standing.extend(cleared.standing);
}
