//! May this be adopted? What is in the way is said with the way out.

use std::sync::Arc;

use api::conditions::{find, types};
use api::wellknown::{driver, metallb};
use api::{ClaimKey, IPAddress, IPAddressClaim, IPAddressClass, Ip};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Brain, Change, Kind, Object};

use super::{Scene, WISHES, Wish, family, text};
use crate::decide::class::is_served;
use crate::decide::inventory::is_observed;
use crate::decide::serviceable::serviceable;
use crate::parse::service::{View, is_our_key};
use crate::{Config, Driver};

/// What is adopted.
pub(super) struct Found<'a> {
    pub(super) service: &'a Arc<Service>,
    /// IPv4 before IPv6.
    pub(super) ips: Vec<Ip>,
    /// What the ledger has of each.
    pub(super) addresses: Vec<Option<&'a Arc<IPAddress>>>,
    pub(super) class: &'a Arc<IPAddressClass>,
    pub(super) claim: ClaimKey,
}

/// Everything that must hold before anything is written.
pub(super) fn all<'a>(scene: &'a Scene, wish: &Wish) -> Result<Found<'a>, String> {
    let service = scene.services.iter().find(|service| View::key(&***service) == wish.service);
    let service = service.ok_or("it does not exist; check --service")?;
    let claim = ClaimKey::new(&wish.service.namespace, &wish.claim);
    let ips = shown(scene, service, &claim)?;
    let class = class_of(scene, wish, &ips)?;
    would_be_served(scene, service, class, &ips)?;
    let mut addresses = Vec::new();
    for ip in &ips {
        addresses.push(known(scene, service, &claim, *ip)?);
    }
    let found = Found { service, ips, addresses, class, claim };
    if let Some(claim) = &scene.claim {
        is_for_this(claim, &found)?;
    }
    Ok(found)
}

/// The IPs that the Service alone has.
fn shown(scene: &Scene, service: &Service, claim: &ClaimKey) -> Result<Vec<Ip>, String> {
    if service.is_deleting() {
        return Err("it is being deleted".to_owned());
    }
    if service.labelled(driver::PLACEHOLDER) {
        return Err("it is a placeholder, and holds an address for a claim already".to_owned());
    }
    if let Some(other) = service.claim().filter(|other| other != claim) {
        return Err(format!(
            "it names claim {} already; remove that annotation, or adopt it for that claim",
            other.name
        ));
    }
    let ips: Vec<Ip> = service.ingress().into_iter().collect();
    let families: std::collections::BTreeSet<_> = ips.iter().map(|ip| ip.family()).collect();
    if ips.is_empty() {
        return Err("it has no IP; only what MetalLB serves can be adopted".to_owned());
    }
    if families.len() != ips.len() {
        return Err(format!("it has {}, and a claim has one address of a family", text(&ips, " and ")));
    }
    for name in [metallb::SHARE, metallb::SHARE_OLD] {
        if service.annotation(name).is_some_and(|key| !is_our_key(key)) {
            return Err(format!(
                "annotation {name} is set, and an address of a claim is not shared; remove it (MetalLB leaves the IP \
                 where it is) and run this again"
            ));
        }
    }
    let shares = |other: &&Arc<Service>| {
        other.object_uid() != service.object_uid() && ips.iter().any(|ip| other.ingress().contains(ip))
    };
    match scene.services.iter().find(shares) {
        Some(other) => Err(format!(
            "Service {} has {} as well, and an address of a claim is not shared; take it off one of them",
            View::key(&**other),
            text(&ips, " and ")
        )),
        None => Ok(ips),
    }
}

/// The class whose pool the addresses are of, accepted by the driver as it is now.
fn class_of<'a>(scene: &'a Scene, wish: &Wish, ips: &[Ip]) -> Result<&'a Arc<IPAddressClass>, String> {
    let list = text(ips, " and ");
    let driver = knowing(scene, None);
    let Some((pool, _)) = driver.index().pool_containing(ips) else {
        return Err(format!(
            "no IPAddressPool of namespace {} contains {list}; check --metallb-namespace",
            scene.metallb_namespace
        ));
    };
    let names_pool = |class: &&Arc<IPAddressClass>| {
        let parameters = class.spec.parameters.as_ref();
        is_served(class) && parameters.and_then(|fields| fields.get("pool")).is_some_and(|name| name == pool)
    };
    let mut classes = scene.classes.iter().filter(names_pool);
    let wanted =
        |class: &&Arc<IPAddressClass>| wish.class.as_ref().is_none_or(|name| *name == class.name_any());
    let Some(class) = classes.find(wanted) else {
        return Err(match &wish.class {
            Some(class) => format!(
                "class {class} does not draw from IPAddressPool {pool}, which {list} is of; name the class that does, or none"
            ),
            None => format!(
                "no class draws from IPAddressPool {pool}, which {list} is of; make one with spec.provisioner {} and \
                 spec.parameters.pool: {pool}",
                driver::PROVISIONER
            ),
        });
    };
    let name = class.name_any();
    let status = class.status.clone().unwrap_or_default();
    match find(&status.conditions, types::ACCEPTED) {
        Some(accepted)
            if status.observed_generation != class.metadata.generation || accepted.status == "Unknown" =>
        {
            Err(format!("the driver has not looked at class {name} as it is now; is it running?"))
        }
        Some(accepted) if accepted.status == "True" => Ok(class),
        Some(accepted) => Err(format!("class {name} is not accepted: {}", accepted.message)),
        None => Err(format!("the driver has not looked at class {name} yet; is it running?")),
    }
}

/// As the Service will be, MetalLB goes on serving it.
fn would_be_served(
    scene: &Scene,
    service: &Service,
    class: &IPAddressClass,
    ips: &[Ip],
) -> Result<(), String> {
    let lb_class = class.status.as_ref().and_then(|status| status.load_balancer_class.clone());
    let driver = knowing(scene, lb_class);
    let mut after = service.clone();
    let annotations = after.metadata.annotations.get_or_insert_default();
    annotations.retain(|name, _| !WISHES.contains(&name.as_str()));
    annotations.insert(metallb::PIN.to_owned(), text(ips, ","));
    annotations.insert(driver::PINNED.to_owned(), "true".to_owned());
    if let Some(spec) = &mut after.spec {
        spec.load_balancer_ip = None;
    }
    let addresses: Vec<_> = ips
        .iter()
        .map(|ip| {
            let mut address = IPAddress::default();
            address.spec.address = ip.to_string();
            Arc::new(address)
        })
        .collect();
    serviceable(driver.index(), &after, &addresses)
}

/// The brain of the driver, as far as it would judge a Service.
fn knowing(scene: &Scene, lb_class: Option<String>) -> Driver {
    let config = Config { metallb_namespace: scene.metallb_namespace.clone(), lb_class, ..Config::default() };
    let mut driver = Driver::new(config);
    let classes: Vec<_> = scene.classes.iter().cloned().map(Object::Class).collect();
    let pools = scene.pools.iter().cloned().map(Object::Pool).collect();
    let namespaces = scene.namespaces.iter().cloned().map(Object::Namespace).collect();
    for (kind, objects) in [(Kind::Class, classes), (Kind::Namespace, namespaces), (Kind::Pool, pools)] {
        for change in Change::list(kind, objects) {
            driver.apply(change);
        }
    }
    driver
}

/// What the ledger has of an IP: nothing, a note of the inventory about this Service, or what an earlier run wrote.
fn known<'a>(
    scene: &'a Scene,
    service: &Service,
    claim: &ClaimKey,
    ip: Ip,
) -> Result<Option<&'a Arc<IPAddress>>, String> {
    let name = ip.object_name();
    let is_it = |address: &&Arc<IPAddress>| {
        address.key() == name || Ip::lenient(&address.spec.address).is_ok_and(|other| other == ip)
    };
    let Some(address) = scene.addresses.iter().find(is_it) else { return Ok(None) };
    let to = address.spec.claim_ref.as_ref();
    let of_service = to.is_some_and(|to| to.uid() == Some(service.object_uid()));
    let uid = scene.claim.as_ref().and_then(|claim| claim.metadata.uid.as_deref());
    let of_claim = to.is_some_and(|to| to.key() == *claim && uid.is_some() && to.uid() == uid);
    let name = address.name_any();
    if address.is_deleting() {
        Err(format!("IPAddress {name} is being deleted; run this again when it is gone"))
    } else if (is_observed(address) && of_service) || of_claim {
        Ok(Some(address))
    } else {
        Err(format!(
            "IPAddress {name} reserves {ip} already{}; a Service gets it by naming that claim",
            to.map(|to| format!(", for claim {}", to.key())).unwrap_or_default()
        ))
    }
}

/// A claim of that name must be what an earlier run made, or what an admin made as it would have.
fn is_for_this(claim: &IPAddressClaim, found: &Found<'_>) -> Result<(), String> {
    let name = &found.claim;
    let class = found.class.name_any();
    let spec = &claim.spec;
    let of_class =
        spec.class_name.as_ref().or(claim.status.as_ref().and_then(|status| status.class_name.as_ref()));
    if claim.is_deleting() {
        return Err(format!("IPAddressClaim {name} is being deleted; run this again when it is gone"));
    }
    let waits_for_these = match found.ips.as_slice() {
        [ip] => spec.address_name.as_deref() == Some(ip.object_name().as_str()),
        _ => claim.annotations().contains_key(driver::ADOPTED),
    };
    let has_these = found.addresses.iter().all(|address| {
        let uid = address.and_then(|address| address.spec.claim_ref.as_ref()).and_then(|to| to.uid());
        uid.is_some() && uid == claim.metadata.uid.as_deref()
    });
    if of_class == Some(&class) && spec.family == family(&found.ips) && (waits_for_these || has_these) {
        return Ok(());
    }
    Err(format!(
        "IPAddressClaim {name} is there and asks for something else; choose another name, or delete it if nobody needs it"
    ))
}
