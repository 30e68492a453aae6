//! The control plane, for real. The first run builds it, which takes a while.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::path::Path;
use std::time::{Duration, Instant};

use devcluster::{Cluster, Options, Part};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, PostParams};
use serde_json::json;

/// A Service without selector that asks for an address of the pool.
async fn ask(cluster: &Cluster, name: &str, pool: &str) {
    let service = json!({
        "metadata": { "name": name, "annotations": { "metallb.io/address-pool": pool } },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
    });
    let service: Service = serde_json::from_value(service).unwrap();
    services(cluster).create(&PostParams::default(), &service).await.unwrap();
}

fn services(cluster: &Cluster) -> Api<Service> {
    Api::namespaced(cluster.admin(), "default")
}

async fn address(cluster: &Cluster, name: &str) -> Option<String> {
    let service = services(cluster).get(name).await.ok()?;
    service.status?.load_balancer?.ingress?.first()?.ip.clone()
}

/// Waits for the address of a Service.
async fn awaited(cluster: &Cluster, name: &str) -> String {
    let started = Instant::now();
    loop {
        if let Some(ip) = address(cluster, name).await {
            return ip;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{name} got no address");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn pids(dir: &Path) -> Vec<u64> {
    let state: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(dir.join("state.json")).unwrap()).unwrap();
    state["parts"].as_object().unwrap().values().filter_map(|part| part["pid"].as_u64()).collect()
}

fn alive(pid: u64) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn metallb_assigns_and_parts_come_back_with_their_data() {
    let started = Instant::now();
    let cluster = Cluster::start(Options::default()).await.unwrap();
    eprintln!("started in {:?}", started.elapsed());
    let dir = cluster.run_dir().to_owned();
    assert_eq!(pids(&dir).len(), 4);

    cluster.create_pool("public", &["203.0.113.0/30"], false).await.unwrap();
    ask(&cluster, "first", "public").await;
    assert_eq!(awaited(&cluster, "first").await, "203.0.113.0");

    cluster.stop(Part::Metallb).await.unwrap();
    ask(&cluster, "second", "public").await;
    cluster.kill(Part::Apiserver).await.unwrap();
    cluster.kill(Part::Etcd).await.unwrap();
    cluster.start_part(Part::Etcd).await.unwrap();
    cluster.start_part(Part::Apiserver).await.unwrap();
    assert_eq!(address(&cluster, "second").await, None, "nobody assigns while MetalLB is stopped");

    // Another process would do the same: it only has the folder.
    let attached = Cluster::attach(&dir).await.unwrap();
    assert_eq!(attached.part_names(), ["apiserver", "controller-manager", "etcd", "metallb"]);
    attached.start_part("metallb").await.unwrap();
    assert_eq!(awaited(&cluster, "second").await, "203.0.113.1");
    drop(attached);
    cluster.stop(Part::ControllerManager).await.unwrap();
    assert_eq!(pids(&dir).len(), 3, "what another handle has started stays recorded");
    cluster.start_part(Part::ControllerManager).await.unwrap();

    cluster.pause(Part::ControllerManager).unwrap();
    let pids = pids(&dir);
    assert!(pids.iter().all(|pid| alive(*pid)));
    drop(cluster);
    assert!(pids.iter().all(|pid| !alive(*pid)), "something was left running");
    assert!(!dir.exists(), "the run folder was left behind");
}
