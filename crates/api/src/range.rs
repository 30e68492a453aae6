//! The entries of `spec.addresses` of MetalLB's `IPAddressPool`.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

use crate::Ip;

/// The last address before those of IPv4 in IPv6 notation, `::ffff:0:0/96`.
const BEFORE_MAPPED: Ipv6Addr = Ipv6Addr::from_bits(0xffff_0000_0000 - 1);

/// The first and the last address of one entry of `spec.addresses`: a CIDR, or `first-last`. None if MetalLB would not
/// understand it.
pub fn range(text: &str) -> Option<(IpAddr, IpAddr)> {
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (Ip::lenient(first).ok()?.addr(), Ip::lenient(last).ok()?.addr());
        return (first.is_ipv4() == last.is_ipv4() && first <= last).then_some((first, last));
    }
    let net: IpNet = text.trim().parse().ok()?;
    let (first, last) = (net.network().to_canonical(), net.broadcast().to_canonical());
    // A network of IPv4 addresses in IPv6 notation is one of IPv4 addresses. One of IPv6 addresses that ends among
    // these ends before them for us: no address of ours is written so.
    let reaches_into_v4 = first.is_ipv6() && last.is_ipv4();
    Some((first, if reaches_into_v4 { IpAddr::V6(BEFORE_MAPPED) } else { last }))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("::/80", "::", "::fffe:ffff:ffff")]
    #[case("::fffe:0:0/95", "::fffe:0:0", "::fffe:ffff:ffff")]
    #[case("::/79", "::", "::1:ffff:ffff:ffff")]
    #[case("::ffff:192.0.2.0/127", "192.0.2.0", "192.0.2.1")]
    fn a_range_begins_before_it_ends(#[case] text: &str, #[case] first: &str, #[case] last: &str) {
        let (first, last): (IpAddr, IpAddr) = (first.parse().unwrap(), last.parse().unwrap());
        assert!(first <= last);
        assert_eq!(range(text), Some((first, last)));
    }
}
