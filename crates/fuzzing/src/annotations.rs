//! What is read of the annotations of Services (contract §7, §11).

use api::wellknown::{CLAIM, driver, metallb as names};
use api::{ClaimKey, Ip};
use k8s_openapi::api::core::v1::{
    LoadBalancerIngress, LoadBalancerStatus, Service, ServiceSpec, ServiceStatus,
};
use metallb::decide::foreign::unknown_annotations;
use metallb::parse::service::{View, address_in_name, is_our_key, sharing_key};
use plan::{Change, Object};

use crate::brains;

/// Each line is one field, in the order of [`service`].
pub fn hold(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let service = service(&mut text.split('\n'));
    see_pin(&service);
    see_claim(&service);
    see_key(&service);
    see_held(&service);
    _ = unknown_annotations(&service).count();
    brains::see(&[Change::Applied(Object::from(service))]);
}

fn service<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Service {
    let mut next = || lines.next().filter(|line| *line != "-").map(str::to_owned);
    let mut service = Service::default();
    let annotations = [
        names::PIN,
        CLAIM,
        names::SHARE,
        names::POOL,
        driver::PINNED,
        names::PIN_OLD,
        names::SHARE_OLD,
        names::POOL_OLD,
    ];
    let mut given: std::collections::BTreeMap<_, _> =
        annotations.into_iter().filter_map(|name| Some((name.to_owned(), next()?))).collect();
    let meta = &mut service.metadata;
    meta.name = next().or_else(|| Some("web".to_owned()));
    meta.namespace = next().or_else(|| Some("tenant".to_owned()));
    meta.uid = Some("service".to_owned());
    meta.resource_version = Some("9".to_owned());
    let ingress = next().map(|ip| LoadBalancerIngress { ip: Some(ip), ..Default::default() });
    service.spec = Some(ServiceSpec {
        type_: Some("LoadBalancer".to_owned()),
        external_ips: next().map(|ip| vec![ip]),
        load_balancer_ip: next(),
        load_balancer_class: next(),
        ..Default::default()
    });
    let label = next();
    service.metadata.labels = label.map(|label| [(driver::IP_ADDRESS.to_owned(), label)].into());
    // An annotation of any name: misspelt ones are told.
    given.extend(next().map(|name| (name, String::new())));
    service.metadata.annotations = Some(given);
    service.status = ingress.map(|ingress| ServiceStatus {
        load_balancer: Some(LoadBalancerStatus { ingress: Some(vec![ingress]) }),
        ..Default::default()
    });
    service
}

/// A pin written anew in canonical text, with more white space, asks for the same.
fn see_pin(service: &Service) {
    let Ok(ips) = service.pin() else { return };
    if ips.is_empty() {
        return;
    }
    let written: Vec<String> = ips.iter().map(|ip| format!(" {ip}\n")).collect();
    let mut again = service.clone();
    again.metadata.annotations.get_or_insert_default().insert(names::PIN.to_owned(), written.join(","));
    assert_eq!(again.pin(), Ok(ips));
}

fn see_claim(service: &Service) {
    let Some(ClaimKey { namespace, name }) = service.claim() else { return };
    assert_eq!(
        Some(&namespace),
        service.metadata.namespace.as_ref(),
        "a claim is of the Service's own namespace"
    );
    assert!(!name.is_empty() && name.trim() == name, "{name:?}");
}

/// Keys of ours are told from those of others.
fn see_key(service: &Service) {
    let Some(key) = service.sharing_key() else { return };
    assert!(!key.is_empty());
    let bits = key.strip_prefix("iad-").and_then(|bits| u128::from_str_radix(bits, 16).ok());
    if let Some(bits) = bits {
        assert!(is_our_key(&sharing_key(bits)));
        if sharing_key(bits) == key {
            assert!(is_our_key(key), "{key:?} is ours");
        }
    }
    if is_our_key(key) {
        assert_eq!(bits.map(sharing_key).as_deref(), Some(&*key.to_lowercase()));
    }
}

fn see_held(service: &Service) {
    let name = service.metadata.name.as_deref().unwrap_or_default();
    if let Some(address) = address_in_name(name) {
        assert_eq!(format!("iad-{address}"), name);
        assert_eq!(service.held_address().map(|held| held.to_string()).as_deref(), Some(address));
    }
    let shown = service.ingress().into_iter().chain(service.external_ips());
    for ip in shown {
        assert_eq!(Ip::canonical(&ip.to_string()), Ok(ip));
    }
}
