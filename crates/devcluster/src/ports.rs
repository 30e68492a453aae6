//! Free ports for one run.

use std::net::{Ipv6Addr, SocketAddr, TcpListener};

use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

const LOW: u16 = 10_000;
const TRIES: usize = 1_000;
/// Linux's default, when the system does not say.
const EPHEMERAL: u16 = 32_768;

/// The ports of one control plane.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) apiserver: u16,
    pub(crate) controller_manager: u16,
    pub(crate) metallb: u16,
}

impl Ports {
    pub(crate) fn choose() -> Result<Self> {
        // All are held until all are chosen, so that none is chosen twice.
        let held = [free()?, free()?, free()?, free()?, free()?];
        let [etcd, etcd_peer, apiserver, controller_manager, metallb] =
            held.each_ref().map(|(port, _)| *port);
        Ok(Self { etcd, etcd_peer, apiserver, controller_manager, metallb })
    }
}

/// Two free ports, for a controller's metrics and probes.
pub(crate) fn pair() -> Result<(u16, u16)> {
    let held = [free()?, free()?];
    let [metrics, probes] = held.each_ref().map(|(port, _)| *port);
    Ok((metrics, probes))
}

/// A free port below the ephemeral range.
///
/// Port 0 would give an ephemeral one, which any client connection on the machine may take while a part is stopped,
/// even a connection to itself by a client that retries; a part must be able to come back to its port.
fn free() -> Result<(u16, TcpListener)> {
    let high = ephemeral_start().max(LOW + 1);
    let mut random = rand::rng();
    for _ in 0..TRIES {
        let port = random.random_range(LOW..high);
        if let Some(held) = bind(port) {
            return Ok((port, held));
        }
    }
    Err(Error::NoFreePort { low: LOW, high })
}

/// Binds every address of the port, as MetalLB does, or loopback where IPv6 is off.
fn bind(port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => Err(error),
            _ => TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], port))),
        })
        .ok()
}

fn ephemeral_start() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(EPHEMERAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_distinct_and_not_ephemeral() {
        let ports = Ports::choose().unwrap();
        let all = [ports.etcd, ports.etcd_peer, ports.apiserver, ports.controller_manager, ports.metallb];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert!(all.iter().all(|port| *port < ephemeral_start()));
    }
}
