//! Who breaks a hold from outside. Each operation excuses exactly the addresses that it may take off their holder,
//! until they are held again with nothing under way.

use api::wellknown::{driver, metallb as names};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Kind, Object, Ref};
use serde_json::json;

use super::Op;
use super::apply::{
    addresses_of, annotate, create, delete, finalizer, ip, marks, patch, patch_status, service,
};
use super::objects::{self, address_name, lurker_key, pool_ref, service_key};
use super::tamper;
use crate::metallb::ingress;
use crate::world::env::Env;

/// Does it, and excuses what it breaks.
pub fn break_in(env: &mut Env, op: &Op) {
    if env.metallb.down {
        excuse_every_address(
            env,
            "edited while MetalLB was away: when it starts, who is to get another IP may go first",
        );
    }
    match op {
        Op::Type { service: number, on } => {
            let key = service_key(*number);
            excuse_all_of(env, &key, "its Service was made another type: the API server frees the IP");
            let body = if *on {
                json!({ "spec": { "type": "LoadBalancer", "loadBalancerClass": env.config.lb_class } })
            } else {
                objects::made_cluster_ip()
            };
            patch(env, &Ref::service(&key), body);
        }
        Op::CutPool { keep } => {
            excuse_every_address(env, "its pool was cut");
            let all = env.named_ips.clone();
            let kept: Vec<_> = all.iter().take(usize::from(*keep)).map(|ip| format!("{ip}-{ip}")).collect();
            let kept = if kept.is_empty() { vec!["192.0.2.200-192.0.2.201".to_owned()] } else { kept };
            patch(env, &pool_ref("reserved"), json!({ "spec": { "addresses": kept } }));
        }
        Op::RenamePool => {
            excuse_every_address(env, "its pool was renamed");
            let old = env.server.value(&pool_ref("reserved")).cloned();
            delete(env, &pool_ref("reserved"));
            if let Some(old) = old {
                let texts: Vec<_> = old["spec"]["addresses"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|text| text.as_str())
                    .collect();
                create(env, &objects::pool("renamed", &texts, false));
            } else {
                let all: Vec<_> = env.named_ips.iter().map(|ip| format!("{ip}-{ip}")).collect();
                let texts: Vec<_> = all.iter().map(String::as_str).collect();
                delete(env, &pool_ref("renamed"));
                create(env, &objects::pool("reserved", &texts, false));
            }
        }
        Op::Admit { whom } => {
            excuse_every_address(env, "its pool is for some Services only");
            let rules = [
                json!(null),
                json!({ "namespaces": ["tenant-a", env.config.placeholder_namespace] }),
                json!({ "namespaces": ["tenant-a"] }),
                json!({ "serviceSelectors": [
                    { "matchExpressions": [{ "key": driver::PLACEHOLDER, "operator": "Exists" }] },
                    { "matchLabels": { "rank": "1" } },
                ] }),
                json!({ "priority": 10, "namespaceSelectors": [{ "matchLabels": { "rank": "1" } }] }),
            ];
            let rule = rules[usize::from(*whom) % rules.len()].clone();
            patch(env, &pool_ref("reserved"), json!({ "spec": { "serviceAllocation": rule } }));
        }
        Op::AvoidBuggyIps(on) => {
            excuse_every_address(env, "its pool avoids some IPs");
            patch(env, &pool_ref("reserved"), json!({ "spec": { "avoidBuggyIPs": on } }));
        }
        Op::DeletePlaceholder(number) => {
            let name = address_name(&ip(env, *number));
            excuse(env, &name, "its placeholder was deleted by hand");
            tamper::delete_placeholder_of(env, &name);
        }
        Op::StripMarks { service: number, all } => {
            let key = service_key(*number);
            excuse_all_of(env, &key, "our marks were taken off its Service");
            let mut body = json!({ "metadata": { "annotations": marks() } });
            if *all {
                body["metadata"]["labels"] = json!({ driver::ASSOCIATED: null });
            }
            patch(env, &Ref::service(&key), body);
        }
        Op::StripFinalizer(number) => {
            let key = service_key(*number);
            excuse_all_of(env, &key, "our finalizer was taken off its Service");
            finalizer(env, &Ref::service(&key), driver::HANDOFF, false);
        }
        Op::Repin { service: number, ip: other } => {
            let key = service_key(*number);
            excuse_all_of(env, &key, "the pin of its Service was edited");
            let ip = ip(env, *other);
            excuse(env, &address_name(&ip), "a Service was pinned to it by hand");
            annotate(env, &key, json!({ names::PIN: ip }));
        }
        Op::AskPool { service: number, pool } => {
            let key = service_key(*number);
            excuse_all_of(env, &key, "its Service asks for a pool by hand");
            let pool = Some(pool).filter(|pool| !pool.is_empty());
            annotate(env, &key, json!({ names::POOL: pool }));
        }
        Op::EditPlaceholder { placeholder, edit, ip } => tamper::edit(env, *placeholder, *edit, *ip),
        Op::StripTeardown(number) => {
            let name = address_name(&ip(env, *number));
            excuse(env, &name, "our finalizer was taken off it");
            let Some(Object::Address(address)) = env.server.get(&Ref::address(&name)) else { return };
            // One that is being deleted would be gone by it: nobody of ours can help that.
            if address.metadata.deletion_timestamp.is_some() {
                return;
            }
            finalizer(env, &Ref::address(&name), driver::TEARDOWN, false);
        }
        Op::Families { service: number, dual } => {
            let key = service_key(*number);
            excuse_all_of(env, &key, "the families of its Service were edited");
            let spec = if *dual {
                json!({ "ipFamilyPolicy": "RequireDualStack" })
            } else {
                let first = service(env, &key)
                    .and_then(|service| service.spec.as_ref()?.ip_families.as_ref()?.first().cloned());
                json!({ "ipFamilyPolicy": "SingleStack", "ipFamilies": first.map(|first| [first]) })
            };
            patch(env, &Ref::service(&key), json!({ "spec": spec }));
        }
        Op::LoadBalancerIp { service: number, ip: other } => {
            let key = service_key(*number);
            excuse_all_of(env, &key, "its Service asks for an IP in its spec");
            let ip = other.map(|other| ip(env, other));
            if let Some(ip) = &ip {
                excuse(env, &address_name(ip), "a Service asks for it in its spec");
            }
            patch(env, &Ref::service(&key), json!({ "spec": { "loadBalancerIP": ip } }));
        }
        _ => steal(env, op),
    }
}

fn steal(env: &mut Env, op: &Op) {
    match op {
        Op::Steal { service: number, ip: other } => {
            let ip = ip(env, *other);
            excuse(env, &address_name(&ip), "a stranger is pinned to it");
            let families = [if ip.contains(':') { "IPv6" } else { "IPv4" }];
            let key = lurker_key(*number);
            excuse_all_of(env, &key, "the pin of its Service was edited");
            let pin = json!({ names::PIN: ip });
            create(env, &objects::service(&env.config, &key, pin.clone(), 80, false, &families));
            annotate(env, &key, pin);
        }
        Op::ForgeLabel { service: number, ip: other } => {
            let name = address_name(&ip(env, *other));
            let labels = json!({ driver::PLACEHOLDER: "true", driver::IP_ADDRESS: name.as_str() });
            patch(env, &Ref::service(&lurker_key(*number)), json!({ "metadata": { "labels": labels } }));
        }
        Op::ForgeStatus { service: number, ip: other } => {
            let key = service_key(*number);
            let ip = ip(env, *other);
            excuse(env, &address_name(&ip), "its IP was written into the status of a stranger");
            excuse_all_of(env, &key, "the status of its Service was forged");
            patch_status(env, &Ref::service(&key), json!({ "loadBalancer": { "ingress": [{ "ip": ip }] } }));
        }
        Op::ExternalIp { service: number, ip: other } => {
            let ip = ip(env, *other);
            patch(env, &Ref::service(&lurker_key(*number)), json!({ "spec": { "externalIPs": [ip] } }));
        }
        Op::ForeignKey { service: number, on } => {
            let key = service_key(*number);
            excuse_all_of(env, &key, "a foreign sharing key was put on its Service");
            annotate(env, &key, json!({ names::SHARE: on.then_some("theirs") }));
        }
        Op::EditLedger { ip: other } => {
            let name = address_name(&ip(env, *other));
            excuse(env, &name, "the ledger was edited by hand");
            patch_status(env, &Ref::address(&name), json!({ "associatedTo": null, "phase": "Available" }));
        }
        _ => {}
    }
}

pub fn excuse(env: &mut Env, name: &api::AddressName, why: &'static str) {
    env.law.excuse(name.clone(), why);
}

pub fn excuse_all_of(env: &mut Env, key: &api::ServiceKey, why: &'static str) {
    for name in addresses_of(env, key) {
        env.law.excuse(name, why);
    }
}

/// Whether a pool is for some Services only.
pub fn is_any_pool_restricted(env: &Env) -> bool {
    let pools = ["reserved", "renamed"].into_iter().filter_map(|name| env.server.value(&pool_ref(name)));
    pools.into_iter().any(|pool| !pool["spec"]["serviceAllocation"].is_null())
}

/// Both addresses of a Service that shares one of them with a placeholder and has the other alone by now: an edit by which it can
/// share no more makes MetalLB take both off it.
pub fn excuse_half_shared(env: &mut Env, key: &api::ServiceKey) {
    let share = |service: &Service| service.annotations().get(names::SHARE).cloned();
    let names = addresses_of(env, key);
    if names.len() < 2 {
        return;
    }
    let worn = service(env, key).and_then(|service| share(&service));
    if worn.is_some() && tamper::placeholders(env).iter().any(|placeholder| share(placeholder) == worn) {
        excuse_all_of(env, key, "its Service was edited while it shared the other address");
    }
}

pub fn excuse_every_address(env: &mut Env, why: &'static str) {
    let there = env.server.all(Kind::Address).map(|object| api::AddressName::new(object.reference().name));
    // One may just be about to be entered, or to be recorded.
    let named = env.named_ips.iter().cloned();
    let shown = tamper::placeholders(env).into_iter().flat_map(|one| ingress(&one));
    let to_come = named.chain(shown).map(|ip| address_name(&ip));
    for name in there.chain(to_come).collect::<Vec<_>>() {
        env.law.excuse(name, why);
    }
}
