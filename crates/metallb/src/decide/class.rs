//! Contract §8: classes. May new reservations be made, and what is said if not.

use std::collections::BTreeMap;

use api::conditions::{clear, set, types};
use api::wellknown::{AUTO_CLAIM_CLASS, driver};
use api::{Family, IPAddressClass, IPAddressClassStatus};
use kube::ResourceExt;
use plan::{Action, Event, Moment, Object, Plan, Target};

use crate::index::Index;
use crate::parse::class;
use crate::parse::pool::Pool;

use super::ledger::status_patch;

/// Why a class is refused for new reservations. What exists stays held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason of the condition `Accepted`.
    pub reason: &'static str,
    /// One sentence: what is wrong, and the way out.
    pub message: String,
}

/// Whether the class is this driver's.
pub fn is_served(class: &IPAddressClass) -> bool {
    class.spec.provisioner == driver::PROVISIONER
}

/// Whether plain Services get their claims from this class.
pub fn is_auto_claim(class: &IPAddressClass) -> bool {
    class.annotations().get(AUTO_CLAIM_CLASS).is_some_and(|value| value == "true")
}

/// The pool from which new addresses of the class are drawn.
///
/// # Errors
/// Why none are drawn.
pub fn verdict(index: &Index, class: &IPAddressClass) -> Result<String, Refusal> {
    let name = class.name_any();
    let refuse = |reason, message| Err(Refusal { reason, message });
    let pool_name = match class::pool_name(class.spec.parameters.as_ref()) {
        Ok(pool) => pool,
        Err(error) => return refuse("InvalidParameters", error.to_string()),
    };
    let namespace = &index.config.metallb_namespace;
    let Some(pool) = index.pool(&pool_name) else {
        let message = format!(
            "IPAddressPool {namespace}/{pool_name} does not exist; create it or change spec.parameters.pool"
        );
        return refuse("PoolNotFound", message);
    };
    if let Some(entry) = &pool.unreadable {
        let message = format!(
            "IPAddressPool {namespace}/{pool_name} has {entry:?} in spec.addresses, which is neither a CIDR nor a range a-b; \
             mend it: until then MetalLB takes in no change of any pool"
        );
        return refuse("PoolUnreadable", message);
    }
    if pool.auto_assign {
        let message = format!(
            "IPAddressPool {namespace}/{pool_name} gives its addresses to any Service; set its spec.autoAssign to false"
        );
        return refuse("PoolAutoAssigns", message);
    }
    let others = index.other_classes_of_pool(&pool_name, &name);
    if !others.is_empty() {
        let others = others.join(", ");
        let message =
            format!("pool {pool_name} is also named by class {others}; give each class a pool of its own");
        return refuse("PoolNamedTwice", message);
    }
    let home = &index.config.placeholder_namespace;
    if let Err(words) = admits_placeholders(index, pool) {
        let message = format!(
            "IPAddressPool {namespace}/{pool_name} cannot hold placeholders: {words} of namespace {home}; admit it"
        );
        return refuse("PoolUnserviceable", message);
    }
    Ok(pool_name)
}

/// Whether placeholders may have addresses of the pool.
///
/// # Errors
/// The words that say why not, to be followed by the namespace.
pub(super) fn admits_placeholders(index: &Index, pool: &Pool) -> Result<(), &'static str> {
    let home = &index.config.placeholder_namespace;
    let labels = BTreeMap::from([(driver::PLACEHOLDER.to_owned(), "true".to_owned())]);
    pool.admits(home, &index.namespace_labels(home), &labels)
}

pub(super) fn decide(index: &Index, name: &str, moment: &Moment) -> Plan {
    let mut plan = Plan::default();
    let Some(class) = index.classes.get(&name.to_owned()).filter(|class| is_served(class)) else {
        return plan;
    };
    let object = Object::Class(class.clone());
    let verdict = verdict(index, &class);
    let generation = class.metadata.generation;
    let old = class.status.clone().unwrap_or_default();
    let mut conditions = old.conditions.clone();
    let (accepted, reason, message) = match &verdict {
        Ok(pool) => (true, "Accepted", format!("new addresses are drawn from IPAddressPool {pool}")),
        Err(refusal) => (false, refusal.reason, refusal.message.clone()),
    };
    for kind in [types::ACCEPTED, types::READY] {
        set(&mut conditions, moment.now, generation, kind, accepted, reason, &message);
    }
    for family in Family::ALL {
        let kind = types::available(family);
        match index.has_family(family) {
            Some(true) => {
                clear(&mut conditions, kind);
            }
            Some(false) => {
                let message = format!(
                    "the cluster has no {family} service range (--service-cluster-ip-range of its API server): claims of that family, or of Dual, wait for one"
                );
                set(&mut conditions, moment.now, generation, kind, false, "FamilyNotConfigured", &message);
            }
            // What was known of it before this process began stands until it is known again.
            None => {}
        }
    }
    let new = IPAddressClassStatus {
        load_balancer_class: index.config.lb_class.clone(),
        pool: class::pool_name(class.spec.parameters.as_ref()).ok(),
        conditions,
        observed_generation: generation,
    };
    if let Some(body) = status_patch(&old, &new) {
        plan.push(Action::patch_status(Target::of(&object), body));
    }
    if let Err(refusal) = verdict {
        plan.standing.push(Event::warning(&object, "PoolRefused", "Accept", refusal.message));
    }
    if is_auto_claim(&class) {
        auto_claim(index, &object, &mut plan);
    }
    plan
}

/// What keeps a class that is marked for auto-claim from being one.
fn auto_claim(index: &Index, object: &Object, plan: &mut Plan) {
    if let Some(lb_class) = &index.config.lb_class {
        let note = format!(
            "auto-claimed Services carry no spec.loadBalancerClass, and this class serves {lb_class:?} only; \
             remove the annotation {AUTO_CLAIM_CLASS}"
        );
        plan.standing.push(Event::warning(object, "AutoClaimUnservable", "Accept", note));
    }
    let name = object.meta().name.clone().unwrap_or_default();
    let others: Vec<_> = index.auto_claim_classes().filter(|other| **other != name).cloned().collect();
    if !others.is_empty() {
        let note = format!(
            "class {} is marked for auto-claim too, and none is guessed; remove the annotation {AUTO_CLAIM_CLASS} from all but one",
            others.join(", ")
        );
        plan.standing.push(Event::warning(object, "AutoClaimUnservable", "Accept", note));
    }
}
