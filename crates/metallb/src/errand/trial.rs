//! A trial: a claim, a hold, a Service that gets the address and gives it back, and the address freed again. What a tenant
//! would do, so that an operator sees the whole of it work (`helm test`).

use std::sync::Arc;

use api::address::{AddressPhase, Source};
use api::claim::{ClaimPhase, IPAddressClaimSpec};
use api::wellknown::CLAIM;
use api::{IPAddress, IPAddressClaim, conditions};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Action, Object};
use serde_json::json;

use crate::parse::service::View;

/// What is tried, and where.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// The namespace of the claim and the Service: not the placeholders'.
    pub namespace: String,
    /// The name of both.
    pub name: String,
    /// The class; the default one if none.
    pub class: Option<String>,
    /// What a Service must carry to be served.
    pub lb_class: Option<String>,
}

/// What there is of it.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// The claim.
    pub claim: Option<Arc<IPAddressClaim>>,
    /// The Service.
    pub service: Option<Arc<Service>>,
    /// The address that the claim got, as it is now.
    pub address: Option<Arc<IPAddress>>,
    /// Whether that address was made for the claim, so that it may be freed after it.
    pub fresh: bool,
}

/// The parts of a trial, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What an earlier trial left goes.
    Clear,
    /// A claim gets an address.
    Reserve,
    /// A placeholder holds it.
    Hold,
    /// A Service gets it.
    Attach,
    /// The Service goes, and a placeholder holds it again.
    Detach,
    /// The claim goes, and the address with it.
    Free,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Clear, Self::Reserve, Self::Hold, Self::Attach, Self::Detach, Self::Free];
}

/// How a part stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// This has to be written.
    Write(Box<Action>),
    /// This is waited for.
    Wait(String),
    /// It is done; what to tell of it.
    Done(String),
}

/// How a part of the trial stands, by what there is.
pub fn next(part: Part, scene: &Scene, wish: &Wish) -> Verdict {
    let Wish { namespace, name, .. } = wish;
    match part {
        Part::Clear => match gone(scene).unwrap_or_else(|| freed(scene)) {
            Verdict::Done(_) => Verdict::Done("nothing is left of an earlier trial".to_owned()),
            verdict => verdict,
        },
        Part::Reserve => match &scene.claim {
            None => write(Action::create(claim(wish))),
            Some(claim) => match bound(claim) {
                Some(ip) => Verdict::Done(format!("IPAddressClaim {namespace}/{name} is bound to {ip}")),
                None => Verdict::Wait(format!("the claim to be bound: {}", said(claim))),
            },
        },
        Part::Hold => match held(scene) {
            Ok(ip) => Verdict::Done(format!("{ip} is held by a placeholder")),
            Err(words) => Verdict::Wait(format!("the address to be held: {words}")),
        },
        Part::Attach => match &scene.service {
            None => write(Action::create(service(wish))),
            Some(service) => match attached(scene, service) {
                Some(ip) => Verdict::Done(format!("Service {namespace}/{name} has {ip}")),
                None => Verdict::Wait("the Service to get the address".to_owned()),
            },
        },
        Part::Detach => match (&scene.service, held(scene)) {
            (Some(service), _) => delete(&Object::Service(Arc::clone(service))),
            (None, Ok(ip)) => Verdict::Done(format!("the Service is gone, and {ip} is held again")),
            (None, Err(words)) => Verdict::Wait(format!("the address to be held again: {words}")),
        },
        Part::Free => gone(scene).unwrap_or_else(|| freed(scene)),
    }
}

fn write(action: Action) -> Verdict {
    Verdict::Write(Box::new(action))
}

fn delete(object: &Object) -> Verdict {
    if object.meta().deletion_timestamp.is_some() {
        return Verdict::Wait(format!("{} to be gone", object.reference()));
    }
    write(Action::delete(object))
}

/// What is left to do until neither Service nor claim is there.
fn gone(scene: &Scene) -> Option<Verdict> {
    let service = scene.service.as_ref().map(|service| Object::Service(Arc::clone(service)));
    let claim = scene.claim.as_ref().map(|claim| Object::Claim(Arc::clone(claim)));
    service.or(claim).map(|object| delete(&object))
}

/// An address that was made for the claim goes after it; one that was there before stays.
fn freed(scene: &Scene) -> Verdict {
    match &scene.address {
        None => Verdict::Done("the claim is gone, and the address is free".to_owned()),
        Some(address) if !scene.fresh => Verdict::Done(format!(
            "the claim is gone; IPAddress {} was there before and stays {:?}",
            address.name_any(),
            address.phase()
        )),
        Some(address) if address.phase() == AddressPhase::Bound && !address.is_deleting() => {
            Verdict::Wait("the address to be released".to_owned())
        }
        Some(address) => delete(&Object::Address(Arc::clone(address))),
    }
}

/// Whether an address was made for a claim and for nothing else.
pub fn is_fresh(address: &IPAddress, claim: &IPAddressClaim) -> bool {
    let source = matches!(&address.spec.source, Source { from_class: Some(_), .. });
    source && address.creation_timestamp() >= claim.creation_timestamp()
}

fn claim(wish: &Wish) -> IPAddressClaim {
    let spec = IPAddressClaimSpec { class_name: wish.class.clone(), ..IPAddressClaimSpec::default() };
    let mut claim = IPAddressClaim::new(&wish.name, spec);
    claim.metadata.namespace = Some(wish.namespace.clone());
    claim
}

fn service(wish: &Wish) -> Service {
    let mut service = Service::default();
    service.metadata.name = Some(wish.name.clone());
    service.metadata.namespace = Some(wish.namespace.clone());
    service.metadata.annotations = Some([(CLAIM.to_owned(), wish.name.clone())].into());
    let spec = json!({
        "type": "LoadBalancer", "loadBalancerClass": wish.lb_class, "allocateLoadBalancerNodePorts": false,
        "ports": [{ "name": "trial", "port": 65_533 }],
    });
    service.spec = serde_json::from_value(spec).ok();
    service
}

/// The IP that a claim is bound to.
fn bound(claim: &IPAddressClaim) -> Option<&str> {
    let status = claim.status.as_ref().filter(|_| claim.phase() == ClaimPhase::Bound)?;
    status.addresses.first().map(|address| address.address.as_str())
}

/// What a claim says of why it is not bound.
fn said(claim: &IPAddressClaim) -> &str {
    let conditions = claim.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let unmet = conditions.iter().find(|condition| condition.status == "False");
    unmet.map_or("the core has not looked at it yet", |condition| &condition.message)
}

/// The IP, if a placeholder alone has it.
fn held(scene: &Scene) -> Result<&str, &str> {
    let Some(address) = &scene.address else { return Err("there is no such IPAddress") };
    let conditions = address.status.as_ref().map_or(&[][..], |status| &status.conditions);
    match conditions::find(conditions, "Held") {
        Some(held) if held.status == "True" && address.associated_to().is_none() => Ok(&address.spec.address),
        Some(held) => Err(&held.message),
        None => Err("the driver has not looked at it yet"),
    }
}

/// The IP, if the Service has it and the ledger says so.
fn attached<'a>(scene: &'a Scene, service: &Service) -> Option<&'a str> {
    let address = scene.address.as_ref()?;
    let named = address.associated_to().is_some_and(|to| to.uid == service.uid());
    let ip = address.ip().ok()?;
    (named && service.ingress().contains(&ip)).then_some(address.spec.address.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish() -> Wish {
        Wish { namespace: "trial".to_owned(), name: "t".to_owned(), class: None, lb_class: None }
    }

    fn of<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> Arc<T> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn a_claim(phase: &str, at: &str) -> Arc<IPAddressClaim> {
        of(json!({
            "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClaim",
            "metadata": { "name": "t", "namespace": "trial", "creationTimestamp": at }, "spec": {},
            "status": { "phase": phase, "addresses": [{ "name": "ip-192-0-2-1", "address": "192.0.2.1" }] },
        }))
    }

    fn an_address(held: &str, at: &str, source: serde_json::Value) -> Arc<IPAddress> {
        of(json!({
            "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
            "metadata": { "name": "ip-192-0-2-1", "creationTimestamp": at },
            "spec": { "className": "c", "address": "192.0.2.1", "source": source },
            "status": { "phase": "Released", "conditions": [{
                "type": "Held", "status": held, "reason": "x", "message": "why", "lastTransitionTime": at,
            }] },
        }))
    }

    const EARLY: &str = "2026-01-01T00:00:00Z";
    const LATE: &str = "2026-01-01T00:00:01Z";

    #[test]
    fn each_part_waits_for_what_it_is_about() {
        let mut scene = Scene::default();
        assert!(matches!(next(Part::Clear, &scene, &wish()), Verdict::Done(_)));
        assert!(matches!(next(Part::Reserve, &scene, &wish()), Verdict::Write(_)));
        scene.claim = Some(a_claim("Pending", EARLY));
        assert!(matches!(next(Part::Reserve, &scene, &wish()), Verdict::Wait(_)));
        assert!(matches!(next(Part::Clear, &scene, &wish()), Verdict::Write(_)));
        scene.claim = Some(a_claim("Bound", EARLY));
        assert!(matches!(next(Part::Reserve, &scene, &wish()), Verdict::Done(_)));
        scene.address = Some(an_address("False", LATE, json!({ "fromClass": {} })));
        assert_eq!(
            next(Part::Hold, &scene, &wish()),
            Verdict::Wait("the address to be held: why".to_owned())
        );
        scene.address = Some(an_address("True", LATE, json!({ "fromClass": {} })));
        assert!(matches!(next(Part::Hold, &scene, &wish()), Verdict::Done(_)));
        assert!(matches!(next(Part::Attach, &scene, &wish()), Verdict::Write(_)));
        scene.service = Some(Arc::new(service(&wish())));
        assert!(matches!(next(Part::Attach, &scene, &wish()), Verdict::Wait(_)));
        assert!(matches!(next(Part::Detach, &scene, &wish()), Verdict::Write(_)));
        scene.service = None;
        assert!(matches!(next(Part::Detach, &scene, &wish()), Verdict::Done(_)));
    }

    #[test]
    fn an_address_that_was_there_before_is_not_deleted() {
        let claim = a_claim("Bound", LATE);
        let from_class = || json!({ "fromClass": {} });
        assert!(is_fresh(&an_address("True", LATE, from_class()), &claim));
        assert!(!is_fresh(&an_address("True", EARLY, from_class()), &claim));
        assert!(!is_fresh(&an_address("True", LATE, json!({ "providerRef": { "id": "x" } })), &claim));
        let mut scene =
            Scene { address: Some(an_address("True", LATE, from_class())), fresh: true, ..Scene::default() };
        assert!(matches!(next(Part::Free, &scene, &wish()), Verdict::Write(_)));
        scene.fresh = false;
        assert!(matches!(next(Part::Free, &scene, &wish()), Verdict::Done(_)));
    }
}
