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

/// The gaps of the pools that classes draw from, as far as the filters speak of IPs, families and classes. A filter by
/// anything that only an address has leaves none.
pub(super) fn between(world: &World, wish: &Wish) -> Vec<Gap> {
    let range = wish.find.as_ref().map(Find::range);
    let of_addresses = wish.namespace.is_some() || wish.phase.is_some() || wish.state.is_some();
    if of_addresses || range == Some(None) {
        return Vec::new();
    }
    let within = range.flatten();
    let wanted = |class: &str| wish.class.as_deref().is_none_or(|wanted| wanted == class);
    let pools = world.pools().filter(|pool| world.classes_of(&pool.name).any(|class| wanted(&class.name)));
    pools.flat_map(|pool| of_pool(world, pool, wish.family, within)).collect()
}

fn of_pool(world: &World, pool: &PoolRow, family: Option<Family>, within: Option<(Ip, Ip)>) -> Vec<Gap> {
    let mut gaps = Vec::new();
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
            of_range(world, pool, first, last, &mut gaps);
        }
    }
    gaps
}

fn of_range(world: &World, pool: &PoolRow, first: Ip, last: Ip, gaps: &mut Vec<Gap>) {
    let mut taken: Vec<Ip> = world.ips_between(first, last).collect();
    taken.extend(world.shown_between(first, last).map(|(ip, _)| ip));
    // Two sorted rows in one: what keeps the order of equals finds them, and merges.
    taken.sort();
    taken.dedup();
    let mut next = Some(first);
    for ip in taken {
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

fn push(pool: &PoolRow, from: Ip, to: Ip, gaps: &mut Vec<Gap>) {
    let free = pool.count(from.addr(), to.addr());
    if free > 0 {
        gaps.push(Gap { from, to, free, pool: pool.name.to_string() });
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
