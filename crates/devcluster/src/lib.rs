//! A real control plane on this machine, built from Go modules.
//!
//! [`Cluster::start`] brings up etcd, kube-apiserver, kube-controller-manager and the MetalLB controller as child
//! processes with their own run folder, ports and certificates, and ends them with the handle. Binaries are built
//! once from pinned `go.mod` files and kept in a cache ([`binaries`]). Nothing runs pods: our own controllers run on
//! the host with the service accounts their chart made ([`Cluster::kubeconfig_for`],
//! [`Cluster::spawn_controller`]), so RBAC, admission and quota are really enforced.
//!
//! *Invariant*: only processes that this crate started are ever signalled, and each through a pidfd, so a recycled
//! pid is never hit.

pub mod binaries;
mod build;
mod cache;
mod cluster;
mod command;
mod components;
mod error;
mod helm;
mod identity;
mod kubeconfig;
mod lifecycle;
mod metallb;
mod options;
mod os;
mod parts;
mod pki;
mod ports;
mod probe;
mod process;
mod progress;
pub mod proxy;
mod rundir;
mod spawner;
mod stack;
mod state;
mod witness;

pub use cluster::Cluster;
pub use command::{CommandSpec, ControllerSpec};
pub use components::Component;
pub use error::{Error, Result};
pub use identity::client_of;
pub use options::{Families, Options};
pub use parts::Part;
pub use process::{Exit, Process};
pub use stack::{Controller, Controllers, RunOptions, workspace};
pub use witness::{Holders, Witness};
