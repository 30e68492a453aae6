//! A network of our own: a node with the whole control plane on it, a client outside of the cluster, and pods.
//!
//! ```text
//! client 192.0.2.2 ---- 192.0.2.1 node 198.51.100.1 ---- 198.51.100.2 pod
//!                                                   ---- 198.51.100.3 pod
//! ```
//!
//! Each is a network namespace. The client takes every address for one of its link, so it asks for each by ARP, as its
//! neighbours in a real network do. What the program that runs the cluster does itself, it does inside the node: all
//! threads of [`Network::runtime`] are there, so that the node's loopback is theirs, and the API server's.
//!
//! *Invariant*: the namespaces have no names, and nothing leads from them to the machine's own network. They are gone with
//! this process and its children, also when it is killed; there is nothing to clean up.

mod namespace;
mod node;

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::runtime::Runtime;

pub use self::namespace::Namespace;
pub(crate) use self::node::{NODE, SPEAKER};
use crate::{Error, Result, binaries};

/// The node's address towards the client.
pub(crate) const NODE_IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The addresses of the pods.
pub(crate) const PODS: &str = "198.51.100.0/24";
/// The node's interface towards the client.
pub(crate) const TO_CLIENT: &str = "to-client";

/// A node, a client and pods; a cheap handle.
#[derive(Clone, Debug)]
pub struct Network(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    node: Namespace,
    client: Namespace,
    last: AtomicU8,
}

impl Network {
    /// Makes the node and the client, and joins them.
    ///
    /// # Errors
    /// Without the right to, or without the programs `ip` and `nft`.
    pub fn create() -> Result<Self> {
        // kube-proxy says so only in its log.
        if binaries::on_path("nft").is_none() {
            let words = "`nft` was not found on PATH: on Debian: apt-get install nftables".to_owned();
            return Err(Error::Network { words });
        }
        let (node, client) = (Namespace::create()?, Namespace::create()?);
        node.ip(&format!(
            "link add {TO_CLIENT} type veth peer name to-node netns {}\n\
             addr add {NODE_IP}/24 dev {TO_CLIENT}\n\
             link set {TO_CLIENT} up\n",
            client.path()
        ))?;
        client
            .ip("addr add 192.0.2.2/24 dev to-node\nlink set to-node up\nroute add default dev to-node\n")?;
        let forward = || set(Path::new("/proc/sys/net/ipv4/ip_forward"), "1");
        let inside = node.clone();
        let forwarding = std::thread::spawn(move || inside.enter().and_then(|()| forward())).join();
        forwarding.map_err(|_| Error::WorkerGone("network"))??;
        Ok(Self(Arc::new(Inner { node, client, last: AtomicU8::new(1) })))
    }

    /// A runtime whose threads are all inside the node; so is the calling thread from now on, for good.
    ///
    /// # Errors
    /// When there can be no such threads.
    pub fn runtime(&self) -> Result<Runtime> {
        self.node().enter()?;
        let node = self.node().clone();
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .on_thread_start(move || {
                if let Err(error) = node.enter() {
                    eprintln!("devcluster: {error}");
                }
            })
            .build()
            .map_err(Error::io("starting a runtime inside the node"))
    }

    /// Where the control plane is.
    pub fn node(&self) -> &Namespace {
        &self.0.node
    }

    /// Where the client is.
    pub fn client(&self) -> &Namespace {
        &self.0.client
    }

    /// A further pod's network, joined to the node, and its address.
    ///
    /// # Errors
    /// After 253 of them.
    pub fn pod(&self) -> Result<(Namespace, Ipv4Addr)> {
        let number = self.0.last.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if number == u8::MAX {
            return Err(Error::Network { words: format!("there are no more addresses in {PODS}") });
        }
        let (pod, ip) = (Namespace::create()?, Ipv4Addr::new(198, 51, 100, number));
        let link = format!("to-pod-{number}");
        self.node().ip(&format!(
            "link add {link} type veth peer name to-node netns {}\n\
             addr add 198.51.100.1/32 dev {link}\n\
             link set {link} up\n\
             route add {ip}/32 dev {link} src 198.51.100.1\n",
            pod.path()
        ))?;
        pod.ip(&format!(
            "addr add {ip}/32 dev to-node\n\
             link set to-node up\n\
             route add 198.51.100.1/32 dev to-node\n\
             route add default via 198.51.100.1\n"
        ))?;
        Ok((pod, ip))
    }
}

fn set(path: &Path, value: &str) -> Result<()> {
    std::fs::write(path, value).map_err(Error::io(format!("writing {}", path.display())))
}
