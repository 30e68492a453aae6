//! Contract §11: which Service has the addresses of a claim, and why another has not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::claim::ClaimPhase;
use api::wellknown::driver;
use api::{AddressName, Family, IPAddress, Ip, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Action, Event, Moment, Object, Plan, Ref};

use super::address::is_to_be_torn_down;
use super::serviceable::serviceable;
use super::{Unit, conflict, handoff, marks, rehold, unholdable};
use crate::index::{CROWD, Index};
use crate::parse::service::View;

/// Decides who has the addresses of the unit, and plans the next step of a handoff. Returns the addresses
/// that a Service has or is about to get or give back: they need no hold of their own.
pub(super) fn associate(
    index: &Index,
    unit: &Unit,
    moment: &Moment,
    plan: &mut Plan,
) -> BTreeSet<AddressName> {
    let mut holders: BTreeMap<ServiceKey, Vec<Arc<IPAddress>>> = BTreeMap::new();
    for address in &unit.addresses {
        if let Some(to) = address.associated_to() {
            holders.entry(to.key()).or_default().push(Arc::clone(address));
        }
    }
    let mut busy: BTreeSet<AddressName> = holders.values().flatten().map(|address| address.key()).collect();
    let mut taken = None;
    for (key, group) in &holders {
        let service =
            index.services.get(key).filter(|service| group.iter().any(|address| is_holder(address, service)));
        match service {
            None => rehold::bury(index, unit, key, group, moment, plan),
            Some(service) if !service.is_load_balancer() => {
                rehold::rehold(index, unit, &service, group, moment, plan);
            }
            // The other address is about to be the claim's too: until then the Service keeps both as they are.
            Some(service) if keeps(unit, &service, group) && is_half_adopted(unit) => {
                taken = taken.or_else(|| Some(View::key(&*service)));
            }
            Some(service)
                if taken.is_none()
                    && keeps(unit, &service, group)
                    && !is_shut_out(index, &service, &widened(index, unit, &service, group)) =>
            {
                taken = Some(View::key(&*service));
                let targets = widened(index, unit, &service, group);
                busy.extend(targets.iter().map(|address| address.key()));
                handoff::forward(index, &service, &targets, moment, plan);
            }
            Some(service) => {
                taken = taken.or_else(|| Some(View::key(&*service)));
                let before = plan.actions.len();
                handoff::reverse(index, unit, &service, group, moment, plan);
                if plan.actions.len() > before
                    && let Some(look) = unheard(unit, &service, group)
                {
                    plan.actions.insert(before, look);
                }
                unholdable::tell(index, &service, group, plan);
            }
        }
    }
    let chosen = elect(index, unit, taken, plan);
    if let Some((service, targets)) = chosen {
        busy.extend(targets.iter().map(|address| address.key()));
        handoff::forward(index, &service, &targets, moment, plan);
    }
    busy
}

/// Whether the ledger means this incarnation of the Service. The Go implementation recorded no uid.
pub(super) fn is_holder(address: &IPAddress, service: &Service) -> bool {
    let to = address.associated_to();
    to.is_some_and(|to| to.uid.as_deref().is_none_or(|uid| uid.is_empty() || uid == service.object_uid()))
}

/// Whether the Service goes on having the addresses.
fn keeps(unit: &Unit, service: &Service, group: &[Arc<IPAddress>]) -> bool {
    let stays = |address: &Arc<IPAddress>| unit.owns(address) && !is_to_be_torn_down(unit, address);
    !service.is_deleting() && unit.key.is_some() && service.claim() == unit.key && group.iter().all(stays)
}

/// A live look at the claim of an address whose Service names it, if this index has not heard of that claim: whoever adopts makes
/// a claim and binds the address to it, and the two are told in any order.
fn unheard(unit: &Unit, service: &Service, group: &[Arc<IPAddress>]) -> Option<Action> {
    let heard =
        |uid: &str| unit.claim.as_ref().is_some_and(|claim| claim.metadata.uid.as_deref() == Some(uid));
    let named = service.claim().filter(|claim| !service.is_deleting() && unit.key.as_ref() == Some(claim))?;
    let bound = group.iter().filter_map(|address| address.spec.claim_ref.as_ref()?.uid());
    let uid = bound.into_iter().find(|uid| !heard(uid))?;
    Some(Action::ConfirmAbsent { reference: Ref::claim(&named), uid: Some(uid.to_owned()) })
}

/// Whether the claim adopts what a Service has, and was never bound yet.
fn is_half_adopted(unit: &Unit) -> bool {
    unit.live_claim().is_some_and(|claim| {
        claim.annotations().contains_key(driver::ADOPTED) && claim.phase() == ClaimPhase::Pending
    })
}

/// Whether MetalLB has taken the addresses off the Service, or never gave them, and will not give them back as
/// things are, while a placeholder could have them: then they are held until the Service is as it must be.
fn is_shut_out(index: &Index, service: &Service, targets: &[Arc<IPAddress>]) -> bool {
    let ips: Vec<Ip> = targets.iter().filter_map(|address| address.ip().ok()).collect();
    let shown = service.ingress();
    !ips.iter().any(|ip| shown.contains(ip))
        && index.pool_containing(&ips).is_some()
        && serviceable(index, service, targets).is_err()
}

/// The addresses the Service is to have: those it has, and all of its claim's as soon as it can be served by
/// them (a claim widened to `Dual`, or a crash between two records).
fn widened(index: &Index, unit: &Unit, service: &Service, group: &[Arc<IPAddress>]) -> Vec<Arc<IPAddress>> {
    // One that is being deleted goes to nobody any more, but who has it keeps it, whatever became of its ledger: MetalLB takes
    // both addresses off a Service that is pinned to one of them.
    let shown = service.ingress();
    let kept = |address: &&Arc<IPAddress>| {
        unit.owns(address) && address.is_deleting() && address.ip().is_ok_and(|ip| shown.contains(&ip))
    };
    let mut all: Vec<_> = unit.addresses.iter().filter(kept).cloned().collect();
    let left = bound(unit).into_iter().filter(|one| all.iter().all(|kept| family(kept) != family(one)));
    all.extend(left.collect::<Vec<_>>());
    all.sort_by_key(family);
    let free = |address: &Arc<IPAddress>| address.associated_to().is_none_or(|_| is_holder(address, service));
    if all.len() > group.len() && all.iter().all(free) && serviceable(index, service, &all).is_ok() {
        all
    } else {
        group.to_vec()
    }
}

/// The addresses that are bound to the live claim and may be handed to a Service, IPv4 first. MetalLB serves a Service
/// with one address of a family: of several the one that a Service has, then the one that the claim shows, then the
/// smallest name (§4). The surplus stays held, and so does what is of a family that the claim does not ask for.
fn bound(unit: &Unit) -> Vec<Arc<IPAddress>> {
    let usable = |address: &&Arc<IPAddress>| {
        is_asked_for(unit, address) && !address.is_deleting() && !address.phase().is_drivers()
    };
    let mut addresses: Vec<_> = unit.addresses.iter().filter(usable).cloned().collect();
    addresses
        .sort_by_key(|one| (family(one), one.associated_to().is_none(), !is_shown(unit, one), one.key()));
    addresses.dedup_by_key(|one| family(one));
    addresses
}

fn family(address: &Arc<IPAddress>) -> Option<Family> {
    address.ip().ok().map(Ip::family)
}

/// Whether the address is bound to the live claim and of a family that it asks for.
fn is_asked_for(unit: &Unit, address: &Arc<IPAddress>) -> bool {
    let asked = unit.live_claim().map(|claim| claim.spec.family.expand()).unwrap_or_default();
    unit.owns(address) && family(address).is_some_and(|family| asked.contains(&family))
}

/// Whether the claim says that the address is its own.
fn is_shown(unit: &Unit, address: &Arc<IPAddress>) -> bool {
    let status = unit.live_claim().and_then(|claim| claim.status.as_ref());
    status.is_some_and(|status| status.addresses.iter().any(|one| one.name == address.key().as_str()))
}

/// The addresses that the claim's Service is to have, be they in trouble or not: all that are asked for, without the surplus.
fn meant(unit: &Unit, bound: &[Arc<IPAddress>]) -> Vec<Arc<IPAddress>> {
    let is_surplus = |address: &Arc<IPAddress>| {
        bound
            .iter()
            .any(|one| one.key() != address.key() && family(one) == family(address) && is_shown(unit, one))
    };
    let meant = |address: &&Arc<IPAddress>| is_asked_for(unit, address) && !is_surplus(address);
    unit.addresses.iter().filter(meant).cloned().collect()
}

/// Finds the Service that is to have the addresses next, and says to every other one why it has not.
fn elect(
    index: &Index,
    unit: &Unit,
    mut taken: Option<ServiceKey>,
    plan: &mut Plan,
) -> Option<(Arc<Service>, Vec<Arc<IPAddress>>)> {
    let key = unit.key.as_ref()?;
    let addresses = bound(unit);
    let mut services = index.candidates_of_claim(key, &marks::ips(&addresses));
    services.retain(|service| !index.is_placeholder(service));
    // One that has the addresses already goes first: nothing need move.
    let has_none = |service: &Service| {
        let shown = service.ingress();
        !addresses.iter().any(|address| address.ip().is_ok_and(|ip| shown.contains(&ip)))
    };
    services.sort_by_key(|service| {
        (has_none(service), service.metadata.creation_timestamp.clone(), View::key(&**service))
    });
    let meant = meant(unit, &addresses);
    let obstacle = conflict::obstacle(index, unit, &meant);
    let mut chosen = None;
    for service in services {
        let name = View::key(&*service);
        if taken.as_ref() == Some(&name) {
            continue;
        }
        let object = Object::Service(Arc::clone(&service));
        if let Some(words) = &obstacle {
            refuse(&object, &name, &meant, words, plan);
            continue;
        }
        if let Some((reason, note)) = not_bound(unit, key, &addresses) {
            plan.standing.push(Event::warning(&object, reason, "Associate", note));
            continue;
        }
        // Still gives back what it had of another claim: decided anew when that is done.
        if index.addresses_of_service(&name).any(|address| is_holder(&address, &service)) {
            continue;
        }
        let refusal = if service.is_deleting() {
            Some("the Service is being deleted".to_owned())
        } else if let Some(holder) = &taken {
            Some(format!(
                "claim {} is already used by Service {}; one claim serves one Service: one Service with all the \
                 ports works, or a second claim; this one follows when {} lets go",
                key.name, holder.name, holder.name
            ))
        } else {
            serviceable(index, &service, &addresses).err()
        };
        if let Some(words) = refusal {
            refuse(&object, &name, &addresses, &words, plan);
            continue;
        }
        taken = Some(name.clone());
        // The hold must be in place before it is handed on: until then the Service waits. One that has the address
        // already needs none: somebody edited the ledger. Where no placeholder is admitted there is none to wait for.
        let is_ready = |address: &Arc<IPAddress>| {
            is_held(index, address)
                || has_alone(index, &service, address)
                || unholdable::is_with_nobody(index, address)
        };
        let mut unready = addresses.iter().filter(|address| !is_ready(address)).peekable();
        if unready.peek().is_none() {
            chosen = Some((service, addresses.clone()));
        } else if let Some(words) = unready.find_map(|address| lingering(index, address)) {
            refuse(&object, &name, &addresses, &words, plan);
        }
    }
    chosen
}

/// What is to be done about the hold of an address that somebody's finalizer keeps from going, with the address.
fn lingering(index: &Index, address: &IPAddress) -> Option<String> {
    let holds = index.placeholders_of(&address.key());
    let hold = holds.iter().find(|hold| hold.is_deleting() && handoff::shows(hold, address))?;
    Some(format!(
        "placeholder {} still has {} and is being deleted; take its finalizers off ({})",
        View::key(&**hold),
        address.spec.address,
        hold.finalizers().join(", ")
    ))
}

/// Whether the Service shows the address, and nobody else does.
fn has_alone(index: &Index, service: &Service, address: &IPAddress) -> bool {
    let Ok(ip) = address.ip() else { return false };
    let mut all = index.services_of_ip(ip).peekable();
    address.associated_to().is_none()
        && all.peek().is_some()
        && all.all(|other| other.object_uid() == service.object_uid())
}

fn is_held(index: &Index, address: &IPAddress) -> bool {
    // Kept from going by somebody's finalizer it can still share what it has, but not go first.
    let can_let_go = |hold: &Service| !hold.is_deleting() || !index.config.gap;
    address.associated_to().is_none()
        && index
            .placeholders_of(&address.key())
            .iter()
            .any(|hold| can_let_go(hold) && handoff::shows(hold, address))
}

/// Why the claim cannot serve any Service: reason and sentence of the event.
fn not_bound(
    unit: &Unit,
    key: &api::ClaimKey,
    addresses: &[Arc<IPAddress>],
) -> Option<(&'static str, String)> {
    let Some(claim) = &unit.claim else {
        let note = format!(
            "IPAddressClaim {} does not exist in namespace {}; create it or correct the annotation",
            key.name, key.namespace
        );
        return Some(("ClaimNotFound", note));
    };
    let families: BTreeSet<_> = addresses.iter().filter_map(family).collect();
    let complete = claim.spec.family.expand().iter().all(|family| families.contains(family));
    if claim.is_deleting() || claim.phase() != ClaimPhase::Bound || !complete {
        let note =
            format!("IPAddressClaim {} is not bound; the Service gets its address when it is", key.name);
        return Some(("ClaimNotBound", note));
    }
    None
}

fn refuse(object: &Object, name: &ServiceKey, addresses: &[Arc<IPAddress>], words: &str, plan: &mut Plan) {
    plan.standing.push(Event::warning(object, "AssociationRejected", "Associate", words));
    for address in addresses {
        let object = Object::Address(Arc::clone(address));
        let note = format!("Service {name} is refused: {words}");
        plan.standing.push(Event::warning(&object, "AssociationRejected", "Associate", note));
    }
}

/// A Service whose claim so many older ones name that nobody looks at it is told so, once.
pub(super) fn crowded_out(index: &Index, key: &ServiceKey, plan: &mut Plan) {
    let Some(service) = index.services.get(key) else { return };
    let Some(claim) = index.crowded_out_of(&service) else { return };
    let note = format!(
        "{CROWD} older Services name claim {}, and no more of them are looked at; one claim serves one Service: take the \
         annotation {} off those that are not to have it",
        claim.name,
        api::wellknown::CLAIM
    );
    plan.standing.push(Event::warning(&Object::Service(service), "AssociationRejected", "Associate", note));
}

/// A Service that wears our marks although the ledger knows nothing of it and it names no claim: the marks
/// are taken off, and a deletion is let through.
pub(super) fn strip_stray(index: &Index, key: &ServiceKey) -> Plan {
    let mut plan = Plan::default();
    let Some(service) = index.services.get(key).filter(|service| !index.is_placeholder(service)) else {
        return plan;
    };
    let associated = index.addresses_of_service(key).any(|address| is_holder(&address, &service));
    let awaits_claim = service.claim().is_some() && !service.is_deleting() && service.is_load_balancer();
    if !associated
        && !awaits_claim
        && let Some(action) = marks::strip(&service)
    {
        plan.push(action);
    }
    plan
}
