//! Where an address stands, in the words of a person, and who has its IP against the ledger.

use std::sync::Arc;

use api::address::AddressPhase;
use api::conditions::types;
use serde::Serialize;

use super::World;
use super::rows::{AddressRow, ClassRow, ConditionRow, Key, ServiceRow};

/// Where an address stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// A Service has it, by its claim.
    Attached,
    /// A claim has it, and no Service.
    Reserved,
    /// No claim has it: the next one that fits gets it.
    Available,
    /// Its claim is gone, and it is kept.
    Released,
    /// A Service has it without any claim.
    Observed,
    /// A Service has it that it was not given to.
    Conflict,
    /// No pool contains it any more.
    Lost,
    /// It is not settled yet, or its text is refused.
    Pending,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Attached,
        Self::Reserved,
        Self::Available,
        Self::Released,
        Self::Observed,
        Self::Conflict,
        Self::Lost,
        Self::Pending,
    ];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Attached => "attached",
            Self::Reserved => "reserved",
            Self::Available => "available",
            Self::Released => "released",
            Self::Observed => "observed",
            Self::Conflict => "conflict",
            Self::Lost => "lost",
            Self::Pending => "pending",
        }
    }

    /// How it is coloured: the name of a tag's class.
    pub const fn tone(self) -> &'static str {
        match self {
            Self::Attached | Self::Observed => "ok",
            Self::Reserved => "held",
            Self::Available | Self::Released => "idle",
            Self::Conflict | Self::Lost => "bad",
            Self::Pending => "warn",
        }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// The condition of that type.
pub fn condition<'a>(conditions: &'a [ConditionRow], kind: &str) -> Option<&'a ConditionRow> {
    conditions.iter().find(|condition| &*condition.kind == kind)
}

impl AddressRow {
    /// Where it stands, by the ledger alone.
    pub const fn state(&self) -> State {
        match self.phase {
            AddressPhase::Conflict => State::Conflict,
            AddressPhase::Lost => State::Lost,
            _ if self.observed => State::Observed,
            _ if self.service.is_some() => State::Attached,
            AddressPhase::Bound => State::Reserved,
            AddressPhase::Available => State::Available,
            AddressPhase::Released => State::Released,
            AddressPhase::Pending => State::Pending,
        }
    }

    /// The condition of that type.
    pub fn condition(&self, kind: &str) -> Option<&ConditionRow> {
        condition(&self.conditions, kind)
    }

    /// Since when it stands where it stands, as far as the ledger tells; worked out once for each row.
    pub(super) fn stands_since(&self) -> jiff::Timestamp {
        let of_condition = |kind| self.condition(kind).map(|condition| condition.since);
        let ended = || self.history.iter().filter_map(|past| past.until).max();
        let told = match self.state() {
            State::Attached | State::Observed => {
                self.history.first().filter(|past| past.until.is_none()).map(|past| past.since)
            }
            State::Conflict => of_condition(types::CONFLICT),
            State::Lost | State::Pending => of_condition(types::VALID).or_else(|| of_condition(types::HELD)),
            State::Reserved | State::Available | State::Released => ended(),
        };
        told.unwrap_or(self.created)
    }

    /// Whether its last handoff is in this trace.
    pub fn is_of_trace(&self, id: &str) -> bool {
        self.handoff.as_ref().is_some_and(|handoff| handoff.trace.as_deref() == Some(id))
    }

    /// Whether the object counts: of two that carry one IP, the younger does not.
    pub fn is_valid(&self) -> bool {
        self.ip.is_some() && self.condition(types::VALID).is_none_or(ConditionRow::holds)
    }

    /// Whether the ledger says that this Service has it. The Go implementation wrote no uid.
    pub fn is_held_by(&self, service: &ServiceRow) -> bool {
        self.service.as_ref().is_some_and(|holder| {
            holder.key == service.key && holder.uid.as_ref().is_none_or(|uid| *uid == service.uid)
        })
    }
}

impl ClassRow {
    /// What its driver says of it; none before it was judged.
    pub fn accepted(&self) -> Option<&ConditionRow> {
        condition(&self.conditions, types::ACCEPTED)
    }

    /// Whether it draws no new addresses.
    pub fn is_refused(&self) -> bool {
        self.accepted().is_some_and(|accepted| !accepted.holds())
    }
}

impl World {
    /// Whether the claim that the address names is there, and is that very one.
    pub fn is_owned(&self, row: &AddressRow) -> bool {
        let Some(bound) = &row.claim else { return false };
        let claim = self.claim(&bound.key);
        claim.is_some_and(|claim| bound.uid.as_ref().is_none_or(|uid| *uid == claim.uid))
    }

    /// Whether the driver of MetalLB answers for the address.
    pub(super) fn is_driven(&self, row: &AddressRow) -> bool {
        row.driven || self.class(&row.class).is_some_and(|class| Self::is_metallbs(class))
    }

    /// The Services that have the IP of an address although nobody gave it to them, in name order.
    pub fn offenders(&self, row: &AddressRow) -> Vec<&Arc<ServiceRow>> {
        let Some(ip) = row.ip.filter(|_| row.is_valid() && self.is_driven(row)) else { return Vec::new() };
        let mut found: Vec<_> =
            self.services_on(ip).filter(|service| !self.is_rightful(row, service)).collect();
        found.sort_by(|a, b| a.key.cmp(&b.key));
        found
    }

    /// Whether one of the Services that have the IP of an address has it although nobody gave it to them.
    pub fn is_offended(&self, row: &AddressRow, services: &[Arc<ServiceRow>]) -> bool {
        let offends = |service: &Arc<ServiceRow>| !self.is_rightful(row, service);
        // Hardly ever: asked first.
        services.iter().any(offends) && row.is_valid() && self.is_driven(row)
    }

    /// Whether MetalLB has given the address to its placeholder, or to a Service that has it by right: nobody else can get
    /// it then.
    pub fn is_held(&self, row: &AddressRow, services: &[Arc<ServiceRow>]) -> bool {
        let gives = |service: &ServiceRow| row.ip.is_some_and(|ip| service.ingress.contains(&ip));
        services.iter().any(|service| gives(service) && self.is_rightful(row, service))
    }

    /// Placeholders, the Service that the ledger names, and, while it names none, one that names the claim: it is
    /// about to be associated.
    pub fn is_rightful(&self, row: &AddressRow, service: &ServiceRow) -> bool {
        let names_the_claim =
            || row.claim.as_ref().is_some_and(|bound| service.claim.as_ref() == Some(&bound.key));
        service.placeholder
            || row.is_held_by(service)
            || (names_the_claim() && self.is_owned(row) && self.holder(row).is_none())
    }

    /// The live Service that the ledger says has the address.
    pub fn holder(&self, row: &AddressRow) -> Option<&Arc<ServiceRow>> {
        self.service(&row.service.as_ref()?.key).filter(|service| row.is_held_by(service))
    }

    /// The placeholder that shows the IP of the address.
    pub fn hold(&self, row: &AddressRow) -> Option<&Arc<ServiceRow>> {
        self.services_on(row.ip?).find(|service| service.placeholder)
    }

    /// The Service that names a claim and is not a placeholder, if exactly one does.
    pub fn service_of(&self, claim: &Key) -> Option<&Arc<ServiceRow>> {
        let mut services = self.services_of(claim);
        services.next().filter(|_| services.next().is_none())
    }
}
