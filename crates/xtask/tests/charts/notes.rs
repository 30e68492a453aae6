//! What helm says after an install: commands that can be typed as they stand.

use api::{IPAddressClaim, IPAddressClass};
use kube::ResourceExt;
use serde::de::DeserializeOwned;

use super::{CORE, DRIVER, helm};

/// What `helm install` would say.
fn notes(chart: &str, values: &[&str]) -> String {
    let args = ["install", chart, chart, "--dry-run=client", "--namespace", "release-ns"];
    let output = helm(&[&args[..], values].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_once("NOTES:\n").unwrap().1.to_owned()
}

/// The object of the one command that reads one from what follows it, up to a line that a shell takes for the end.
fn typed<K: DeserializeOwned>(notes: &str) -> K {
    let mut lines = notes.lines().skip_while(|line| !line.ends_with("apply -f - <<EOF"));
    assert!(lines.next().unwrap().starts_with("kubectl "), "{notes}");
    let object: Vec<_> = lines.by_ref().take_while(|line| *line != "EOF").collect();
    assert!(lines.next().is_some(), "nothing ends the object in {notes}");
    serde_yaml_ng::from_str(&object.join("\n")).unwrap()
}

#[test]
#[ignore = "needs helm: cargo verify --only charts"]
fn the_next_commands_of_the_core_make_a_class() {
    let class: IPAddressClass = typed(&notes(CORE, &[]));
    assert_eq!(class.spec.provisioner, api::wellknown::driver::PROVISIONER);
}

#[test]
#[ignore = "needs helm: cargo verify --only charts"]
fn the_next_commands_of_the_driver_make_a_claim_and_give_it_to_a_service() {
    let said = notes(DRIVER, &[]);
    let claim: IPAddressClaim = typed(&said);
    let name = claim.name_any();
    for command in [
        format!(
            "kubectl -n NAMESPACE wait --for=condition=Ready ipaddressclaims.{}/{name}",
            api::wellknown::GROUP
        ),
        format!("kubectl -n NAMESPACE annotate service web {}={name}", api::wellknown::CLAIM),
        "helm test metallb-iad --namespace release-ns --logs".to_owned(),
    ] {
        assert!(said.lines().any(|line| line.trim_start() == command), "no {command:?} in {said}");
    }
    let without = notes(DRIVER, &["--set", "test.enabled=false"]);
    assert!(!without.contains("helm test"), "{without}");
}
