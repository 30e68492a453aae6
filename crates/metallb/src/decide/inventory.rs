//! Contract §12, backwards inventory: an IP of a served class's pool that MetalLB gave to a Service which no claim
//! covers is written down as an address that nobody can be bound to, for as long as the Service has it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::address::{ClaimRef, Source};
use api::wellknown::driver;
use api::{AddressName, IPAddress, IPAddressSpec, Ip, ReclaimPolicy, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use plan::{Action, Moment, Object, Plan};

use super::ledger::Edit;
use crate::index::Index;
use crate::parse::service::View;

/// Whether the address is a note of the inventory, and no reservation.
pub fn is_observed(address: &IPAddress) -> bool {
    address.labels().get(driver::OBSERVED).is_some_and(|value| value == "true")
}

/// Writes down the addresses that the Service has without a claim.
pub(super) fn observe(index: &Index, key: &ServiceKey, plan: &mut Plan) {
    let Some(service) = index.services.get(key).filter(|service| is_uncovered(index, service)) else {
        return;
    };
    for ip in service.ingress() {
        let name = ip.object_name();
        let known = index.addresses_of_ip(ip).next().is_some() || index.addresses.get(&name).is_some();
        let (false, Some(class)) = (known, index.class_of_ip(ip)) else { continue };
        plan.push(Action::create(note(&service, ip, name, class)));
    }
}

/// A load balancer Service that names no claim and wears none of our marks; one that does waits for its claim.
fn is_uncovered(index: &Index, service: &Service) -> bool {
    index.config.inventory
        && service.is_load_balancer()
        && !index.is_placeholder(service)
        && service.claim().is_none()
        && !service.is_pinned_by_us()
}

fn note(service: &Service, ip: Ip, name: AddressName, class: &str) -> IPAddress {
    let key = View::key(service);
    IPAddress {
        metadata: ObjectMeta {
            name: Some(name.as_str().to_owned()),
            labels: Some(BTreeMap::from([(driver::OBSERVED.to_owned(), "true".to_owned())])),
            ..ObjectMeta::default()
        },
        spec: IPAddressSpec {
            class_name: class.to_owned(),
            address: ip.to_string(),
            reclaim_policy: ReclaimPolicy::Retain,
            claim_ref: Some(ClaimRef {
                namespace: key.namespace,
                name: key.name,
                uid: Some(service.object_uid().to_owned()),
            }),
            source: Source::from_class(),
        },
        status: None,
    }
}

/// Keeps the note in step with its Service, and takes it away when the Service has let go.
pub(super) fn tend(index: &Index, address: &Arc<IPAddress>, moment: &Moment, plan: &mut Plan) {
    if address.is_deleting() {
        return;
    }
    let Some(service) = holder(index, address) else {
        plan.push(Action::delete(&Object::Address(Arc::clone(address))));
        return;
    };
    if address.associated_to().is_none() {
        let mut edit = Edit::of(address);
        edit.observed(&service, moment.now);
        plan.actions.extend(edit.action());
    }
}

/// The Service of the note, as long as it has the address and the address is one of the inventory's.
fn holder(index: &Index, address: &IPAddress) -> Option<Arc<Service>> {
    let ip = address.ip().ok().filter(|ip| index.config.inventory && index.class_of_ip(*ip).is_some())?;
    let named = address.spec.claim_ref.as_ref()?;
    let service = index.services.get(&ServiceKey::new(&named.namespace, &named.name))?;
    let same = named.uid().is_none_or(|uid| uid == service.object_uid());
    (same && service.is_load_balancer() && service.ingress().contains(&ip)).then_some(service)
}
