//! What MetalLB makes of one Service (v0.15.2, by what its controller does).

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::ServiceKey;
use api::wellknown::metallb as names;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use crate::books::{Books, Families, Request, ShareKey, quoted};
use crate::chance::Chance;

/// The annotation by which MetalLB says where the IPs are from.
pub const FROM_POOL: &str = "metallb.io/ip-allocated-from-pool";

/// What is to stand on the Service, and what is to be said of it.
#[derive(Debug, Default)]
pub struct Verdict {
    pub ingress: Vec<IpAddr>,
    pub from_pool: Option<String>,
    /// Reason and words of an event.
    pub failure: Option<(&'static str, String)>,
}

/// What a Service asks for.
struct Wish {
    service: ServiceKey,
    labels: BTreeMap<String, String>,
    ports: Vec<(String, i32)>,
    share: ShareKey,
    wants: Families,
    /// Whether its policy prefers both families, whatever it has.
    prefers: bool,
    pool: String,
    /// IPs by name, or what is wrong with them.
    pins: Result<Vec<IpAddr>, String>,
}

/// Looks at one Service, and changes the books accordingly.
pub fn converge(books: &mut Books, service: &Service, order: Option<&mut Chance>) -> Verdict {
    let key = key_of(service);
    let is_balancer = service.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"));
    if !is_balancer || books.pools.is_empty() {
        books.unassign(&key);
        return Verdict::default();
    }
    let wish = Wish::of(key, service);
    let mut kept = Verdict {
        ingress: ingress(service).iter().filter_map(|text| text.parse().ok()).collect(),
        from_pool: service.annotations().get(FROM_POOL).cloned(),
        failure: None,
    };
    if kept.ingress.is_empty() || !wish.tolerates(&kept.ingress) {
        kept = cleared(books, &wish);
    }
    if !kept.ingress.is_empty()
        && let Err(verdict) = keep(books, &wish, &mut kept)
    {
        return verdict;
    }
    if kept.ingress.len() == 1 && wish.prefers {
        let pool = books.pool_of(&wish.service).unwrap_or_default().to_owned();
        if let Some(more) = books.free(&wish.request(), &pool, !kept.ingress[0].is_ipv4()) {
            let both = vec![kept.ingress[0], more];
            if books.assign(&wish.request(), &both).is_ok() {
                kept.ingress = both;
            }
        }
    }
    if kept.ingress.is_empty() {
        match allocate(books, &wish, order) {
            Ok(ips) => kept.ingress = ips,
            Err(words) => {
                let words = format!("Failed to allocate IP for \"{}\": {words}", wish.service);
                kept.failure = Some(("AllocationFailed", words));
                return kept;
            }
        }
    }
    kept.from_pool = books.pool_of(&wish.service).map(str::to_owned);
    kept
}

fn cleared(books: &mut Books, wish: &Wish) -> Verdict {
    books.unassign(&wish.service);
    Verdict::default()
}

/// The IPs that the Service shows stay, if they may; an error ends the look at it.
fn keep(books: &mut Books, wish: &Wish, kept: &mut Verdict) -> Result<(), Verdict> {
    if books.assign(&wish.request(), &kept.ingress).is_err() {
        *kept = cleared(books, wish);
    }
    if !kept.ingress.is_empty()
        && !wish.pool.is_empty()
        && books.pool_of(&wish.service) != Some(wish.pool.as_str())
    {
        *kept = cleared(books, wish);
    }
    let pins = match &wish.pins {
        Ok(pins) => pins,
        Err(words) => {
            let failure = ("LoadBalancerFailed", format!("invalid requested loadbalancer IPs: {words}"));
            return Err(Verdict { failure: Some(failure), ..std::mem::take(kept) });
        }
    };
    if !pins.is_empty() {
        // It compares them by their texts in order, and leaves them so.
        let in_order = |ips: &[IpAddr]| {
            let mut ips = ips.to_vec();
            ips.sort_by_key(IpAddr::to_string);
            ips
        };
        let shown = in_order(&kept.ingress);
        if shown == in_order(pins) {
            kept.ingress = shown;
        } else {
            *kept = cleared(books, wish);
        }
    }
    Ok(())
}

fn allocate(books: &mut Books, wish: &Wish, order: Option<&mut Chance>) -> Result<Vec<IpAddr>, String> {
    let pins = wish.pins.clone()?;
    let request = wish.request();
    if pins.is_empty() {
        return if wish.pool.is_empty() {
            books.draw(&request, wish.wants, order)
        } else {
            books.draw_from(&request, &wish.pool, wish.wants)
        };
    }
    let named = || format!("requested loadBalancer IP(s) {}", quoted(&pins));
    if !wish.are_of_its_families(&pins) {
        return Err(format!("{} does not match the ipFamily of the service", named()));
    }
    books.assign(&request, &pins)?;
    if !wish.pool.is_empty() && books.pool_of(&wish.service) != Some(wish.pool.as_str()) {
        books.unassign(&wish.service);
        return Err(format!("{} is not compatible with requested address pool {}", named(), wish.pool));
    }
    Ok(pins)
}

impl Wish {
    fn of(service: ServiceKey, object: &Service) -> Self {
        let spec = object.spec.clone().unwrap_or_default();
        let families = spec.ip_families.unwrap_or_default();
        let prefers = spec.ip_family_policy.as_deref() == Some("PreferDualStack");
        let backend = if spec.external_traffic_policy.as_deref() == Some("Local") {
            let selector = spec.selector.unwrap_or_default();
            let pairs: Vec<_> = selector.iter().map(|(name, value)| format!("{name}={value}")).collect();
            pairs.join(",")
        } else {
            String::new()
        };
        let ports = spec.ports.into_iter().flatten();
        Self {
            service,
            labels: object.labels().clone(),
            ports: ports.map(|port| (port.protocol.unwrap_or_default(), port.port)).collect(),
            share: (annotation(object, names::SHARE, names::SHARE_OLD).to_owned(), backend),
            wants: match &families[..] {
                [first, _] => Families::Both { v4_first: first == "IPv4", prefers },
                only => Families::One { v4: only.iter().all(|one| one == "IPv4") },
            },
            prefers,
            pool: annotation(object, names::POOL, names::POOL_OLD).to_owned(),
            pins: pins(object),
        }
    }

    fn request(&self) -> Request<'_> {
        Request { service: &self.service, labels: &self.labels, ports: &self.ports, key: &self.share }
    }

    fn are_of_its_families(&self, ips: &[IpAddr]) -> bool {
        let has = (ips.iter().any(IpAddr::is_ipv4), ips.iter().any(IpAddr::is_ipv6));
        match self.wants {
            Families::One { v4 } => has == (v4, !v4),
            Families::Both { .. } => has == (true, true),
        }
    }

    /// Whether the IPs that it shows may be kept for their families.
    fn tolerates(&self, ips: &[IpAddr]) -> bool {
        let is_possible = matches!(ips, [_]) || matches!(ips, [a, b] if a.is_ipv4() != b.is_ipv4());
        let one_will_do = matches!(self.wants, Families::Both { prefers: true, .. });
        is_possible && (one_will_do || self.are_of_its_families(ips))
    }
}

/// The stable key wins, even when its value is empty.
fn annotation<'a>(service: &'a Service, stable: &str, old: &str) -> &'a str {
    let annotations = service.annotations();
    annotations.get(stable).or_else(|| annotations.get(old)).map_or("", String::as_str)
}

fn pins(service: &Service) -> Result<Vec<IpAddr>, String> {
    let field = service.spec.as_ref().and_then(|spec| spec.load_balancer_ip.clone()).unwrap_or_default();
    let text = annotation(service, names::PIN, names::PIN_OLD);
    match (text, field.as_str()) {
        ("", "") => Ok(Vec::new()),
        ("", field) => match field.parse::<IpAddr>() {
            Ok(ip) => Ok(vec![ip.to_canonical()]),
            Err(_) => Err(format!("invalid spec.loadBalancerIP {field:?}")),
        },
        (_, "") => {
            let parts = text.split(',').map(|part| part.trim().parse::<IpAddr>());
            let ips: Result<Vec<_>, _> = parts.map(|ip| ip.map(|ip| ip.to_canonical())).collect();
            let ips = ips.map_err(|_| format!("invalid {}: {text:?}", names::PIN))?;
            match ips[..] {
                [_] => Ok(ips),
                [one, other] if one.is_ipv4() != other.is_ipv4() => Ok(ips),
                [_, _] => Err(format!("IPFamilyForAddresses: same address family {}", quoted(&ips))),
                _ => {
                    let (count, ips) = (ips.len(), quoted(&ips));
                    Err(format!("IPFamilyForAddresses: invalid ips length {count} {ips}"))
                }
            }
        }
        _ => Err(format!("service can not have both {} and svc.Spec.LoadBalancerIP", names::PIN)),
    }
}

pub fn ingress(service: &Service) -> Vec<String> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let entries = status.and_then(|status| status.ingress.as_ref()).into_iter().flatten();
    entries.filter_map(|entry| entry.ip.clone()).collect()
}

pub fn key_of(service: &Service) -> ServiceKey {
    ServiceKey::new(service.namespace().unwrap_or_default(), service.name_any())
}
