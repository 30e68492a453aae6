//! Whether the ranges of a pool contain those of a class.

use std::net::IpAddr;

use api::Ip;
use ipnet::IpNet;
use serde_json::Value;

/// Whether every range that was wanted lies within those that are there.
///
/// # Errors
/// Which does not, or cannot be read.
pub(super) fn check(wanted: &Value, has: &Value) -> Result<(), String> {
    let Value::Array(wanted) = wanted else {
        return Err(format!("spec.parameters.addresses is {wanted}, which is no list like that"));
    };
    let texts = has.as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut ranges: Vec<_> = texts.filter_map(range).collect();
    ranges.sort_by_key(|(first, _)| *first);
    for text in wanted {
        let covered = text.as_str().and_then(range).is_some_and(|wanted| covers(&ranges, wanted));
        if !covered {
            return Err(format!("{text} of spec.parameters.addresses is not within spec.addresses"));
        }
    }
    Ok(())
}

/// Whether sorted ranges, which may overlap or touch, contain one.
fn covers(ranges: &[(IpAddr, IpAddr)], (mut next, last): (IpAddr, IpAddr)) -> bool {
    for (first, end) in ranges {
        if *first <= next && next <= *end {
            if last <= *end {
                return true;
            }
            let Some(after) = successor(*end) else { return false };
            next = after;
        }
    }
    false
}

fn successor(ip: IpAddr) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(ip) => u32::from(ip).checked_add(1).map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(ip) => u128::from(ip).checked_add(1).map(|bits| IpAddr::V6(bits.into())),
    }
}

/// A CIDR, or `first-last`; the first and the last address of it.
fn range(text: &str) -> Option<(IpAddr, IpAddr)> {
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (Ip::lenient(first).ok()?.addr(), Ip::lenient(last).ok()?.addr());
        return (first.is_ipv4() == last.is_ipv4() && first <= last).then_some((first, last));
    }
    let net: IpNet = text.trim().parse().ok()?;
    Some((net.network(), net.broadcast()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!(["203.0.113.0/24"]), json!(["203.0.113.0/24"]), true)]
    #[case(json!(["203.0.113.0/24"]), json!(["203.0.113.0/25", "203.0.113.128-203.0.113.255"]), true)]
    #[case(json!(["203.0.113.0/24"]), json!(["203.0.113.0/25"]), false)]
    #[case(json!(["203.0.113.0/24"]), json!(["203.0.113.0-203.0.113.126", "203.0.113.128/25"]), false)]
    #[case(json!(["203.0.113.4/30"]), json!(["203.0.113.0/25", "203.0.113.0/28"]), true)]
    #[case(json!(["2001:db8::/64", "203.0.113.7/32"]), json!(["203.0.113.0/24", "2001:db8::/32"]), true)]
    #[case(json!(["2001:db8::/64"]), json!(["203.0.113.0/24"]), false)]
    #[case(json!(["::/0"]), json!(["::-7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "8000::/1"]), true)]
    #[case(json!(["255.255.255.0/24"]), json!(["255.255.255.0-255.255.255.254"]), false)]
    #[case(json!([]), json!([]), true)]
    #[case(json!(["nonsense"]), json!(["0.0.0.0/0"]), false)]
    #[case(json!([7]), json!(["0.0.0.0/0"]), false)]
    #[case(json!("203.0.113.0/24"), json!(["203.0.113.0/24"]), false)]
    #[case(json!(["203.0.113.0/24"]), Value::Null, false)]
    fn c8_ranges_are_covered(#[case] wanted: Value, #[case] has: Value, #[case] expected: bool) {
        assert_eq!(check(&wanted, &has).is_ok(), expected);
    }
}
