//! An address with a client at it, two workloads of its claim's owner, and a thief who never stops trying.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::wellknown::{CLAIM, metallb};
use devcluster::traffic::{Report, Traffic, Workload};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::plane::Plane;
use crate::rig::{self, BROKEN, Stage, load_balancer};

/// The claim whose address it is.
pub const CLAIM_NAME: &str = "web-ip";
/// How often the thief tries anew.
const TRIES_EVERY: Duration = Duration::from_millis(100);
/// A thief who has tried less often than this was none.
const TRIES: usize = 10;

/// Traffic to a claimed address that Service `v1` has, with `v2` ready to be made.
pub struct Flow {
    pub stage: Stage,
    pub ip: String,
    shape: Value,
    traffic: Traffic,
    thief: JoinHandle<()>,
    /// How many Services the thief has made.
    tries: Arc<AtomicUsize>,
    _workloads: [Workload; 3],
}

impl Flow {
    /// Begins with everything there: the claim's address with Service `v1`, thieves that wait for it in MetalLB, and a client
    /// that is answered by `v1`.
    pub async fn begin(plane: &Plane, name: &str) -> Self {
        Self::begin_with(plane, name, json!({})).await
    }

    /// The same with further fields in the specification of both Services.
    pub async fn begin_with(plane: &Plane, name: &str, shape: Value) -> Self {
        let stage = plane.rig.stage(name, 1).await;
        stage.claim(CLAIM_NAME).await;
        let ip = stage.bound(CLAIM_NAME).await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;
        let cluster = &plane.rig.cluster;
        let workloads = [
            cluster.run_workload(&stage.name, "v1", &["v1"]).await.unwrap(),
            cluster.run_workload(&stage.name, "v2", &["v2"]).await.unwrap(),
            // Whatever the thief gets leads here: also the Services that wait.
            cluster.run_workload(&stage.thief, "thief", &["grab", "grab-0", "lurk"]).await.unwrap(),
        ];
        let tries = Arc::<AtomicUsize>::default();
        let thief = tokio::spawn(try_and_try(stage.thief_services(), ip.clone(), Arc::clone(&tries)));
        let traffic = Traffic::start(&plane.network, ip.parse().unwrap()).unwrap();
        let flow = Self { stage, ip, shape, traffic, thief, tries, _workloads: workloads };
        flow.make("v1", Some(CLAIM_NAME)).await;
        flow.answered_by("v1").await;
        flow
    }

    /// Makes a Service of that name for the workload of that name, which names the claim or does not.
    pub async fn make(&self, name: &str, claim: Option<&str>) {
        let annotations = claim.map_or(json!({}), |claim| json!({ CLAIM: claim }));
        let mut service = load_balancer(name, annotations);
        for (field, value) in self.shape.as_object().unwrap() {
            service["spec"][field] = value.clone();
        }
        self.stage.service(service).await;
    }

    /// Waits until the handoff to a Service is over and nobody but its workload answers any more.
    pub async fn answered_by(&self, name: &str) {
        self.stage.served(name, &[&self.ip]).await;
        let workload = format!("{}/{name}", self.stage.name);
        rig::eventually(&format!("{workload} alone to answer"), async || {
            self.traffic.is_steady(&workload).then_some(())
        })
        .await;
    }

    /// Ends the traffic. No answer came from anybody but the claim's owner, and nothing was stolen or unheld in MetalLB's
    /// books; which requests failed is told.
    pub async fn end(self) -> Report {
        let report = self.traffic.stop().await.unwrap().since_the_first_answer();
        println!("{}: {report}", self.stage.name);
        self.thief.abort();
        let tries = self.tries.load(Ordering::Relaxed);
        println!("{}: the thief made {tries} Services", self.stage.name);
        assert!(tries > TRIES, "the thief made {tries} Services only");
        let own = format!("{}/", self.stage.name);
        let answered: BTreeSet<_> = report.answers().into_keys().map(str::to_owned).collect();
        let foreign = answered.iter().find(|name| !name.starts_with(&own));
        assert!(foreign.is_none(), "{BROKEN}{foreign:?} answered at {}: {report}", self.ip);
        let named = report.line.names.iter().all(|name| name.starts_with(&own));
        assert!(named && report.line.names.len() == 1, "{BROKEN}one connection, several ends: {report}");
        self.stage.finish().await;
        report
    }
}

/// A thief who makes a Service pinned to the address, sees that it gets nothing, takes it away and tries again: in turn at the
/// tenant's port and beside it.
async fn try_and_try(services: Api<Service>, ip: String, tries: Arc<AtomicUsize>) {
    let mut ticks = tokio::time::interval(TRIES_EVERY);
    for try_number in 0.. {
        let mut service = load_balancer("grab", json!({ metallb::PIN: ip }));
        service["spec"]["ports"] = json!([{ "port": 80 + try_number % 2, "targetPort": 80 }]);
        let service: Service = serde_json::from_value(service).unwrap();
        // The API server may be away; the one before may still be there.
        if services.create(&PostParams::default(), &service).await.is_ok() {
            tries.fetch_add(1, Ordering::Relaxed);
        }
        ticks.tick().await;
        let _ = services.delete(&service.name_any(), &DeleteParams::default()).await;
    }
}
