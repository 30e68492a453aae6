//! Which marks go, which pins stay, and what is left alone.

use api::wellknown::CLAIM;
use rstest::rstest;

use super::*;
use crate::parse::service::sharing_key;

const IP: &str = "192.0.2.7";

fn service(namespace: &str, name: &str, meta: Value, shown: &[&str]) -> Arc<Service> {
    let mut service = json!({
        "metadata": {
            "namespace": namespace, "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1",
        },
        "spec": { "type": "LoadBalancer" },
        "status": { "loadBalancer": { "ingress": shown.iter().map(|ip| json!({ "ip": ip })).collect::<Vec<_>>() } },
    });
    service["metadata"].as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
    Arc::new(serde_json::from_value(service).unwrap())
}

/// A Service with every mark of an association.
fn web(more: Value, shown: &[&str]) -> Arc<Service> {
    let mut annotations = json!({ CLAIM: "web-ip", metallb::PIN: IP, driver::PINNED: "true" });
    annotations.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let meta = json!({
        "annotations": annotations,
        "labels": { driver::ASSOCIATED: "true", "theirs": "yes" },
        "finalizers": ["x.example/y", driver::HANDOFF],
    });
    service("tenant-a", "web", meta, shown)
}

fn hold(key: &str, shown: &[&str]) -> Arc<Service> {
    let meta = json!({
        "annotations": { metallb::PIN: IP, metallb::SHARE: key },
        "labels": { driver::PLACEHOLDER: "true", driver::IP_ADDRESS: "ip-192-0-2-7" },
    });
    service("metallb-iad-system", "iad-ip-192-0-2-7", meta, shown)
}

fn address(associated: bool, finalizers: &[&str]) -> Arc<IPAddress> {
    let to = json!({ "kind": "Service", "namespace": "tenant-a", "name": "web", "uid": "uid-web" });
    let status = if associated { json!({ "associatedTo": to }) } else { json!({}) };
    let address = json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
        "metadata": { "name": "ip-192-0-2-7", "uid": "u", "resourceVersion": "1", "finalizers": finalizers },
        "spec": { "address": IP, "className": "pub", "source": { "fromClass": {} } },
        "status": status,
    });
    Arc::new(serde_json::from_value(address).unwrap())
}

fn scene(services: Vec<Arc<Service>>, addresses: Vec<Arc<IPAddress>>) -> Scene {
    let class = json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClass", "metadata": { "name": "pub" },
        "spec": { "provisioner": driver::PROVISIONER, "parameters": { "pool": "reserved" } },
    });
    Scene { services, addresses, classes: vec![Arc::new(serde_json::from_value(class).unwrap())] }
}

fn body(errand: &Errand, number: usize) -> &Value {
    match &errand.steps[number].write {
        Write::Known(action) => match &**action {
            Action::Patch { body, status: false, .. } => body,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn c11_marks_and_finalizers_go_and_the_pin_stays() {
    let scene = scene(
        vec![web(json!({}), &[IP])],
        vec![address(true, &[api::wellknown::ADDRESS_PROTECTION, driver::TEARDOWN])],
    );
    let errand = plan(&scene, false);
    assert_eq!(errand.steps.len(), 2, "{errand:?}");
    let expected = json!({ "metadata": {
        "annotations": { driver::PINNED: null },
        "finalizers": ["x.example/y"],
    }});
    assert_eq!(*body(&errand, 0), expected);
    assert!(errand.steps[0].line.ends_with("; 192.0.2.7 stays by the pin"), "{}", errand.steps[0].line);
    let expected = json!({ "metadata": { "finalizers": [api::wellknown::ADDRESS_PROTECTION] } });
    assert_eq!(*body(&errand, 1), expected);
    assert_eq!((errand.refused, errand.notes), (vec![], vec![]));
}

/// Released Services and addresses, Services of others, and placeholders.
#[test]
fn c11_a_second_release_has_nothing_to_do() {
    let released =
        service("tenant-a", "web", json!({ "annotations": { CLAIM: "web-ip", metallb::PIN: IP } }), &[IP]);
    let foreign = json!({ "annotations": { metallb::SHARE: "tenants-key" }, "finalizers": ["x.example/y"] });
    let foreign = service("tenant-b", "own", foreign, &["192.0.2.9"]);
    let hold = hold(&sharing_key(7), &["192.0.2.8"]);
    let errand = plan(&scene(vec![released, foreign, hold], vec![address(true, &[])]), false);
    assert_eq!((errand.steps, errand.refused), (vec![], vec![]));
    assert_eq!(errand.notes, ["placeholder metallb-iad-system/iad-ip-192-0-2-7 goes on holding 192.0.2.8"]);
}

/// The pin of a Service that neither the ledger nor MetalLB knows with it serves nobody.
#[rstest]
#[case::ledger(true, &[], true)]
#[case::served(false, &[IP], true)]
#[case::neither(false, &[], false)]
#[case::served_otherwise(false, &["192.0.2.9"], false)]
fn c11_a_pin_that_serves_somebody_stays_with_its_label(
    #[case] recorded: bool,
    #[case] shown: &[&str],
    #[case] stays: bool,
) {
    let errand = plan(&scene(vec![web(json!({}), shown)], vec![address(recorded, &[])]), false);
    let gone = body(&errand, 0).pointer("/metadata/annotations").unwrap().as_object().unwrap();
    assert_eq!(!gone.contains_key(metallb::PIN), stays, "{errand:?}");
    let label = body(&errand, 0).pointer("/metadata/labels");
    assert_eq!(label.is_none(), stays, "{errand:?}");
}

#[test]
fn c11_a_pin_that_is_not_ours_stays() {
    let meta = json!({ "annotations": { metallb::PIN: IP }, "finalizers": [driver::HANDOFF] });
    let errand = plan(&scene(vec![service("tenant-a", "web", meta, &[])], vec![]), false);
    assert_eq!(*body(&errand, 0), json!({ "metadata": { "finalizers": [] } }));
}

/// A handoff that has both holders at this moment, or has yet to find the second, is not cut in two.
#[rstest]
#[case::both_hold(web(json!({ metallb::SHARE: sharing_key(7) }), &[IP]), hold(&sharing_key(7), &[IP]), true)]
#[case::only_the_hold_has_it(web(json!({ metallb::SHARE: sharing_key(7) }), &[]), hold(&sharing_key(7), &[IP]), false)]
#[case::the_hold_has_let_go(web(json!({ metallb::SHARE: sharing_key(7) }), &[IP]), hold(&sharing_key(8), &[]), false)]
#[case::leaving(leaving(&[IP]), hold(&sharing_key(8), &[]), true)]
#[case::left(leaving(&[]), hold(&sharing_key(8), &[IP]), false)]
fn c11_a_handoff_under_way_is_refused(
    #[case] web: Arc<Service>,
    #[case] hold: Arc<Service>,
    #[case] refused: bool,
) {
    let scene = scene(vec![web, hold], vec![address(true, &[])]);
    let errand = plan(&scene, false);
    assert_eq!(
        (errand.refused.len(), errand.steps.len()),
        if refused { (1, 0) } else { (0, 1) },
        "{errand:?}"
    );
    if refused {
        assert!(errand.refused[0].contains("handoff of 192.0.2.7 is under way"), "{:?}", errand.refused);
    }
    let forced = plan(&scene, true);
    assert_eq!((forced.refused.len(), forced.steps.len()), (0, 1));
}

fn leaving(shown: &[&str]) -> Arc<Service> {
    let mut service = (*web(json!({}), shown)).clone();
    service.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    Arc::new(service)
}

/// A tenant's Service that calls itself a placeholder is freed as any other.
#[test]
fn c11_a_forged_placeholder_label_hides_no_finalizer() {
    let meta = json!({ "labels": { driver::PLACEHOLDER: "true" }, "finalizers": [driver::HANDOFF] });
    let errand = plan(&scene(vec![service("tenant-a", "web", meta, &[])], vec![]), false);
    assert_eq!(errand.steps.len(), 1);
    assert_eq!(errand.notes, [""; 0]);
}

#[test]
fn c11_an_address_without_its_class_is_pointed_out() {
    let mut scene = scene(vec![], vec![address(false, &[driver::TEARDOWN])]);
    scene.classes.clear();
    let errand = plan(&scene, false);
    assert_eq!(errand.steps.len(), 1);
    assert!(errand.notes[0].contains("class pub does not exist"), "{:?}", errand.notes);
}

fn patched<T: serde::Serialize + serde::de::DeserializeOwned>(object: &mut Arc<T>, body: &Value) {
    let mut value = serde_json::to_value(&**object).unwrap();
    sim::server::merge(&mut value, body);
    *object = Arc::new(serde_json::from_value(value).unwrap());
}

/// Does one step, as the API server does it.
fn done(scene: &mut Scene, step: &super::super::Step) {
    let Write::Known(action) = &step.write else { panic!("{step:?}") };
    let Action::Patch { target, body, status: false, .. } = &**action else { panic!("{action:?}") };
    let mut found = 0;
    for service in &mut scene.services {
        if Object::Service(Arc::clone(service)).reference() == target.reference {
            patched(service, body);
            found += 1;
        }
    }
    for address in &mut scene.addresses {
        if Object::Address(Arc::clone(address)).reference() == target.reference {
            patched(address, body);
            found += 1;
        }
    }
    assert_eq!(found, 1, "{step:?}");
}

/// Each prefix of the steps leads to the rest of them, in the same order: whatever was done when it was interrupted.
#[test]
fn c11_each_prefix_of_a_release_leads_to_the_rest() {
    let stray = json!({
        "annotations": { metallb::PIN: "192.0.2.9", driver::PINNED: "true", metallb::SHARE: sharing_key(3) },
        "labels": { driver::ASSOCIATED: "true" }, "finalizers": [driver::HANDOFF],
    });
    let mut other = (*address(false, &[driver::TEARDOWN])).clone();
    other.metadata.name = Some("ip-192-0-2-8".to_owned());
    let mut scene = scene(
        vec![web(json!({}), &[IP]), service("tenant-b", "stray", stray, &[]), hold(&sharing_key(7), &[])],
        vec![address(true, &[api::wellknown::ADDRESS_PROTECTION, driver::TEARDOWN]), Arc::new(other)],
    );
    let lines = |errand: &Errand| errand.steps.iter().map(|step| step.line.clone()).collect::<Vec<_>>();
    let whole = plan(&scene, false);
    assert_eq!((whole.steps.len(), &whole.refused), (4, &vec![]), "{whole:?}");
    for (number, step) in whole.steps.iter().enumerate() {
        let errand = plan(&scene, false);
        assert_eq!(lines(&errand), lines(&whole)[number..], "after {number} steps");
        assert_eq!((&errand.refused, &errand.notes), (&vec![], &whole.notes));
        done(&mut scene, step);
    }
    assert_eq!(lines(&plan(&scene, false)), [""; 0]);
    // What serves somebody stays with it, and the stray has nothing left of ours.
    let stray = &scene.services[1];
    assert_eq!(scene.services[0].annotations()[metallb::PIN], IP);
    assert_eq!((stray.annotations().len(), stray.labels().len(), stray.finalizers().len()), (0, 0, 0));
}
