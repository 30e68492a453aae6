//! Who asks the API server, with every right on Services and addresses: what is refused, the policies refuse.

use std::fmt::Debug;

use devcluster::client_of;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::rig::{self, Rig};

const ROLE: &str = "c13-all-services-and-addresses";

/// A person or program, by a token of its own or by impersonation.
#[derive(Clone, Debug)]
pub enum Who {
    /// A service account, by its token.
    Account(String, String),
    /// A user of these groups, impersonated by the administrator.
    User(&'static str, &'static [&'static str]),
}

impl Who {
    /// The service account of somebody who owns a namespace.
    pub fn tenant(namespace: &str) -> Self {
        Self::Account(namespace.to_owned(), "tenant".to_owned())
    }

    /// A client of theirs, after they were given every right on Services, claims and addresses.
    pub async fn client(&self, rig: &Rig) -> Client {
        let admin = rig.cluster.admin();
        let rule = json!({
            "apiGroups": ["", api::wellknown::GROUP], "verbs": ["*"],
            "resources": ["services", "services/status", "ipaddresses", "ipaddresses/status", "ipaddressclaims"],
        });
        there(
            &Api::<ClusterRole>::all(admin.clone()),
            json!({ "metadata": { "name": ROLE }, "rules": [rule] }),
        )
        .await;
        let (name, subject) = match self {
            Self::Account(namespace, name) => {
                let meta = json!({ "metadata": { "name": namespace } });
                there(&Api::<Namespace>::all(admin.clone()), meta).await;
                let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
                there(&accounts, json!({ "metadata": { "name": name } })).await;
                (
                    format!("{namespace}-{name}"),
                    json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name }),
                )
            }
            Self::User(name, _) => (
                name.replace(':', "-"),
                json!({ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name }),
            ),
        };
        let binding = json!({
            "metadata": { "name": format!("c13-{name}") }, "subjects": [subject],
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE },
        });
        there(&Api::<ClusterRoleBinding>::all(admin), binding).await;
        match self {
            Self::Account(namespace, name) => {
                client_of(rig.cluster.kubeconfig_for(namespace, name).await.unwrap()).await.unwrap()
            }
            Self::User(user, groups) => impersonating(rig, user, groups).await,
        }
    }
}

async fn impersonating(rig: &Rig, user: &str, groups: &[&str]) -> Client {
    let config = Kubeconfig::read_from(rig.cluster.admin_kubeconfig()).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    config.auth_info.impersonate = Some(user.to_owned());
    let groups = groups.iter().map(ToString::to_string);
    config.auth_info.impersonate_groups = Some(groups.chain(["system:authenticated".to_owned()]).collect());
    Client::try_from(config).unwrap()
}

/// Creates what may be there already.
async fn there<K>(api: &Api<K>, object: Value)
where
    K: kube::Resource + Clone + Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let made = rig::try_create(api, object).await;
    let there = matches!(&made, Err(kube::Error::Api(status)) if status.code == 409);
    assert!(made.is_ok() || there, "{made:?}");
}
