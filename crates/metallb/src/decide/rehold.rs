//! Contract §11: the end of a way back. The association is cleared, the placeholder alone has the address; and the
//! short ways, when the Service is gone or is no load balancer any more.

use std::sync::Arc;

use api::address::HandoffMode;
use api::conditions::types;
use api::{IPAddress, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use plan::{Action, Event, Moment, Object, Plan, Ref};

use super::address::arm;
use super::handoff::text;
use super::ledger::Edit;
use super::marks::{is_pin_ours, our_key, undress};
use super::placeholder::{self, Beside};
use super::{Unit, gap, trace};
use crate::index::Index;
use crate::parse::service::{View, sharing_key};

/// Clears the association: the placeholder alone has the address.
pub(super) fn clear(
    index: &Index,
    unit: &Unit,
    service: Option<&Arc<Service>>,
    group: &[Arc<IPAddress>],
    moment: &Moment,
    plan: &mut Plan,
) {
    let mut all_assigned = true;
    let trace = trace::disassociation(index, service, group, moment.now);
    let id = trace.as_ref().map(|trace| trace.operation.trace_id());
    let mut ended = None;
    for address in group {
        let holds = index.placeholders_of(&address.key());
        let hold = holds.iter().find(|hold| !hold.is_deleting());
        let to = ServiceKey::new(&index.config.placeholder_namespace, placeholder::hold_name(address));
        let to = hold.map_or(to, |hold| View::key(&**hold));
        let begun = gap::Begun::of(index, service.map(|service| &**service), address, hold);
        let assigned = address.ip().is_ok_and(|ip| hold.is_some_and(|hold| hold.ingress().contains(&ip)));
        all_assigned &= assigned;
        if hold.is_none() && placeholder::in_the_way(address, &holds).is_none() {
            // By these words the gap is told of even if the driver dies, or loses a race, before the ledger says so.
            let made = Beside {
                started: Some(moment.now),
                alone: true,
                trace: trace.as_ref().map(|trace| trace.operation.context),
                ..Beside::default()
            };
            arm(index, unit, address, &sharing_key(moment.entropy), Some(made), plan);
            plan.actions.extend(trace.as_ref().map(|trace| trace.step("hold.arm", address.key().as_str())));
        }
        let mut edit = Edit::of(address);
        edit.disassociate(&to.to_string(), assigned, begun, id.clone(), moment.now);
        let (reason, message) = if assigned {
            ("Held", format!("placeholder {to} holds the address"))
        } else {
            ("NotAssigned", format!("MetalLB has not assigned the address to placeholder {to}"))
        };
        edit.condition(types::HELD, assigned, reason, &message, moment.now);
        ended = edit.finishes().cloned().into_iter().chain(ended).reduce(trace::longer);
        plan.actions.extend(edit.action());
        // A hold that still wears the last tenant's shape never shares with the next.
        if let Some(hold) = hold {
            let key = our_key(hold).map_or_else(|| sharing_key(moment.entropy), str::to_owned);
            let body = placeholder::mend(index, hold, address, &key, None);
            plan.actions.extend(body.map(|body| placeholder::patch(hold, body)));
        }
    }
    if let Some(trace) = &trace {
        if all_assigned && ended.as_ref().is_some_and(|ended| ended.mode == HandoffMode::Gap) {
            // In a gap the Service lets go first, and here MetalLB was faster than this decision.
            plan.push(trace.wait("metallb.assign", "", Some(moment.now)));
        }
        plan.push(trace.step("ledger.disassociate", ""));
        // Else it is over when the placeholder has the address.
        let others = trace.others(index, unit, group, moment.now).filter(|_| all_assigned);
        let all = others.and_then(|others| others.into_iter().chain(ended).reduce(trace::longer));
        plan.actions.extend(all.and_then(|all| trace.end(&all)));
    }
    if service.is_some_and(|service| service.is_deleting()) && all_assigned {
        // All went as whoever deleted the Service expects it, and the ledger shows it.
        return;
    }
    let about = service.filter(|service| !service.is_deleting());
    let object = about.map(|service| Object::Service(Arc::clone(service)));
    let object = object.or_else(|| group.first().map(|address| Object::Address(Arc::clone(address))));
    if let Some(object) = object {
        let state = if all_assigned { "is held again" } else { "is about to be held again" };
        let note = format!("{} {state} and attached to nothing", text(group));
        let event = Event::normal(&object, "Disassociated", "Disassociate", note);
        plan.push(Action::Emit(event.traced(trace.as_ref().map(|trace| &trace.operation))));
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

/// The holder has the IP no more, for good: it is no longer a load balancer, so that the API server has freed the IP, or
/// it was told to let go in a gap. The address is held again at once.
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
    let is_hold = |action: &Action| match action {
        Action::Create { .. } => true,
        // With what it tells of: what comes next may fail.
        Action::Trace(span) => span.name == "hold.arm",
        _ => false,
    };
    let (first, rest): (Vec<_>, Vec<_>) = cleared.actions.into_iter().partition(is_hold);
    plan.actions.extend(first);
    plan.actions.extend(undress(service, is_pin_ours(service, group), true));
    plan.actions.extend(rest);
    plan.standing.extend(cleared.standing);
}
