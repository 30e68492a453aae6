//! `IPAddressPool`s as MetalLB's configuration has them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use serde_json::Value;

use crate::books::Request;

pub type Labels = BTreeMap<String, String>;

/// Everything that MetalLB reads of one pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    nets: Vec<IpNet>,
    avoid_buggy_ips: bool,
    pub auto_assign: bool,
    /// Whether it is for some Services only.
    pub is_reserved: bool,
    pub priority: i64,
    namespaces: BTreeSet<String>,
    selectors: Vec<Selector>,
}

/// All pools, or none of them if one cannot be read. `namespaces`: labels by name.
///
/// # Errors
/// What is wrong with one of them.
pub fn read<'a>(
    specs: impl Iterator<Item = (String, &'a Value)>,
    namespaces: &BTreeMap<String, Labels>,
) -> Result<BTreeMap<String, Pool>, String> {
    let mut pools: BTreeMap<String, Pool> = BTreeMap::new();
    for (name, spec) in specs {
        let pool = Pool::of(spec, namespaces)?;
        let mut known: Vec<IpNet> = pools.values().flat_map(|pool| pool.nets.clone()).collect();
        for net in &pool.nets {
            if known.iter().any(|other| other.contains(net) || net.contains(other)) {
                return Err(format!("{net} of pool {name} overlaps"));
            }
            known.push(*net);
        }
        pools.insert(name, pool);
    }
    Ok(pools)
}

impl Pool {
    fn of(spec: &Value, namespaces: &BTreeMap<String, Labels>) -> Result<Self, String> {
        let allocation = &spec["serviceAllocation"];
        let mut admitted: BTreeSet<String> = texts(&allocation["namespaces"]).into_iter().collect();
        for selector in selectors(&allocation["namespaceSelectors"])? {
            let fits = namespaces.iter().filter(|(_, labels)| selector.matches(labels));
            admitted.extend(fits.map(|(name, _)| name.clone()));
        }
        let mut nets = Vec::new();
        for text in texts(&spec["addresses"]) {
            nets.extend(range(&text).ok_or_else(|| format!("invalid range {text}"))?);
        }
        if nets.is_empty() {
            return Err("pool has no prefixes defined".to_owned());
        }
        let rules = ["namespaces", "namespaceSelectors", "serviceSelectors"];
        let is_for_all = rules.iter().all(|name| allocation[*name].as_array().is_none_or(Vec::is_empty));
        let mut services = selectors(&allocation["serviceSelectors"])?;
        if !allocation.is_null() && is_for_all {
            services.push(Selector::default());
        }
        Ok(Self {
            nets,
            avoid_buggy_ips: spec["avoidBuggyIPs"] == true,
            auto_assign: spec["autoAssign"] != false,
            is_reserved: !allocation.is_null(),
            priority: allocation["priority"].as_i64().unwrap_or_default(),
            namespaces: admitted,
            selectors: services,
        })
    }

    pub fn contains(&self, ip: IpAddr) -> bool {
        self.usable(ip) && self.nets.iter().any(|net| net.contains(&ip))
    }

    /// Whether it names the Service's namespace.
    pub fn is_of_namespace(&self, namespace: &str) -> bool {
        self.namespaces.contains(namespace)
    }

    /// Whether it names Services by their labels.
    pub fn selects_services(&self) -> bool {
        !self.selectors.is_empty()
    }

    /// A set of namespaces that came out empty restricts nobody.
    pub fn serves(&self, request: &Request<'_>) -> bool {
        (self.namespaces.is_empty() || self.namespaces.contains(&request.service.namespace))
            && (self.selectors.is_empty() || self.selectors.iter().any(|one| one.matches(request.labels)))
    }

    /// Its usable addresses of one family, in the order in which they are given away.
    pub fn ips(&self, v4: bool) -> impl Iterator<Item = IpAddr> {
        let nets = self.nets.iter().filter(move |net| net.addr().is_ipv4() == v4);
        let all =
            nets.flat_map(move |net| (bits(net.network())..=bits(net.broadcast())).map(move |at| ip(at, v4)));
        all.filter(|ip| self.usable(*ip))
    }

    /// How many addresses of a family MetalLB counts. A single address that ends in 0 or 255 is taken off twice.
    pub fn size(&self, v4: bool) -> i64 {
        let mut size = 0_i64;
        for net in self.nets.iter().filter(|net| net.addr().is_ipv4() == v4) {
            let free_bits = u32::from(net.max_prefix_len() - net.prefix_len());
            if free_bits >= 62 {
                return i64::MAX;
            }
            size += 1 << free_bits;
            if !self.avoid_buggy_ips {
                continue;
            }
            if net.prefix_len() <= 24 {
                size -= (1 << (24 - net.prefix_len().min(24))) * 2;
            } else {
                let ends = [net.network(), net.broadcast()];
                size -= ends.into_iter().map(|ip| i64::from(is_buggy(ip))).sum::<i64>();
            }
        }
        size
    }

    fn usable(&self, ip: IpAddr) -> bool {
        !(self.avoid_buggy_ips && is_buggy(ip))
    }
}

fn is_buggy(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(v4) if matches!(v4.octets()[3], 0 | 255))
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn selectors(value: &Value) -> Result<Vec<Selector>, String> {
    let read = |one: &Value| {
        let selector: LabelSelector =
            serde_json::from_value(one.clone()).map_err(|error| error.to_string())?;
        Selector::try_from(selector).map_err(|error| error.to_string())
    };
    value.as_array().into_iter().flatten().map(read).collect()
}

fn range(text: &str) -> Option<Vec<IpNet>> {
    let Some((first, last)) = text.split_once('-') else {
        return Some(vec![text.parse::<IpNet>().ok()?.trunc()]);
    };
    match (first.trim().parse().ok()?, last.trim().parse().ok()?) {
        (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => {
            Some(Ipv4Subnets::new(first, last, 0).map(IpNet::from).collect())
        }
        (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => {
            Some(Ipv6Subnets::new(first, last, 0).map(IpNet::from).collect())
        }
        _ => None,
    }
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

fn ip(bits: u128, v4: bool) -> IpAddr {
    if v4 { IpAddr::V4(u32::try_from(bits).unwrap().into()) } else { IpAddr::V6(bits.into()) }
}
