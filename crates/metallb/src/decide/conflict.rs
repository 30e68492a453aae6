//! Contract §12: `Conflict` and `Lost`, the phases that only the driver enters and leaves.
//!
//! A Service has an IP of the ledger that the binding does not give it: the address is in `Conflict` until it lets
//! go. No pool contains the IP any more, and MetalLB has taken it off its rightful holder: the address is `Lost` until
//! a pool has it again. Neither frees the address: its hold, or the pin of its Service, stays and waits.

use std::sync::Arc;

use api::address::{AddressPhase, AssociatedTo};
use api::conditions::types;
use api::wellknown::CLAIM;
use api::{ClaimKey, IPAddress, Ip};
use k8s_openapi::api::core::v1::Service;
use plan::trace::Operation;
use plan::{Action, Event, Moment, Object, Plan, Ref};

use super::ledger::Edit;
use super::service::is_holder;
use super::{Unit, trace};
use crate::index::Index;
use crate::parse::service::View;

/// The Services that have the IP, by MetalLB or by `spec.externalIPs`, although the binding does not give it to them,
/// in name order.
pub(super) fn offenders(index: &Index, unit: &Unit, address: &IPAddress) -> Vec<Arc<Service>> {
    let Ok(ip) = address.ip() else { return Vec::new() };
    let all = index.services_of_ip(ip).chain(index.services_of_external_ip(ip));
    let mut found: Vec<_> = all.filter(|service| !is_rightful(index, unit, address, service)).collect();
    found.sort_by_key(|service| View::key(&**service));
    found.dedup_by_key(|service| View::key(&**service));
    found
}

/// Placeholders, the Service that the ledger names, and, while it names none, one that names the claim: it is about to
/// be associated.
fn is_rightful(index: &Index, unit: &Unit, address: &IPAddress, service: &Service) -> bool {
    index.is_placeholder(service)
        || is_recorded(address, service)
        || (unit.owns(address) && service.claim() == unit.key && !has_live_holder(index, address))
}

fn is_recorded(address: &IPAddress, service: &Service) -> bool {
    let key = View::key(service);
    let named = address.associated_to().is_some_and(|to| to.key() == key);
    named && is_holder(address, service)
}

fn has_live_holder(index: &Index, address: &IPAddress) -> bool {
    let holder = address.associated_to().map(AssociatedTo::key);
    let service = holder.and_then(|holder| index.services.get(&holder));
    service.is_some_and(|service| is_holder(address, &service))
}

/// Whether no pool contains the IP and MetalLB does not serve it to its rightful holder. While it does, the pools may
/// be in a form that only MetalLB understands.
pub(super) fn is_lost(index: &Index, unit: &Unit, address: &IPAddress) -> bool {
    let Ok(ip) = address.ip() else { return false };
    index.pool_containing(&[ip]).is_none()
        && !index.services_of_ip(ip).any(|service| is_rightful(index, unit, address, &service))
}

/// Why an address can be given to nobody at this moment, for the Service that asks for it. Whose fault it is stands on
/// the address, not here.
pub(super) fn obstacle(index: &Index, unit: &Unit, addresses: &[Arc<IPAddress>]) -> Option<String> {
    addresses.iter().find_map(|address| {
        let (ip, name) = (&address.spec.address, address.key());
        if address.phase() == AddressPhase::Conflict || !offenders(index, unit, address).is_empty() {
            Some(format!("another Service has {ip} against the ledger; see IPAddress {name}; it follows when that lets go"))
        } else if address.phase() == AddressPhase::Lost || is_lost(index, unit, address) {
            Some(format!("no IPAddressPool contains {ip} any more; see IPAddress {name}; it follows when one does"))
        } else {
            None
        }
    })
}

/// Moves the address into and out of `Conflict` and `Lost`, and says so on both sides.
pub(super) fn judge(index: &Index, unit: &Unit, address: &Arc<IPAddress>, moment: &Moment, plan: &mut Plan) {
    let Ok(ip) = address.ip() else { return };
    let offenders = offenders(index, unit, address);
    let lost = is_lost(index, unit, address);
    let object = Object::Address(Arc::clone(address));
    // Another write of this plan has the status: the phase follows in the next pass, which that write causes.
    let waits = writes_status(plan, address);
    // Nobody is accused before the phase says so: only then does the conflict have a beginning, and so a trace.
    if !offenders.is_empty() && (!waits || address.phase() == AddressPhase::Conflict) {
        let operation = trace::conflict(index, address, moment.now);
        for offender in &offenders {
            accuse(unit, &object, offender, ip, operation.as_ref(), plan);
        }
    }
    if offenders.is_empty() && lost {
        let note = format!(
            "no IPAddressPool contains {ip} any more; put it back into a pool, and everything is as before"
        );
        plan.standing.push(Event::warning(&object, "AddressLost", "Hold", note));
    }
    if waits {
        return;
    }
    let phase = match (offenders.is_empty(), lost) {
        (false, _) => AddressPhase::Conflict,
        (true, true) => AddressPhase::Lost,
        (true, false) if address.phase().is_drivers() => handed_back(unit, address),
        (true, false) => address.phase(),
    };
    let mut edit = Edit::of(address);
    if phase != address.phase() {
        edit.phase(phase);
    }
    if offenders.is_empty() {
        edit.clear_condition(types::CONFLICT);
    } else {
        let names: Vec<_> = offenders.iter().map(|service| View::key(&**service).to_string()).collect();
        let message =
            format!("Service {} has {ip}, and the binding does not give it to it", names.join(", "));
        edit.condition(types::CONFLICT, true, "HeldByOther", &message, moment.now);
    }
    let Some(action) = edit.action() else { return };
    plan.push(action);
    let (reason, words) = match address.phase() {
        AddressPhase::Conflict if phase != AddressPhase::Conflict => {
            ("ConflictResolved", "no other Service has")
        }
        AddressPhase::Lost if !phase.is_drivers() => ("AddressRecovered", "a pool contains"),
        _ => return,
    };
    let tail = if reason == "ConflictResolved" { "any more" } else { "again" };
    let operation = trace::conflict(index, address, moment.now);
    let event = Event::normal(&object, reason, "Hold", format!("{words} {ip} {tail}"));
    plan.push(Action::Emit(event.traced(operation.as_ref())));
    plan.actions.extend(operation.map(|ours| trace::end_of_conflict(&ours, address, moment.now)));
}

/// The phase the core would find: it decides anew as soon as the driver's own phase is gone.
fn handed_back(unit: &Unit, address: &IPAddress) -> AddressPhase {
    match &address.spec.claim_ref {
        None => AddressPhase::Available,
        Some(_) if unit.owns(address) => AddressPhase::Bound,
        Some(claim) if claim.uid().is_none() => AddressPhase::Pending,
        Some(_) => AddressPhase::Released,
    }
}

fn writes_status(plan: &Plan, address: &IPAddress) -> bool {
    let about = Ref::address(&address.key());
    plan.actions.iter().any(
        |action| matches!(action, Action::Patch { target, status: true, .. } if target.reference == about),
    )
}

/// The address's event names the offender in full; the Service's names the claim only to its own namespace.
fn accuse(
    unit: &Unit,
    address: &Object,
    offender: &Arc<Service>,
    ip: Ip,
    operation: Option<&Operation>,
    plan: &mut Plan,
) {
    let name = View::key(&**offender);
    let how = if offender.ingress().contains(&ip) { "has" } else { "names in spec.externalIPs" };
    let note = format!("Service {name} {how} {ip}, which this address reserves; take it off that Service");
    plan.standing.push(Event::warning(address, "AddressConflict", "Hold", note).traced(operation));
    let claim = unit.key.as_ref().filter(|claim| claim.namespace == name.namespace);
    let note = match (claim, way_out(offender, ip)) {
        (Some(ClaimKey { name: claim, .. }), undo) => {
            format!(
                "{ip} is reserved by IPAddressClaim {claim}; {undo}, or annotate the Service that is to have it with {CLAIM}: {claim}"
            )
        }
        (None, undo) => format!("{ip} is reserved for somebody else; {undo}"),
    };
    let offender = Object::Service(Arc::clone(offender));
    plan.standing.push(Event::warning(&offender, "AddressConflict", "Hold", note).traced(operation));
}

/// What the owner of the Service is to undo.
fn way_out(offender: &Service, ip: Ip) -> &'static str {
    if offender.external_ips().contains(&ip) {
        "remove it from spec.externalIPs"
    } else if offender.spec().load_balancer_ip.as_deref().is_some_and(|text| !text.is_empty()) {
        "remove spec.loadBalancerIP"
    } else if offender.pin().map_or(true, |pin| !pin.is_empty()) {
        "remove the annotation that asks for it (loadBalancerIPs), or name another address there"
    } else if offender.pool().is_some() {
        "remove the annotation address-pool"
    } else {
        "delete this Service, or pin it to an address of its own"
    }
}
