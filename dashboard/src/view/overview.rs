//! The first page: how much is attached, reserved and free, and what needs a person.

use serde::{Serialize, Serializer};

use super::{AddressItem, Eye, words};
use crate::world::{Room, State};

/// How many of each list the first page shows.
const FEW: usize = 6;

/// The first page.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// All addresses.
    pub addresses: usize,
    /// All claims.
    pub claims: usize,
    /// All classes.
    pub classes: usize,
    /// Addresses that Services have, by a claim or without one.
    pub attached: usize,
    /// Those of them that no claim covers.
    pub observed: usize,
    /// Addresses that are kept and attached to nothing.
    pub reserved: usize,
    /// Claims that wait, or lost an address.
    pub waiting: usize,
    /// How long the longest of them waits.
    pub oldest_wait: Option<String>,
    /// Addresses that are with somebody they were not given to.
    pub conflicts: usize,
    /// Addresses that no pool contains any more.
    pub lost: usize,
    /// The conflicts, the first few.
    pub in_conflict: Vec<AddressItem>,
    /// How full each class is.
    pub room: Vec<RoomView>,
}

/// How full a class is, for one family.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoomView {
    /// The class.
    pub class: String,
    /// Its pool.
    pub pool: Option<String>,
    /// The family.
    pub family: &'static str,
    /// How many addresses the pool has, as text: numbers of this size are none in most readers of JSON.
    #[serde(serialize_with = "maybe")]
    pub size: Option<u128>,
    /// Those that Services have.
    #[serde(serialize_with = "text")]
    pub attached: u128,
    /// Those that are kept and attached to nothing.
    #[serde(serialize_with = "text")]
    pub reserved: u128,
    /// Those that are with somebody they were not given to.
    #[serde(serialize_with = "text")]
    pub conflict: u128,
    /// Those that are with others than this class.
    #[serde(serialize_with = "text")]
    pub other: u128,
    /// Those that nobody has.
    #[serde(serialize_with = "maybe")]
    pub free: Option<u128>,
    /// Addresses of the class that its pool does not contain.
    #[serde(serialize_with = "text")]
    pub outside: u128,
}

fn text<S: Serializer>(number: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn maybe<S: Serializer>(number: &Option<u128>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => serializer.collect_str(number),
        None => serializer.serialize_none(),
    }
}

impl From<&Room> for RoomView {
    fn from(room: &Room) -> Self {
        Self {
            class: room.class.to_string(),
            pool: room.pool.as_ref().map(ToString::to_string),
            family: room.family.as_str(),
            size: room.size,
            attached: room.attached,
            reserved: room.reserved,
            conflict: room.conflict,
            other: room.other,
            free: room.free(),
            outside: room.outside,
        }
    }
}

impl Overview {
    /// What the numbers add up to, in words.
    pub fn lede(&self) -> String {
        if self.addresses == 0 {
            return "No address is reserved yet.".to_owned();
        }
        format!(
            "{} in {}. Each one is either attached to a Service, or held by a placeholder so that nobody else can get it.",
            words::many(self.addresses, "address", "addresses"),
            words::many(self.classes, "class", "classes"),
        )
    }
}

impl Eye<'_> {
    /// The first page.
    pub fn overview(&self) -> Overview {
        let totals = &self.digest.totals;
        let first = self.digest.conflicts.iter().filter_map(|name| self.address(name)).take(FEW);
        let oldest = self.digest.waiting.first().and_then(|key| self.world.claim(key));
        let attached = totals.of(State::Attached) + totals.of(State::Observed);
        let conflicts = self.digest.conflicts.len();
        let bad = totals.of(State::Conflict) + totals.of(State::Lost);
        Overview {
            addresses: totals.addresses,
            claims: totals.claims,
            classes: totals.classes,
            attached,
            observed: totals.of(State::Observed),
            reserved: totals.addresses.saturating_sub(attached + bad),
            waiting: self.digest.waiting.len(),
            oldest_wait: oldest.map(|claim| words::age(claim.waiting_since(), self.now)),
            conflicts,
            lost: self.digest.lost.len(),
            in_conflict: first.map(|row| self.item(row)).collect(),
            room: self.digest.rooms.iter().map(RoomView::from).collect(),
        }
    }
}
