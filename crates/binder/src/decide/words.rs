//! The sentences said to people: each names the object, the field and the way out.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::address::AddressPhase;
use api::{Family, IPAddress, IPAddressClass};
use kube::ResourceExt;

/// The plural that never means another group's kind.
const ADDRESSES: &str = "ipaddresses.local.sdn.cozystack.io";

/// The edit that binds an address to the next, or present, claim of the name it has.
pub(super) fn give_back(name: &str) -> String {
    format!(r#"kubectl patch {ADDRESSES} {name} --type=merge -p '{{"spec":{{"claimRef":{{"uid":null}}}}}}'"#)
}

/// The edit that frees an address for anybody.
pub(super) fn recycle(name: &str) -> String {
    format!(r#"kubectl patch {ADDRESSES} {name} --type=merge -p '{{"spec":{{"claimRef":null}}}}'"#)
}

/// `ip-203-0-113-7 (203.0.113.7) and ip-2001-db8--7 (2001:db8::7)`.
pub(super) fn addresses(addresses: &[Arc<IPAddress>]) -> String {
    let texts: Vec<String> = addresses
        .iter()
        .map(|address| format!("{} ({})", address.name_any(), address.spec.address))
        .collect();
    texts.join(" and ")
}

/// `IPv4 and IPv6`.
pub(super) fn families(families: &[Family]) -> String {
    families.iter().map(|family| family.as_str()).collect::<Vec<_>>().join(" and ")
}

pub(super) fn class_not_found(name: &str) -> String {
    format!("IPAddressClass {name} does not exist; create it, or name another one in spec.className")
}

pub(super) fn no_default_class() -> String {
    "spec.className is not set and no IPAddressClass is marked as the default; set spec.className, or annotate \
     one class with ipaddressclass.local.sdn.cozystack.io/is-default-class=true"
        .to_owned()
}

pub(super) fn multiple_default_classes(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!(
        "spec.className is not set and {} IPAddressClasses are marked as the default: {}; set spec.className, or \
         leave the annotation ipaddressclass.local.sdn.cozystack.io/is-default-class on one of them",
        names.len(),
        names.join(", ")
    )
}

pub(super) fn kept_for_a_successor(released: &[Arc<IPAddress>]) -> String {
    let edits: Vec<String> = released.iter().map(|address| give_back(&address.name_any())).collect();
    format!(
        "{} was bound to an earlier claim of this name and is kept for it, so no other address is taken; an \
         admin gives it back to this claim with: {}",
        addresses(released),
        edits.join("; ")
    )
}

pub(super) fn nothing_free(class: &IPAddressClass, missing: &[Family]) -> String {
    let (name, provisioner) = (class.name_any(), &class.spec.provisioner);
    let mut text = format!(
        "no {} address of class {name} is available yet; waiting for its provisioner {provisioner}, or for an \
         admin to create an IPAddress of that class",
        families(missing)
    );
    for why in missing.iter().filter_map(|&family| class.lacks(family)) {
        text.push_str("; ");
        text.push_str(why);
    }
    text
}

/// What happened to an address that is bound to a claim and does not serve it.
pub(super) fn ill(address: &IPAddress) -> String {
    let name = address.name_any();
    let ip = &address.spec.address;
    if address.is_deleting() {
        format!(
            "IPAddress {name} ({ip}) of this claim is being deleted; delete this claim to let it go, and create \
             another one"
        )
    } else {
        format!(
            "IPAddress {name} ({ip}) of this claim is Lost: its provider does not have it any more; the claim is \
             served again by itself once the provider has the address back (see the conditions of the address)"
        )
    }
}

/// An address that was bound to a claim is not there any more.
pub(super) fn gone(family: Family) -> String {
    format!(
        "the {family} address that was bound to this claim does not name it any more; restore the IPAddress with \
         spec.claimRef of this namespace and name, or delete this claim and create another one"
    )
}

pub(super) fn named_missing(name: &str) -> String {
    format!(
        "spec.addressName names IPAddress {name}, which does not exist; create it, or create another claim"
    )
}

pub(super) fn named_stale(name: &str) -> String {
    format!(
        "spec.addressName names IPAddress {name}, which is kept for an earlier claim of this name; an admin gives \
         it back to this claim with: {}",
        give_back(name)
    )
}

/// Never whose it is (contract §4.7): tenants do not learn of each other.
pub(super) fn named_taken(name: &str) -> String {
    format!(
        "spec.addressName names IPAddress {name}, which is taken; wait until it is available, or create another \
         claim"
    )
}

pub(super) fn named_of_class(name: &str, class: &str, wanted: &str) -> String {
    format!(
        "spec.addressName names IPAddress {name} of class {class:?}, but the class of this claim is {wanted}; \
         create another claim with the class of that address"
    )
}

pub(super) fn named_of_family(name: &str, family: Family, wanted: Family) -> String {
    format!(
        "spec.addressName names IPAddress {name} of family {family}, but spec.family is {wanted}; create another \
         claim with the family of that address"
    )
}

/// Why an address that is nobody's is not available either.
pub(super) fn named_unavailable(name: &str, address: &IPAddress) -> String {
    let why = match address.phase() {
        _ if address.is_deleting() => "is being deleted",
        AddressPhase::Conflict => "is in Conflict: somebody uses the IP without a right to it",
        AddressPhase::Lost => "is Lost: its provider does not have it any more",
        _ if address.associated_to().is_some() => "is still in use and about to be let go",
        _ => "is not valid: see its condition Valid",
    };
    format!("spec.addressName names IPAddress {name}, which {why}; wait, or create another claim")
}

pub(super) fn duplicate(ip: &str, elder: &str) -> String {
    format!("spec.address {ip} belongs to the older IPAddress {elder} already; delete one of the two")
}

pub(super) fn released(address: &IPAddress, claim: &str) -> String {
    let name = address.name_any();
    format!(
        "claim {claim}, to which this address was bound, is gone; to free the address for any claim: {}; to give \
         it to a claim of the same namespace and name: {}",
        recycle(&name),
        give_back(&name)
    )
}
