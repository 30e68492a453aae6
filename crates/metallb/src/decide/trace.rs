//! Contract §14: what the driver says of its operations to whoever collects traces.
//!
//! The ids are made of the association: of the Service's uid and of when the ledger recorded it. So every decision of
//! one handoff, before and after a crash, speaks of one trace.

use std::sync::Arc;

use api::address::{AssociatedTo, Handoff, HandoffDirection};
use api::conditions::{find, types};
use api::wellknown::TRACEPARENT;
use api::{IPAddress, IPAddressClaim, ServiceKey};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::Action;
use plan::trace::{Attribute, Context, Operation, Timing, TraceId, of_claim, user_context};

use super::Unit;
use super::handoff::is_assigned;
use super::ledger::{end_gap, is_under_way};
use super::marks::ips;
use crate::index::Index;
use crate::parse::service::View;

type Attributes = Vec<(&'static str, Attribute)>;

/// A handoff that is traced.
pub(super) struct Trace {
    pub(super) operation: Operation,
    /// When it began, as far as the ledger or the placeholder knows.
    pub(super) since: Timestamp,
    about: Attributes,
}

impl Trace {
    /// Writes that were done.
    pub(super) fn step(&self, name: &'static str, subject: &str) -> Action {
        self.operation.step(name, subject, Timing::Step, self.about.clone())
    }

    /// A wait that is over; `until` is when, or by the actions before it.
    pub(super) fn wait(&self, name: &'static str, subject: &str, until: Option<Timestamp>) -> Action {
        let timing = Timing::Wait { since: self.since, until };
        self.operation.step(name, subject, timing, self.about.clone())
    }

    /// What the ledger says of the other addresses of this way back, or is about to say: a driver died between the two. None
    /// if one of them is still with nobody.
    pub(super) fn others(
        &self,
        index: &Index,
        unit: &Unit,
        group: &[Arc<IPAddress>],
        now: Timestamp,
    ) -> Option<Vec<Handoff>> {
        let id = self.operation.trace_id();
        let is_other = |one: &&Arc<IPAddress>| group.iter().all(|known| known.key() != one.key());
        let of_it = |one: &Arc<IPAddress>| {
            let handoff = way_back(one).filter(|handoff| handoff.trace_id.as_ref() == Some(&id))?;
            Some(ended(index, one, handoff, now))
        };
        unit.addresses.iter().filter(is_other).filter_map(of_it).collect()
    }

    /// The root: the handoff as the ledger shows it.
    pub(super) fn end(&self, handoff: &Handoff) -> Option<Action> {
        let finished = handoff.finished_at.as_ref()?.0;
        let mut about = self.about.clone();
        about.push(("handoff.mode", format!("{:?}", handoff.mode).into()));
        about.extend(handoff.unheld_milliseconds.map(|unheld| ("handoff.unheld_ms", unheld.into())));
        Some(self.operation.end(self.since.min(finished), Some(finished), about))
    }
}

/// The handoff to a Service: one under way, or one that is recorded in this moment. None if it is not traced, or if
/// nothing changes hands.
pub(super) fn association(
    index: &Index,
    service: &Arc<Service>,
    targets: &[Arc<IPAddress>],
    now: Timestamp,
) -> Option<Trace> {
    index.sampler?;
    let moving: Vec<_> = targets
        .iter()
        .filter(|address| address.associated_to().is_none() || is_under_way(address))
        .cloned()
        .collect();
    let user = user_context(service.annotations());
    let begun = moving.iter().filter(|address| is_under_way(address));
    let first = begun.min_by_key(|address| recorded(address));
    let since = match first {
        Some(address) => recorded(address)?,
        None if moving.is_empty() => return None,
        None => micros(now),
    };
    let moment = since.as_microsecond().to_string();
    let (name, subject) = ("handoff.associate", [service.object_uid(), moment.as_str()]);
    let operation = match first {
        // Begun without a trace, it goes on without one.
        Some(address) => Operation::resume(noted(address)?, name, &subject, user),
        None => Operation::begin(index.sampler, name, &subject, user)?,
    };
    Some(Trace { operation, since, about: attributes(Some(View::key(&**service)), &moving) })
}

/// The way back from a Service, or from one that is gone: the same one in each pass, until the ledger is cleared.
pub(super) fn disassociation(
    index: &Index,
    service: Option<&Arc<Service>>,
    group: &[Arc<IPAddress>],
    now: Timestamp,
) -> Option<Trace> {
    index.sampler?;
    let first = group.iter().min_by_key(|address| recorded(address))?;
    let uid = first.associated_to().and_then(|to| to.uid.clone()).unwrap_or_default();
    let moment = recorded(first)?.as_microsecond().to_string();
    let (name, subject) = ("handoff.disassociate", [uid.as_str(), moment.as_str()]);
    let user = service.and_then(|service| user_context(service.annotations()));
    let holds: Vec<_> = group.iter().flat_map(|address| index.placeholders_of(&address.key())).collect();
    let written = holds.iter().find_map(|hold| {
        let context = Context::parse(hold.annotation(TRACEPARENT)?)?;
        Operation::of_context(context, name, &subject, user)
    });
    let operation = written.or_else(|| Operation::begin(index.sampler, name, &subject, user))?;
    let stamp = |hold: &Arc<Service>| hold.annotation(api::wellknown::driver::HANDOFF_STARTED)?.parse().ok();
    let since = holds.iter().find_map(stamp).unwrap_or(now);
    Some(Trace {
        operation,
        since: micros(since),
        about: attributes(service.map(|service| View::key(&**service)), group),
    })
}

/// A way back that left the address with nobody is over: the placeholder has it. The root comes with the last address
/// of the handoff.
pub(super) fn held_again(
    index: &Index,
    unit: &Unit,
    address: &Arc<IPAddress>,
    handoff: &Handoff,
) -> Vec<Action> {
    if index.sampler.is_none() || handoff.trace_id.is_none() {
        return Vec::new();
    }
    let of_it = |one: &&Arc<IPAddress>| way_back(one).is_some_and(|other| other.trace_id == handoff.trace_id);
    let group: Vec<_> = unit.addresses.iter().filter(of_it).cloned().collect();
    let Some(trace) = resumed(index, &group, handoff) else { return Vec::new() };
    let until = handoff.finished_at.as_ref().map(|at| at.0);
    let mut said = vec![trace.wait("metallb.assign", address.key().as_str(), until)];
    // The last address to leave the Service ends the handoff, and of those that come to rest by this decision the last one.
    let at_service =
        |one: &Arc<IPAddress>| one.associated_to().is_some_and(|to| to.key().to_string() == handoff.from);
    let comes_later = |one: &Arc<IPAddress>| {
        one.key() > address.key() && way_back(one).is_some_and(|other| other.finished_at.is_none())
    };
    if !unit.addresses.iter().any(at_service) && !group.iter().any(comes_later) {
        let others = until.and_then(|now| trace.others(index, unit, std::slice::from_ref(address), now));
        let all = others.and_then(|others| others.into_iter().chain([handoff.clone()]).reduce(longer));
        said.extend(all.and_then(|all| trace.end(&all)));
    }
    said
}

/// The way back of an address, if it is over or ends by this decision.
fn ended(index: &Index, address: &Arc<IPAddress>, handoff: &Handoff, now: Timestamp) -> Option<Handoff> {
    let mut handoff = handoff.clone();
    if handoff.finished_at.is_none() {
        if !is_assigned(index, address) {
            return None;
        }
        end_gap(&mut handoff, now);
    }
    Some(handoff)
}

/// Two addresses of one handoff as one: over with the later one, and with nobody for as long as the one that was so for longer.
pub(super) fn longer(one: Handoff, other: Handoff) -> Handoff {
    let finished_at = one.finished_at.clone().max(other.finished_at.clone());
    let longer = if other.unheld_milliseconds > one.unheld_milliseconds { other } else { one };
    Handoff { finished_at, ..longer }
}

/// The last handoff, if it was a way back.
fn way_back(address: &IPAddress) -> Option<&Handoff> {
    let handoff = address.status.as_ref()?.last_handoff.as_ref()?;
    (handoff.direction == HandoffDirection::Disassociate).then_some(handoff)
}

/// The way back that the ledger tells of, though it names no Service any more.
fn resumed(index: &Index, group: &[Arc<IPAddress>], handoff: &Handoff) -> Option<Trace> {
    let trace = TraceId::parse(handoff.trace_id.as_deref()?)?;
    let lines = group.iter().filter_map(|one| one.status.as_ref()?.association_history.first());
    let line = lines.min_by_key(|line| line.since.0)?;
    let from = handoff.from.split_once('/').map(|(namespace, name)| ServiceKey::new(namespace, name));
    let service = from.as_ref().and_then(|from| index.services.get(from));
    let service = service.filter(|service| service.object_uid() == line.uid);
    let user = service.and_then(|service| user_context(service.annotations()));
    let moment = line.since.0.as_microsecond().to_string();
    let operation = Operation::resume(trace, "handoff.disassociate", &[&line.uid, &moment], user);
    Some(Trace { operation, since: handoff.started_at.0, about: attributes(from, group) })
}

/// The reservation of a claim, begun by the core.
pub(super) fn reservation(index: &Index, claim: &IPAddressClaim) -> Option<Operation> {
    of_claim(index.sampler, claim)
}

/// What a span of a reservation is about.
pub(super) fn of_reservation(claim: &IPAddressClaim, class: &str, ip: Option<String>) -> Attributes {
    let mut about: Attributes = vec![
        ("k8s.namespace.name", claim.namespace().unwrap_or_default().into()),
        ("ipam.claim", claim.name_any().into()),
        ("ipam.class", class.into()),
    ];
    about.extend(ip.map(|ip| ("ipam.address", ip.into())));
    about
}

/// A conflict that goes on or is over, or that begins at this moment.
pub(super) fn conflict(index: &Index, address: &IPAddress, now: Timestamp) -> Option<Operation> {
    index.sampler?;
    let since = conflict_since(address).unwrap_or(now).as_second().to_string();
    let uid = address.metadata.uid.as_deref()?;
    Operation::begin(index.sampler, "address.conflict", &[uid, &since], None)
}

/// The root of a conflict, from the moment the address went into it.
pub(super) fn end_of_conflict(operation: &Operation, address: &Arc<IPAddress>, now: Timestamp) -> Action {
    let since = conflict_since(address).unwrap_or(now);
    operation.end(since, None, attributes(None, std::slice::from_ref(address)))
}

fn conflict_since(address: &IPAddress) -> Option<Timestamp> {
    let condition = find(&address.status.as_ref()?.conditions, types::CONFLICT)?;
    (condition.status == "True").then_some(condition.last_transition_time.0)
}

/// When the ledger recorded who has the address; a gap that is opened later does not change it.
fn recorded(address: &IPAddress) -> Option<Timestamp> {
    let status = address.status.as_ref()?;
    let to = status.associated_to.as_ref()?;
    let line = status.association_history.first();
    let line = line.filter(|line| line.until.is_none() && Some(&line.uid) == to.uid.as_ref());
    let at = line.map(|line| line.since.0);
    at.or_else(|| status.last_handoff.as_ref().map(|handoff| handoff.started_at.0)).map(micros)
}

/// The trace that the ledger names for the handoff under way.
fn noted(address: &IPAddress) -> Option<TraceId> {
    let handoff = address.status.as_ref()?.last_handoff.as_ref()?;
    TraceId::parse(handoff.trace_id.as_deref()?)
}

/// As exact as objects keep it.
fn micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

fn attributes(service: Option<ServiceKey>, group: &[Arc<IPAddress>]) -> Attributes {
    let mut about: Attributes = Vec::new();
    let first = group.first();
    let to = first.and_then(|address| address.associated_to());
    let name = service.or_else(|| to.map(AssociatedTo::key));
    let claim = first.and_then(|address| address.spec.claim_ref.as_ref());
    let namespace = name.as_ref().map(|name| name.namespace.as_str());
    let namespace = namespace.or_else(|| claim.map(|claim| claim.namespace.as_str()));
    about.extend(namespace.map(|namespace| ("k8s.namespace.name", namespace.into())));
    about.extend(name.as_ref().map(|name| ("k8s.service.name", name.name.as_str().into())));
    about.extend(claim.map(|claim| ("ipam.claim", claim.name.as_str().into())));
    about.extend(first.map(|address| ("ipam.class", address.spec.class_name.as_str().into())));
    let list: Vec<_> = ips(group).iter().map(ToString::to_string).collect();
    about.push(("ipam.address", list.join(",").into()));
    about
}
