//! What must hold, each as a sentence of the contract.

pub mod holders;
pub mod rest;
pub mod writes;

use std::collections::{BTreeMap, BTreeSet};

use api::{AddressName, IPAddress, ServiceKey};
use kube::ResourceExt;
use plan::{Kind, Object};

use crate::server::Server;
use crate::world::env::{Env, Violation};
use holders::{
    holders_of, ip_to_hold, is_its_placeholder, is_kept, is_observed, is_own, is_reserved, is_rightful,
};

const HELD: &str = "§10: from record to teardown an IP is with its placeholder or its rightful Service, at every single step";
const OTHERS: &str = "§10: an IP held for a claim is never with another";
const KEPT: &str =
    "§5, §6: an address goes only by its own policy or by who deletes it, and never while its claim lives";

/// The law of one world, and what is excused from it at this moment.
#[derive(Clone, Debug, Default)]
pub struct Law {
    /// Handoffs go through gaps, or Services go without a handoff: an address may be with nobody for a moment, and a
    /// stranger who waits may be given it.
    pub gaps: bool,
    /// The addresses that were held once: from then on they are, until their teardown.
    armed: BTreeSet<(AddressName, String)>,
    /// Addresses whose hold somebody broke from outside, and how: until they are held again and nothing is under way.
    excused: BTreeMap<AddressName, &'static str>,
    /// Addresses that were recorded by a call that outlived its claim, until they are held anew.
    for_nobody: BTreeSet<AddressName>,
    /// What users deleted by hand.
    deleted_by_hand: BTreeSet<String>,
    /// Whether anything was ever excused in this world.
    lenient: bool,
}

impl Law {
    pub fn new(gaps: bool) -> Self {
        Self { gaps, ..Self::default() }
    }

    /// Whether somebody of this world ever broke a hold from outside.
    pub fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Somebody breaks the hold of this address from outside.
    pub fn excuse(&mut self, address: AddressName, why: &'static str) {
        self.lenient = true;
        self.excused.insert(address, why);
    }

    /// The address was recorded by a call that outlived its claim: nobody was told of it, and the sweep may be about to
    /// delete the placeholder. It counts from its next hold.
    pub fn recorded_for_nobody(&mut self, address: AddressName) {
        self.for_nobody.insert(address);
    }

    pub fn is_excused(&self, address: &AddressName) -> bool {
        self.excused.contains_key(address)
    }

    /// A user deletes the object of this uid, or the core does by its policy.
    pub fn deleted_by_hand(&mut self, uid: String) {
        self.deleted_by_hand.insert(uid);
    }

    /// An object is gone: an address must have had a reason.
    pub fn gone(&self, object: &Object, server: &Server) -> Option<Violation> {
        let Object::Address(address) = object else { return None };
        let uid = address.metadata.uid.clone().unwrap_or_default();
        let by_policy = address.spec.reclaim_policy == api::ReclaimPolicy::Delete;
        let allowed = is_observed(address) || by_policy || self.deleted_by_hand.contains(&uid);
        let lost = address.phase() == api::address::AddressPhase::Lost
            || address.phase() == api::address::AddressPhase::Pending;
        if allowed && (lost || !writes::is_claimed(server, address)) {
            return None;
        }
        Some(Violation { law: KEPT, words: format!("IPAddress {} is gone", address.name_any()) })
    }
}

/// Looks at every address of the ledger.
pub fn check(env: &mut Env) {
    let addresses: Vec<_> = env
        .server
        .all(Kind::Address)
        .filter_map(|object| match object {
            Object::Address(address) if !is_observed(address) => Some(std::sync::Arc::clone(address)),
            _ => None,
        })
        .collect();
    for address in addresses {
        if let Some((law, words)) = look(env, &address) {
            env.violated(law, words);
        }
    }
}

fn look(env: &mut Env, address: &IPAddress) -> Option<(&'static str, String)> {
    let ip = ip_to_hold(address)?;
    let holders = holders_of(&env.server, &env.metallb, ip);
    let rightful = |holder: &ServiceKey| is_rightful(&env.server, &env.config, address, holder);
    let wrong = holders.iter().find(|holder| !rightful(holder));
    let id = (address.key(), address.metadata.uid.clone().unwrap_or_default());
    if env.law.is_excused(&id.0) {
        // Nobody can do anything but wait: what was broken is mended, if it can be.
        let fast = holders.iter().all(|holder| {
            let known = is_its_placeholder(&env.server, &env.config, address, holder)
                || address.associated_to().is_some();
            known && is_kept(&env.server, &env.config, holder) && holders::shows(&env.server, holder, ip)
        });
        if env.quiet && wrong.is_none() && !holders.is_empty() && fast && !env.metallb.down {
            env.law.excused.remove(&id.0);
        }
        return None;
    }
    if env.law.for_nobody.contains(&id.0) {
        let hold = format!("iad-{}", address.name_any());
        if wrong.is_none()
            && holders.iter().any(|holder| holder.name == hold || address.associated_to().is_some())
        {
            env.law.for_nobody.remove(&id.0);
        }
        return None;
    }
    // What is about to be adopted goes with its Service until the driver has put its finalizer there.
    let own = |holder: &ServiceKey| is_kept(&env.server, &env.config, holder) && is_own(env, address, holder);
    if (is_reserved(&env.server, address) || holders.iter().any(own)) && !env.metallb.down {
        env.law.armed.insert(id.clone());
    }
    if !env.law.armed.contains(&id) || env.law.gaps {
        return None;
    }
    if holders.is_empty() {
        return Some((HELD, format!("{ip} is with nobody")));
    }
    wrong.map(|wrong| (OTHERS, format!("{ip} is with {wrong}")))
}
