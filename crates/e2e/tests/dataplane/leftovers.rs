//! Nothing of a network is left, whatever way its program ends.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use devcluster::Network;

const RUN: &str = "DEVCLUSTER_TEST_NETWORK";

/// Not a test of its own: another process, run by the test below.
#[test]
#[ignore = "run by the other test of this file"]
fn another_process() {
    if std::env::var_os(RUN).is_none() {
        return;
    }
    let network = Network::create().unwrap();
    let (_pod, ip) = network.pod().unwrap();
    network.node().enter().unwrap();
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

/// A program that is killed leaves no network, and while it runs the machine's own has nothing to do with it.
#[test]
fn c17_a_killed_run_leaves_no_network() {
    let (own, before) = (inode("/proc/thread-self/ns/net"), interfaces());
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "leftovers::another_process", "--ignored", "--nocapture"]).env(RUN, "1");
    let mut other = other.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(other.stdout.take().unwrap()).lines();
    let said = lines.map_while(Result::ok).find(|line| line.starts_with("inode ")).unwrap();
    let made: u64 = said.split(' ').nth(1).unwrap().parse().unwrap();
    assert_ne!(made, own);
    assert_eq!(interfaces(), before);
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(!namespaces().contains(&made), "something still runs in the network of a killed program");
    assert_eq!(interfaces(), before);
}
