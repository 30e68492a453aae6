//! Nothing of a network is left, whatever way its program ends.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use devcluster::{Cluster, Network, Options, binaries};
use tokio::runtime::Runtime;

use crate::plane;

const RUN: &str = "DEVCLUSTER_TEST_NETWORK";
/// How soon nothing may be left.
const WITHIN: Duration = Duration::from_secs(30);
/// What runs inside the node: etcd, kube-apiserver, kube-controller-manager, MetalLB's controller and speaker, kube-proxy.
const PARTS: usize = 6;

/// Not a test of its own: another process, run by the test below. It has everything: a network, and a control plane in it.
#[test]
#[ignore = "run by the other test of this file"]
fn another_process() {
    let Some(dir) = std::env::var_os(RUN) else { return };
    let options = Options { dir: Some(dir.into()), metallb_unthrottled: true, ..Options::default() };
    // From inside nothing can be fetched.
    Runtime::new().unwrap().block_on(binaries::ensure_for_network(&options)).unwrap();
    let network = Network::create().unwrap();
    let (_pod, ip) = network.pod().unwrap();
    let runtime = network.runtime().unwrap();
    let options = Options { network: Some(network.clone()), ..options };
    let _cluster = runtime.block_on(Cluster::start(options)).unwrap();
    println!("\ninode {} {ip}", inode("/proc/thread-self/ns/net"));
    loop {
        std::thread::park();
    }
}

fn inode(path: &str) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

/// The network namespaces that any process is in.
fn namespaces() -> Vec<u64> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| Some(std::fs::metadata(entry.path().join("ns/net")).ok()?.ino())).collect()
}

/// The interfaces of the machine's own network.
fn interfaces() -> String {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim())
        .collect::<Vec<_>>()
        .join(" ")
}

/// How many processes are in a network.
fn inside(network: u64) -> usize {
    namespaces().into_iter().filter(|one| *one == network).count()
}

/// A program that is killed leaves no network and no part of a control plane, and while it runs the machine's own network has nothing
/// to do with it.
#[test]
fn c17_a_killed_run_leaves_no_network() {
    let _turn = plane::turn();
    let dir = tempfile::tempdir().unwrap();
    let (own, before) = (inode("/proc/thread-self/ns/net"), interfaces());
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "leftovers::another_process", "--ignored", "--nocapture"]).env(RUN, dir.path());
    let mut other = other.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(other.stdout.take().unwrap()).lines();
    let said = lines.map_while(Result::ok).find(|line| line.starts_with("inode ")).unwrap();
    let made: u64 = said.split(' ').nth(1).unwrap().parse().unwrap();
    assert_ne!(made, own);
    assert!(inside(made) >= PARTS, "{} processes are in it", inside(made));
    assert_eq!(interfaces(), before);
    other.kill().unwrap();
    other.wait().unwrap();
    let deadline = Instant::now() + WITHIN;
    while inside(made) > 0 {
        assert!(
            Instant::now() < deadline,
            "{} processes still run in the network of a killed program",
            inside(made)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(interfaces(), before);
}
