//! Edits of an address's status: the ledger of who has the IP (contract §2, §11).

use api::address::{Association, Handoff, HandoffDirection, HandoffMode};
use api::conditions::{set, types};
use api::{IPAddress, IPAddressStatus, ServiceKey};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use plan::{Action, Object, Target};
use serde::Serialize;
use serde_json::{Map, Value};

use super::gap::Begun;
use crate::parse::service::View;

/// How many past associations an address remembers.
const HISTORY: usize = 32;

/// The reason of `Held` while an address is with nobody on its way to a Service.
pub const HANDING_OVER: &str = "HandingOver";

/// Whether a handoff of the address to a Service has begun and is not over.
pub fn is_under_way(address: &IPAddress) -> bool {
    let handoff = address.status.as_ref().and_then(|status| status.last_handoff.as_ref());
    handoff.is_some_and(|handoff| {
        handoff.direction == HandoffDirection::Associate && handoff.finished_at.is_none()
    })
}

fn milliseconds(from: Timestamp, to: Timestamp) -> Option<i64> {
    i64::try_from(to.duration_since(from).as_millis()).ok()
}

/// The merge patch that turns one status into another; none if they are equal.
pub fn status_patch<T: Serialize>(old: &T, new: &T) -> Option<Value> {
    let object = |status: &T| match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let (old, mut new) = (object(old), object(new));
    let mut patch: Map<String, Value> =
        old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null)).collect();
    new.retain(|key, value| old.get(key) != Some(value));
    for (key, value) in new {
        let before = old.get(&key);
        patch.insert(key, without_stale(before, value));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// A merge patch merges objects key by key: fields that are to vanish must be named.
fn without_stale(old: Option<&Value>, new: Value) -> Value {
    match (old, new) {
        (Some(Value::Object(old)), Value::Object(mut new)) => {
            for key in old.keys() {
                new.entry(key.clone()).or_insert(Value::Null);
            }
            Value::Object(new)
        }
        (_, new) => new,
    }
}

/// The address is with somebody again.
pub(super) fn end_gap(handoff: &mut Handoff, now: Timestamp) {
    handoff.finished_at = Some(MicroTime(now));
    handoff.unheld_milliseconds = milliseconds(handoff.started_at.0, now);
}

/// An edit of the status of one address.
pub struct Edit<'a> {
    address: &'a std::sync::Arc<IPAddress>,
    old: IPAddressStatus,
    new: IPAddressStatus,
}

impl<'a> Edit<'a> {
    /// Begins an edit.
    pub fn of(address: &'a std::sync::Arc<IPAddress>) -> Self {
        let old = address.status.clone().unwrap_or_default();
        Self { address, new: old.clone(), old }
    }

    /// Records that the Service has the address from now on; the handoff begins.
    pub fn associate(
        &mut self,
        service: &Service,
        mode: HandoffMode,
        from: &str,
        trace: Option<String>,
        now: Timestamp,
    ) {
        self.new.last_handoff = Some(Handoff {
            direction: HandoffDirection::Associate,
            mode,
            from: from.to_owned(),
            to: View::key(service).to_string(),
            started_at: MicroTime(now),
            finished_at: None,
            unheld_milliseconds: None,
            trace_id: trace,
        });
        self.observed(service, now);
    }

    /// The placeholder is told to go before the Service has the address: nobody has it from this moment on, and
    /// `startedAt` says since when.
    pub fn open_gap(&mut self, service: &Service, now: Timestamp) {
        if let Some(handoff) = &mut self.new.last_handoff {
            handoff.mode = HandoffMode::Gap;
            handoff.started_at = MicroTime(now);
        }
        let message = format!("on its way to Service {}", View::key(service));
        self.condition(types::HELD, false, HANDING_OVER, &message, now);
    }

    /// The Service is served by the address, the placeholder is gone. `risk` is what would keep MetalLB from serving it
    /// anew. In a gap `unheldMilliseconds` runs from [`open_gap`](Self::open_gap).
    pub fn associated(&mut self, service: &ServiceKey, uid: &str, risk: Option<&str>, now: Timestamp) {
        // The Go implementation recorded no uid.
        if let Some(to) = &mut self.new.associated_to
            && to.uid.as_deref().is_none_or(str::is_empty)
        {
            to.uid = Some(uid.to_owned());
        }
        if let Some(handoff) = &mut self.new.last_handoff
            && handoff.direction == HandoffDirection::Associate
            && handoff.finished_at.is_none()
        {
            handoff.finished_at = Some(MicroTime(now));
            handoff.unheld_milliseconds = match handoff.mode {
                HandoffMode::Overlap => Some(0),
                HandoffMode::Gap => milliseconds(handoff.started_at.0, now),
            };
        }
        let has = format!("Service {service} has the address");
        let (reason, message) = match risk {
            None => ("Associated", has),
            Some(words) => ("AtRisk", format!("{has}, and would not get it anew: {words}")),
        };
        self.condition(types::ASSOCIATED, true, reason, &message, now);
        self.condition(types::HELD, true, "Associated", &format!("Service {service} holds the address"), now);
    }

    /// The Service has the address no more. With a placeholder that has it already, the handoff is over; else
    /// nobody has it until [`held_again`](Self::held_again), and the ledger shows the gap.
    pub fn disassociate(
        &mut self,
        to: &str,
        held: bool,
        begun: Option<Begun>,
        trace: Option<String>,
        now: Timestamp,
    ) {
        let Some(from) = self.new.associated_to.take() else { return };
        let from_key = ServiceKey::new(from.namespace, from.name);
        let (started, gap) = match begun {
            Some(Begun::Overlap(at)) => (at, !held),
            Some(Begun::Gap(at)) => (at, true),
            None => (now, !held),
        };
        let unheld = if gap { milliseconds(started, now) } else { Some(0) };
        self.new.last_handoff = Some(Handoff {
            direction: HandoffDirection::Disassociate,
            mode: if gap { HandoffMode::Gap } else { HandoffMode::Overlap },
            from: from_key.to_string(),
            to: to.to_owned(),
            started_at: MicroTime(started),
            finished_at: held.then_some(MicroTime(now)),
            unheld_milliseconds: unheld.filter(|_| held),
            trace_id: trace,
        });
        if let Some(line) = self.new.association_history.first_mut()
            && line.until.is_none()
        {
            line.until = Some(MicroTime(now));
        }
        api::conditions::clear(&mut self.new.conditions, types::ASSOCIATED);
    }

    /// The placeholder has the address: a gap that the ledger shows is over.
    pub fn held_again(&mut self, now: Timestamp) {
        if let Some(handoff) = &mut self.new.last_handoff
            && handoff.direction == HandoffDirection::Disassociate
            && handoff.finished_at.is_none()
        {
            end_gap(handoff, now);
        }
    }

    /// Notes that the Service has the address from now on, whether or not by a handoff.
    pub fn observed(&mut self, service: &Service, now: Timestamp) {
        let ServiceKey { namespace, name } = View::key(service);
        let uid = service.object_uid().to_owned();
        self.new.associated_to = Some(api::address::AssociatedTo {
            kind: "Service".to_owned(),
            namespace: namespace.clone(),
            name: name.clone(),
            uid: Some(uid.clone()),
        });
        let line = Association { namespace, name, uid, since: MicroTime(now), until: None };
        self.new.association_history.insert(0, line);
        self.new.association_history.truncate(HISTORY);
    }

    /// Moves the address into another phase.
    pub fn phase(&mut self, phase: api::address::AddressPhase) {
        self.new.phase = Some(phase);
    }

    /// Takes a condition away.
    pub fn clear_condition(&mut self, kind: &str) {
        api::conditions::clear(&mut self.new.conditions, kind);
    }

    /// Sets a condition.
    pub fn condition(&mut self, kind: &str, status: bool, reason: &str, message: &str, now: Timestamp) {
        set(&mut self.new.conditions, now, self.address.metadata.generation, kind, status, reason, message);
    }

    /// The handoff that this edit finishes, if it does.
    pub fn finishes(&self) -> Option<&Handoff> {
        let old = self.old.last_handoff.as_ref();
        let was_open = old.is_some_and(|old| old.finished_at.is_none());
        let new = self.new.last_handoff.as_ref().filter(|new| new.finished_at.is_some());
        new.filter(|new| was_open || old != Some(*new))
    }

    /// The write, if anything changed.
    pub fn action(self) -> Option<Action> {
        let body = status_patch(&self.old, &self.new)?;
        let target = Target::of(&Object::Address(std::sync::Arc::clone(self.address)));
        Some(Action::patch_status(target, body))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn associated() -> Arc<IPAddress> {
        let address = json!({
            "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
            "metadata": { "name": "ip-192-0-2-7" },
            "spec": { "address": "192.0.2.7", "source": { "fromClass": {} } },
            "status": { "associatedTo": { "kind": "Service", "namespace": "tenant-a", "name": "web" } },
        });
        Arc::new(serde_json::from_value(address).unwrap())
    }

    /// The ledger shows a gap and its length, and shows none where there was none.
    #[rstest]
    #[case::overlap(true, HandoffMode::Overlap, 0)]
    #[case::gap(false, HandoffMode::Gap, 1500)]
    fn c11_the_ledger_shows_the_gap(#[case] held: bool, #[case] mode: HandoffMode, #[case] unheld: i64) {
        let address = associated();
        let start = Timestamp::from_second(1_000).unwrap();
        let later = Timestamp::from_millisecond(1_001_500).unwrap();
        let mut edit = Edit::of(&address);
        edit.disassociate("home/iad-ip-192-0-2-7", held, Some(Begun::Overlap(start)), None, start);
        let first = edit.new.last_handoff.clone().unwrap();
        assert_eq!((first.mode, first.finished_at.is_some()), (mode, held));
        edit.held_again(later);
        assert_eq!(edit.new.last_handoff.unwrap().unheld_milliseconds, Some(unheld));
    }

    /// Of those that had an address the last 32 are remembered, the newest first, and each but the first has an end.
    #[test]
    fn c2_the_ledger_remembers_the_last_32_associations() {
        let mut address = associated();
        for number in 0..40_i64 {
            let now = Timestamp::from_second(1_000 + number).unwrap();
            let service = json!({
                "metadata": { "namespace": "tenant-a", "name": format!("web-{number}"), "uid": format!("u{number}") },
            });
            let mut edit = Edit::of(&address);
            edit.disassociate("home/iad-ip-192-0-2-7", true, None, None, now);
            edit.observed(&serde_json::from_value(service).unwrap(), now);
            let status = Some(edit.new);
            address = Arc::new(IPAddress { status, ..(*address).clone() });
        }
        let history = address.status.clone().unwrap().association_history;
        let names: Vec<_> = history.iter().map(|line| line.name.clone()).collect();
        let expected: Vec<_> = (8..40).rev().map(|number| format!("web-{number}")).collect();
        assert_eq!(names, expected);
        let open: Vec<_> = history.iter().map(|line| line.until.is_none()).collect();
        assert!(open[0] && !open[1..].contains(&true), "{open:?}");
    }
}
