//! The first page: how much is attached, reserved and free, and what needs a person.

use std::sync::Arc;

use api::conditions::types;
use serde::{Serialize, Serializer};

use super::why::sentence;
use super::{AddressItem, ClaimItem, ClassItem, ConflictItem, Eye, HandoffView, words};
use crate::world::{AddressRow, First, Room, State};

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
    /// Addresses that Services have by their claims.
    pub attached: usize,
    /// Addresses that Services have without a claim.
    pub observed: usize,
    /// Addresses that claims have and no Service.
    pub reserved: usize,
    /// Addresses that are kept and no claim's: released, available, or not settled yet.
    pub unclaimed: usize,
    /// Claims that wait, or lost an address.
    pub waiting: usize,
    /// How long the longest of them waits.
    pub oldest_wait: Option<String>,
    /// Addresses that are with somebody they were not given to.
    pub conflicts: usize,
    /// Addresses that no pool contains any more.
    pub lost: usize,
    /// Addresses that nobody else can get: MetalLB has given each to a placeholder, or to a Service that has it by right.
    pub held: usize,
    /// Addresses of MetalLB that are with no placeholder and no Service: MetalLB may give them to anybody.
    pub unheld: usize,
    /// The conflicts, the first few.
    pub in_conflict: Vec<ConflictItem>,
    /// The lost addresses, the first few.
    pub lost_addresses: Vec<AddressItem>,
    /// The addresses that nothing holds, the first few.
    pub unheld_addresses: Vec<UnheldItem>,
    /// The classes that draw no new addresses.
    pub refused: Vec<ClassItem>,
    /// The claims that wait longest.
    pub waiting_longest: Vec<ClaimItem>,
    /// The addresses that changed hands last, newest first.
    pub last_handoffs: Vec<HandoffView>,
    /// How full each class is.
    pub room: Vec<RoomView>,
}

/// An address that nothing holds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnheldItem {
    /// The address, as in its list.
    #[serde(flatten)]
    pub item: AddressItem,
    /// Why, in the words of the ledger; none if it does not say so, or names whoever stands in the way.
    pub why: Option<String>,
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
        let most = match self.addresses.saturating_sub(self.held) {
            0 => "Each one is".to_owned(),
            others => format!("All but {others} are"),
        };
        format!(
            "{} in {}. {most} either attached to a Service, or held by a placeholder so that nobody else can get it.",
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
        let oldest = self.digest.waiting.few.first().and_then(|key| self.world.claim(key));
        let conflicts = self.digest.conflicts.len();
        let unclaimed = [State::Released, State::Available, State::Pending].map(|state| totals.of(state));
        Overview {
            addresses: totals.addresses,
            claims: totals.claims,
            classes: totals.classes,
            attached: totals.of(State::Attached),
            observed: totals.of(State::Observed),
            reserved: totals.of(State::Reserved),
            unclaimed: unclaimed.iter().sum(),
            waiting: self.digest.waiting.count,
            oldest_wait: oldest.map(|claim| words::age(claim.waiting_since(), self.now)),
            conflicts,
            lost: self.digest.lost.count,
            held: totals.held,
            unheld: self.digest.unheld.count,
            in_conflict: first.map(|row| self.conflict(row)).collect(),
            lost_addresses: self.few(&self.digest.lost).map(|row| self.item(row)).collect(),
            unheld_addresses: self.few(&self.digest.unheld).map(|row| self.unheld(row)).collect(),
            refused: self
                .world
                .classes()
                .filter(|class| class.is_refused())
                .map(|class| self.class_item(class))
                .collect(),
            waiting_longest: self
                .digest
                .waiting
                .few
                .iter()
                .filter_map(|key| Some(self.claim_item(self.world.claim(key)?)))
                .take(FEW)
                .collect(),
            last_handoffs: self.last_handoffs(),
            room: self.digest.rooms.iter().map(RoomView::from).collect(),
        }
    }

    /// The first of some addresses.
    fn few<'a>(&'a self, names: &'a First<Arc<str>>) -> impl Iterator<Item = &'a Arc<AddressRow>> {
        names.few.iter().filter_map(|name| self.address(name)).take(FEW)
    }

    fn unheld(&self, row: &AddressRow) -> UnheldItem {
        let held = row.condition(types::HELD).filter(|held| !held.holds());
        UnheldItem {
            item: self.item(row),
            why: held.filter(|_| self.scope.is_all()).map(|held| sentence(&held.message)),
        }
    }

    fn last_handoffs(&self) -> Vec<HandoffView> {
        let rows = self.digest.handoffs.iter().filter_map(|name| self.address(name));
        rows.filter_map(|row| self.handoff(row, row.handoff.as_ref()?)).take(FEW).collect()
    }
}

impl RoomView {
    /// The bar: where each piece begins and how wide it is, in thousandths, and which piece it is. A piece that is there
    /// is never too thin to be seen.
    pub fn bar(&self) -> Vec<Piece> {
        let pieces = [
            ("attached", self.attached),
            ("reserved", self.reserved),
            ("conflict", self.conflict),
            ("other", self.other),
        ];
        let taken: u128 = pieces.iter().map(|(_, count)| count).sum();
        let whole = self.size.unwrap_or(taken).max(taken).max(1);
        let mut from = 0;
        let mut bar = Vec::new();
        for (kind, count) in pieces.into_iter().filter(|(_, count)| *count > 0) {
            let share = u16::try_from(count.saturating_mul(1_000) / whole).unwrap_or(1_000);
            let width = share.max(6).min(1_000 - from);
            bar.push(Piece { kind, from, width });
            from += width;
        }
        bar
    }

    /// The bar in words.
    pub fn words(&self) -> String {
        let mut parts = vec![(self.attached, "attached"), (self.reserved, "reserved")];
        parts.extend(
            [(self.conflict, "in conflict"), (self.other, "with others")]
                .into_iter()
                .filter(|(count, _)| *count > 0),
        );
        let mut parts: Vec<_> =
            parts.into_iter().map(|(count, what)| format!("{} {what}", words::count(count))).collect();
        if let (Some(free), Some(size)) = (self.free, self.size) {
            parts.push(format!("{} free of {}", words::count(free), words::count(size)));
        }
        parts.join(", ")
    }

    /// Whether nobody counts how many are free.
    pub fn is_vast(&self) -> bool {
        self.size.is_some_and(|size| size >= 1_000_000)
    }

    /// A count for a person.
    pub fn count(&self, number: &u128) -> String {
        words::count(*number)
    }

    /// How much is spoken for, in hundredths, where that is much.
    pub fn pressure(&self) -> Option<u128> {
        let (free, size) = (self.free?, self.size?);
        let taken = (size - free).saturating_mul(100).checked_div(size)?;
        (taken >= 90).then_some(taken)
    }
}

/// One piece of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which.
    pub kind: &'static str,
    /// Where it begins, in thousandths.
    pub from: u16,
    /// How wide it is, in thousandths.
    pub width: u16,
}
