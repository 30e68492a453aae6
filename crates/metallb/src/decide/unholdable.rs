//! Addresses that no placeholder may have: the pool they lie in does not admit placeholders (contract §10, §11).
//!
//! Such an address can only be with its claim's Service. So it is handed over though nobody holds it, and a Service
//! that is to let go keeps it, and is told why, until a placeholder may have it.

use std::sync::Arc;

use api::{IPAddress, Ip};
use k8s_openapi::api::core::v1::Service;
use plan::{Event, Object, Plan};

use super::class::admits_placeholders;
use crate::index::Index;
use crate::parse::service::View;

/// Whether nobody has the address, and no placeholder can: there is no hold to wait for.
pub(super) fn is_with_nobody(index: &Index, address: &IPAddress) -> bool {
    address.ip().is_ok_and(|ip| {
        address.associated_to().is_none()
            && index.services_of_ip(ip).next().is_none()
            && refusal(index, ip).is_some()
    })
}

/// Whether the pool that the address lies in admits no placeholder.
pub(super) fn is_unholdable(index: &Index, address: &IPAddress) -> bool {
    address.ip().is_ok_and(|ip| refusal(index, ip).is_some())
}

/// Says on both sides why a Service that is to let go still has its addresses.
pub(super) fn tell(index: &Index, service: &Arc<Service>, group: &[Arc<IPAddress>], plan: &mut Plan) {
    let shown = service.ingress();
    for address in group {
        let Some((ip, words)) = address.ip().ok().and_then(|ip| Some((ip, refusal(index, ip)?))) else {
            continue;
        };
        if !shown.contains(&ip) {
            continue;
        }
        let note =
            format!("Service {} keeps {ip} until a placeholder can have it: {words}", View::key(&**service));
        for object in [Object::Service(Arc::clone(service)), Object::Address(Arc::clone(address))] {
            plan.standing.push(Event::warning(&object, "PlaceholderRefused", "Hold", note.clone()));
        }
    }
}

/// Why MetalLB gives the IP to no placeholder.
fn refusal(index: &Index, ip: Ip) -> Option<String> {
    let (name, pool) = index.pool_containing(&[ip])?;
    let words = admits_placeholders(index, pool).err()?;
    let home = &index.config.placeholder_namespace;
    Some(format!("IPAddressPool {name} does not admit one, {words} of namespace {home}; admit it there"))
}
