//! The list of addresses: search, filters, order, pages, and the free gaps between them.

mod gaps;

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use api::Family;
use api::address::AddressPhase;
use jiff::Timestamp;
use serde::Serialize;

use super::csv::{Pieces, pieces};
use super::{Eye, Named, When};
use crate::query::{BadQuery, Find, Paging, Params, Sort};
use crate::world::{AddressRow, Key, State};

pub use gaps::Gap;
use gaps::Span;

/// One address in a list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressItem {
    /// The object's name.
    pub name: String,
    /// The IP.
    pub address: String,
    /// Its family, if it is an IP.
    pub family: Option<&'static str>,
    /// Its class.
    pub class: String,
    /// The phase that the API shows.
    pub phase: String,
    /// Where it stands.
    pub state: State,
    /// The claim it is bound to.
    pub claim: Option<Named>,
    /// Whether that claim is gone.
    pub claim_gone: bool,
    /// The Service that has it by right, or that the inventory found with it.
    pub service: Option<Named>,
    /// The Services that have it against the ledger.
    pub offenders: Vec<Named>,
    /// Whether one that the visitor may not see has it against the ledger.
    pub offended_unseen: bool,
    /// Whether a placeholder shows it.
    pub held_by_placeholder: bool,
    /// Since when it stands there.
    pub since: When,
}

impl Eye<'_> {
    /// One line of a list.
    pub fn item(&self, row: &AddressRow) -> AddressItem {
        let offenders = self.world.offenders(row);
        let seen: Vec<Named> = offenders.iter().filter_map(|service| self.named(&service.key)).collect();
        AddressItem {
            name: row.name.to_string(),
            address: row.text.to_string(),
            family: row.ip.map(|ip| ip.family().as_str()),
            class: row.class.to_string(),
            phase: format!("{:?}", row.phase),
            state: row.state(),
            claim: row.claim.as_ref().filter(|_| !row.observed).and_then(|bound| self.named(&bound.key)),
            claim_gone: row.claim.is_some() && !self.world.is_owned(row),
            service: row.service.as_ref().and_then(|holder| self.named(&holder.key)),
            offended_unseen: seen.len() < offenders.len(),
            offenders: seen,
            held_by_placeholder: self.world.hold(row).is_some(),
            since: self.when(row.since),
        }
    }
}

/// A line of the list: an address, or a gap where nobody has one.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Line {
    /// An address.
    Address(Box<AddressItem>),
    /// Addresses that nobody has.
    Gap(Gap),
}

/// The list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressList {
    /// How many there are.
    pub total: usize,
    /// How many of them match.
    pub matched: usize,
    /// The page shown, from 1.
    pub page: usize,
    /// How many pages there are.
    pub pages: usize,
    /// The lines of the page.
    pub items: Vec<Line>,
    /// Whether gaps may be asked for.
    #[serde(skip)]
    pub may_show_gaps: bool,
}

/// By what the list is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Address,
    State,
    Service,
    Claim,
    Class,
    Since,
}

const COLUMNS: [(&str, By); 6] = [
    ("address", By::Address),
    ("state", By::State),
    ("service", By::Service),
    ("claim", By::Claim),
    ("class", By::Class),
    ("since", By::Since),
];

/// The order in which the index has them.
const USUAL: Sort<By> = Sort { by: By::Address, down: false };

/// The phases, by their names in the API.
const PHASES: [(&str, AddressPhase); 6] = [
    ("Pending", AddressPhase::Pending),
    ("Available", AddressPhase::Available),
    ("Bound", AddressPhase::Bound),
    ("Released", AddressPhase::Released),
    ("Conflict", AddressPhase::Conflict),
    ("Lost", AddressPhase::Lost),
];

/// What the list shows.
#[derive(Debug)]
struct Wish {
    find: Option<Find>,
    class: Option<String>,
    namespace: Option<String>,
    phase: Option<AddressPhase>,
    family: Option<Family>,
    state: Option<State>,
    gaps: bool,
    sort: Sort<By>,
}

/// The parameters of the list.
pub const KNOWN: [&str; 10] =
    ["q", "class", "namespace", "phase", "family", "state", "gaps", "sort", "page", "limit"];

impl Wish {
    fn read(params: &Params) -> Result<Self, BadQuery> {
        let states: Vec<_> = State::ALL.into_iter().map(|state| (state.word(), state)).collect();
        let wish = Self {
            find: params.get("q").map(Find::of),
            class: params.text("class"),
            namespace: params.text("namespace"),
            phase: params.one_of("phase", &PHASES)?,
            family: params.family()?,
            state: params.one_of("state", &states)?,
            gaps: params.switch("gaps")?,
            sort: Sort::read(params, &COLUMNS, USUAL)?,
        };
        if wish.gaps && wish.sort != USUAL {
            return Err(BadQuery::new("gaps=1 needs the order of addresses; leave out sort"));
        }
        Ok(wish)
    }

    /// Whether it asks for all there are, in their usual order and with nothing between them.
    fn is_whole(&self) -> bool {
        self.is_all() && self.sort == USUAL && !self.gaps
    }

    /// Whether it asks for all there are.
    const fn is_all(&self) -> bool {
        self.find.is_none()
            && self.class.is_none()
            && self.namespace.is_none()
            && self.phase.is_none()
            && self.family.is_none()
            && self.state.is_none()
    }

    fn takes(&self, eye: &Eye, row: &AddressRow) -> bool {
        self.class.as_deref().is_none_or(|class| *row.class == *class)
            && self.phase.is_none_or(|phase| row.phase == phase)
            && self.family.is_none_or(|family| row.ip.is_some_and(|ip| ip.family() == family))
            && self.state.is_none_or(|state| row.state() == state)
            && self.namespace.as_deref().is_none_or(|namespace| is_of(eye, row, namespace))
            && self.find.as_ref().is_none_or(|find| finds(eye, row, find))
    }
}

fn is_of(eye: &Eye, row: &AddressRow, namespace: &str) -> bool {
    let claim = row.claim.as_ref().map(|bound| &bound.key);
    let keys = claim.into_iter().chain(row.service.as_ref().map(|holder| &holder.key));
    eye.scope.sees(namespace) && keys.into_iter().any(|key| &*key.namespace == namespace)
}

/// Only what the visitor may see is searched: else a search would tell what is hidden.
fn finds(eye: &Eye, row: &AddressRow, find: &Find) -> bool {
    if find.range().is_some() {
        return row.ip.is_some_and(|ip| find.has_ip(ip));
    }
    if find.part().is_some() && eye.scope.is_all() {
        // The index found it by just that.
        return true;
    }
    let claim = row.claim.as_ref().map(|bound| &bound.key);
    let mut keys = claim.into_iter().chain(row.service.as_ref().map(|holder| &holder.key));
    find.has_text(&row.text)
        || find.has_text(&row.name)
        || find.has_text(&row.class)
        || keys.any(|key| eye.scope.sees(&key.namespace) && find.has_named(&key.namespace, &key.name))
        || is_handed_over_in(eye, row, find)
}

/// Whether the last handoff is in the trace that is looked for, and is one that the visitor may see.
fn is_handed_over_in(eye: &Eye, row: &AddressRow, find: &Find) -> bool {
    let handoff = row.handoff.as_ref().filter(|_| find.trace().is_some_and(|id| row.is_of_trace(id)));
    handoff.is_some_and(|handoff| eye.handoff(row, handoff).is_some())
}

/// What is shown of an order: an address, or a gap before one.
enum Entry<'a> {
    Row(&'a Arc<AddressRow>),
    Gap(Span<'a>),
}

/// How many addresses match, how many lines there are with the gaps, and those of the page.
struct Page<'a> {
    matched: usize,
    shown: usize,
    entries: Vec<Entry<'a>>,
}

/// The list that a query asks for.
///
/// # Errors
/// When the query cannot be understood.
pub fn list(eye: &Eye, params: &Params, paging: Paging) -> Result<AddressList, BadQuery> {
    let wish = Wish::read(params)?;
    let page = page(eye, &wish, paging);
    let item = |entry| match entry {
        Entry::Row(row) => Line::Address(Box::new(eye.item(row))),
        Entry::Gap(span) => Line::Gap(span.into()),
    };
    Ok(AddressList {
        total: eye.digest.totals.addresses,
        matched: page.matched,
        page: paging.page,
        pages: page.shown.div_ceil(paging.limit).max(1),
        items: page.entries.into_iter().map(item).collect(),
        // The gaps of a pool are nobody's: a tenant sees none.
        may_show_gaps: eye.scope.is_all(),
    })
}

/// A line of a table that is made later.
enum Later {
    Row(Arc<AddressRow>),
    Gap(Gap),
}

/// The whole list as a table.
///
/// # Errors
/// When the query cannot be understood.
pub fn export(eye: &Eye, params: &Params) -> Result<Pieces, BadQuery> {
    let entries = page(eye, &Wish::read(params)?, Paging::all()).entries;
    let later = |entry| match entry {
        Entry::Row(row) => Later::Row(Arc::clone(row)),
        Entry::Gap(span) => Later::Gap(span.into()),
    };
    Ok(pieces(entries.into_iter().map(later).collect(), |eye, later| match later {
        Later::Row(row) => Line::Address(Box::new(eye.item(row))),
        Later::Gap(gap) => Line::Gap(gap.clone()),
    }))
}

fn page<'a>(eye: &'a Eye, wish: &Wish, paging: Paging) -> Page<'a> {
    if wish.is_whole() && eye.scope.is_all() {
        let all = eye.world.address_count();
        let entries = paging.slice(eye.world.addresses().map(Entry::Row));
        return Page { matched: all, shown: all, entries };
    }
    chosen(eye, wish, paging)
}

fn chosen<'a>(eye: &'a Eye, wish: &Wish, paging: Paging) -> Page<'a> {
    let rows = found(eye, wish);
    let matched = rows.len();
    let gaps = if wish.gaps && eye.scope.is_all() { gaps::between(eye.world, wish) } else { Vec::new() };
    let shown = matched + gaps.len();
    // A search by a part of a text leaves no gaps: there is nothing to merge where the order is lost.
    let in_order = wish.find.as_ref().is_none_or(Find::keeps_order);
    let entries = if wish.sort == USUAL && in_order {
        paging.slice(merged(rows, gaps))
    } else {
        let by_since = wish.sort.by == By::Since;
        let rank = |(place, row): (usize, &'a Arc<AddressRow>)| Ranked {
            since: by_since.then(|| row.since),
            place: if in_order { place } else { 0 },
            row,
        };
        let rows = rows.into_iter().enumerate().map(rank).collect();
        let page = paging.cut(rows, |a, b| compare(wish.sort, a, b));
        page.into_iter().map(|ranked| Entry::Row(ranked.row)).collect()
    };
    Page { matched, shown, entries }
}

/// The addresses that are asked for, in the order of their IPs unless they were found by a part of a text.
fn found<'a>(eye: &'a Eye, wish: &Wish) -> Vec<&'a Arc<AddressRow>> {
    // The row itself is looked at last: that is waiting for memory, most of the time.
    let takes_all = eye.scope.is_all() && wish.is_all();
    let takes = |row: &&Arc<AddressRow>| takes_all || eye.scope.sees_address(row) && wish.takes(eye, row);
    let Some(find) = &wish.find else { return eye.world.addresses().filter(takes).collect() };
    if let Some((first, last)) = find.range() {
        return eye.world.addresses_between(first, last).filter(takes).collect();
    }
    let Some(part) = find.part() else { return eye.world.addresses().filter(takes).collect() };
    let mut rows: Vec<_> = eye.world.addresses_with(part).into_iter().filter(takes).collect();
    if let Some(id) = find.trace() {
        let by_name: HashSet<_> = rows.iter().map(|row| Arc::clone(&row.name)).collect();
        let others = eye.world.addresses_of_trace(id).filter(|row| !by_name.contains(&row.name));
        rows.extend(others.filter(takes));
    }
    rows
}

/// Addresses in the order of their IPs, with the gaps between them.
fn merged<'a>(rows: Vec<&'a Arc<AddressRow>>, mut gaps: Vec<Span<'a>>) -> impl Iterator<Item = Entry<'a>> {
    gaps.sort_unstable_by_key(|gap| gap.from);
    let mut gaps = gaps.into_iter().peekable();
    let mut rows = rows.into_iter().peekable();
    std::iter::from_fn(move || {
        let next = rows.peek().map(|row| row.ip);
        match gaps.next_if(|gap| next.is_none_or(|ip| Some(gap.from) < ip)) {
            Some(gap) => Some(Entry::Gap(gap)),
            None => rows.next().map(Entry::Row),
        }
    })
}

/// An address, with what it is sorted by, so that no row is looked at again to compare it.
struct Ranked<'a> {
    /// Since when it stands where it stands, if the order is by that.
    since: Option<Timestamp>,
    /// Its place in the order of the IPs, if it is known.
    place: usize,
    row: &'a Arc<AddressRow>,
}

fn compare(sort: Sort<By>, one: &Ranked, other: &Ranked) -> Ordering {
    let (a, b) = (one.row, other.row);
    let by_column = match sort.by {
        By::Address => Ordering::Equal,
        By::State => a.state().cmp(&b.state()),
        // Those that have none come last.
        By::Service => none_last(a.service.as_ref().map(|at| &at.key), b.service.as_ref().map(|at| &at.key)),
        By::Claim => none_last(claim_of(a), claim_of(b)),
        By::Class => a.class.cmp(&b.class),
        // "Since" grows with age: the newest comes first.
        By::Since => other.since.cmp(&one.since),
    };
    let by_address = || a.ip.cmp(&b.ip).then_with(|| a.name.cmp(&b.name));
    let order = by_column.then(one.place.cmp(&other.place)).then_with(by_address);
    if sort.down { order.reverse() } else { order }
}

/// The claim that the list shows: the inventory's word for what it found is none.
fn claim_of(row: &AddressRow) -> Option<&Key> {
    row.claim.as_ref().filter(|_| !row.observed).map(|bound| &bound.key)
}

fn none_last<T: Ord>(a: Option<T>, b: Option<T>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}
