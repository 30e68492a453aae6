//! Where binaries come from, with a stand-in for `go`, so that nothing is really built.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use devcluster::{Component, binaries};

const ANSWER: &str = "DEVCLUSTER_TEST_ANSWER";

/// Notes that it ran, takes a moment, and writes the file that `-o` names.
const GO: &str = r#"#!/bin/sh
echo "$@" >> "$(dirname "$0")/ran"
sleep 1
if [ -e "$(dirname "$0")/broken" ]; then echo "undefined: something" >&2; exit 1; fi
while [ $# -gt 0 ]; do if [ "$1" = -o ]; then echo built > "$2"; fi; shift; done
"#;

/// Not a test of its own: another process with another environment, run by the tests below.
#[tokio::test]
#[ignore = "run by the other tests of this file"]
async fn another_process() {
    let Some(answer) = std::env::var_os(ANSWER) else { return };
    let found = binaries::ensure(Component::Etcd).await;
    std::fs::write(answer, found.map_or_else(|error| error.to_string(), |path| path.display().to_string()))
        .unwrap();
}

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    /// A folder with a stand-in for `go` and an empty cache.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let go = dir.path().join("bin/go");
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        std::fs::write(&go, GO).unwrap();
        std::fs::set_permissions(&go, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ask(&self, answer: &str) -> (Command, PathBuf) {
        let answer = self.path(answer);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "another_process", "--ignored"])
            .env(ANSWER, &answer)
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .env_remove("KUBEBUILDER_ASSETS")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        (command, answer)
    }

    fn builds(&self) -> usize {
        std::fs::read_to_string(self.path("bin/ran")).unwrap_or_default().lines().count()
    }
}

fn answer(mut process: Child, file: &Path) -> String {
    assert!(process.wait().unwrap().success());
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn two_processes_build_once_and_a_third_not_at_all() {
    let bench = Bench::new();
    let (mut one, first) = bench.ask("one");
    let (mut two, second) = bench.ask("two");
    let (one, two) = (one.spawn().unwrap(), two.spawn().unwrap());
    let (first, second) = (answer(one, &first), answer(two, &second));
    assert_eq!(first, second);
    assert!(first.contains("/cache/address-controller-devcluster/etcd-"), "{first}");
    assert_eq!(std::fs::read_to_string(&first).unwrap().trim(), "built");
    let (mut three, third) = bench.ask("three");
    assert_eq!(answer(three.spawn().unwrap(), &third), first);
    assert_eq!(bench.builds(), 1);
}

#[test]
fn a_failed_build_names_the_component_and_its_log_and_is_tried_again() {
    let bench = Bench::new();
    std::fs::write(bench.path("bin/broken"), "").unwrap();
    let (mut command, file) = bench.ask("failed");
    let error = answer(command.spawn().unwrap(), &file);
    assert!(error.starts_with("building etcd failed, see "), "{error}");
    assert!(error.contains(".log; its last lines:\nundefined: something"), "{error}");
    std::fs::remove_file(bench.path("bin/broken")).unwrap();
    let (mut command, file) = bench.ask("mended");
    assert!(Path::new(&answer(command.spawn().unwrap(), &file)).is_file());
}

#[test]
fn a_missing_go_is_told_with_the_way_out() {
    let bench = Bench::new();
    let (mut command, file) = bench.ask("missing");
    let error = answer(command.env("PATH", "/nowhere").spawn().unwrap(), &file);
    assert!(error.starts_with("`go` was not found on PATH, and etcd has to be built: install Go"), "{error}");
}

#[test]
fn binaries_of_the_user_are_preferred() {
    let bench = Bench::new();
    for name in ["etcd", "kube-apiserver"] {
        std::fs::write(bench.path(name), "").unwrap();
    }
    let (mut command, file) = bench.ask("assets");
    let found = answer(command.env("KUBEBUILDER_ASSETS", bench.dir.path()).spawn().unwrap(), &file);
    assert_eq!(Path::new(&found), bench.path("etcd"));

    let (mut command, file) = bench.ask("path");
    let path = format!("/usr/bin:/bin:{}", bench.dir.path().display());
    assert_eq!(Path::new(&answer(command.env("PATH", path).spawn().unwrap(), &file)), bench.path("etcd"));
    assert_eq!(bench.builds(), 0);
}
