//! MetalLB's books: which Service has which IPs, and who may share (v0.15.2, by what its allocator does).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::ServiceKey;

use crate::chance::Chance;
use crate::pools::{Labels, Pool};

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

/// What MetalLB reads of a Service to assign it IPs.
pub struct Request<'a> {
    pub service: &'a ServiceKey,
    pub labels: &'a Labels,
    pub ports: &'a [Port],
    pub key: &'a ShareKey,
}

/// The families that a Service is to have addresses of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// One; whether it is IPv4.
    One { v4: bool },
    /// Both; whether IPv4 is the first, and whether one will do if there are not both.
    Both { v4_first: bool, prefers: bool },
}

#[derive(Clone, Default)]
pub struct Books {
    pub pools: BTreeMap<String, Pool>,
    pub allocated: BTreeMap<ServiceKey, Alloc>,
    key_of_ip: BTreeMap<IpAddr, ShareKey>,
}

/// IPs as MetalLB writes them into a sentence.
pub fn quoted<T: ToString>(ips: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<_> = ips.into_iter().map(|ip| format!("{:?}", ip.to_string())).collect();
    format!("[{}]", texts.join(" "))
}

impl Books {
    /// How many IPs of the pool are assigned and free, of one family.
    pub fn counters(&self, name: &str, v4: bool) -> (i64, i64) {
        let Some(pool) = self.pools.get(name) else { return (0, 0) };
        let allocs = self.allocated.values().filter(|alloc| alloc.pool == name);
        let ips = allocs.flat_map(|alloc| &alloc.ips).filter(|ip| ip.is_ipv4() == v4);
        let assigned = i64::try_from(ips.collect::<BTreeSet<_>>().len()).unwrap();
        (assigned, pool.size(v4) - assigned)
    }

    pub fn pool_of(&self, service: &ServiceKey) -> Option<&str> {
        self.allocated.get(service).map(|alloc| alloc.pool.as_str())
    }

    /// The keys under which a Service has its IPs, as MetalLB compares them: none and empty ones are the same.
    pub fn key_of(&self, service: &ServiceKey) -> String {
        self.allocated.get(service).map(|alloc| format!("{}{}", alloc.key.1, alloc.key.0)).unwrap_or_default()
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
            return Err(format!("{} is not allowed in config", quoted(ips)));
        };
        if !self.pools[&pool].serves(request) {
            return Err(format!("pool {pool} not compatible for ip assignment"));
        }
        if ips.len() > 2 {
            return Err(format!("more than two addresses {}", quoted(ips)));
        }
        if let [one, other] = ips
            && one.is_ipv4() == other.is_ipv4()
        {
            return Err(format!("\"{one}\" \"{other}\" has the same family"));
        }
        for ip in ips {
            self.may_share(request, *ip)?;
        }
        let alloc =
            Alloc { pool, ips: ips.to_vec(), ports: request.ports.to_vec(), key: request.key.clone() };
        self.enter(request.service.clone(), alloc);
        Ok(())
    }

    /// Assigns free IPs of the pool.
    pub fn draw_from(
        &mut self,
        request: &Request<'_>,
        name: &str,
        wants: Families,
    ) -> Result<Vec<IpAddr>, String> {
        if !self.pools.contains_key(name) {
            return Err(format!("unknown pool \"{name}\""));
        }
        let found: Vec<IpAddr> = match wants {
            // It goes on with no IP at all, and no pool has that.
            Families::One { v4 } => match self.free(request, name, v4) {
                Some(ip) => vec![ip],
                None => return Err("[\"<nil>\"] is not allowed in config".to_owned()),
            },
            Families::Both { prefers, .. } => {
                let found = [true, false].into_iter().filter_map(|v4| self.free(request, name, v4));
                let found: Vec<_> = found.collect();
                if found.is_empty() || (found.len() == 1 && !prefers) {
                    return Err(format!("no available IPs in pool {name} for dual IPFamily"));
                }
                found
            }
        };
        self.assign(request, &found)?;
        Ok(found)
    }

    /// Assigns free IPs of any pool that gives to the Service by itself: first of those meant for it.
    pub fn draw(
        &mut self,
        request: &Request<'_>,
        wants: Families,
        order: Option<&mut Chance>,
    ) -> Result<Vec<IpAddr>, String> {
        let mut names: Vec<String> = self.pools.keys().cloned().collect();
        if let Some(chance) = order {
            chance.shuffle(&mut names);
        }
        let open = names.iter().filter(|name| self.pools[*name].auto_assign);
        let is_meant = |pool: &Pool| {
            pool.serves(request)
                && (pool.is_of_namespace(&request.service.namespace) || pool.selects_services())
        };
        let mut meant: Vec<&String> = open.clone().filter(|name| is_meant(&self.pools[*name])).collect();
        meant.sort_by_key(|name| match self.pools[*name].priority {
            0 => i64::MAX,
            priority => priority,
        });
        let general: Vec<_> = open.filter(|name| !self.pools[*name].is_reserved).collect();
        for candidates in [meant, general] {
            if let Some(name) = self.best(request, wants, &candidates).cloned()
                && let Ok(ips) = self.draw_from(request, &name, wants)
            {
                return Ok(ips);
            }
        }
        Err("no available IPs".to_owned())
    }

    fn best<'a>(&self, request: &Request<'_>, wants: Families, names: &[&'a String]) -> Option<&'a String> {
        let free = |name: &String, v4| self.free(request, name, v4).is_some();
        let one = |v4: bool| names.iter().find(|name| free(name, v4)).copied();
        match wants {
            Families::One { v4 } => one(v4),
            Families::Both { v4_first, prefers } => {
                let both = names.iter().find(|name| free(name, true) && free(name, false)).copied();
                let either = || one(v4_first).or_else(|| one(!v4_first)).filter(|_| prefers);
                both.or_else(either)
            }
        }
    }

    /// The first IP of a family of the pool that the Service could have.
    pub fn free(&self, request: &Request<'_>, pool: &str, v4: bool) -> Option<IpAddr> {
        self.pools.get(pool)?.ips(v4).find(|ip| self.may_share(request, *ip).is_ok())
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
        if !shared && !others.is_empty() {
            let names: Vec<_> = others.iter().map(ToString::to_string).collect();
            let (service, names) = (request.service, names.join(","));
            return Err(format!(
                "can't change sharing key for \"{service}\", address also in use by {names}"
            ));
        }
        let taken = |port: &&Port| others.iter().any(|other| self.allocated[*other].ports.contains(port));
        match request.ports.iter().find(taken) {
            Some((protocol, port)) => Err(format!("port {protocol}/{port} is already in use on \"{ip}\"")),
            None => Ok(()),
        }
    }
}
