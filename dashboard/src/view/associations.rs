//! Who had which IP when.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::csv::{Pieces, pieces};
use super::list::List;
use super::{Eye, Named, When, words};
use crate::query::{BadQuery, Find, Paging, Params};
use crate::world::{AddressRow, PastRow};

/// One stay of an address at a Service.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AssociationItem {
    /// The IP.
    pub address: String,
    /// The name of its object.
    pub name: String,
    /// The Service that had it.
    pub service: Named,
    /// Its uid.
    pub uid: String,
    /// From when.
    pub since: When,
    /// Until when; none while it has it.
    pub until: Option<When>,
    /// For how long.
    #[serde(skip)]
    pub lasted: String,
}

/// The parameters of the list.
pub const KNOWN: [&str; 6] = ["q", "namespace", "state", "at", "page", "limit"];

/// A stay, with what it is sorted by.
struct Stay<'a> {
    since: Timestamp,
    /// Its place in the order of the IPs.
    place: usize,
    address: &'a Arc<AddressRow>,
    /// Which of the history of that address.
    turn: usize,
}

/// How many there are, how many match, and those of the page.
struct Page<'a> {
    total: usize,
    matched: usize,
    stays: Vec<Stay<'a>>,
}

/// The list that a query asks for, newest first.
///
/// # Errors
/// When the query cannot be understood.
pub fn list(eye: &Eye, params: &Params, paging: Paging) -> Result<List<AssociationItem>, BadQuery> {
    let Page { total, matched, stays } = page(eye, params, paging)?;
    let items =
        stays.iter().filter_map(|stay| Some(item(eye, stay.address, stay.address.history.get(stay.turn)?)));
    Ok(List::of(total, matched, paging, items.collect()))
}

/// The whole list as a table.
///
/// # Errors
/// When the query cannot be understood.
pub fn export(eye: &Eye, params: &Params) -> Result<Pieces, BadQuery> {
    let stays = page(eye, params, Paging::all())?.stays;
    let rows: Vec<_> = stays.iter().map(|stay| (Arc::clone(stay.address), stay.turn)).collect();
    Ok(pieces(rows, |eye, (address, turn)| item(eye, address, &address.history[*turn])))
}

fn page<'a>(eye: &'a Eye, params: &Params, paging: Paging) -> Result<Page<'a>, BadQuery> {
    let find = params.get("q").map(Find::of);
    let namespace = params.get("namespace");
    let current = params.one_of("state", &[("current", true), ("past", false)])?;
    let at = params.get("at").map(moment).transpose()?;
    let mut total = 0;
    let mut rows = Vec::new();
    for address in eye.world.addresses().filter(|row| eye.scope.sees_address(row)) {
        let stays = address.history.iter().enumerate();
        for (turn, past) in stays.filter(|(_, past)| eye.scope.sees(&past.service.namespace)) {
            total += 1;
            let wanted = current.is_none_or(|current| past.until.is_none() == current)
                && at.is_none_or(|at| past.since <= at && past.until.is_none_or(|until| at < until))
                && namespace.is_none_or(|namespace| &*past.service.namespace == namespace)
                && find.as_ref().is_none_or(|find| finds(address, past, find));
            if wanted {
                // They come in the order of the IPs. No row is looked at again to compare it.
                rows.push(Stay { since: past.since, place: total, address, turn });
            }
        }
    }
    let matched = rows.len();
    let stays = paging.cut(rows, |a, b| b.since.cmp(&a.since).then(a.place.cmp(&b.place)));
    Ok(Page { total, matched, stays })
}

fn item(eye: &Eye, address: &AddressRow, past: &PastRow) -> AssociationItem {
    AssociationItem {
        address: address.text.to_string(),
        name: address.name.to_string(),
        service: (&past.service).into(),
        uid: past.uid.to_string(),
        since: eye.when(past.since),
        until: past.until.map(|at| eye.when(at)),
        lasted: words::age(past.since, past.until.unwrap_or(eye.now)),
    }
}

fn finds(address: &AddressRow, past: &PastRow, find: &Find) -> bool {
    address.ip.is_some_and(|ip| find.has_ip(ip))
        || find.has_text(&address.text)
        || find.has_named(&past.service.namespace, &past.service.name)
}

fn moment(text: &str) -> Result<Timestamp, BadQuery> {
    let words = || BadQuery::new(format!("at={text:?} is no moment; write one such as 2026-11-30T14:00:00Z"));
    // What a browser's field for date and time gives has no zone: it means UTC, as everything here.
    text.parse().or_else(|_| {
        let civil: jiff::civil::DateTime = text.parse().map_err(|_| words())?;
        civil.to_zoned(jiff::tz::TimeZone::UTC).map(|zoned| zoned.timestamp()).map_err(|_| words())
    })
}
