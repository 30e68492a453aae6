//! How a control plane is to be.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::components::Component;
use crate::network::Network;

/// The address families of the Service network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Families {
    /// IPv4 first, IPv6 second.
    #[default]
    DualStack,
    /// IPv4 alone: a dual-stack Service is refused.
    Ipv4Only,
}

impl Families {
    /// The API server's Service ranges.
    pub(crate) fn service_ranges(self) -> &'static str {
        match self {
            Self::DualStack => "10.96.0.0/16,fd00:96::/108",
            Self::Ipv4Only => "10.96.0.0/16",
        }
    }
}

/// What [`crate::Cluster::start`] is asked for; the default suits a test.
#[derive(Clone, Debug)]
pub struct Options {
    /// The run folder. `None` makes a temporary one, removed with the handle unless something failed. A given one is
    /// left in place; data and logs of an earlier run in it are cleared.
    pub dir: Option<PathBuf>,
    /// Whether the processes outlive the handle and the program that started them; ended by [`crate::Cluster::down`].
    pub detached: bool,
    /// The address families of Services.
    pub families: Families,
    /// Whether MetalLB's controller runs (its CRDs are installed either way).
    pub metallb: bool,
    /// Whether MetalLB's client asks for as many changes a second as it likes, as since v0.16, instead of 20.
    pub metallb_unthrottled: bool,
    /// The `spec.loadBalancerClass` that MetalLB serves, and no other; `None` serves Services without one.
    pub metallb_class: Option<String>,
    /// Further flags for kube-apiserver; a flag given here wins over ours.
    pub apiserver_args: Vec<String>,
    /// A folder of packaged charts, `NAME-VERSION.tgz`, that are installed instead of those of this tree.
    pub charts: Option<PathBuf>,
    /// A network in which packets flow: everything then runs inside its node, with MetalLB's speaker and kube-proxy, and
    /// has to be started there ([`Network::runtime`]). Services are IPv4 alone; it cannot be detached.
    pub network: Option<Network>,
}

impl Options {
    /// The MetalLB controller that is asked for.
    pub(crate) fn balancer(&self) -> Component {
        if self.metallb_unthrottled { Component::MetallbUnthrottled } else { Component::MetallbController }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dir: None,
            detached: false,
            families: Families::default(),
            metallb: true,
            metallb_unthrottled: false,
            metallb_class: None,
            apiserver_args: Vec::new(),
            charts: None,
            network: None,
        }
    }
}
