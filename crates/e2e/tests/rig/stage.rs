//! The stage of one test: namespaces, a pool and a class that nobody else knows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use api::{IPAddress, IPAddressClaim, IPAddressClass};
use devcluster::{Cluster, Controller, Witness};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::Client;
use kube::api::Api;
use serde_json::json;
use tokio::sync::Mutex;

use super::audit::Audit;

/// The addresses of one test and who may ask for them.
pub struct Stage {
    /// The namespace, the class and the pool are all named so.
    pub name: String,
    /// The namespace of those who have no right to anything.
    pub thief: String,
    /// Where the placeholders are; of the shared control plane, if the test does not say otherwise.
    pub home: String,
    /// The first three numbers of this stage's IPv4 addresses: nobody else has any of them.
    pub subnet: String,
    /// The `spec.loadBalancerClass` that MetalLB serves here, if any.
    pub balancer: Option<String>,
    /// The IPv4 addresses of the pool.
    pub v4: Vec<String>,
    /// The IPv6 addresses of the pool.
    pub v6: Vec<String>,
    pub(super) client: Client,
    pub(super) witness: Mutex<Witness>,
    pub(super) audit: Audit,
    pub(super) contested: std::sync::Mutex<BTreeSet<String>>,
    pub(super) run_dir: PathBuf,
}

impl Stage {
    pub(super) async fn set(cluster: &Cluster, name: &str, number: usize, v4: usize, v6: usize) -> Self {
        let client = cluster.admin();
        assert!(number < 512 && v4 < 255 && v6 < 9999, "no more documentation addresses");
        let subnet = format!("198.{}.{}", 18 + number / 256, number % 256);
        let v4: Vec<_> = (1..=v4).map(|host| format!("{subnet}.{host}")).collect();
        let v6: Vec<_> = (1..=v6).map(|host| format!("2001:db8:{number}::{host}")).collect();
        let stage = Self {
            name: name.to_owned(),
            thief: format!("{name}-thief"),
            home: Controller::Driver.namespace().to_owned(),
            subnet,
            balancer: None,
            v4,
            v6,
            witness: Mutex::new(Witness::start(client.clone()).await.unwrap()),
            client,
            audit: Audit::of(cluster.audit_log()),
            contested: std::sync::Mutex::default(),
            run_dir: cluster.run_dir().to_owned(),
        };
        for namespace in [&stage.name, &stage.thief] {
            stage.make_namespace(namespace).await;
        }
        if !stage.ranges().is_empty() {
            let ranges = stage.ranges();
            let ranges: Vec<&str> = ranges.iter().map(String::as_str).collect();
            cluster.create_pool(name, &ranges, false).await.unwrap();
        }
        stage.class(name, "Retain").await;
        stage
    }

    /// The pool's ranges.
    pub fn ranges(&self) -> Vec<String> {
        let range = |ips: &[String]| Some(format!("{}-{}", ips.first()?, ips.last()?));
        [range(&self.v4), range(&self.v6)].into_iter().flatten().collect()
    }

    /// The folder with the logs of every part.
    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// Watches from now on with fresh eyes: a restarted API server does not tell what was before it. What was seen of
    /// the contested addresses until then has to be well.
    pub async fn witness_anew(&self) {
        let fresh = Witness::start(self.client()).await.unwrap();
        let old = std::mem::replace(&mut *self.witness.lock().await, fresh);
        self.assert_held_throughout(&old.seen());
    }

    /// A client with every right.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The Services of the stage's namespace.
    pub fn services(&self) -> Api<Service> {
        Api::namespaced(self.client(), &self.name)
    }

    /// The Services of the thief's namespace.
    pub fn thief_services(&self) -> Api<Service> {
        Api::namespaced(self.client(), &self.thief)
    }

    /// The placeholders, of all stages.
    pub fn placeholders(&self) -> Api<Service> {
        Api::namespaced(self.client(), &self.home)
    }

    /// The claims of the stage's namespace.
    pub fn claims(&self) -> Api<IPAddressClaim> {
        Api::namespaced(self.client(), &self.name)
    }

    /// The addresses, of all stages.
    pub fn addresses(&self) -> Api<IPAddress> {
        Api::all(self.client())
    }

    /// The classes, of all stages.
    pub fn classes(&self) -> Api<IPAddressClass> {
        Api::all(self.client())
    }

    pub(crate) async fn make_namespace(&self, name: &str) {
        let api: Api<Namespace> = Api::all(self.client());
        let namespace = json!({ "metadata": { "name": name } });
        super::make::create(&api, namespace).await;
    }
}
