//! What each page says, as data: the same values become markup, JSON and CSV.
//!
//! *Invariant.* Every view is made through an [`Eye`], which knows the visitor's scope; what lies outside is left out
//! here, so no way out can show it.

mod address;
mod addresses;
mod associations;
mod claims;
mod classes;
mod conflicts;
mod csv;
mod handoff;
mod ip;
mod list;
mod overview;
mod services;
mod why;
pub mod words;

use std::sync::Arc;

use jiff::Timestamp;
use plan::trace::TraceId;
use serde::Serialize;

use crate::Scope;
use crate::world::{AddressRow, Digest, Key, World};

pub use address::{AddressView, ConditionView, EventView};
pub use addresses::{
    AddressItem, AddressList, KNOWN as ADDRESSES_KNOWN, Line, export as export_addresses, list as addresses,
};
pub use associations::{
    AssociationItem, KNOWN as ASSOCIATIONS_KNOWN, export as export_associations, list as associations,
};
pub use claims::{ClaimItem, ClaimView, KNOWN as CLAIMS_KNOWN, export as export_claims, list as claims};
pub use classes::{ClassItem, ClassView, KNOWN as CLASSES_KNOWN, list as classes};
pub use conflicts::{ConflictItem, KNOWN as CONFLICTS_KNOWN, list as conflicts};
pub use csv::{Pieces, Table};
pub use handoff::HandoffView;
pub use ip::{IpView, read as read_ip};
pub use list::List;
pub use overview::{Overview, RoomView};
pub use services::{KNOWN as SERVICES_KNOWN, ServiceItem, export as export_services, list as services};
pub use why::Why;

/// A view of the index by somebody, at some time.
pub struct Eye<'a> {
    /// The index.
    pub world: &'a World,
    /// What the visitor may see.
    pub scope: &'a Scope,
    /// The counts for that scope.
    pub digest: Arc<Digest>,
    /// When.
    pub now: Timestamp,
    /// How the address of a trace is made of its id, if there is a place for traces.
    pub traces: Option<&'a str>,
}

/// Namespace and name of a claim or a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl From<&Key> for Named {
    fn from(key: &Key) -> Self {
        Self { namespace: key.namespace.to_string(), name: key.name.to_string() }
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A moment, with the words for how long ago it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// The moment.
    pub at: Timestamp,
    /// How long ago: `38 s`.
    pub age: String,
}

impl When {
    /// The moment to the second, for a table.
    pub fn stamp(&self) -> String {
        self.at.strftime("%Y-%m-%d %H:%M:%S").to_string()
    }
}

impl Serialize for When {
    /// The moment alone: ages are for people.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.at)
    }
}

/// One command, and what it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Command {
    /// What it does.
    pub what: String,
    /// The line to type.
    pub line: String,
}

impl Command {
    /// A command.
    pub fn new(what: impl Into<String>, line: impl Into<String>) -> Self {
        Self { what: what.into(), line: line.into() }
    }
}

impl Eye<'_> {
    /// The words for a moment.
    pub fn when(&self, at: Timestamp) -> When {
        When { at, age: words::age(at, self.now) }
    }

    /// The name of something namespaced, if it may be seen.
    pub fn named(&self, key: &Key) -> Option<Named> {
        self.scope.sees(&key.namespace).then(|| key.into())
    }

    /// The address of that name, if it may be seen.
    pub fn address(&self, name: &str) -> Option<&Arc<AddressRow>> {
        self.world.address(name).filter(|row| self.scope.sees_address(row))
    }

    /// Where a trace can be looked at.
    pub fn trace(&self, id: &str) -> Option<String> {
        self.traces
            .filter(|_| TraceId::parse(id).is_some())
            .map(|template| template.replace("{trace_id}", id))
    }
}
