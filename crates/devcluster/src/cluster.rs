//! The handle of a running control plane.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::kubeconfig::{self, Credentials, Server};
use crate::network::Network;
use crate::options::Options;
use crate::parts::{ADMIN_KUBECONFIG, AUDIT_LOG, IDENTITIES, Layout, METALLB_NAMESPACE, Part};
use crate::pki::Pki;
use crate::ports::Ports;
use crate::process::Process;
use crate::rundir::RunDir;
use crate::state::State;
use crate::{Error, Result, binaries, metallb};
use kube::config::{KubeConfigOptions, Kubeconfig};

/// How often a start is tried over when another process took one of the chosen ports.
const PORT_TRIES: usize = 3;

/// A control plane on this machine. Dropping the handle ends its processes, unless it is detached or attached.
pub struct Cluster {
    pub(crate) dir: RunDir,
    pub(crate) server_url: String,
    pub(crate) ca_pem: String,
    pub(crate) detached: bool,
    /// Whether the processes end with this handle.
    pub(crate) owned: bool,
    pub(crate) admin: kube::Client,
    pub(crate) charts: Option<PathBuf>,
    pub(crate) network: Option<Network>,
    parts: Mutex<BTreeMap<String, Process>>,
}

impl Cluster {
    /// Brings up a control plane and waits until it serves. Takes seconds, the very first time as long as the builds.
    pub async fn start(options: Options) -> Result<Self> {
        if let Some(network) = &options.network
            && (options.detached || !network.node().is_mine())
        {
            let words = "it cannot be detached, and is started by a thread of Network::runtime".to_owned();
            return Err(Error::Network { words });
        }
        let mut parts = vec![Part::Etcd, Part::Apiserver, Part::ControllerManager];
        parts.extend(options.metallb.then_some(Part::Metallb));
        if options.network.is_some() {
            parts.extend([Part::Speaker, Part::KubeProxy]);
        }
        let mut tries = 1;
        loop {
            match Self::try_start(&options, &parts).await {
                Err(Error::PortTaken { .. }) if tries < PORT_TRIES => tries += 1,
                outcome => return outcome,
            }
        }
    }

    /// Takes hold of a run that another process started, by its folder. Dropping the handle ends nothing.
    pub async fn attach(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = dir.as_ref();
        let path = dir.canonicalize().map_err(Error::io(format!("finding {}", dir.display())))?;
        let state = State::read(&path)?;
        let admin = client(&state.admin_kubeconfig).await?;
        let parts = state
            .parts
            .iter()
            // What an attached process starts has to outlive it, whoever started the run.
            .map(|(name, part)| (name.clone(), part.adopt(true)))
            .collect();
        Ok(Self {
            ca_pem: Pki::at(&path).ca_pem()?,
            dir: RunDir::existing(path),
            server_url: state.server_url,
            detached: true,
            owned: false,
            admin,
            charts: None,
            network: None,
            parts: Mutex::new(parts),
        })
    }

    async fn try_start(options: &Options, parts: &[Part]) -> Result<Self> {
        let dir = RunDir::create(options)?;
        let chosen = Ports::choose()?;
        let layout = Layout::new(&dir.path, chosen, options);
        let server_url = layout.server_url();
        let ca_pem = identities(&dir.path, &server_url)?;
        let mut processes = BTreeMap::new();
        for part in parts {
            let command = layout.command(*part).await?;
            let node = options.network.as_ref().map(|network| network.node().clone());
            processes.insert(part.name().to_owned(), Process::within(node, command, options.detached));
        }
        let balancer = binaries::metallb_folder(options.balancer()).await?;
        let cluster = Self {
            admin: client(&dir.path.join(ADMIN_KUBECONFIG)).await?,
            dir,
            server_url,
            ca_pem,
            detached: options.detached,
            owned: !options.detached,
            charts: options.charts.clone(),
            network: options.network.clone(),
            parts: Mutex::new(processes),
        };
        if let Err(error) = cluster.bring_up(options, &balancer).await {
            // A taken port is tried over with others, and its folder shows nothing.
            if !matches!(error, Error::PortTaken { .. }) {
                cluster.keep();
            }
            cluster.end_all();
            return Err(error);
        }
        Ok(cluster)
    }

    async fn bring_up(&self, options: &Options, metallb: &Path) -> Result<()> {
        self.start_part(Part::Etcd).await?;
        self.start_part(Part::Apiserver).await?;
        let balancer = async {
            metallb::install(&self.admin, metallb, self.process(Part::Apiserver)?.log_path()).await?;
            if options.metallb { self.start_part(Part::Metallb).await } else { Ok(()) }
        };
        let controllers = async {
            self.start_part(Part::ControllerManager).await?;
            self.await_service_account("default", "default").await
        };
        tokio::try_join!(balancer, controllers)?;
        if options.network.is_some() { self.bring_up_node().await } else { Ok(()) }
    }

    /// The network it runs in, if it was given one.
    pub fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// A client with every right.
    pub fn admin(&self) -> kube::Client {
        self.admin.clone()
    }

    /// The kubeconfig of [`Cluster::admin`].
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.dir.path.join(ADMIN_KUBECONFIG)
    }

    /// The API server's address.
    pub fn server_url(&self) -> &str {
        &self.server_url
    }

    /// The PEM of the authority that signed the API server's certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The folder with everything of this run: logs, certificates, data, `state.json`.
    pub fn run_dir(&self) -> &Path {
        &self.dir.path
    }

    /// The API server's audit log: one JSON object a line, for every request.
    pub fn audit_log(&self) -> PathBuf {
        self.dir.path.join(AUDIT_LOG)
    }

    /// Makes the temporary run folder stay after the handle, and prints where it is.
    pub fn keep(&self) {
        self.dir.keep();
    }

    /// Makes an `IPAddressPool` of addresses in any form that MetalLB takes: `203.0.113.0/24`, `192.0.2.1-192.0.2.9`.
    pub async fn create_pool(&self, name: &str, addresses: &[&str], auto_assign: bool) -> Result<()> {
        metallb::create_pool(&self.admin, METALLB_NAMESPACE, name, addresses, auto_assign).await
    }

    pub(crate) fn parts(&self) -> MutexGuard<'_, BTreeMap<String, Process>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Cluster");
        shown.field("run_dir", &self.dir.path).field("server_url", &self.server_url).finish_non_exhaustive()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.owned {
            self.end_all();
        }
    }
}

/// Makes certificates and kubeconfigs and returns the authority's PEM.
fn identities(dir: &Path, server_url: &str) -> Result<String> {
    let pki = Pki::at(dir);
    let authority = pki.create()?;
    let ca_pem = pki.ca_pem()?;
    let server = Server { url: server_url, ca_pem: Some(&ca_pem) };
    for (file, user, group) in IDENTITIES {
        let identity = authority.client(user, group)?;
        kubeconfig::write(&dir.join(file), &server, user, &Credentials::Certificate(&identity))?;
    }
    Ok(ca_pem)
}

/// A client of a kubeconfig file.
pub(crate) async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    kube::Client::try_from(config).map_err(Error::kube(format!("using {}", kubeconfig.display())))
}
