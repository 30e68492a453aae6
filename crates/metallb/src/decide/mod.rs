//! The decisions, in the order of the contract.

pub mod address;
pub mod auto_claim;
pub mod claim;
pub mod class;
pub mod conflict;
pub mod foreign;
pub mod gap;
pub mod handoff;
pub mod inventory;
pub mod ledger;
pub mod marks;
pub mod placeholder;
pub mod rehold;
pub mod service;
pub mod serviceable;
mod trace;
mod unholdable;

use std::sync::Arc;

use api::{ClaimKey, IPAddress, IPAddressClaim};
use plan::{Moment, Plan};

use crate::Key;
use crate::index::Index;

/// Decides what is to be done about a key.
pub fn decide(index: &mut Index, key: &Key, moment: &Moment) -> Plan {
    index.began.get_or_insert(moment.now);
    match key {
        Key::Class(name) => class::decide(index, name, moment),
        Key::Claim(key) => {
            let all = Unit::of_claim(index, key);
            let mut plan = Plan::default();
            foreign::watch(index, &all, moment, &mut plan);
            // What there is goes first: a reservation that the API server refuses ends the plan.
            plan.append(unit(index, &all, moment));
            plan.append(claim::reserve(index, key, moment));
            plan
        }
        Key::Address(name) => match index.addresses.get(name) {
            // Bound meanwhile: decided under its claim's key, which is dirty since then.
            Some(address) if address.spec.claim_ref.is_none() => {
                unit(index, &Unit { key: None, claim: None, addresses: vec![address] }, moment)
            }
            _ => Plan::default(),
        },
        Key::Service(key) => {
            let mut plan = service::strip_stray(index, key);
            inventory::observe(index, key, &mut plan);
            auto_claim::serve(index, key, &mut plan);
            foreign::misspelt(index, key, &mut plan);
            service::crowded_out(index, key, &mut plan);
            plan
        }
        Key::Placeholder(key) => placeholder::sweep(index, key),
    }
}

/// What is decided together: a claim and the addresses whose `claimRef` names it, or one unclaimed address.
pub struct Unit {
    /// The claim's key, whether or not the claim exists.
    pub key: Option<ClaimKey>,
    /// The claim, if it exists.
    pub claim: Option<Arc<IPAddressClaim>>,
    /// The addresses, in name order; only those the driver governs and that stand for their IP.
    pub addresses: Vec<Arc<IPAddress>>,
}

impl Unit {
    fn of_claim(index: &Index, key: &ClaimKey) -> Self {
        Self {
            key: Some(key.clone()),
            claim: index.claims.get(key),
            addresses: index.addresses_of_claim(key),
        }
    }

    /// The claim, if it exists and is not being deleted.
    pub fn live_claim(&self) -> Option<&IPAddressClaim> {
        self.claim.as_deref().filter(|claim| !claim.is_deleting())
    }

    /// Whether the address is bound to the claim as it exists today.
    pub fn owns(&self, address: &IPAddress) -> bool {
        let uid = address.spec.claim_ref.as_ref().and_then(|claim| claim.uid());
        self.live_claim().is_some_and(|claim| uid.is_some() && claim.metadata.uid.as_deref() == uid)
    }
}

fn unit(index: &Index, unit: &Unit, moment: &Moment) -> Plan {
    let mut plan = Plan::default();
    let (observed, addresses): (Vec<_>, Vec<_>) =
        unit.addresses.iter().cloned().partition(|address| inventory::is_observed(address));
    for address in &observed {
        inventory::tend(index, address, moment, &mut plan);
    }
    let trusted = |address: &Arc<IPAddress>| index.is_ours(address) && index.stands(address);
    let unit = Unit {
        key: unit.key.clone(),
        claim: unit.claim.clone(),
        addresses: addresses.into_iter().filter(trusted).collect(),
    };
    for address in &unit.addresses {
        address::ensure_finalizer(address, &mut plan);
    }
    let busy = service::associate(index, &unit, moment, &mut plan);
    // Last of all: who may not create placeholders is to say the more what there is.
    let mut arms = Plan::default();
    for address in unit.addresses.iter().filter(|address| !busy.contains(&address.key())) {
        if address::is_to_be_torn_down(&unit, address) {
            address::tear_down(index, address, moment, &mut plan);
        } else {
            address::hold(index, &unit, address, moment, &mut plan, &mut arms);
        }
    }
    for address in unit.addresses.iter().filter(|address| !address.is_deleting()) {
        conflict::judge(index, &unit, address, moment, &mut plan);
    }
    plan.actions.append(&mut arms.actions);
    plan.standing.append(&mut arms.standing);
    plan
}
