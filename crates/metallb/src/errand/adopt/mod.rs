//! Contract §12: what a running Service has becomes a claim's, with the traffic untouched.
//!
//! First a claim for which nothing is reserved: it names the address, or, for two, says that it adopts. Then the Service
//! names the claim and is pinned to what it has. Then the ledger says that the addresses are the claim's. The core binds
//! them, and the driver finds a Service of the claim that has them already.

mod check;

use std::sync::Arc;

use api::address::{ClaimRef, Source};
use api::wellknown::{CLAIM, driver, metallb};
use api::{
    ClaimFamily, ClaimKey, Family, IPAddress, IPAddressClaim, IPAddressClaimSpec, IPAddressClass,
    IPAddressSpec, Ip, ServiceKey,
};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::ResourceExt;
use kube::core::{DynamicObject, ObjectMeta};
use plan::{Action, Object, Target};
use serde_json::{Map, Value, json};

use super::{Errand, Write};
use crate::parse::service::View;
use check::Found;

/// What is to be adopted, and how.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The Service.
    pub service: ServiceKey,
    /// The name of the claim, in the Service's namespace.
    pub claim: String,
    /// The class; without it, the one whose pool the addresses are of.
    pub class: Option<String>,
}

/// What is read for it.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// The Services of all namespaces.
    pub services: Vec<Arc<Service>>,
    /// All addresses.
    pub addresses: Vec<Arc<IPAddress>>,
    /// The claim of the wish, if it is there.
    pub claim: Option<Arc<IPAddressClaim>>,
    /// All classes.
    pub classes: Vec<Arc<IPAddressClass>>,
    /// The pools of the MetalLB namespace.
    pub pools: Vec<Arc<DynamicObject>>,
    /// All namespaces.
    pub namespaces: Vec<Arc<Namespace>>,
    /// The namespace that the pools are in.
    pub metallb_namespace: String,
}

impl Scene {
    /// Enters an object that was read. A claim is entered by whoever knows the wish.
    pub fn enter(&mut self, object: Object) {
        match object {
            Object::Service(service) => self.services.push(service),
            Object::Address(address) => self.addresses.push(address),
            Object::Class(class) => self.classes.push(class),
            Object::Namespace(namespace) => self.namespaces.push(namespace),
            Object::Pool(pool) => self.pools.push(pool),
            Object::Claim(_) | Object::Event(_) => {}
        }
    }
}

/// Plans the adoption of what a Service has.
pub fn plan(scene: &Scene, wish: &Wish) -> Errand {
    let mut errand = Errand::default();
    match check::all(scene, wish) {
        Ok(found) => adopt(scene, wish, &found, &mut errand),
        Err(words) => errand.refused.push(format!("Service {}: {words}", wish.service)),
    }
    errand
}

fn adopt(scene: &Scene, wish: &Wish, found: &Found<'_>, errand: &mut Errand) {
    let list = text(&found.ips, " and ");
    if scene.claim.is_none() {
        errand.step(
            format!(
                "IPAddressClaim {}: create, of class {}, for {list}",
                found.claim,
                found.class.name_any()
            ),
            Write::known(Action::create(claim(found))),
        );
    }
    if let Some(body) = dress(found) {
        let target = Target::of(&Object::Service(Arc::clone(found.service)));
        errand.step(
            format!(
                "Service {}: name claim {}, pin to {list}{}",
                wish.service,
                wish.claim,
                taken_off(found.service)
            ),
            Write::known(Action::patch(target, body)),
        );
    }
    let uid = scene.claim.as_ref().and_then(|claim| claim.metadata.uid.clone());
    for (ip, address) in found.ips.iter().zip(&found.addresses) {
        let write = |make: &dyn Fn(ClaimRef) -> Action| match &uid {
            Some(uid) => Write::known(make(ClaimRef {
                namespace: found.claim.namespace.clone(),
                name: found.claim.name.clone(),
                uid: Some(uid.clone()),
            })),
            None => Write::Later,
        };
        let name = ip.object_name();
        match address {
            None => errand.step(
                format!("IPAddress {name}: create, bound to claim {}", found.claim),
                write(&|to| Action::create(address_of(found, *ip, to))),
            ),
            Some(address) if is_done(address, uid.as_deref(), &found.claim) => {}
            Some(address) => errand.step(
                format!("IPAddress {}: bind to claim {}", address.name_any(), found.claim),
                write(&|to| rebind(found, address, &to)),
            ),
        }
    }
}

/// Whether the ledger says already that the address is the claim's.
fn is_done(address: &IPAddress, uid: Option<&str>, claim: &ClaimKey) -> bool {
    let to = address.spec.claim_ref.as_ref();
    uid.is_some() && to.is_some_and(|to| to.key() == *claim && to.uid() == uid)
}

/// A claim for which nothing is reserved.
fn claim(found: &Found<'_>) -> IPAddressClaim {
    let single = (found.ips.len() == 1).then(|| found.ips[0].object_name().to_string());
    let annotations = single.is_none().then(|| [(driver::ADOPTED.to_owned(), "true".to_owned())].into());
    IPAddressClaim {
        metadata: ObjectMeta {
            namespace: Some(found.claim.namespace.clone()),
            name: Some(found.claim.name.clone()),
            annotations,
            ..ObjectMeta::default()
        },
        spec: IPAddressClaimSpec {
            class_name: Some(found.class.name_any()),
            family: family(&found.ips),
            address_name: single,
        },
        status: None,
    }
}

fn family(ips: &[Ip]) -> ClaimFamily {
    match ips {
        [ip] if ip.family() == Family::IPv4 => ClaimFamily::IPv4,
        [_] => ClaimFamily::IPv6,
        _ => ClaimFamily::Dual,
    }
}

/// The write that makes the Service the claim's and pins it to what it has, as far as it is not; in the same write goes
/// what asks MetalLB for the same in another way.
fn dress(found: &Found<'_>) -> Option<Value> {
    let service = found.service;
    let pin = text(&found.ips, ",");
    let set = [(CLAIM, found.claim.name.as_str()), (metallb::PIN, pin.as_str()), (driver::PINNED, "true")];
    let mut annotations: Map<String, Value> = set
        .into_iter()
        .filter(|(name, value)| service.annotation(name) != Some(value))
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    let gone = WISHES.into_iter().filter(|name| service.annotation(name).is_some());
    annotations.extend(gone.map(|name| (name.to_owned(), Value::Null)));
    let mut metadata = Map::new();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    if !service.labelled(driver::ASSOCIATED) {
        metadata.insert("labels".to_owned(), json!({ driver::ASSOCIATED: "true" }));
    }
    let mut body = Map::new();
    if !metadata.is_empty() {
        body.insert("metadata".to_owned(), Value::Object(metadata));
    }
    if View::spec(&**service).load_balancer_ip.is_some() {
        body.insert("spec".to_owned(), json!({ "loadBalancerIP": null }));
    }
    (!body.is_empty()).then_some(Value::Object(body))
}

/// Other ways to ask MetalLB for an address.
const WISHES: [&str; 3] = [metallb::PIN_OLD, metallb::POOL, metallb::POOL_OLD];

fn taken_off(service: &Service) -> String {
    let mut gone: Vec<_> = WISHES.into_iter().filter(|name| service.annotation(name).is_some()).collect();
    if View::spec(service).load_balancer_ip.is_some() {
        gone.push("spec.loadBalancerIP");
    }
    if gone.is_empty() { String::new() } else { format!(", remove {}", gone.join(", ")) }
}

/// An address that is the claim's from its birth.
fn address_of(found: &Found<'_>, ip: Ip, to: ClaimRef) -> IPAddress {
    IPAddress {
        metadata: ObjectMeta {
            name: Some(ip.object_name().to_string()),
            finalizers: Some(vec![driver::TEARDOWN.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: IPAddressSpec {
            class_name: found.class.name_any(),
            address: ip.to_string(),
            reclaim_policy: found.class.spec.reclaim_policy,
            claim_ref: Some(to),
            source: Source::from_class(),
        },
        status: None,
    }
}

/// A note of the inventory becomes a reservation, in one write.
fn rebind(found: &Found<'_>, address: &Arc<IPAddress>, to: &ClaimRef) -> Action {
    let mut finalizers = address.finalizers().to_vec();
    if !finalizers.iter().any(|name| name == driver::TEARDOWN) {
        finalizers.push(driver::TEARDOWN.to_owned());
    }
    let body = json!({
        "metadata": { "labels": { driver::OBSERVED: null }, "finalizers": finalizers },
        "spec": {
            "className": found.class.name_any(), "reclaimPolicy": found.class.spec.reclaim_policy, "claimRef": to,
        },
    });
    Action::patch(Target::of(&Object::Address(Arc::clone(address))), body)
}

fn text(ips: &[Ip], between: &str) -> String {
    ips.iter().map(Ip::to_string).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests;
