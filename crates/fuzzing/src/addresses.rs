//! IP texts and the object names made of them (contract §2).

use std::net::{Ipv4Addr, Ipv6Addr};

use api::{AddressName, Ip};
use metallb::parse::service::address_in_name;

/// The bytes as a text, as raw addresses, and as the name of an object.
pub fn hold(data: &[u8]) {
    if let Some(bits) = data.first_chunk::<4>() {
        see_ip(Ip::from(Ipv4Addr::from(*bits)));
    }
    if let Some(bits) = data.first_chunk::<16>() {
        see_ip(Ip::from(Ipv6Addr::from(*bits)));
    }
    let Ok(text) = str::from_utf8(data) else { return };
    see_text(text);
    see_name(text);
}

fn see_text(text: &str) {
    match Ip::lenient(text) {
        Ok(ip) => {
            see_ip(ip);
            assert_eq!(Ip::canonical(text).is_ok(), ip.to_string() == text, "{text:?}");
            assert_eq!(Ip::lenient(&format!(" {text}\t")), Ok(ip));
        }
        Err(_) => assert!(Ip::canonical(text).is_err(), "{text:?} is canonical and no address"),
    }
}

/// An address has one text and one name, and both lead back to it: so no two addresses have the same.
pub fn see_ip(ip: Ip) {
    assert_eq!(ip.addr(), ip.addr().to_canonical(), "{ip} is no IPv4-mapped address");
    let text = ip.to_string();
    assert_eq!(Ip::canonical(&text), Ok(ip));
    assert_eq!(Ip::lenient(&text), Ok(ip));
    let name = ip.object_name();
    assert!(is_dns_label(name.as_str()), "{name} is no legal name");
    assert_eq!(name.ip(), Some(ip));
    assert_eq!(address_in_name(&format!("iad-{name}")), Some(name.as_str()));
}

fn see_name(text: &str) {
    let name = AddressName::new(text);
    if let Some(ip) = name.ip() {
        see_ip(ip);
        assert_eq!(ip.object_name(), name, "an address has two names");
    }
}

/// Whether a text may be part of a host name: stricter than what is asked of an object's name.
fn is_dns_label(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(legal)
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && !text.ends_with('-')
}
