//! Sorted sets of IPs, so that what lies in a pool is found without a scan.

use std::collections::BTreeSet;

use api::Ip;

use crate::parse::pool::Pool;

/// A sorted set of IPs.
#[derive(Clone, Debug, Default)]
pub(super) struct Ips(BTreeSet<Ip>);

impl Ips {
    /// Enters an IP or takes it out, and says whether that changed anything.
    pub(super) fn set(&mut self, ip: Ip, present: bool) -> bool {
        if present { self.0.insert(ip) } else { self.0.remove(&ip) }
    }

    /// Those that the pool contains.
    pub(super) fn within<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = Ip> + 'a {
        pool.ranges().flat_map(|range| self.0.range(range)).copied().filter(|ip| pool.contains(*ip))
    }

    /// Those in the pool's ranges, whether or not MetalLB would give them.
    pub(super) fn in_ranges_of<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = Ip> + 'a {
        pool.ranges().flat_map(|range| self.0.range(range)).copied()
    }
}
