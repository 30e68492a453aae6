//! Who may have an IP of the ledger.

use std::net::IpAddr;

use api::wellknown::{ADDRESS_PROTECTION, CLAIM, driver, metallb as names};
use api::{IPAddress, IPAddressClaim, Ip, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use metallb::Config;
use plan::{Object, Ref};

use super::writes::is_claimed;
use crate::metallb::MetalLb;
use crate::server::Server;
use crate::world::env::Env;

/// The IP of an address that is to be held: not one of the inventory, nor one whose teardown has begun.
pub fn ip_to_hold(address: &IPAddress) -> Option<IpAddr> {
    let core = address.finalizers().iter().any(|name| name == ADDRESS_PROTECTION);
    let goes = address.is_deleting() && !core;
    if is_observed(address) || goes { None } else { address.ip().ok().map(Ip::addr) }
}

/// Who has the IP in MetalLB's books. A Service that is gone has nothing, whether or not MetalLB has seen it go.
pub fn holders_of(server: &Server, metallb: &MetalLb, ip: IpAddr) -> Vec<ServiceKey> {
    let exists = |holder: &&ServiceKey| server.service(holder).is_some();
    metallb.books.holders(ip).filter(exists).cloned().collect()
}

/// Whether the Service may have the IP of this address: a placeholder of it, the Service that the ledger names, or one
/// that was adopted and is about to be associated.
pub fn is_rightful(server: &Server, config: &Config, address: &IPAddress, holder: &ServiceKey) -> bool {
    let service = server.service(holder);
    if holder.namespace == config.placeholder_namespace {
        // One that MetalLB has not yet seen go.
        return service.is_none_or(|service| {
            let pinned = service.annotations().get(names::PIN) == Some(&address.spec.address);
            (pinned || is_labelled(service, address)) && is_placeholder(config, service)
        });
    }
    let adopted = service.is_some_and(|service| {
        let claim = address.spec.claim_ref.as_ref();
        service.annotations().contains_key(driver::PINNED)
            && service.annotations().get(CLAIM) == claim.map(|claim| &claim.name)
            && claim.is_some_and(|claim| claim.namespace == holder.namespace)
    });
    if address.associated_to().is_none() && adopted && is_claimed(server, address) {
        return true;
    }
    address.associated_to().is_some_and(|to| {
        let same = to.key() == *holder;
        let uid = to.uid.as_deref().filter(|uid| !uid.is_empty());
        same && service.is_none_or(|service| uid.is_none_or(|uid| service.uid().as_deref() == Some(uid)))
    })
}

fn is_labelled(service: &Service, address: &IPAddress) -> bool {
    service.labels().get(driver::IP_ADDRESS) == Some(&address.name_any())
}

/// Whether the holder is a placeholder that is this address's by its label: one of another address may be pinned here by hand.
pub fn is_its_placeholder(
    server: &Server,
    config: &Config,
    address: &IPAddress,
    holder: &ServiceKey,
) -> bool {
    let Some(service) = server.service(holder) else { return false };
    holder.namespace == config.placeholder_namespace && is_labelled(service, address)
}

/// Whether the holder cannot go before the driver lets it: a placeholder, or a Service with the driver's finalizer.
pub fn is_kept(server: &Server, config: &Config, holder: &ServiceKey) -> bool {
    let Some(service) = server.service(holder) else { return true };
    let finalizer = service.finalizers().iter().any(|name| name == driver::HANDOFF);
    finalizer || !config.hold_on_delete || holder.namespace == config.placeholder_namespace
}

/// Whether the Service, too, says that it has the IP: one that is no load balancer any more may be in MetalLB's books alone.
pub fn shows(server: &Server, holder: &ServiceKey, ip: IpAddr) -> bool {
    let Some(service) = server.service(holder) else { return false };
    crate::metallb::ingress(service).contains(&ip.to_string())
}

/// Whether the Service is a placeholder of the driver's.
pub fn is_placeholder(config: &Config, service: &Service) -> bool {
    service.namespace().as_deref() == Some(&config.placeholder_namespace)
        && (service.labels().get(driver::PLACEHOLDER).is_some_and(|value| value == "true")
            || service.annotations().get(names::SHARE).is_some_and(|key| is_our_key(key)))
}

/// Whether the address is a note of the inventory.
pub fn is_observed(address: &IPAddress) -> bool {
    address.labels().contains_key(driver::OBSERVED)
}

/// Whether the sharing key is one that the driver makes.
pub fn is_our_key(key: &str) -> bool {
    key.len() == 36 && key.starts_with("iad-")
}

/// Whether the holder has the IP for this very address. A placeholder that got it for a claim, before somebody entered
/// the address by hand, gives it back (§9).
pub fn is_own(env: &Env, address: &IPAddress, holder: &ServiceKey) -> bool {
    let placeholder = holder.namespace == env.config.placeholder_namespace;
    let hold = format!("iad-{}", address.name_any()) == holder.name;
    let reserved = || {
        env.server.service(holder).is_some_and(|service| {
            let note = |name| service.annotations().get(name);
            let claim = address.spec.claim_ref.as_ref();
            address.spec.source.from_class.is_some()
                && note(driver::CLAIM_NAMESPACE) == claim.map(|claim| &claim.namespace)
                && note(driver::CLAIM_NAME) == claim.map(|claim| &claim.name)
        })
    };
    is_rightful(&env.server, &env.config, address, holder) && (!placeholder || hold || reserved())
}

/// Whether the driver reserved the address for the claim that it is bound to: then its placeholder had it first.
pub fn is_reserved(server: &Server, address: &IPAddress) -> bool {
    let Some(bound) = &address.spec.claim_ref else { return false };
    let claim = server.get(&Ref::claim(&bound.key()));
    // Another may have come by the name of the one that it was adopted for.
    let asks_for_any = |claim: &IPAddressClaim| {
        bound.uid.as_ref().is_none_or(|uid| claim.metadata.uid.as_ref() == Some(uid))
            && claim.spec.address_name.is_none()
            && !claim.annotations().contains_key(driver::ADOPTED)
    };
    address.spec.source.from_class.is_some()
        && matches!(claim, Some(Object::Claim(claim)) if asks_for_any(claim))
}
