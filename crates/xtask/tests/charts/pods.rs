//! Every pod of every chart, whatever the values: probed, limited, hardened, and with a token only where one is used.

use rstest::rstest;
use serde_yaml_ng::Value as Yaml;

use super::{CORE, DASHBOARD, DRIVER, objects, render, values_of};

/// The specification of a pod, if the object makes one.
fn pod(object: &Yaml) -> Option<&Yaml> {
    match object["kind"].as_str()? {
        "Pod" => Some(&object["spec"]),
        "Deployment" | "StatefulSet" | "DaemonSet" | "Job" => Some(&object["spec"]["template"]["spec"]),
        _ => None,
    }
}

/// The image of a pod, if the object makes one.
pub fn image(object: &Yaml) -> Option<&str> {
    pod(object)?["containers"][0]["image"].as_str()
}

fn list(value: &Yaml) -> impl Iterator<Item = &Yaml> {
    value.as_sequence().into_iter().flatten()
}

/// Whether anything is granted to a service account.
fn is_granted_something(account: &Yaml, objects: &[Yaml]) -> bool {
    let mut bindings =
        objects.iter().filter(|one| one["kind"].as_str().is_some_and(|kind| kind.ends_with("RoleBinding")));
    bindings.any(|binding| list(&binding["subjects"]).any(|subject| subject["name"] == *account))
}

fn is_hardened(pod: &Yaml, what: &str) {
    let security = &pod["securityContext"];
    assert_eq!(security["runAsNonRoot"], true, "{what}");
    assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault", "{what}");
    for container in list(&pod["containers"]) {
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], true, "{what}");
        assert_eq!(security["allowPrivilegeEscalation"], false, "{what}");
        assert!(list(&security["capabilities"]["drop"]).any(|one| one == "ALL"), "{what}");
    }
}

/// What goes on running answers for its health and its readiness, at a port that it has.
fn is_probed(container: &Yaml, what: &str) {
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        let get = &container[probe]["httpGet"];
        assert_eq!(get["path"], path, "{what}");
        assert!(list(&container["ports"]).any(|port| port["name"] == get["port"]), "{what}: {get:?}");
    }
}

#[rstest]
#[ignore = "needs helm: cargo verify --only charts"]
fn every_pod_is_probed_limited_and_hardened(
    #[values(CORE, DRIVER, DASHBOARD)] chart: &str,
    #[values("default", "minimal", "everything", "hostile", "secure")] name: &str,
) {
    let objects = objects(&render(chart, &values_of(chart, name)).unwrap());
    let mut seen = 0;
    for object in &objects {
        let Some(pod) = pod(object) else { continue };
        let what = format!(
            "{} {} of {chart} with {name}",
            object["kind"].as_str().unwrap(),
            object["metadata"]["name"].as_str().unwrap()
        );
        is_hardened(pod, &what);
        assert_eq!(list(&pod["containers"]).count(), 1, "{what}");
        let container = &pod["containers"][0];
        if object["kind"] == "Deployment" {
            is_probed(container, &what);
        }
        // Values are merged, so not even `resources: {}` takes the limits off.
        let limited = container["resources"]["limits"].get("memory").is_some()
            && container["resources"]["requests"].get("cpu").is_some();
        assert!(limited, "{what}: {:?}", container["resources"]);
        let account = &pod["serviceAccountName"];
        let mut accounts = objects.iter().filter(|one| one["kind"] == "ServiceAccount");
        assert!(accounts.any(|one| one["metadata"]["name"] == *account), "{what}: {account:?}");
        assert_eq!(pod["automountServiceAccountToken"], is_granted_something(account, &objects), "{what}");
        seen += 1;
    }
    let tested = chart == DRIVER && name != "minimal";
    assert_eq!(seen, if tested { 2 } else { 1 }, "the Deployment, and the pod of `helm test`");
    // Nobody who only names the account gets a token of it.
    for account in objects.iter().filter(|one| one["kind"] == "ServiceAccount") {
        assert_eq!(account["automountServiceAccountToken"], false, "{account:?}");
    }
}

/// A policy lets traces out to where they go: to the endpoint's port, or to that of its scheme.
#[rstest]
#[case("http://collector.monitoring:4318", Some(4318))]
#[case("http://collector.monitoring:4317/", Some(4317))]
#[case("http://collector.monitoring", Some(80))]
#[case("https://collector.example", Some(443))]
#[case("https://collector.example/of:8080/", Some(443))]
#[case("http://[2001:db8::1]:4318/v1", Some(4318))]
#[case("http://[2001:db8::1]", Some(80))]
#[case("", None)]
#[ignore = "needs helm: cargo verify --only charts"]
fn a_policy_lets_traces_out(
    #[values(CORE, DRIVER)] chart: &str,
    #[case] endpoint: &str,
    #[case] port: Option<u64>,
) {
    let values = format!("{{networkPolicy: {{enabled: true}}, tracing: {{endpoint: '{endpoint}'}}}}");
    let objects = objects(&render(chart, &values).unwrap());
    let policy = objects.iter().find(|object| object["kind"] == "NetworkPolicy").unwrap();
    // After the API server and DNS.
    let rule = policy["spec"]["egress"].as_sequence().unwrap().get(2);
    assert_eq!(rule.and_then(|rule| rule["ports"][0]["port"].as_u64()), port, "{policy:?}");
}
