//! Where the IPs of Services come from.

use std::sync::Arc;

use api::Ip;
use serde::Serialize;

use super::World;
use super::rows::{AddressRow, ServiceRow};

/// Where an IP of a Service comes from; of a Service, the worst of its IPs, or that it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// It has an IP that it was not given.
    Conflict,
    /// It has none yet.
    Waiting,
    /// MetalLB gave it, and the ledger knows nothing of it.
    Foreign,
    /// MetalLB gave it, and the inventory wrote it down.
    Observed,
    /// By a claim.
    Claimed,
}

impl Origin {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Claimed, Self::Observed, Self::Foreign, Self::Waiting, Self::Conflict];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Waiting => "waiting",
            Self::Foreign => "foreign",
            Self::Observed => "observed",
            Self::Claimed => "claimed",
        }
    }

    /// How it is coloured.
    pub const fn tone(self) -> &'static str {
        match self {
            Self::Conflict => "bad",
            Self::Waiting => "warn",
            Self::Foreign | Self::Observed => "idle",
            Self::Claimed => "ok",
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

impl World {
    /// The address that stands for an IP: of two that carry it, the one that counts.
    pub fn address_for(&self, ip: Ip) -> Option<&Arc<AddressRow>> {
        self.addresses_on(ip).find(|row| row.is_valid())
    }

    /// Where an IP of a Service comes from, by the address that stands for it.
    pub fn origin_by(&self, row: Option<&Arc<AddressRow>>, service: &ServiceRow) -> Origin {
        match row {
            None => Origin::Foreign,
            Some(row) if row.observed && row.is_held_by(service) => Origin::Observed,
            Some(row) if self.is_rightful(row, service) => Origin::Claimed,
            Some(_) => Origin::Conflict,
        }
    }

    /// Where a Service stands: the worst of its IPs.
    pub fn origin(&self, service: &ServiceRow) -> Origin {
        let origins = service.ips().map(|ip| self.origin_by(self.address_for(ip), service));
        origins.min().unwrap_or(if service.hostname.is_some() { Origin::Foreign } else { Origin::Waiting })
    }
}
