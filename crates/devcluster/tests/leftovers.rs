//! Nothing is left running, whatever way the parent ends; and a detached run is, until it is told to end.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use devcluster::{Cluster, Error, Families, Options, Part};

const DIR: &str = "DEVCLUSTER_TEST_DIR";
const DETACHED: &str = "DEVCLUSTER_TEST_DETACHED";

/// Not a test of its own: another process, run by the tests below.
#[tokio::test]
#[ignore = "run by the other tests of this file"]
async fn another_process() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let detached = std::env::var_os(DETACHED).is_some();
    let options = Options {
        dir: Some(dir.into()),
        detached,
        metallb: false,
        families: Families::Ipv4Only,
        ..Options::default()
    };
    let cluster = Cluster::start(options).await.unwrap();
    std::fs::write(cluster.run_dir().join("up"), "").unwrap();
    if !detached {
        std::future::pending::<()>().await;
    }
}

fn another(dir: &Path, detached: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "another_process", "--ignored"]).env(DIR, dir).stdout(Stdio::null());
    if detached {
        command.env(DETACHED, "1");
    }
    command.spawn().unwrap()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(120), "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn processes(dir: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(dir.join("state.json")).unwrap();
    let state: serde_json::Value = serde_json::from_str(&text).unwrap();
    let pids = state["parts"].as_object().unwrap().values().filter_map(|part| part["pid"].as_u64());
    pids.map(|pid| format!("/proc/{pid}").into()).collect()
}

#[tokio::test]
async fn a_killed_parent_leaves_nothing_running() {
    let dir = tempfile::tempdir().unwrap();
    let mut parent = another(dir.path(), false);
    until("the other process is up", || dir.path().join("up").exists()).await;
    let processes = processes(dir.path());
    assert_eq!(processes.len(), 3);
    assert!(processes.iter().all(|process| process.exists()));
    parent.kill().unwrap();
    parent.wait().unwrap();
    until("its children are gone", || !processes.iter().any(|process| process.exists())).await;
}

#[tokio::test]
async fn a_detached_run_outlives_its_parent_until_it_is_taken_down() {
    let dir = tempfile::tempdir().unwrap();
    let status = another(dir.path(), true).wait().unwrap();
    assert!(status.success());
    let processes = processes(dir.path());
    assert_eq!(processes.len(), 3);

    let cluster = Cluster::attach(dir.path()).await.unwrap();
    cluster.kill(Part::Apiserver).await.unwrap();
    cluster.start_part(Part::Apiserver).await.unwrap();
    cluster.admin().apiserver_version().await.unwrap();
    drop(cluster);
    let again = Options { dir: Some(dir.path().to_owned()), metallb: false, ..Options::default() };
    assert!(matches!(Cluster::start(again.clone()).await, Err(Error::AlreadyUp { .. })));

    let cluster = Cluster::attach(dir.path()).await.unwrap();
    assert!(cluster.process(Part::Apiserver).unwrap().is_running());
    cluster.down().await.unwrap();
    until("its processes are gone", || !processes.iter().any(|process| process.exists())).await;
    assert!(Cluster::attach(dir.path()).await.is_err(), "there is nothing left to attach to");
}

#[tokio::test]
async fn a_part_that_cannot_run_is_named_with_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        dir: Some(dir.path().to_owned()),
        metallb: false,
        apiserver_args: vec!["--no-such-flag".into()],
        ..Options::default()
    };
    let error = Cluster::start(options).await.unwrap_err().to_string();
    assert!(error.contains("apiserver ended by itself"), "{error}");
    assert!(error.contains("apiserver.log"), "{error}");
    assert!(error.contains("no-such-flag"), "{error}");
}

#[tokio::test]
async fn two_at_once_do_not_collide() {
    let options = || Options { metallb: false, ..Options::default() };
    let (one, two) = tokio::try_join!(Cluster::start(options()), Cluster::start(options())).unwrap();
    assert_ne!(one.server_url(), two.server_url());
    one.admin().apiserver_version().await.unwrap();
    two.admin().apiserver_version().await.unwrap();
}
