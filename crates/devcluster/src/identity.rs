//! Being a service account, as a pod would be.

use std::path::{Path, PathBuf};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};

use crate::cluster::{self, Cluster};
use crate::kubeconfig::{self, Credentials, Server};
use crate::proxy::Proxy;
use crate::{Error, Result, probe};

const TOKEN_SECONDS: i64 = 24 * 3600;

impl Cluster {
    /// A token of a service account, good for 24 hours.
    pub async fn token_for(&self, namespace: &str, service_account: &str) -> Result<String> {
        let api: Api<ServiceAccount> = Api::namespaced(self.admin(), namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let what = format!("asking for a token of {namespace}/{service_account}");
        let answer = api
            .create_token_request(service_account, &PostParams::default(), &request)
            .await
            .map_err(Error::kube(&what))?;
        answer.status.map(|status| status.token).ok_or_else(|| Error::Malformed {
            path: format!("the token of {namespace}/{service_account}").into(),
            message: "the answer has no status".into(),
        })
    }

    /// A kubeconfig of a service account, in the run folder; its context is named `namespace-name`.
    pub async fn kubeconfig_for(&self, namespace: &str, service_account: &str) -> Result<PathBuf> {
        let token = self.token_for(namespace, service_account).await?;
        let user = format!("{namespace}-{service_account}");
        let path = self.run_dir().join("kubeconfigs").join(format!("{user}.kubeconfig"));
        let server = Server { url: self.server_url(), ca_pem: Some(self.ca_pem()) };
        kubeconfig::write(&path, &server, &user, &Credentials::Token(&token))?;
        Ok(path)
    }

    /// A kubeconfig of a service account whose requests go through a proxy, for faults at exact moments.
    pub async fn kubeconfig_via(
        &self,
        proxy: &Proxy,
        namespace: &str,
        service_account: &str,
    ) -> Result<PathBuf> {
        let token = self.token_for(namespace, service_account).await?;
        let user = format!("{namespace}-{service_account}");
        let port = proxy.url().rsplit(':').next().unwrap_or_default();
        let path = self.run_dir().join("kubeconfigs").join(format!("{user}-via-{port}.kubeconfig"));
        proxy.write_kubeconfig(&path, &user, &token)?;
        Ok(path)
    }

    /// A fault-injecting proxy before this cluster's API server; as many as there are identities to tell apart.
    pub async fn proxy(&self) -> Result<Proxy> {
        Proxy::start(self.server_url(), self.ca_pem()).await
    }

    /// A client of a service account: it can what its roles let it.
    pub async fn client_for(&self, namespace: &str, service_account: &str) -> Result<Client> {
        cluster::client(&self.kubeconfig_for(namespace, service_account).await?).await
    }

    /// Waits until a service account exists, as after making a namespace.
    pub(crate) async fn await_service_account(&self, namespace: &str, name: &str) -> Result<()> {
        let api: Api<ServiceAccount> = Api::namespaced(self.admin(), namespace);
        let api = &api;
        let log = self.run_dir().join("controller-manager.log");
        probe::until(
            &format!("{namespace}/{name} having a service account"),
            log,
            probe::READY_WITHIN,
            || async move { api.get_opt(name).await.is_ok_and(|found| found.is_some()) },
        )
        .await
    }
}

/// A client of any kubeconfig file.
pub async fn client_of(kubeconfig: impl AsRef<Path>) -> Result<Client> {
    cluster::client(kubeconfig.as_ref()).await
}
