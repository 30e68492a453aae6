//! Addresses that are canonical by construction, and the object names made of them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

use crate::Family;

/// One IP address in its canonical form: never IPv4-mapped, never with a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ip(IpAddr);

/// Why a text is not an address.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum IpError {
    /// The text is no IP address at all.
    #[error("{0:?} is not an IP address; write one address, without zone, prefix length or leading zeros")]
    Unparsable(String),
    /// The text is an address in another spelling than the canonical one.
    #[error("{text:?} is not canonical; write {canonical}")]
    NotCanonical {
        /// What was given.
        text: String,
        /// What to write in its place.
        canonical: Ip,
    },
}

impl Ip {
    /// Parses a canonical text, as `spec.address` must be (contract §2).
    ///
    /// # Errors
    /// When the text is no address, or not in canonical form.
    pub fn canonical(text: &str) -> Result<Self, IpError> {
        let ip = Self::lenient(text)?;
        if ip.to_string() == text {
            Ok(ip)
        } else {
            Err(IpError::NotCanonical { text: text.to_owned(), canonical: ip })
        }
    }

    /// Parses what MetalLB honours in a pin (contract §7): white space around the address, any spelling of
    /// IPv6, and IPv4-mapped text, which means the IPv4 address.
    ///
    /// # Errors
    /// When the text is no address.
    pub fn lenient(text: &str) -> Result<Self, IpError> {
        text.trim().parse::<IpAddr>().map(Self::from).map_err(|_| IpError::Unparsable(text.to_owned()))
    }

    /// The address's family.
    pub const fn family(self) -> Family {
        match self.0 {
            IpAddr::V4(_) => Family::IPv4,
            IpAddr::V6(_) => Family::IPv6,
        }
    }

    /// The standard library's form.
    pub const fn addr(self) -> IpAddr {
        self.0
    }

    /// The name of the `IPAddress` object of this IP (contract §2).
    pub fn object_name(self) -> AddressName {
        AddressName::from(self)
    }
}

impl From<IpAddr> for Ip {
    fn from(addr: IpAddr) -> Self {
        Self(addr.to_canonical())
    }
}

impl From<Ipv4Addr> for Ip {
    fn from(addr: Ipv4Addr) -> Self {
        Self(IpAddr::V4(addr))
    }
}

impl From<Ipv6Addr> for Ip {
    fn from(addr: Ipv6Addr) -> Self {
        Self::from(IpAddr::V6(addr))
    }
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Ip {
    type Err = IpError;

    fn from_str(text: &str) -> Result<Self, IpError> {
        Self::canonical(text)
    }
}

/// The name of an `IPAddress` object. Names made from an [`Ip`] lead back to it; an admin may use any other
/// name for a static address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressName(String);

impl AddressName {
    /// Takes a name as it stands on an object.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The IP this name was made from, if it has the form of contract §2.
    pub fn ip(&self) -> Option<Ip> {
        let text = self.0.strip_prefix("ip-")?;
        let groups: Vec<&str> = text.split('-').collect();
        let looks_like_v4 = groups.len() == 4 && groups.iter().all(|group| !group.is_empty());
        let text = text.replace('-', if looks_like_v4 { "." } else { ":" });
        let ip = Ip::lenient(&text).ok()?;
        (ip.object_name() == *self).then_some(ip)
    }
}

impl From<Ip> for AddressName {
    fn from(ip: Ip) -> Self {
        let mut name = format!("ip-{}", ip.to_string().replace(['.', ':'], "-"));
        // A name must not end in a dash: `2001:db8::` is written `2001:db8::0`.
        if name.ends_with('-') {
            name.push('0');
        }
        Self(name)
    }
}

impl fmt::Display for AddressName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("203.0.113.7", "ip-203-0-113-7")]
    #[case("2001:db8::7", "ip-2001-db8--7")]
    #[case("2001:db8::", "ip-2001-db8--0")]
    #[case("::", "ip---0")]
    #[case("::1", "ip---1")]
    #[case("1:2:3:4:5:6:7:8", "ip-1-2-3-4-5-6-7-8")]
    fn names(#[case] ip: &str, #[case] name: &str) {
        let ip = Ip::canonical(ip).unwrap();
        assert_eq!(ip.object_name().as_str(), name);
        assert_eq!(AddressName::new(name).ip(), Some(ip));
    }

    #[rstest]
    #[case("2001:DB8::7", Some("2001:db8::7"))]
    #[case("2001:db8:0:0:0:0:0:7", Some("2001:db8::7"))]
    #[case("::ffff:192.0.2.10", Some("192.0.2.10"))]
    #[case(" 192.0.2.10\n", Some("192.0.2.10"))]
    #[case("192.000.002.012", None)]
    #[case("192.0.2.14/32", None)]
    #[case("fe80::1%eth0", None)]
    #[case("", None)]
    fn refused_as_canonical(#[case] text: &str, #[case] meant: Option<&str>) {
        let error = Ip::canonical(text).unwrap_err();
        match meant {
            Some(meant) => {
                assert!(error.to_string().contains(meant), "{error}");
                assert_eq!(Ip::lenient(text).unwrap().to_string(), meant);
            }
            None => assert_eq!(error, IpError::Unparsable(text.to_owned())),
        }
    }

    #[rstest]
    #[case("address-1")]
    #[case("ip-203-0-113-07")]
    #[case("ip-2001-DB8--7")]
    #[case("ip-")]
    fn other_names_lead_to_no_ip(#[case] name: &str) {
        assert_eq!(AddressName::new(name).ip(), None);
    }

    fn legal(name: &str) -> bool {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        name.len() <= 63
            && name.chars().all(inner)
            && !name.starts_with('-')
            && !name.ends_with('-')
            && name.starts_with(|c: char| c.is_ascii_lowercase())
    }

    proptest! {
        #[test]
        fn every_ipv4_has_one_legal_name_and_back(bits: u32) {
            let ip = Ip::from(Ipv4Addr::from(bits));
            prop_assert!(legal(ip.object_name().as_str()));
            prop_assert_eq!(ip.object_name().ip(), Some(ip));
        }

        #[test]
        fn every_ipv6_has_one_legal_name_and_back(bits: u128, mask: u128) {
            // Masking makes runs of zeros common: that is where the spellings differ.
            for bits in [bits, bits & mask, bits & 0xffff_0000_ffff_0000_0000_0000_ffff_0000] {
                let ip = Ip::from(Ipv6Addr::from(bits));
                prop_assert!(legal(ip.object_name().as_str()));
                prop_assert_eq!(ip.object_name().ip(), Some(ip));
                prop_assert_eq!(Ip::canonical(&ip.to_string()), Ok(ip));
            }
        }
    }
}
