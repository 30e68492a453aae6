//! Pools: texts of ranges, and whole objects (contract §7, §8).

use std::net::IpAddr;

use api::{Family, Ip};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use metallb::parse::pool::Pool;
use plan::{Change, Object};
use serde_json::{Value, json};

use crate::brains;

/// So many addresses of a range are looked at one by one.
const FEW: u128 = 600;

/// A whole object if the text begins with a brace; else each line is an entry of `spec.addresses`, and a first line
/// of `!` stands for `avoidBuggyIPs`.
pub fn hold(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    if text.starts_with('{') {
        let Ok(data) = serde_json::from_str::<Value>(text) else { return };
        let mut object = pool_of(&[], false);
        object.data = data;
        see_ranges(&Pool::of(&object));
        brains::see(&[Change::Applied(Object::from(object))]);
        return;
    }
    let avoid = text.starts_with("!\n");
    let lines: Vec<&str> = text.lines().skip(usize::from(avoid)).collect();
    let object = pool_of(&lines, avoid);
    let pool = Pool::of(&object);
    see_ranges(&pool);
    see_each_line(&pool, &lines, avoid);
    if let [line] = lines[..] {
        see_one_range(line, &pool, avoid);
    }
    brains::see(&[Change::Applied(Object::from(object))]);
}

fn pool_of(addresses: &[&str], avoid: bool) -> DynamicObject {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("metallb.io", "v1beta1", "IPAddressPool"));
    let mut object = DynamicObject::new("public", &kind).within("metallb-system");
    object.metadata.uid = Some("pool".to_owned());
    object.metadata.resource_version = Some("9".to_owned());
    object.data = json!({
        "spec": { "addresses": addresses, "autoAssign": false, "avoidBuggyIPs": avoid },
        "status": { "availableIPv4": i64::MAX, "availableIPv6": i64::MAX },
    });
    object
}

/// A range is one of sorted keys: of one family, and it begins before it ends.
fn see_ranges(pool: &Pool) {
    for range in pool.ranges() {
        let (first, last) = (*range.start(), *range.end());
        assert!(first <= last, "{first} is after {last}");
        assert_eq!(first.family(), last.family());
        for end in [first, last] {
            assert!(
                pool.contains(end) || is_buggy(end),
                "a pool does not contain the end {end} of its own range"
            );
        }
    }
}

/// A pool contains what one of its lines contains, and has as much room as they have together.
fn see_each_line(pool: &Pool, lines: &[&str], avoid: bool) {
    let alone: Vec<Pool> = lines.iter().map(|line| Pool::of(&pool_of(&[line], avoid))).collect();
    let ends = alone.iter().flat_map(Pool::ranges).flat_map(|range| [*range.start(), *range.end()]);
    let around = ends.flat_map(|ip| [Some(ip), neighbour(ip, -1), neighbour(ip, 1)]).flatten();
    for ip in around {
        assert_eq!(pool.contains(ip), alone.iter().any(|line| line.contains(ip)), "{ip}");
    }
    for family in Family::ALL {
        let sum = alone.iter().filter_map(|line| line.room(family)).fold(0, usize::saturating_add);
        let most = usize::try_from(i64::MAX).unwrap_or(usize::MAX);
        assert_eq!(pool.room(family), Some(sum.min(most)));
    }
}

fn see_one_range(line: &str, pool: &Pool, avoid: bool) {
    let ranges: Vec<_> = pool.ranges().collect();
    let [range] = &ranges[..] else {
        assert!(ranges.is_empty(), "one line is one range at most");
        return;
    };
    let (first, last) = (*range.start(), *range.end());
    for outside in [neighbour(first, -1), neighbour(last, 1)].into_iter().flatten() {
        assert!(!pool.contains(outside), "{line:?} does not contain {outside}");
    }
    let written = format!("{first}-{last}");
    assert!(Pool::of(&pool_of(&[&written], avoid)).same_spec(pool), "{line:?} is {written}");
    if bits(last) - bits(first) < FEW {
        see_few(first, last, pool);
    }
}

/// Counting and walking come to the same, and so do two ways of telling which addresses are shown.
fn see_few(first: Ip, last: Ip, pool: &Pool) {
    let mut inside = Vec::new();
    let mut next = Some(first);
    while let Some(ip) = next.filter(|ip| *ip <= last) {
        inside.extend(pool.contains(ip).then_some(ip));
        next = neighbour(ip, 1);
    }
    let family = first.family();
    assert_eq!(pool.room(family), Some(inside.len()));
    let shown: Vec<Ip> = inside.iter().copied().step_by(3).collect();
    let mut one_by_one = pool.clone();
    for ip in &shown {
        one_by_one.shows(*ip, true);
    }
    let at_once = pool.clone().showing(None, shown.iter().copied());
    assert_eq!(one_by_one, at_once);
    assert_eq!(at_once.room(family), Some(inside.len() - shown.len()));
}

fn is_buggy(ip: Ip) -> bool {
    matches!(ip.addr(), IpAddr::V4(v4) if matches!(v4.octets()[3], 0 | 255))
}

fn bits(ip: Ip) -> u128 {
    match ip.addr() {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The address beside this one; none beside the first and the last of a family. What lies between the IPv6 addresses
/// and is IPv4 is skipped.
fn neighbour(ip: Ip, step: i32) -> Option<Ip> {
    let next = match ip.addr() {
        IpAddr::V4(v4) => Ip::from(std::net::Ipv4Addr::from(v4.to_bits().checked_add_signed(step)?)),
        IpAddr::V6(v6) => Ip::from(std::net::Ipv6Addr::from(v6.to_bits().checked_add_signed(step.into())?)),
    };
    (next.family() == ip.family()).then_some(next)
}
