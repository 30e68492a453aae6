//! What must hold when nobody has anything left to do.

use api::address::AddressPhase;
use api::claim::ClaimPhase;
use api::wellknown::{CLAIM, driver, metallb as names};
use api::{IPAddress, IPAddressClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use plan::{Kind, Object, Ref};

use super::holders::{holders_of, is_observed, is_our_key, is_rightful};
use crate::users::is_any_pool_restricted;
use crate::world::env::Env;

const SAYS_WHY: &str = "§4.8: a claim is Bound or says why not";
const LEDGER: &str = "§10: the ledger says who has the IP, or that it is not held and why";

fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|one| one.type_ == kind)
}

/// Looks at every claim and address of a world at rest.
pub fn check(env: &mut Env) {
    let objects: Vec<_> =
        [Kind::Claim, Kind::Address].into_iter().flat_map(|kind| env.server.all(kind)).cloned().collect();
    for object in objects {
        let broken = match &object {
            Object::Claim(claim) => look_at_claim(claim),
            Object::Address(address) if !is_observed(address) => look_at_address(env, address),
            _ => None,
        };
        if let Some((law, words)) = broken {
            env.violated(law, words);
        }
    }
}

fn look_at_claim(claim: &IPAddressClaim) -> Option<(&'static str, String)> {
    let status = claim.status.clone().unwrap_or_default();
    if claim.is_deleting() {
        // Somebody else's finalizer may keep it.
        let ours = claim.finalizers().iter().any(|name| name == api::wellknown::CLAIM_PROTECTION);
        return ours.then(|| (SAYS_WHY, format!("claim {} is being deleted and we keep it", claim.key())));
    }
    let bound = condition(&status.conditions, "Bound");
    let says = bound.is_some_and(|bound| match claim.phase() {
        ClaimPhase::Bound => bound.status == "True",
        _ => bound.status == "False" && !bound.reason.is_empty() && !bound.message.is_empty(),
    });
    (!says).then(|| (SAYS_WHY, format!("claim {} is {:?} and says {bound:?}", claim.key(), claim.phase())))
}

fn look_at_address(env: &Env, address: &IPAddress) -> Option<(&'static str, String)> {
    if address.is_deleting() || address.ip().is_err() || env.metallb.down {
        return None;
    }
    if !is_drivers(env, address) {
        return None;
    }
    let status = address.status.clone().unwrap_or_default();
    if condition(&status.conditions, "Valid").is_some_and(|valid| valid.status == "False") {
        return None;
    }
    let holders =
        address.ip().map_or_else(|_| Vec::new(), |ip| holders_of(&env.server, &env.metallb, ip.addr()));
    let rightful = |holder: &&api::ServiceKey| is_rightful(&env.server, &env.config, address, holder);
    let held = condition(&status.conditions, "Held");
    let associated = condition(&status.conditions, "Associated");
    let is = |one: Option<&Condition>, status: &str| one.is_some_and(|one| one.status == status);
    let kept = holders.iter().any(|holder| rightful(&holder));
    let trouble = is(held, "False") || is(associated, "False") || address.phase().is_drivers();
    let stranger = holders.iter().find(|holder| !rightful(holder));
    // A Service of the claim itself is no offender (§12): it is about to be associated, or told why not. Nor is a placeholder of
    // another claim that somebody keeps from going.
    let no_offender = |holder: &api::ServiceKey| {
        names_its_claim(env, address, holder) || holder.namespace == env.config.placeholder_namespace
    };
    let stranger = stranger.filter(|holder| !(no_offender(holder) && is(held, "False")));
    // MetalLB will not look at it any more, and nobody sees the IP there.
    let stranger = stranger.filter(|holder| !(kept && lost_its_class(env, holder)));
    let name = address.name_any();
    if let Some(stranger) = stranger
        && address.phase() != AddressPhase::Conflict
    {
        return Some((
            LEDGER,
            format!("{name} is with {stranger}, and the ledger does not say so: {status:?}"),
        ));
    }
    if !kept && !trouble {
        return Some((LEDGER, format!("{name} is with nobody, and the ledger does not say so: {status:?}")));
    }
    // While somebody has the IP without MetalLB (`externalIPs`), no Service that was adopted is associated; nor is one that asks
    // MetalLB for something by itself.
    // And where a pool admits no placeholder the Service keeps what it has.
    let excused = address.phase() == AddressPhase::Conflict
        || is_any_pool_restricted(env)
        || holders.iter().any(|holder| asks_by_itself(env, holder));
    let named = status.associated_to.as_ref().is_some_and(|to| holders.contains(&to.key()));
    let waits = excused && (named || is(held, "False"));
    if kept && !is(held, "True") && stranger.is_none() && !waits {
        return Some((
            LEDGER,
            format!("{name} is with {holders:?}, and the ledger does not say so: {status:?}"),
        ));
    }
    None
}

/// Whether the address is the driver's to hold: by its finalizer, or by its class.
fn is_drivers(env: &Env, address: &IPAddress) -> bool {
    let finalizer = address.finalizers().iter().any(|name| name == driver::TEARDOWN);
    let class = env.server.get(&Ref::class(&address.spec.class_name));
    finalizer || matches!(class, Some(Object::Class(class)) if class.spec.provisioner == driver::PROVISIONER)
}

/// Whether it was turned into another type of Service under a load balancer class: MetalLB keeps it in its books.
fn lost_its_class(env: &Env, holder: &api::ServiceKey) -> bool {
    let Some(service) = env.server.service(holder) else { return false };
    let spec = service.spec.as_ref();
    env.config.lb_class.is_some() && spec.is_some_and(|spec| spec.type_.as_deref() != Some("LoadBalancer"))
}

fn names_its_claim(env: &Env, address: &IPAddress, holder: &api::ServiceKey) -> bool {
    let Some(service) = env.server.service(holder) else { return false };
    let named = service.annotations().get(CLAIM);
    let claim = address.spec.claim_ref.as_ref();
    claim.is_some_and(|claim| claim.namespace == holder.namespace && Some(&claim.name) == named)
}

fn asks_by_itself(env: &Env, holder: &api::ServiceKey) -> bool {
    let Some(service) = env.server.service(holder) else { return false };
    let annotations = service.annotations();
    let spec = service.spec.clone().unwrap_or_default();
    annotations.contains_key(names::POOL)
        || annotations.get(names::SHARE).is_some_and(|key| !is_our_key(key))
        || spec.load_balancer_ip.is_some()
        || spec.ip_families.is_some_and(|families| families.len() > 1)
}
