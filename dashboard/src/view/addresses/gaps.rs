//! The free gaps of pools: never one line for each IP.

use std::net::IpAddr;

use api::{Family, Ip};
use serde::{Serialize, Serializer};

use super::Wish;
use crate::query::Find;
use crate::view::words;
use crate::world::{PoolRow, World};

/// Addresses in a row that nobody has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The first of them.
    #[serde(serialize_with = "as_text")]
    pub from: Ip,
    /// The last of them.
    #[serde(serialize_with = "as_text")]
    pub to: Ip,
    /// How many there are, as text: a number of this size is none in most readers of JSON.
    #[serde(serialize_with = "as_text")]
    pub free: u128,
    /// The pool.
    pub pool: String,
}

fn as_text<T: std::fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl Gap {
    /// How many, for a person.
    pub fn count(&self) -> String {
        words::count(self.free)
    }
}

/// The same before it is shown: there are thousands, and few are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a> {
    pub(super) from: Ip,
    to: Ip,
    pool: &'a PoolRow,
}

impl From<Span<'_>> for Gap {
    fn from(span: Span) -> Self {
        let Span { from, to, pool } = span;
        Self { from, to, free: pool.count(from.addr(), to.addr()), pool: pool.name.to_string() }
    }
}

/// The gaps of the pools that classes draw from, as far as the filters speak of IPs, families and classes. A filter by
/// anything that only an address has leaves none.
pub(super) fn between<'a>(world: &'a World, wish: &Wish) -> Vec<Span<'a>> {
    let range = wish.find.as_ref().map(Find::range);
    let of_addresses = wish.namespace.is_some() || wish.phase.is_some() || wish.state.is_some();
    if of_addresses || range == Some(None) {
        return Vec::new();
    }
    let within = range.flatten();
    let wanted = |class: &str| wish.class.as_deref().is_none_or(|wanted| wanted == class);
    let pools = world.pools().filter(|pool| world.classes_of(&pool.name).any(|class| wanted(&class.name)));
    let mut gaps = Vec::new();
    for pool in pools {
        of_pool(world, pool, wish.family, within, &mut gaps);
    }
    gaps
}

fn of_pool<'a>(
    world: &World,
    pool: &'a PoolRow,
    family: Option<Family>,
    within: Option<(Ip, Ip)>,
    gaps: &mut Vec<Span<'a>>,
) {
    for (first, last) in &pool.ranges {
        let (mut first, mut last) = (Ip::from(*first), Ip::from(*last));
        if family.is_some_and(|family| family != first.family()) {
            continue;
        }
        if let Some((from, to)) = within {
            if from.family() != first.family() {
                continue;
            }
            (first, last) = (first.max(from), last.min(to));
        }
        if first <= last {
            of_range(world, pool, first, last, gaps);
        }
    }
}

fn of_range<'a>(world: &World, pool: &'a PoolRow, first: Ip, last: Ip, gaps: &mut Vec<Span<'a>>) {
    let mut ledger = world.ips_between(first, last).peekable();
    let mut shown = world.shown_between(first, last).map(|(ip, _)| ip).peekable();
    let mut next = Some(first);
    while let Some(ip) = ledger.peek().into_iter().chain(shown.peek()).min().copied() {
        while ledger.next_if_eq(&ip).is_some() {}
        while shown.next_if_eq(&ip).is_some() {}
        if let Some(from) = next
            && from < ip
            && let Some(to) = before(ip)
        {
            push(pool, from, to, gaps);
        }
        next = after(ip);
    }
    if let Some(from) = next.filter(|from| *from <= last) {
        push(pool, from, last, gaps);
    }
}

fn push<'a>(pool: &'a PoolRow, from: Ip, to: Ip, gaps: &mut Vec<Span<'a>>) {
    if pool.count(from.addr(), to.addr()) > 0 {
        gaps.push(Span { from, to, pool });
    }
}

fn before(ip: Ip) -> Option<Ip> {
    match ip.addr() {
        IpAddr::V4(v4) => v4.to_bits().checked_sub(1).map(|bits| Ip::from(std::net::Ipv4Addr::from(bits))),
        IpAddr::V6(v6) => v6.to_bits().checked_sub(1).map(|bits| Ip::from(std::net::Ipv6Addr::from(bits))),
    }
}

fn after(ip: Ip) -> Option<Ip> {
    match ip.addr() {
        IpAddr::V4(v4) => v4.to_bits().checked_add(1).map(|bits| Ip::from(std::net::Ipv4Addr::from(bits))),
        IpAddr::V6(v6) => v6.to_bits().checked_add(1).map(|bits| Ip::from(std::net::Ipv6Addr::from(bits))),
    }
}
