//! Doing what users do. An edit of what is not there is no edit; one that the API server refuses is refused.

use api::wellknown::{AUTO_CLAIM, CLAIM, driver, metallb as names};
use api::{AddressName, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use plan::{Kind, Object, Ref};
use serde_json::{Value, json};

use super::Op;
use super::objects::{self, address_name, claim_key, lurker_key, service_key, waiting_for};
use crate::server::Refusal;
use crate::world::World;
use crate::world::env::{Env, Side};

/// A foreign finalizer.
const FOREIGN: &str = "example.org/keep";

/// Somebody does it, or it goes wrong.
pub fn apply(world: &mut World, op: &Op) {
    world.env.say(|| format!("== {op:?}"));
    if op.is_fault() {
        fault(world, op);
    } else {
        edit(&mut world.env, op);
    }
}

fn fault(world: &mut World, op: &Op) {
    if world.env.law.is_lenient()
        && matches!(op, Op::MetalLbRestarts | Op::MetalLbStops)
        && !world.env.metallb.is_idle()
    {
        super::hands::excuse_every_address(&mut world.env, "MetalLB stopped before it had seen an edit");
    }
    let here = |number: &u8, count: usize| usize::from(*number) % count;
    match op {
        Op::Crash(side, number) => {
            let number = here(number, world.core.len());
            world.crash(*side, number, "killed");
        }
        Op::Pause { side, number, millis } => {
            let until = world.env.now() + millis;
            let number = here(number, world.core.len());
            match side {
                Side::Core => world.core[number].paused_until = until,
                Side::Driver => world.driver[number].paused_until = until,
            }
        }
        Op::Cut(side, number, kind) => {
            let number = here(number, world.core.len());
            match side {
                Side::Core => world.core[number].cut(*kind),
                Side::Driver => world.driver[number].cut(*kind),
            }
        }
        Op::Silence { side, number, kind, millis } => {
            let until = world.env.now() + millis;
            let number = here(number, world.core.len());
            match side {
                Side::Core => world.core[number].silence(*kind, until),
                Side::Driver => world.driver[number].silence(*kind, until),
            }
        }
        Op::Call(fault) => world.env.call_faults.push_back(*fault),
        Op::MetalLbRestarts => world.env.metallb.restart(&mut world.env.server),
        Op::MetalLbStops => world.env.metallb.down = true,
        _ => {}
    }
}

fn edit(env: &mut Env, op: &Op) {
    if matches!(op, Op::Label { .. } | Op::RelabelNamespace { .. } | Op::Namespace { .. })
        && super::hands::is_any_pool_restricted(env)
    {
        super::hands::excuse_every_address(env, "whom its pool serves depends on a label");
    }
    if let Op::Ports { service, .. } | Op::Policy { service, .. } = op {
        super::hands::excuse_half_shared(env, &service_key(*service));
    }
    match op {
        Op::CreateClaim { claim, class, family, address } => {
            let name = address.map(|number| address_name(&ip(env, number)).to_string());
            let family =
                if name.as_deref().is_some_and(|name| name.contains("db8")) { "IPv6" } else { family };
            create(env, &objects::claim(*claim, *class, family, name.as_deref()));
        }
        Op::DeleteClaim(claim) => delete(env, &Ref::claim(&claim_key(*claim))),
        Op::WidenClaim(claim) => {
            patch(env, &Ref::claim(&claim_key(*claim)), json!({ "spec": { "family": "Dual" } }));
        }
        Op::CreateService { service, claim, local, port, families } => {
            let annotations = objects::claiming(*claim);
            let key = service_key(*service);
            let object = objects::service(&env.config, &key, annotations, *port, *local, families);
            create(env, &object);
        }
        Op::DeleteService(service) => delete(env, &Ref::service(&service_key(*service))),
        Op::Annotate { service, claim } => {
            let name = claim.map(|claim| claim_key(claim).name);
            annotate(env, &service_key(*service), json!({ CLAIM: name }));
        }
        Op::Ports { service, port } => {
            patch(
                env,
                &Ref::service(&service_key(*service)),
                json!({ "spec": { "ports": [{ "port": port }] } }),
            );
        }
        Op::Policy { service, local } => {
            let policy = if *local { "Local" } else { "Cluster" };
            let body = json!({ "spec": { "externalTrafficPolicy": policy } });
            patch(env, &Ref::service(&service_key(*service)), body);
        }
        Op::ForeignFinalizer { service, on } => {
            finalizer(env, &Ref::service(&service_key(*service)), FOREIGN, *on);
        }
        Op::Label { service, value } => {
            let body = json!({ "metadata": { "labels": { "rank": value.to_string() } } });
            patch(env, &Ref::service(&service_key(*service)), body);
        }
        Op::OptOut { service, on } => {
            annotate(env, &service_key(*service), json!({ AUTO_CLAIM: on.then_some("false") }));
        }
        Op::Lurk { service, v6 } => {
            let families: &[&str] = if *v6 { &["IPv6"] } else { &["IPv4"] };
            let key = lurker_key(*service);
            let object = objects::service(&env.config, &key, waiting_for("reserved"), 80, false, families);
            if env.server.get(&Ref::service(&key)).is_some() {
                delete(env, &Ref::service(&key));
            } else {
                create(env, &object);
            }
        }
        Op::CreateStatic { .. }
        | Op::ClearClaimRef(_)
        | Op::Prebind { .. }
        | Op::DeleteAddress(_)
        | Op::AddressPolicy { .. }
        | Op::MarkDefault { .. }
        | Op::MarkAutoClaim { .. }
        | Op::CreateClass(_)
        | Op::DeleteClass(_)
        | Op::RepointClass { .. }
        | Op::WidenPool(_)
        | Op::RelabelNamespace { .. }
        | Op::Quota { .. }
        | Op::Namespace { .. }
        | Op::StripProtection(_)
        | Op::Adopt { .. } => super::admin::administer(env, op),
        _ => super::hands::break_in(env, op),
    }
}

/// The IP of a number: of those that the pool `reserved` began with.
pub fn ip(env: &Env, number: u8) -> String {
    objects::ip(&env.named_ips, number)
}

pub fn refused(env: &mut Env, refusal: &Refusal) {
    env.say(|| format!("   not done: {refusal:?}"));
}

pub fn create(env: &mut Env, object: &Object) {
    if let Err(refusal) = env.server.create(object) {
        refused(env, &refusal);
    }
}

pub fn delete(env: &mut Env, reference: &Ref) {
    if let Some(object) = env.server.get(reference) {
        let uid = object.meta().uid.clone().unwrap_or_default();
        env.law.deleted_by_hand(uid);
    }
    if let Err(refusal) = env.server.delete(reference, None) {
        refused(env, &refusal);
    }
}

pub fn patch(env: &mut Env, reference: &Ref, body: Value) {
    if let Err(refusal) = env.server.patch(reference, false, &body, None) {
        refused(env, &refusal);
    }
}

pub fn patch_status(env: &mut Env, reference: &Ref, status: Value) {
    if let Err(refusal) = env.server.patch(reference, true, &json!({ "status": status }), None) {
        refused(env, &refusal);
    }
}

pub fn annotate(env: &mut Env, key: &ServiceKey, annotations: Value) {
    patch(env, &Ref::service(key), json!({ "metadata": { "annotations": annotations } }));
}

pub fn service(env: &Env, key: &ServiceKey) -> Option<std::sync::Arc<Service>> {
    env.server.service(key).cloned()
}

/// Puts a finalizer on what is there, or takes it off.
pub fn finalizer(env: &mut Env, reference: &Ref, name: &str, on: bool) {
    let Some(object) = env.server.get(reference) else { return };
    let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
    finalizers.retain(|one| one != name);
    if on {
        finalizers.push(name.to_owned());
    }
    patch(env, reference, json!({ "metadata": { "finalizers": finalizers } }));
}

/// The addresses that the Service has by the ledger, or shows.
pub fn addresses_of(env: &Env, key: &ServiceKey) -> Vec<AddressName> {
    let shown = service(env, key).map(|service| crate::metallb::ingress(&service)).unwrap_or_default();
    let all = env.server.all(Kind::Address).filter_map(|object| match object {
        Object::Address(address) => Some(address),
        _ => None,
    });
    let has = all.filter(|address| {
        let to = address.associated_to();
        let named = to.is_some_and(|to| to.key() == *key);
        named || shown.contains(&address.spec.address)
    });
    has.map(|address| address.key()).collect()
}

/// Marks that the driver puts on a Service.
pub fn marks() -> Value {
    json!({ names::PIN: null, driver::PINNED: null })
}
