//! A real control plane on this machine, built from Go modules.
//!
//! [`Cluster::start`] brings up etcd, kube-apiserver, kube-controller-manager and the MetalLB controller as child
//! processes with their own run folder, ports and certificates, and ends them with the handle. Binaries are built
//! once from pinned `go.mod` files and kept in a cache ([`binaries`]). Nothing runs pods: our own controllers run on
//! the host with the service accounts their chart made ([`Cluster::kubeconfig_for`],
//! [`Cluster::spawn_controller`]), so RBAC, admission and quota are really enforced.
//!
//! ```no_run
//! use devcluster::{Cluster, ControllerSpec, Options, Part, proxy::Rule};
//!
//! # async fn example() -> devcluster::Result<()> {
//! let cluster = Cluster::start(Options::default()).await?;
//! cluster.create_pool("public", &["203.0.113.0/24"], false).await?;
//! cluster.helm(&["install", "core", "chart/address-controller", "-n", "core", "--create-namespace"]).await?;
//! let proxy = cluster.proxy().await?;
//! let kubeconfig = cluster.kubeconfig_via(&proxy, "core", "address-controller").await?;
//! let (name, binary) = ("core".into(), "target/debug/address-controller".into());
//! let core = cluster
//!     .spawn_controller(ControllerSpec { name, binary, kubeconfig, ..ControllerSpec::default() })
//!     .await?;
//! let victim = core.clone();
//! // Dead after its third write is stored, before it sees the answer.
//! proxy.add(Rule::write(3).after(move |_| {
//!     let victim = victim.clone();
//!     async move { victim.kill().await }
//! }));
//! core.wait().await;
//! cluster.kill(Part::Metallb).await?;
//! cluster.start_part(Part::Metallb).await?;
//! core.start()?;
//! # Ok(())
//! # }
//! ```
//!
//! *Invariant*: only processes that this crate started are ever signalled, and each through a pidfd, so a recycled
//! pid is never hit.

pub mod binaries;
mod build;
mod cache;
mod cluster;
mod command;
mod components;
mod dashboard;
pub mod debian;
mod error;
mod helm;
mod identity;
mod jaeger;
mod kinds;
mod kubeconfig;
mod lifecycle;
mod metallb;
mod network;
mod options;
mod os;
mod parts;
mod pki;
mod ports;
mod probe;
mod process;
mod progress;
mod prometheus;
pub mod proxy;
mod rundir;
mod spawner;
mod stack;
mod state;
pub mod traffic;
mod witness;

pub use cache::cache_folder;
pub use cluster::Cluster;
pub use command::{CommandSpec, ControllerSpec};
pub use components::Component;
pub use dashboard::{Dashboard, DashboardOptions};
pub use error::{Error, Result};
pub use identity::client_of;
pub use jaeger::Jaeger;
pub use network::{Namespace, Network};
pub use options::{Families, Options};
pub use parts::Part;
pub use process::{Exit, Process};
pub use prometheus::{Exemplar, Prometheus, Sample, Target};
pub use stack::{Controller, Controllers, RunOptions, cargo_command, workspace};
pub use witness::{Holders, Witness};
