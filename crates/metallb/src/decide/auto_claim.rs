//! Contract §12, auto-claim: a plain load balancer Service gets a claim of its own name, and names it from then on.
//!
//! A Service that has an address already keeps it and gets no claim: a claim would move it to another address.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::wellknown::{AUTO_CLAIM, CLAIM, driver, metallb};
use api::{
    ClaimFamily, ClaimKey, IPAddressClaim, IPAddressClaimSpec, IPAddressClass, ReclaimPolicy, ServiceKey,
};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use plan::{Action, Event, Guard, Object, Plan, Target};
use serde_json::json;

use super::class::is_served;
use crate::index::Index;
use crate::parse::service::View;

/// Gives the Service its claim, if it is one of those that get one.
pub(super) fn serve(index: &Index, key: &ServiceKey, plan: &mut Plan) {
    let Some(service) = index.services.get(key).filter(|service| is_plain(index, service)) else { return };
    let Some(class) = index.auto_claim_class().filter(|class| is_served(class)) else { return };
    let object = Object::Service(Arc::clone(&service));
    let name = ClaimKey::new(&key.namespace, &key.name);
    match index.claims.get(&name) {
        None => {
            let note = format!("no IPAddressClaim {} can be made for this Service", key.name);
            plan.push(Action::Create {
                object: claim(&service, &class).into(),
                refused: Some(Guard { event: Event::warning(&object, "AutoClaimFailed", "AutoClaim", note) }),
            });
        }
        // One of an earlier Service of this name that is about to go: its going leads here again.
        Some(claim) if claim.is_deleting() || is_of_another(&claim, &service) => return,
        Some(claim) if is_made_here(&claim) => {}
        Some(_) => {
            let note = format!(
                "IPAddressClaim {0} exists and was not made for this Service; annotate the Service with {CLAIM}: {0} to \
                 use it, or with {AUTO_CLAIM}: \"false\" to do without",
                key.name
            );
            plan.standing.push(Event::warning(&object, "AutoClaimBlocked", "AutoClaim", note));
            return;
        }
    }
    let body = json!({ "metadata": { "annotations": { CLAIM: key.name } } });
    plan.push(Action::patch(Target::of(&object), body));
}

/// A load balancer Service of the default implementation that asks for nothing in particular and has nothing yet.
fn is_plain(index: &Index, service: &Service) -> bool {
    let asks = [metallb::PIN, metallb::PIN_OLD, metallb::POOL, metallb::POOL_OLD, CLAIM];
    let spec = service.spec();
    index.config.auto_claim
        && index.config.lb_class.is_none()
        && service.is_load_balancer()
        && !service.is_deleting()
        && service.metadata.namespace.as_deref() != Some(&index.config.placeholder_namespace)
        && service.annotation(AUTO_CLAIM) != Some("false")
        && spec.load_balancer_class.is_none()
        && spec.load_balancer_ip.as_deref().is_none_or(str::is_empty)
        && asks.iter().all(|name| service.annotation(name).is_none())
        && service.ingress().is_empty()
}

fn is_made_here(claim: &IPAddressClaim) -> bool {
    claim.annotations().get(driver::AUTO_CLAIMED).is_some_and(|value| value == "true")
}

/// Whether garbage collection will take the claim, since it belongs to an earlier Service of that name.
fn is_of_another(claim: &IPAddressClaim, service: &Service) -> bool {
    let owners = claim.owner_references();
    !owners.is_empty()
        && owners.iter().all(|owner| owner.kind == "Service" && owner.uid != service.object_uid())
}

/// The Service's own claim goes with it, unless the class retains addresses: then it waits for a Service of that name.
fn claim(service: &Service, class: &IPAddressClass) -> IPAddressClaim {
    let key = View::key(service);
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name: key.name.clone(),
        uid: service.object_uid().to_owned(),
        ..OwnerReference::default()
    };
    IPAddressClaim {
        metadata: ObjectMeta {
            name: Some(key.name),
            namespace: Some(key.namespace),
            annotations: Some(BTreeMap::from([(driver::AUTO_CLAIMED.to_owned(), "true".to_owned())])),
            owner_references: (class.spec.reclaim_policy != ReclaimPolicy::Retain).then(|| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: IPAddressClaimSpec {
            class_name: Some(class.name_any()),
            family: family(service),
            address_name: None,
        },
        status: None,
    }
}

/// What the Service can be served with.
fn family(service: &Service) -> ClaimFamily {
    let families = service.spec().ip_families.as_deref().unwrap_or_default();
    match families {
        [_, _, ..] => ClaimFamily::Dual,
        [one] if one == "IPv6" => ClaimFamily::IPv6,
        _ => ClaimFamily::IPv4,
    }
}
