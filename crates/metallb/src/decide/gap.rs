//! Contract §11, `--handoff=gap`: for whoever cannot have sharing keys. The successor is pinned, and MetalLB has
//! refused it, before the holder lets go; between the two nobody has the address.
//!
//! Forward: record in the ledger, pin the Service, note the moment, delete the placeholder, see the Service served.
//! Reverse: make the placeholder, pinned to its IP; pin the Service to an address of no pool, for MetalLB leaves an
//! IP where it is otherwise; take the marks off.
//!
//! **Invariant:** nobody of ours waits in MetalLB for any address of the pool while one of it is in a gap: none
//! is made then (§9), and no gap is opened while one waits.

use std::sync::Arc;
use std::time::Duration;

use api::IPAddress;
use api::address::{HandoffDirection, HandoffMode};
use api::conditions::{find, types};
use api::wellknown::{driver, metallb};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Action, Moment, Object, Plan};

use super::Unit;
use super::address::arm_again;
use super::handoff::shows;
use super::ledger::{Edit, HANDING_OVER, is_under_way};
use super::marks::{banish, dress, ips, is_pin_ours, is_pinned, our_key};
use super::placeholder::{self, Beside};
use super::rehold::rehold;
use super::trace::{self, Trace};
use super::unholdable::is_unholdable;
use crate::index::Index;
use crate::parse::service::{View, sharing_key};

/// How long MetalLB's refusal of the successor is waited for: by it MetalLB is known to have seen the pin. It may
/// never come, as it is an Event.
const PATIENCE: Duration = Duration::from_secs(5);
/// How soon to look again whether anybody of ours waits.
const SOON: Duration = Duration::from_millis(200);

/// Since when an address is on its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The placeholder was made beside the Service.
    Overlap(Timestamp),
    /// The Service was told to let go.
    Gap(Timestamp),
}

impl Begun {
    /// What the Service, the ledger and the placeholder tell of it. In gap mode, after a crash between the last two
    /// writes, only the moment is left at which the placeholder was made: the gap is shown too long then.
    pub fn of(
        index: &Index,
        service: Option<&Service>,
        address: &IPAddress,
        hold: Option<&Arc<Service>>,
    ) -> Option<Self> {
        let stamp = |service: &Service| service.annotation(driver::HANDOFF_STARTED)?.parse().ok();
        if let Some(at) = service.and_then(stamp) {
            return Some(Self::Gap(at));
        }
        if is_open(address) {
            return begun(address).map(Self::Gap);
        }
        let handoff = address.status.as_ref().and_then(|status| status.last_handoff.as_ref());
        let at = hold.and_then(|hold| stamp(hold))?;
        if handoff.is_some_and(|handoff| at < handoff.started_at.0) {
            // Left from an earlier handoff.
            return None;
        }
        let alone = hold.and_then(|hold| hold.annotation(driver::HANDOFF_MODE)) == Some(driver::GAP);
        Some(if index.config.gap || alone { Self::Gap(at) } else { Self::Overlap(at) })
    }
}

/// When the last handoff of the address began.
pub(super) fn begun(address: &IPAddress) -> Option<Timestamp> {
    let handoff = address.status.as_ref().and_then(|status| status.last_handoff.as_ref());
    handoff.map(|handoff| handoff.started_at.0)
}

/// Whether the address is with nobody, on its way to a Service.
pub(super) fn is_open(address: &IPAddress) -> bool {
    let Some(status) = &address.status else { return false };
    let mode = status.last_handoff.as_ref().map(|handoff| (handoff.mode, handoff.direction));
    mode == Some((HandoffMode::Gap, HandoffDirection::Associate))
        && is_under_way(address)
        && find(&status.conditions, types::HELD).is_some_and(|held| held.reason == HANDING_OVER)
}

/// Pins the Service, then lets the placeholders go.
pub(super) fn forward(
    index: &Index,
    service: &Arc<Service>,
    targets: &[Arc<IPAddress>],
    recorded: bool,
    trace: Option<&Trace>,
    moment: &Moment,
    plan: &mut Plan,
) {
    let shown = service.ingress();
    // A Service that has one of two addresses would lose it if it were pinned to both while one is held.
    let widens = ips(targets).iter().any(|ip| shown.contains(ip)) && recorded;
    let holds: Vec<_> = targets.iter().flat_map(|address| index.placeholders_of(&address.key())).collect();
    if !widens || holds.is_empty() {
        let list = ips(targets).iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let remove: &[&str] = if our_key(service).is_some() { &[metallb::SHARE] } else { &[] };
        let marks = [(metallb::PIN, list.as_str()), (driver::PINNED, "true")];
        if let Some(action) = dress(index, service, &marks, remove) {
            plan.push(action);
            let pinned = is_pinned(service, &ips(targets).into_iter().collect());
            plan.actions.extend(trace.filter(|_| !pinned).map(|trace| trace.step("service.pin", "")));
            return;
        }
    }
    if !recorded || holds.iter().all(|hold| hold.is_deleting()) {
        return;
    }
    if !widens && !is_known(index, service, targets.iter().find_map(|address| begun(address)), moment, plan) {
        return;
    }
    if index.is_any_queued(&ips(targets)) {
        plan.retry(SOON);
        return;
    }
    for address in targets.iter().filter(|address| is_under_way(address) && !is_open(address)) {
        let mut edit = Edit::of(address);
        edit.open_gap(service, moment.now);
        plan.actions.extend(edit.action());
    }
    for hold in holds.into_iter().filter(|hold| !hold.is_deleting()) {
        let name = hold.name_any();
        plan.push(Action::delete(&Object::Service(hold)));
        plan.actions.extend(trace.map(|trace| trace.wait("hold.release", &name, None)));
    }
}

/// Whether MetalLB has seen the successor's pin: it has refused it, or has had time enough.
fn is_known(
    index: &Index,
    successor: &Service,
    since: Option<Timestamp>,
    moment: &Moment,
    plan: &mut Plan,
) -> bool {
    // To the second: what was said in the second of the pin may be about the pin.
    let before = since.map(|since| since - jiff::SignedDuration::from_secs(1)).unwrap_or_default();
    if index.failure_after(successor, before).is_some() {
        return true;
    }
    let left = since.map_or(Some(PATIENCE), |since| moment.left_of(PATIENCE, since));
    if let Some(left) = left {
        plan.retry(left);
    }
    left.is_none()
}

/// The way back: the placeholder waits before the Service lets go.
pub(super) fn reverse(
    index: &Index,
    unit: &Unit,
    service: &Arc<Service>,
    group: &[Arc<IPAddress>],
    moment: &Moment,
    plan: &mut Plan,
) {
    let shown = service.ingress();
    let ours = is_pin_ours(service, group);
    if !ips(group).iter().any(|ip| shown.contains(ip)) {
        rehold(index, unit, service, group, moment, plan);
        return;
    }
    let trace = trace::disassociation(index, Some(service), group, moment.now);
    let mut ready = true;
    for address in group {
        let holds = index.placeholders_of(&address.key());
        let Some(hold) = holds.iter().find(|hold| !hold.is_deleting()) else {
            ready = false;
            let made = Beside { started: Some(moment.now), ..Beside::default() };
            arm_again(index, unit, address, &sharing_key(moment.entropy), made, trace.as_ref(), plan);
            continue;
        };
        if shows(hold, address) {
            continue;
        }
        let key = our_key(hold).map_or_else(|| sharing_key(moment.entropy), str::to_owned);
        if let Some(body) = placeholder::mend(index, hold, address, &key, None) {
            plan.push(placeholder::patch(hold, body));
            ready = false;
            continue;
        }
        if is_unholdable(index, address) {
            // MetalLB refuses it for good: the Service keeps the address.
            ready = false;
            continue;
        }
        let since = hold.annotation(driver::HANDOFF_STARTED).and_then(|at| at.parse().ok());
        let since = since.or_else(|| hold.metadata.creation_timestamp.as_ref().map(|at| at.0));
        ready &= is_known(index, hold, since, moment, plan);
    }
    if !ready {
        return;
    }
    if index.is_any_queued(&ips(group)) {
        plan.retry(SOON);
        return;
    }
    let banished = banish(service, Some(moment.now));
    if let Some(action) = banished.filter(|_| ours || service.annotation(metallb::PIN).is_none()) {
        plan.push(action);
        plan.actions.extend(trace.map(|trace| trace.step("service.unpin", "")));
    }
}
