//! What Services tell of a ledger that is lost, and what the program in `docs/operations.md` makes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use api::wellknown::{CLAIM, driver, metallb};
use devcluster::workspace;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::rig::ingress;

/// That a claim has an IP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    pub namespace: String,
    pub claim: String,
    pub ip: String,
}

/// What placeholders and pinned Services tell, without what is not clear.
pub fn told(services: &[Service], home: &str) -> BTreeSet<Told> {
    let all = services.iter().flat_map(|service| told_by(service, home)).collect();
    let of_one = alone(all, |told| told.ip.clone());
    alone(of_one, |told| (told.namespace.clone(), told.claim.clone(), told.ip.contains(':')))
}

/// Those whose key no other has.
fn alone<K: Ord>(all: BTreeSet<Told>, key: impl Fn(&Told) -> K) -> BTreeSet<Told> {
    let mut counts = BTreeMap::<K, usize>::new();
    for told in &all {
        *counts.entry(key(told)).or_default() += 1;
    }
    all.into_iter().filter(|told| counts[&key(told)] == 1).collect()
}

fn told_by(service: &Service, home: &str) -> Vec<Told> {
    let marks = service.annotations();
    let namespace = service.namespace().unwrap();
    let mark = |name: &str| marks.get(name).cloned();
    let is_hold = namespace == home;
    let of = if is_hold {
        mark(driver::CLAIM_NAMESPACE).zip(mark(driver::CLAIM_NAME))
    } else {
        mark(CLAIM)
            .filter(|_| mark(driver::PINNED).as_deref() == Some("true"))
            .map(|claim| (namespace, claim))
    };
    let Some((namespace, claim)) = of else { return Vec::new() };
    let pins = mark(metallb::PIN).unwrap_or_default();
    let mut ips = ingress(service);
    ips.retain(|ip| is_hold || pins.split(',').any(|pin| pin == ip));
    ips.into_iter().map(|ip| Told { namespace: namespace.clone(), claim: claim.clone(), ip }).collect()
}

/// What the program in the guide makes of a list of Services.
pub fn by_the_guide(services: &[Service], home: &str) -> BTreeSet<Told> {
    let guide = std::fs::read_to_string(workspace().join("docs/operations.md")).unwrap();
    let (_, rest) = guide.split_once("jq -r --arg holds \"$holds\" '").unwrap();
    let (program, _) = rest.split_once("' > told\n").unwrap();
    let mut jq = Command::new("jq");
    jq.args(["-r", "--arg", "holds", home, program]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut jq = jq.spawn().unwrap();
    let mut stdin = jq.stdin.take().unwrap();
    // What it has to say is less than a pipe holds, and comes after all was read.
    stdin.write_all(json!({ "items": services }).to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = jq.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let words: Vec<_> = line.split('\t').map(str::to_owned).collect();
        let [namespace, claim, ip]: [String; 3] = words.try_into().unwrap();
        Told { namespace, claim, ip }
    };
    text.lines().map(line).collect()
}

fn service(namespace: &str, name: &str, marks: Value, ips: &[&str]) -> Service {
    let ingress: Vec<_> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
    let service = json!({
        "metadata": { "namespace": namespace, "name": name, "annotations": marks },
        "status": { "loadBalancer": { "ingress": ingress } },
    });
    serde_json::from_value(service).unwrap()
}

/// Of each Service: whether it is believed, and what is not clear is left out, by us and by the guide.
#[test]
fn c12_only_what_the_driver_marked_tells_of_a_lost_ledger() {
    let hold = |claim: &str, ip: &str| {
        let marks = json!({ driver::CLAIM_NAMESPACE: "t", driver::CLAIM_NAME: claim, metallb::PIN: ip });
        service("holds", claim, marks, &[ip])
    };
    let pinned = |claim: &str, pins: &str, ips: &[&str]| {
        service("t", claim, json!({ driver::PINNED: "true", CLAIM: claim, metallb::PIN: pins }), ips)
    };
    let services = [
        hold("held", "192.0.2.1"),
        pinned("web", "192.0.2.2,2001:db8::2", &["192.0.2.2", "2001:db8::2"]),
        // An allocation that was not recorded yet.
        service(
            "holds",
            "new",
            json!({ driver::CLAIM_NAMESPACE: "t", driver::CLAIM_NAME: "new" }),
            &["192.0.2.3"],
        ),
        // Refused, with an IP from elsewhere.
        service("t", "refused", json!({ CLAIM: "held", metallb::PIN: "192.0.2.4" }), &["192.0.2.4"]),
        // It shows another IP than the driver wanted.
        pinned("other", "192.0.2.5", &["192.0.2.6"]),
        // No placeholder, whatever it says of itself.
        service(
            "t",
            "forged",
            json!({ driver::CLAIM_NAMESPACE: "t", driver::CLAIM_NAME: "x" }),
            &["192.0.2.7"],
        ),
        service("t", "plain", json!({}), &["192.0.2.8"]),
        service("holds", "stranger", json!({}), &["192.0.2.9"]),
        // Nobody there to have it.
        pinned("unserved", "192.0.2.10", &[]),
        // Being moved: its address is of another claim than the one it names, which has one already.
        hold("next", "192.0.2.11"),
        pinned("next", "192.0.2.12", &["192.0.2.12"]),
        // On its way back from one claim, on which it is told already.
        hold("before", "192.0.2.13"),
        pinned("after", "192.0.2.13", &["192.0.2.13"]),
    ];
    let expected =
        [("held", "192.0.2.1"), ("new", "192.0.2.3"), ("web", "192.0.2.2"), ("web", "2001:db8::2")];
    let expected =
        expected.map(|(claim, ip)| Told { namespace: "t".into(), claim: claim.into(), ip: ip.into() });
    let expected = BTreeSet::from(expected);
    assert_eq!(told(&services, "holds"), expected);
    assert_eq!(by_the_guide(&services, "holds"), expected);
}
