//! Contract §11: whether MetalLB would serve a Service with the addresses of its claim.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::wellknown::{driver, metallb};
use api::{IPAddress, Ip};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use super::service::is_holder;
use crate::index::Index;
use crate::parse::service::View;

/// Whether MetalLB would serve the Service with these addresses, by its semantics of v0.15 and v0.16
/// (contract §11).
///
/// # Errors
/// The one sentence that says what to change.
pub fn serviceable(index: &Index, service: &Service, addresses: &[Arc<IPAddress>]) -> Result<(), String> {
    let ips: Vec<Ip> = addresses.iter().filter_map(|address| address.ip().ok()).collect();
    let spec = service.spec();
    if !service.is_load_balancer() {
        let kind = spec.type_.as_deref().unwrap_or("ClusterIP");
        return Err(format!("spec.type is {kind}; set it to LoadBalancer"));
    }
    let (has, wants) = (spec.load_balancer_class.as_deref(), index.config.lb_class.as_deref());
    match (has, wants) {
        _ if has == wants => {}
        (Some(has), None) => {
            return Err(format!(
                "spec.loadBalancerClass is {has:?}, and this claim is served to Services without one; \
                 recreate the Service without it"
            ));
        }
        (_, wants) => {
            let wants = wants.unwrap_or_default();
            return Err(format!("spec.loadBalancerClass is not {wants:?}; recreate the Service with it"));
        }
    }
    families(service, &ips)?;
    foreign_wishes(index, service)?;
    let list = ips.iter().map(Ip::to_string).collect::<Vec<_>>().join(" and ");
    let Some((name, pool)) = index.pool_containing(&ips) else {
        return Err(if ips.len() > 1 && ips.iter().all(|ip| index.pool_containing(&[*ip]).is_some()) {
            format!(
                "{list} lie in different pools, and MetalLB serves a Service from one; claim two addresses of one pool"
            )
        } else {
            format!("no IPAddressPool contains {list} any more; put it back into a pool")
        });
    };
    let namespace = service.metadata.namespace.clone().unwrap_or_default();
    let mut labels = service.labels().clone();
    labels.insert(driver::ASSOCIATED.to_owned(), "true".to_owned());
    pool.admits(&namespace, &index.namespace_labels(&namespace), &labels).map_err(|words| {
        format!("IPAddressPool {name} does not serve this Service: {words} of namespace {namespace}; admit it there")
    })
}

/// The Service's families must be exactly what the addresses can serve.
fn families(service: &Service, ips: &[Ip]) -> Result<(), String> {
    let spec = service.spec();
    let wants: BTreeSet<&str> = spec.ip_families.iter().flatten().map(String::as_str).collect();
    let has: BTreeSet<&str> = ips.iter().map(|ip| ip.family().as_str()).collect();
    let policy = spec.ip_family_policy.as_deref().unwrap_or("SingleStack");
    let has_text = has.iter().copied().collect::<Vec<_>>().join(" and ");
    if wants != has {
        let wants = wants.iter().copied().collect::<Vec<_>>().join(" and ");
        return Err(format!(
            "the claim has {has_text}, and spec.ipFamilies asks for {wants}; make spec.ipFamilies and the claim's spec.family agree"
        ));
    }
    // MetalLB adds an address of its own choice to a Service that prefers two and has one.
    if has.len() == 1 && policy == "PreferDualStack" {
        return Err(format!(
            "spec.ipFamilyPolicy is PreferDualStack, and the claim has only {has_text}; set SingleStack, or widen the claim to Dual"
        ));
    }
    Ok(())
}

/// What somebody else asked of MetalLB on this Service is never overwritten. A sharing key stands in nobody's way:
/// the hold borrows it.
fn foreign_wishes(index: &Index, service: &Service) -> Result<(), String> {
    let ours = service.is_pinned_by_us()
        || index.addresses_of_service(&View::key(service)).any(|address| is_holder(&address, service));
    let remove = |what: &str| {
        Err(format!("{what} is set by somebody else; remove it, the claim brings its own address"))
    };
    for name in [metallb::PIN, metallb::PIN_OLD, metallb::POOL, metallb::POOL_OLD] {
        let Some(value) = service.annotation(name) else { continue };
        if name != metallb::PIN || !ours {
            return remove(&format!("annotation {name}: {value:?}"));
        }
    }
    // An empty one could only be written over.
    if service.annotation(metallb::SHARE) == Some("") {
        return remove(&format!("annotation {}: \"\"", metallb::SHARE));
    }
    match service.spec().load_balancer_ip.as_deref() {
        Some(ip) if !ip.is_empty() => remove(&format!("spec.loadBalancerIP: {ip:?}")),
        _ => Ok(()),
    }
}
