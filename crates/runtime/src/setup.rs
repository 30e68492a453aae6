//! What a process finds around itself: its cluster, its namespace, its name.

use std::path::Path;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio_util::sync::CancellationToken;

use crate::args::{Admin, Common, MetricsSecurity};
use crate::metrics::Requests;
use crate::trace::Traces;

/// Longer than any watch is quiet; a list that nobody answers ends by it.
const READ: Duration = Duration::from_secs(150);
const CONNECT: Duration = Duration::from_secs(5);

/// The cluster cannot be found or talked to.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The kubeconfig file.
    #[error("cannot read --kubeconfig {path}: {source}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// Why.
        source: kube::config::KubeconfigError,
    },
    /// The kubeconfig that kubectl would use.
    #[error("cannot read the kubeconfig of KUBECONFIG or the home folder: {0}; give --kubeconfig FILE")]
    DefaultKubeconfig(#[source] kube::config::KubeconfigError),
    /// Neither a kubeconfig nor a service account.
    #[error("no cluster to work on: {0}; give --kubeconfig FILE, or run in a pod with a service account")]
    Infer(#[from] kube::config::InferConfigError),
    /// The client.
    #[error("cannot make a client of the kubeconfig: {0}")]
    Client(#[source] kube::Error),
}

/// Everything [`run`](crate::run) needs besides a brain.
#[derive(Clone)]
pub struct Settings {
    /// The controller's name: of its lease, its field manager, its events.
    pub controller: &'static str,
    /// The client of the cluster.
    pub client: Client,
    /// What it has asked.
    pub requests: Requests,
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of this process among those of its kind.
    pub instance: String,
    /// Whether to take part in a leader election.
    pub leader_elect: bool,
    /// Where to serve the metrics; `0` or empty: nowhere.
    pub metrics_address: String,
    /// To whom.
    pub metrics_security: MetricsSecurity,
    /// Where to serve the probes; `0` or empty: nowhere.
    pub probe_address: String,
    /// How many keys are worked on at the same time.
    pub workers: usize,
    /// Where spans go.
    pub traces: Traces,
    /// Cancelled when the process is to stop.
    pub stop: CancellationToken,
}

impl Settings {
    /// The settings that the flags ask for.
    ///
    /// # Errors
    /// When there is no cluster to work on.
    pub async fn load(controller: &'static str, args: &Common) -> Result<Self, SetupError> {
        let config = config(args).await?;
        let namespace = match &args.namespace {
            Some(namespace) if !namespace.is_empty() => namespace.clone(),
            _ => config.default_namespace.clone(),
        };
        let (client, requests) = counted_client(config)?;
        Ok(Self {
            controller,
            client,
            requests,
            namespace,
            instance: args.pod_name.clone().filter(|name| !name.is_empty()).unwrap_or_else(host_name),
            leader_elect: args.leader_elect,
            metrics_address: args.metrics_bind_address.clone(),
            metrics_security: args.metrics_security.clone(),
            probe_address: args.health_probe_bind_address.clone(),
            workers: usize::from(args.workers),
            traces: Traces::default(),
            stop: CancellationToken::new(),
        })
    }
}

async fn config(args: &Common) -> Result<Config, SetupError> {
    cluster(args.kubeconfig.as_deref()).await
}

/// The cluster of a kubeconfig file; without one, what kubectl would use, or the pod's service account.
///
/// # Errors
/// When there is none, or the file cannot be read.
pub async fn cluster(kubeconfig: Option<&Path>) -> Result<Config, SetupError> {
    let Some(path) = kubeconfig else { return Ok(Config::infer().await?) };
    read(path, &KubeConfigOptions::default()).await
}

/// The cluster that an admin means: no pod's service account, which would be somebody else's rights.
pub(crate) async fn admin_config(args: &Admin) -> Result<Config, SetupError> {
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    match &args.kubeconfig {
        Some(path) => read(path, &options).await,
        None => Config::from_kubeconfig(&options).await.map_err(SetupError::DefaultKubeconfig),
    }
}

async fn read(path: &Path, options: &KubeConfigOptions) -> Result<Config, SetupError> {
    let wrong = |source| SetupError::Kubeconfig { path: path.display().to_string(), source };
    let file = Kubeconfig::read_from(path).map_err(wrong)?;
    Config::from_custom_kubeconfig(file, options).await.map_err(wrong)
}

/// A client whose calls end: retries are the queue's, each after a fresh decision.
///
/// # Errors
/// When the certificates or credentials of the configuration cannot be used.
pub fn client(config: Config) -> Result<Client, SetupError> {
    Ok(counted_client(config)?.0)
}

/// A client that asks again for some minutes when the server says that it has too much to do, or is not ready yet: what
/// somebody does once has no queue.
///
/// # Errors
/// As [`client`].
pub(crate) fn patient_client(config: Config) -> Result<Client, SetupError> {
    Ok(build(config, true)?.0)
}

/// As [`client`], with what counts its requests.
///
/// # Errors
/// As [`client`].
pub fn counted_client(config: Config) -> Result<(Client, Requests), SetupError> {
    build(config, false)
}

fn build(mut config: Config, retry: bool) -> Result<(Client, Requests), SetupError> {
    // A second call in one process finds it installed.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(READ);
    config.reset_reader_on_write = true;
    config.default_retry = retry;
    let requests = Requests::to(&config.cluster_url);
    let builder = ClientBuilder::try_from(config).map_err(SetupError::Client)?;
    Ok((builder.with_layer(&requests).build(), requests))
}

fn host_name() -> String {
    std::env::var("HOSTNAME")
        .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"))
        .map(|name| name.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::Router;
    use axum::http::StatusCode;
    use rstest::rstest;

    use super::*;

    /// Right after a CRD came, its storage is "(re)initializing": 429. A controller's queue asks again; an errand has none.
    #[rstest]
    #[case::of_a_controller(client, 1)]
    #[case::of_an_errand(patient_client, 3)]
    #[tokio::test]
    async fn who_asks_again_when_the_server_is_not_ready(
        #[case] make: fn(Config) -> Result<Client, SetupError>,
        #[case] expected: u32,
    ) {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let answer = async move || match count.fetch_add(1, Ordering::Relaxed) {
            0 => (StatusCode::TOO_MANY_REQUESTS, "{}"),
            1 => (StatusCode::SERVICE_UNAVAILABLE, "{}"),
            _ => (StatusCode::OK, "[]"),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        let client = make(Config::new(url.parse().unwrap())).unwrap();
        let request = http::Request::get("/x").body(Vec::new()).unwrap();
        assert_eq!(client.request_text(request).await.is_ok(), expected == 3);
        assert_eq!(asked.load(Ordering::Relaxed), expected);
    }
}
