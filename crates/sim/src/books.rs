//! MetalLB's books: which Service has which IPs, and who may share (v0.15.2, by what its allocator does).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::ServiceKey;
use serde_json::Value;

pub type Port = (String, i32);

/// Sharing key and backend key.
pub type ShareKey = (String, String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alloc {
    pub pool: String,
    pub ips: Vec<IpAddr>,
    pub ports: Vec<Port>,
    pub key: ShareKey,
}

/// A pool as MetalLB's configuration has it.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    ranges: Vec<(IpAddr, IpAddr)>,
    avoid_buggy_ips: bool,
    pub auto_assign: bool,
    namespaces: BTreeSet<String>,
    selectors: Vec<BTreeMap<String, String>>,
}

/// What MetalLB reads of a Service to assign it IPs.
pub struct Request<'a> {
    pub service: &'a ServiceKey,
    pub labels: &'a BTreeMap<String, String>,
    pub ports: &'a [Port],
    pub key: &'a ShareKey,
}

#[derive(Clone, Default)]
pub struct Books {
    pub pools: BTreeMap<String, Pool>,
    pub allocated: BTreeMap<ServiceKey, Alloc>,
    key_of_ip: BTreeMap<IpAddr, ShareKey>,
}

impl Pool {
    /// `namespaces`: labels by name.
    pub fn of(spec: &Value, namespaces: &BTreeMap<String, BTreeMap<String, String>>) -> Self {
        let texts = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let allocation = &spec["serviceAllocation"];
        let mut admitted: BTreeSet<String> = texts(&allocation["namespaces"]).into_iter().collect();
        for selector in match_labels(&allocation["namespaceSelectors"]) {
            let fits = namespaces.iter().filter(|(_, labels)| includes(labels, &selector));
            admitted.extend(fits.map(|(name, _)| name.clone()));
        }
        Self {
            ranges: texts(&spec["addresses"]).iter().map(|text| range(text)).collect(),
            avoid_buggy_ips: spec["avoidBuggyIPs"] == true,
            auto_assign: spec["autoAssign"] != false,
            namespaces: admitted,
            selectors: match_labels(&allocation["serviceSelectors"]),
        }
    }

    fn usable(&self, ip: IpAddr) -> bool {
        !(self.avoid_buggy_ips && matches!(ip, IpAddr::V4(v4) if matches!(v4.octets()[3], 0 | 255)))
    }

    pub fn contains(&self, ip: IpAddr) -> bool {
        let inside =
            |(first, last): &(IpAddr, IpAddr)| first.is_ipv4() == ip.is_ipv4() && *first <= ip && ip <= *last;
        self.usable(ip) && self.ranges.iter().any(inside)
    }

    fn serves(&self, request: &Request<'_>) -> bool {
        (self.namespaces.is_empty() || self.namespaces.contains(&request.service.namespace))
            && (self.selectors.is_empty()
                || self.selectors.iter().any(|selector| includes(request.labels, selector)))
    }

    fn ips(&self, v4: bool) -> impl Iterator<Item = IpAddr> {
        let ranges = self.ranges.iter().filter(move |(first, _)| first.is_ipv4() == v4);
        ranges.flat_map(|(first, last)| (bits(*first)..=bits(*last)).map(move |at| ip(at, first.is_ipv4())))
    }
}

impl Books {
    /// How many IPs of the pool are assigned and free, of one family.
    pub fn counters(&self, name: &str, v4: bool) -> (usize, usize) {
        let Some(pool) = self.pools.get(name) else { return (0, 0) };
        let assigned: BTreeSet<_> = self
            .allocated
            .values()
            .filter(|alloc| alloc.pool == name)
            .flat_map(|alloc| &alloc.ips)
            .filter(|ip| ip.is_ipv4() == v4)
            .collect();
        let total = pool.ips(v4).filter(|ip| pool.usable(*ip)).count();
        (assigned.len(), total.saturating_sub(assigned.len()))
    }

    pub fn pool_of(&self, service: &ServiceKey) -> Option<&str> {
        self.allocated.get(service).map(|alloc| alloc.pool.as_str())
    }

    pub fn holders(&self, ip: IpAddr) -> impl Iterator<Item = &ServiceKey> {
        self.allocated.iter().filter(move |(_, alloc)| alloc.ips.contains(&ip)).map(|(key, _)| key)
    }

    pub fn pool_for(&self, ips: &[IpAddr]) -> Option<&str> {
        let pool = self.pools.iter().find(|(_, pool)| ips.iter().all(|ip| pool.contains(*ip)));
        pool.map(|(name, _)| name.as_str())
    }

    pub fn set_pools(&mut self, pools: BTreeMap<String, Pool>) {
        self.pools = pools;
        for (service, alloc) in self.allocated.clone() {
            match self.pool_for(&alloc.ips).map(str::to_owned) {
                None => self.unassign(&service),
                Some(pool) if pool != alloc.pool => self.enter(service, Alloc { pool, ..alloc }),
                Some(_) => {}
            }
        }
    }

    pub fn assign(&mut self, request: &Request<'_>, ips: &[IpAddr]) -> Result<(), String> {
        let Some(pool) = self.pool_for(ips).map(str::to_owned) else {
            return Err(format!("{ips:?} is not allowed in config"));
        };
        if !self.pools[&pool].serves(request) {
            return Err(format!("pool {pool} not compatible for ip assignment"));
        }
        for ip in ips {
            self.may_share(request, *ip)?;
        }
        let alloc =
            Alloc { pool, ips: ips.to_vec(), ports: request.ports.to_vec(), key: request.key.clone() };
        self.enter(request.service.clone(), alloc);
        Ok(())
    }

    /// The first free IP of each family of the pool.
    pub fn free(&self, request: &Request<'_>, pool: &str, v4: bool) -> Option<IpAddr> {
        let pool = self.pools.get(pool)?;
        pool.ips(v4).find(|ip| pool.usable(*ip) && self.may_share(request, *ip).is_ok())
    }

    pub fn unassign(&mut self, service: &ServiceKey) {
        let Some(alloc) = self.allocated.remove(service) else { return };
        for ip in alloc.ips {
            if self.holders(ip).next().is_none() {
                self.key_of_ip.remove(&ip);
            }
        }
    }

    fn enter(&mut self, service: ServiceKey, alloc: Alloc) {
        self.unassign(&service);
        for ip in &alloc.ips {
            self.key_of_ip.insert(*ip, alloc.key.clone());
        }
        self.allocated.insert(service, alloc);
    }

    fn may_share(&self, request: &Request<'_>, ip: IpAddr) -> Result<(), String> {
        let Some(key) = self.key_of_ip.get(&ip) else { return Ok(()) };
        let others: Vec<_> = self.holders(ip).filter(|other| *other != request.service).collect();
        let shared = !key.0.is_empty() && key == request.key;
        if let (false, Some(other)) = (shared, others.first()) {
            let service = request.service;
            return Err(format!(
                "can't change sharing key for \"{service}\", address also in use by {other}"
            ));
        }
        let taken = |port: &&Port| others.iter().any(|other| self.allocated[*other].ports.contains(port));
        match request.ports.iter().find(taken) {
            Some((protocol, port)) => Err(format!("port {protocol}/{port} is already in use on \"{ip}\"")),
            None => Ok(()),
        }
    }
}

fn match_labels(selectors: &Value) -> Vec<BTreeMap<String, String>> {
    let selectors = selectors.as_array().into_iter().flatten();
    selectors.map(|one| serde_json::from_value(one["matchLabels"].clone()).unwrap_or_default()).collect()
}

fn includes(labels: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
}

fn range(text: &str) -> (IpAddr, IpAddr) {
    if let Some((first, last)) = text.split_once('-') {
        return (first.parse().unwrap(), last.parse().unwrap());
    }
    match text.parse().unwrap() {
        ipnet::IpNet::V4(net) => (net.network().into(), net.broadcast().into()),
        ipnet::IpNet::V6(net) => (net.network().into(), net.broadcast().into()),
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
