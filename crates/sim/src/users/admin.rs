//! What admins do, within their rights.

use ::metallb::errand::{Step, Write, adopt};
use api::ClaimKey;
use api::wellknown::{AUTO_CLAIM_CLASS, CLAIM_PROTECTION, DEFAULT_CLASS, driver};
use kube::ResourceExt;
use plan::{Execution, Kind, Object, Ref};
use serde_json::json;

use super::Op;
use super::apply::{create, delete, finalizer, ip, patch, refused};
use super::objects::{self, address_name, claim_key, lurker_key, namespace_ref, pool_ref};
use crate::metallb::NAMESPACE;
use crate::world::env::Env;

/// Does it.
pub fn administer(env: &mut Env, op: &Op) {
    match op {
        Op::CreateStatic { ip: number, class, claim } => {
            let ip = ip(env, *number);
            let claim = claim.map(claim_key);
            // Open (docs/simulator.md): one that no driver holds makes reservations from its pool go round.
            if env.server.get(&Ref::class(class)).is_none() {
                return;
            }
            create(env, &objects::static_address(&ip, class, claim.as_ref()));
        }
        Op::ClearClaimRef(number) => {
            // What an admin may do: recycle what is `Released`.
            let name = address_name(&ip(env, *number));
            if let Some(Object::Address(address)) = env.server.get(&Ref::address(&name))
                && address.phase() == api::address::AddressPhase::Released
            {
                patch(env, &Ref::address(&name), json!({ "spec": { "claimRef": null } }));
            }
        }
        Op::Prebind { ip: number, claim } => {
            let name = address_name(&ip(env, *number));
            if let Some(Object::Address(address)) = env.server.get(&Ref::address(&name))
                && address.spec.claim_ref.is_none()
            {
                let to = claim_key(*claim);
                let to = json!({ "namespace": to.namespace, "name": to.name });
                patch(env, &Ref::address(&name), json!({ "spec": { "claimRef": to } }));
            }
        }
        Op::DeleteAddress(number) => {
            let name = address_name(&ip(env, *number));
            delete(env, &Ref::address(&name));
        }
        Op::AddressPolicy { ip: number, delete } => {
            let policy = if *delete { "Delete" } else { "Retain" };
            let name = address_name(&ip(env, *number));
            patch(env, &Ref::address(&name), json!({ "spec": { "reclaimPolicy": policy } }));
        }
        Op::MarkDefault { class, on } => {
            let mark = on.then_some("true");
            let body = json!({ "metadata": { "annotations": { DEFAULT_CLASS: mark } } });
            patch(env, &Ref::class(class), body);
        }
        Op::MarkAutoClaim { class, on } => {
            let mark = on.then_some("true");
            let body = json!({ "metadata": { "annotations": { AUTO_CLAIM_CLASS: mark } } });
            patch(env, &Ref::class(class), body);
        }
        Op::CreateClass(name) => create(env, &objects::class(name, *name == "alt")),
        Op::DeleteClass(name) => {
            let unseen = env.server.all(Kind::Address).any(|object| match object {
                Object::Address(address) => {
                    address.spec.class_name == *name
                        && !address.finalizers().iter().any(|name| name == driver::TEARDOWN)
                }
                _ => false,
            });
            if !unseen {
                super::tamper::excuse_owned(env);
                delete(env, &Ref::class(name));
            }
        }
        Op::RepointClass { class, pool } => {
            patch(env, &Ref::class(class), json!({ "spec": { "parameters": { "pool": pool } } }));
        }
        Op::WidenPool(wide) => {
            let spec = env.server.value(&pool_ref("spare")).map(|pool| pool["spec"]["addresses"].clone());
            // Never fewer than before.
            let wider = if spec == Some(json!(["198.51.100.0/31"])) && *wide {
                json!(["198.51.100.0/31", "198.51.100.8/31"])
            } else {
                json!(["198.51.100.0/30", "198.51.100.8/31"])
            };
            patch(env, &pool_ref("spare"), json!({ "spec": { "addresses": wider } }));
        }
        Op::RelabelNamespace { namespace, value } => {
            let body = json!({ "metadata": { "labels": { "rank": value.to_string() } } });
            patch(env, &namespace_ref(namespace), body);
        }
        Op::Quota { on } => {
            let home = env.config.placeholder_namespace.clone();
            if *on {
                env.server.full_namespaces.insert(home);
            } else {
                env.server.full_namespaces.remove(&home);
            }
        }
        Op::Namespace { namespace, there: true } => create(env, &objects::namespace(namespace)),
        Op::Namespace { namespace, there: false } => delete(env, &namespace_ref(namespace)),
        Op::StripProtection(claim) => {
            finalizer(env, &Ref::claim(&claim_key(*claim)), CLAIM_PROTECTION, false);
        }
        Op::Adopt { service, claim, steps } => adopt(env, *service, *claim, *steps),
        _ => {}
    }
}

/// So many steps of the errand, each planned anew, and nobody else acts meanwhile.
fn adopt(env: &mut Env, service: u8, claim: u8, steps: u8) {
    let wish = adopt::Wish { service: lurker_key(service), claim: claim_key(claim).name, class: None };
    for _ in 0..steps {
        let plan = adopt::plan(&scene(env, &wish), &wish);
        for words in &plan.refused {
            env.say(|| format!("   not adopted: {words}"));
        }
        let Some(Step { line, write: Write::Known(action) }) = plan.steps.into_iter().next() else { return };
        env.say(|| format!("   {line}"));
        let call = Execution::new(vec![*action]).call();
        if let Some(Err(refusal)) = call.and_then(|call| env.server.write(&call)) {
            return refused(env, &refusal);
        }
    }
}

fn scene(env: &Env, wish: &adopt::Wish) -> adopt::Scene {
    let mut scene = adopt::Scene { metallb_namespace: NAMESPACE.to_owned(), ..adopt::Scene::default() };
    for object in env.server.everything().cloned() {
        scene.enter(object);
    }
    let claim = Ref::claim(&ClaimKey::new(&wish.service.namespace, &wish.claim));
    if let Some(Object::Claim(claim)) = env.server.get(&claim) {
        scene.claim = Some(claim.clone());
    }
    scene
}
