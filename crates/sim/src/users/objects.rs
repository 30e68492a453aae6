//! The objects that users make.

use ::metallb::Config;
use api::wellknown::{CLAIM, driver, metallb as names};
use api::{AddressName, ClaimKey, ServiceKey};
use plan::{Kind, Object, Ref};
use serde_json::{Value, json};

use crate::metallb::NAMESPACE;
use crate::profile::Setup;
use crate::server::decode;
use crate::world::env::Env;

pub fn namespace_of(number: u8) -> &'static str {
    ["tenant-a", "tenant-b"][usize::from(number % 2)]
}

pub fn claim_key(number: u8) -> ClaimKey {
    ClaimKey::new(namespace_of(number), format!("c{number}"))
}

pub fn service_key(number: u8) -> ServiceKey {
    ServiceKey::new(namespace_of(number), format!("s{number}"))
}

pub fn lurker_key(number: u8) -> ServiceKey {
    ServiceKey::new(namespace_of(number), format!("lurker{number}"))
}

pub fn pool_ref(name: &str) -> Ref {
    Ref { kind: Kind::Pool, namespace: Some(NAMESPACE.to_owned()), name: name.to_owned() }
}

pub fn namespace_ref(name: &str) -> Ref {
    Ref { kind: Kind::Namespace, namespace: None, name: name.to_owned() }
}

/// The IPs that users name by number: those of the pool `reserved`, as far as it has so many.
pub fn ip(setup_addresses: &[String], number: u8) -> String {
    setup_addresses[usize::from(number) % setup_addresses.len()].clone()
}

pub fn address_name(ip: &str) -> AddressName {
    api::Ip::canonical(ip).unwrap().object_name()
}

pub fn namespace(name: &str) -> Object {
    decode(Kind::Namespace, &json!({ "metadata": { "name": name, "labels": { "name": name } } }))
}

pub fn pool(name: &str, addresses: &[&str], open: bool) -> Object {
    let value = json!({
        "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
        "metadata": { "namespace": NAMESPACE, "name": name },
        "spec": { "addresses": addresses, "autoAssign": open },
    });
    decode(Kind::Pool, &value)
}

pub fn class(name: &str, delete: bool) -> Object {
    let pool = if name == "pub" { "reserved" } else { "spare" };
    let value = json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClass", "metadata": { "name": name },
        "spec": {
            "provisioner": driver::PROVISIONER, "parameters": { "pool": pool },
            "reclaimPolicy": if delete { "Delete" } else { "Retain" },
        },
    });
    decode(Kind::Class, &value)
}

pub fn claim(number: u8, class: Option<&str>, family: &str, address: Option<&str>) -> Object {
    let key = claim_key(number);
    let mut spec = json!({ "family": family });
    if let Some(class) = class {
        spec["className"] = json!(class);
    }
    if let (Some(address), false) = (address, family == "Dual") {
        spec["addressName"] = json!(address);
    }
    let value = json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClaim",
        "metadata": { "namespace": key.namespace, "name": key.name }, "spec": spec,
    });
    decode(Kind::Claim, &value)
}

pub fn static_address(ip: &str, class: &str, claim: Option<&ClaimKey>) -> Object {
    let mut spec = json!({ "className": class, "address": ip, "source": { "providerRef": { "id": ip } } });
    if let Some(claim) = claim {
        spec["claimRef"] = json!({ "namespace": claim.namespace, "name": claim.name });
    }
    let value = json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
        "metadata": { "name": address_name(ip).as_str() }, "spec": spec,
    });
    decode(Kind::Address, &value)
}

/// A `LoadBalancer` Service.
pub fn service(
    config: &Config,
    key: &ServiceKey,
    annotations: Value,
    port: i32,
    local: bool,
    families: &[&str],
) -> Object {
    let policy = if families.len() > 1 { "RequireDualStack" } else { "SingleStack" };
    let value = json!({
        "metadata": { "namespace": key.namespace, "name": key.name, "annotations": annotations },
        "spec": {
            "type": "LoadBalancer", "selector": { "app": key.name }, "ports": [{ "port": port }],
            "externalTrafficPolicy": if local { "Local" } else { "Cluster" },
            "loadBalancerClass": config.lb_class, "ipFamilies": families, "ipFamilyPolicy": policy,
        },
    });
    decode(Kind::Service, &value)
}

/// The edit that makes a load balancer a `ClusterIP`.
pub fn made_cluster_ip() -> Value {
    json!({ "spec": {
        "type": "ClusterIP", "externalTrafficPolicy": null, "loadBalancerClass": null,
        "allocateLoadBalancerNodePorts": null,
    } })
}

pub fn claiming(claim: Option<u8>) -> Value {
    claim.map_or_else(|| json!({}), |claim| json!({ CLAIM: claim_key(claim).name }))
}

pub fn waiting_for(pool: &str) -> Value {
    json!({ names::POOL: pool })
}

/// The cluster before anybody acts: namespaces, pools, classes.
pub fn found(env: &mut Env, setup: &Setup) {
    let mut objects: Vec<Object> = ["tenant-a", "tenant-b", &setup.config.placeholder_namespace, NAMESPACE]
        .into_iter()
        .map(namespace)
        .collect();
    objects.push(pool("reserved", &setup.addresses, false));
    objects.push(pool("spare", &["198.51.100.0/31"], false));
    objects.push(pool("open", &["203.0.113.0/31"], true));
    objects.push(class("pub", setup.delete));
    objects.push(class("alt", !setup.delete));
    env.named_ips = setup.addresses.iter().flat_map(|range| ips(range)).collect();
    for object in &objects {
        env.server.create(object).unwrap();
    }
    env.spread();
}

/// The IPs of a short range.
fn ips(range: &str) -> Vec<String> {
    if let Some((first, last)) = range.split_once('-') {
        let last_octet = |text: &str| text.rsplit('.').next().unwrap().parse::<u8>().unwrap();
        let prefix = first.rsplit_once('.').unwrap().0;
        return (last_octet(first)..=last_octet(last)).map(|octet| format!("{prefix}.{octet}")).collect();
    }
    let net: ipnet::IpNet = range.parse().unwrap();
    match net {
        ipnet::IpNet::V4(net) => {
            let all = u32::from(net.network())..=u32::from(net.broadcast());
            all.map(|bits| std::net::Ipv4Addr::from(bits).to_string()).collect()
        }
        ipnet::IpNet::V6(net) => {
            let all = u128::from(net.network())..=u128::from(net.broadcast());
            all.map(|bits| std::net::Ipv6Addr::from(bits).to_string()).collect()
        }
    }
}
