//! What an unbound claim may take: class, stamp, candidates (contract §4.6, §4.7, §12 *Restore*).

use std::sync::Arc;

use api::address::AddressPhase;
use api::{AddressName, Family, IPAddress, IPAddressClaim, IPAddressClass};
use kube::ResourceExt;

use super::status::Verdict;
use super::words;
use crate::index::{Index, Need, Wish};

/// What becomes of the stamp of a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// It stays as it is.
    Keep,
    /// It names this provisioner.
    Provisioner(String),
    /// No provisioner is to serve this claim now.
    Remove,
}

/// What an unbound claim takes, and what stands in the way of the rest.
#[derive(Debug)]
pub(super) struct Sought {
    pub(super) class: Result<Arc<IPAddressClass>, Verdict>,
    pub(super) stamp: Stamp,
    pub(super) taken: Vec<(Family, Arc<IPAddress>)>,
    /// Why something is missing still.
    pub(super) obstacle: Option<Verdict>,
    /// Whether another claim in flight may yet leave what it has chosen.
    pub(super) contested: bool,
}

/// Chooses addresses for a claim that is not bound, without marking them.
pub(super) fn seek(index: &Index, claim: &IPAddressClaim, need: &Need) -> Sought {
    let mut sought = Sought {
        class: class_of(index, claim),
        stamp: Stamp::Keep,
        taken: Vec::new(),
        obstacle: None,
        contested: false,
    };
    if claim.spec.address_name.is_none() && !need.released.is_empty() {
        // Without the stamp no driver provisions either, whatever it knows of the released address.
        sought.stamp = Stamp::Remove;
        sought.obstacle =
            Some(Verdict::no("AddressNotAvailable", words::kept_for_a_successor(&need.released)));
        return sought;
    }
    let class = match &sought.class {
        Ok(class) => Arc::clone(class),
        Err(verdict) => {
            sought.obstacle = Some(Verdict::no("WaitingForProvisioning", verdict.message.clone()));
            return sought;
        }
    };
    sought.stamp = Stamp::Provisioner(class.spec.provisioner.clone());
    let mut waiting = Vec::new();
    for &family in &need.missing {
        if !need.may_take(family) {
            let lost = need.ill_of(family).map(|address| Verdict::no("AddressLost", words::ill(address)));
            sought.obstacle = sought.obstacle.or(lost);
            continue;
        }
        let wish = Wish { class: class.name_any(), family };
        if let Some(name) = &claim.spec.address_name {
            match named(index, claim, name, &wish) {
                Ok(address) => sought.taken.push((family, address)),
                Err(message) => sought.obstacle = Some(Verdict::no("AddressNotAvailable", message)),
            }
            sought.contested |= index.assumed_for(&AddressName::new(name)).is_some();
        } else if let Some(address) = index.first_free(&wish) {
            sought.taken.push((family, Arc::clone(&address)));
        } else {
            waiting.push(family);
            sought.contested |= index.is_contested(&wish);
        }
    }
    if !waiting.is_empty() {
        let message = words::nothing_free(&class, &waiting);
        sought.obstacle = sought.obstacle.or(Some(Verdict::no("WaitingForProvisioning", message)));
    }
    sought
}

fn class_of(index: &Index, claim: &IPAddressClaim) -> Result<Arc<IPAddressClass>, Verdict> {
    match index.class_wanted(claim) {
        Some(name) => {
            index.class(name).ok_or_else(|| Verdict::no("ClassNotFound", words::class_not_found(name)))
        }
        None if index.default_classes().is_empty() => {
            Err(Verdict::no("NoDefaultClass", words::no_default_class()))
        }
        None => {
            let message = words::multiple_default_classes(index.default_classes());
            Err(Verdict::no("MultipleDefaultClasses", message))
        }
    }
}

/// The address that the claim names, or why it cannot have it.
fn named(index: &Index, claim: &IPAddressClaim, name: &str, wish: &Wish) -> Result<Arc<IPAddress>, String> {
    let key = AddressName::new(name);
    let Some(address) = index.address(&key) else { return Err(words::named_missing(name)) };
    if let Some(claim_ref) = &address.spec.claim_ref {
        let ours = claim_ref.key() == claim.key();
        let stale = ours && claim_ref.uid().is_some_and(|uid| Some(uid) != claim.metadata.uid.as_deref());
        let given = ours && !stale;
        return Err(match address.phase() {
            // Bound to this claim, and not serving it.
            AddressPhase::Lost if given => words::ill(&address),
            _ if given => words::named_unavailable(name, &address),
            _ if stale => words::named_stale(name),
            _ => words::named_taken(name),
        });
    }
    if index.assumed_for(&key).is_some() {
        return Err(words::named_taken(name));
    }
    if address.spec.class_name != wish.class {
        return Err(words::named_of_class(name, &address.spec.class_name, &wish.class));
    }
    if let Ok(ip) = address.ip()
        && ip.family() != wish.family
    {
        return Err(words::named_of_family(name, ip.family(), wish.family));
    }
    match index.free_for(&address) {
        Some(_) => Ok(Arc::clone(&address)),
        None => Err(words::named_unavailable(name, &address)),
    }
}
