//! What is refused, and what each prefix of the steps leads to. How the driver takes it: `tests/rows/c12_adopt.rs`.

use api::wellknown::CLAIM;
use rstest::rstest;

use super::*;

const IP: &str = "192.0.2.7";
const IP6: &str = "2001:db8::7";

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn service(annotations: Value, spec: Value, shown: &[&str]) -> Value {
    let mut service = json!({
        "metadata": {
            "namespace": "tenant-a", "name": "web", "uid": "uid-web", "resourceVersion": "1",
            "annotations": annotations,
        },
        "spec": { "type": "LoadBalancer", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack" },
        "status": { "loadBalancer": { "ingress": shown.iter().map(|ip| json!({ "ip": ip })).collect::<Vec<_>>() } },
    });
    service["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    service
}

fn class(name: &str, pool: &str, accepted: &str) -> Value {
    json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClass",
        "metadata": { "name": name, "generation": 3 },
        "spec": {
            "provisioner": driver::PROVISIONER, "reclaimPolicy": "Delete", "parameters": { "pool": pool },
        },
        "status": { "observedGeneration": 3, "conditions": [{
            "type": "Accepted", "status": accepted, "reason": "R", "message": "its words",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    })
}

fn note(ip: &str, labels: Value, to: Value) -> Arc<IPAddress> {
    let name = ip.parse::<Ip>().unwrap().object_name().to_string();
    read(json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
        "metadata": { "name": name, "uid": "uid-note", "resourceVersion": "1", "labels": labels },
        "spec": { "address": ip, "className": "pub", "source": { "fromClass": {} }, "claimRef": to },
    }))
}

fn observed(ip: &str) -> Arc<IPAddress> {
    let to = json!({ "namespace": "tenant-a", "name": "web", "uid": "uid-web" });
    note(ip, json!({ driver::OBSERVED: "true" }), to)
}

fn mine(spec: Value, annotations: Value) -> Arc<IPAddressClaim> {
    let mut whole = json!({ "className": "pub" });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    read(json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClaim",
        "metadata": { "namespace": "tenant-a", "name": "mine", "uid": "uid-mine", "annotations": annotations },
        "spec": whole,
    }))
}

fn scene() -> Scene {
    let pool = json!({
        "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
        "metadata": { "namespace": "metallb-system", "name": "reserved" },
        "spec": { "addresses": ["192.0.2.0/28", "2001:db8::/64"], "autoAssign": false },
    });
    Scene {
        services: vec![read(service(json!({}), json!({}), &[IP]))],
        classes: vec![read(class("pub", "reserved", "True"))],
        pools: vec![read(pool)],
        metallb_namespace: "metallb-system".to_owned(),
        ..Scene::default()
    }
}

fn wish() -> Wish {
    Wish { service: ServiceKey::new("tenant-a", "web"), claim: "mine".to_owned(), class: None }
}

fn lines(errand: &Errand) -> Vec<&str> {
    errand.steps.iter().map(|step| step.line.as_str()).collect()
}

const MAKE: &str = "IPAddressClaim tenant-a/mine: create, of class pub, for 192.0.2.7";
const PIN: &str = "Service tenant-a/web: name claim mine, pin to 192.0.2.7";
const RECORD: &str = "IPAddress ip-192-0-2-7: create, bound to claim tenant-a/mine";
const REBIND: &str = "IPAddress ip-192-0-2-7: bind to claim tenant-a/mine";

/// Each prefix of the steps leads to the rest of them, with a note of the inventory and without.
#[rstest]
#[case::nothing_done(0, &[MAKE, PIN, RECORD], &[MAKE, PIN, REBIND])]
#[case::claim_made(1, &[PIN, RECORD], &[PIN, REBIND])]
#[case::service_pinned(2, &[RECORD], &[REBIND])]
#[case::all_done(3, &[], &[])]
fn c12_each_prefix_of_an_adoption_leads_to_the_rest(
    #[case] done: usize,
    #[case] rest: &[&str],
    #[case] with_note: &[&str],
) {
    for (noted, rest) in [(false, rest), (true, with_note)] {
        let mut scene = scene();
        if noted {
            scene.addresses = vec![observed(IP)];
        }
        if done > 0 {
            scene.claim = Some(mine(json!({ "addressName": "ip-192-0-2-7" }), json!({})));
        }
        if done > 1 {
            let marks = json!({ CLAIM: "mine", metallb::PIN: IP, driver::PINNED: "true" });
            let mut pinned = service(marks, json!({}), &[IP]);
            pinned["metadata"]["labels"] = json!({ driver::ASSOCIATED: "true" });
            scene.services = vec![read(pinned)];
        }
        if done > 2 {
            let to = json!({ "namespace": "tenant-a", "name": "mine", "uid": "uid-mine" });
            scene.addresses = vec![note(IP, json!({}), to)];
        }
        let errand = plan(&scene, &wish());
        assert_eq!(lines(&errand), rest, "{errand:?}");
        assert_eq!(errand.refused, [""; 0]);
        let last = errand.steps.last().map(|step| step.write == Write::Later);
        assert_eq!(last.unwrap_or(false), done == 0, "the claim's uid is not known before it is made");
    }
}

/// What asks for the same in another way goes with the write that pins.
#[test]
fn c12_other_wishes_go_in_the_same_write() {
    let mut scene = scene();
    let wishes = json!({ metallb::POOL: "reserved", metallb::PIN_OLD: IP, "theirs": "stays" });
    scene.services = vec![read(service(wishes, json!({ "loadBalancerIP": IP }), &[IP]))];
    let errand = plan(&scene, &wish());
    let Write::Known(action) = &errand.steps[1].write else { panic!("{errand:?}") };
    let Action::Patch { body, .. } = &**action else { panic!("{errand:?}") };
    let expected = json!({
        "metadata": {
            "annotations": {
                CLAIM: "mine", metallb::PIN: IP, driver::PINNED: "true",
                metallb::POOL: null, metallb::PIN_OLD: null,
            },
            "labels": { driver::ASSOCIATED: "true" },
        },
        "spec": { "loadBalancerIP": null },
    });
    assert_eq!(*body, expected);
    assert!(
        errand.steps[1].line.ends_with("metallb.io/address-pool, spec.loadBalancerIP"),
        "{:?}",
        lines(&errand)
    );
}

/// Two addresses are named by no claim: it says that it adopts, and nothing is reserved for it.
#[test]
fn c12_two_addresses_become_a_dual_claim() {
    let mut scene = scene();
    let dual = json!({ "ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack" });
    scene.services = vec![read(service(json!({}), dual, &[IP6, IP]))];
    scene.addresses = vec![observed(IP6)];
    let errand = plan(&scene, &wish());
    assert_eq!(
        lines(&errand),
        [
            "IPAddressClaim tenant-a/mine: create, of class pub, for 192.0.2.7 and 2001:db8::7",
            "Service tenant-a/web: name claim mine, pin to 192.0.2.7 and 2001:db8::7",
            RECORD,
            "IPAddress ip-2001-db8--7: bind to claim tenant-a/mine",
        ]
    );
    let Write::Known(action) = &errand.steps[0].write else { panic!("{errand:?}") };
    let Action::Create { object: Object::Claim(claim), .. } = &**action else { panic!("{errand:?}") };
    assert_eq!((claim.spec.family, &claim.spec.address_name), (ClaimFamily::Dual, &None));
    assert!(claim.annotations().contains_key(driver::ADOPTED));
}

#[rstest]
#[case::no_service(|scene: &mut Scene| scene.services.clear(), "does not exist; check --service")]
#[case::unserved(|scene: &mut Scene| scene.services = vec![read(service(json!({}), json!({}), &[]))], "has no IP")]
#[case::other_claim(|scene: &mut Scene| scene.services = vec![read(service(json!({ CLAIM: "x" }), json!({}), &[IP]))],
    "names claim x already")]
#[case::shared(|scene: &mut Scene| scene.services = vec![read(service(json!({ metallb::SHARE: "k" }), json!({}), &[IP]))],
    "allow-shared-ip is set")]
#[case::shared_by_another(|scene: &mut Scene| {
    let mut other = service(json!({}), json!({}), &[IP]);
    other["metadata"]["name"] = json!("other");
    other["metadata"]["uid"] = json!("uid-other");
    scene.services.push(read(other));
}, "Service tenant-a/other has 192.0.2.7 as well")]
#[case::prefers_two(|scene: &mut Scene| scene.services =
    vec![read(service(json!({}), json!({ "ipFamilyPolicy": "PreferDualStack" }), &[IP]))], "PreferDualStack")]
#[case::load_balancer_class(|scene: &mut Scene| scene.services =
    vec![read(service(json!({}), json!({ "loadBalancerClass": "x" }), &[IP]))], "spec.loadBalancerClass")]
#[case::no_pool(|scene: &mut Scene| scene.pools.clear(), "no IPAddressPool of namespace metallb-system contains 192.0.2.7")]
#[case::no_class(|scene: &mut Scene| scene.classes.clear(), "make one with spec.provisioner")]
#[case::refused_class(|scene: &mut Scene| scene.classes = vec![read(class("pub", "reserved", "False"))],
    "class pub is not accepted: its words")]
#[case::unknown_class(|scene: &mut Scene| {
    let mut class = class("pub", "reserved", "True");
    class["metadata"]["generation"] = json!(4);
    scene.classes = vec![read(class)];
}, "has not looked at class pub")]
#[case::reserved(|scene: &mut Scene| scene.addresses =
    vec![note(IP, json!({}), json!({ "namespace": "tenant-b", "name": "theirs", "uid": "u" }))],
    "ip-192-0-2-7 reserves 192.0.2.7 already, for claim tenant-b/theirs")]
#[case::another_spelling_of_the_name(|scene: &mut Scene| scene.addresses = vec![read(json!({
    "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress", "metadata": { "name": "static" },
    "spec": { "address": IP, "className": "pub", "source": { "fromClass": {} } },
}))], "IPAddress static reserves 192.0.2.7 already;")]
#[case::note_of_an_earlier_service(|scene: &mut Scene| scene.addresses = vec![note(IP,
    json!({ driver::OBSERVED: "true" }), json!({ "namespace": "tenant-a", "name": "web", "uid": "before" }))], "reserves")]
#[case::claim_with_its_own_wish(|scene: &mut Scene| scene.claim = Some(mine(json!({}), json!({}))), "asks for something else")]
#[case::claim_of_another_class(|scene: &mut Scene| scene.claim = Some(mine(json!({ "className": "x", "addressName": "ip-192-0-2-7" }), json!({}))), "asks for something else")]
#[case::claim_of_another_family(|scene: &mut Scene| scene.claim = Some(mine(json!({ "family": "Dual" }), json!({ driver::ADOPTED: "true" }))), "asks for something else")]
fn c12_adoption_is_refused(#[case] change: fn(&mut Scene), #[case] words: &str) {
    let mut scene = scene();
    change(&mut scene);
    let errand = plan(&scene, &wish());
    assert_eq!(lines(&errand), [""; 0]);
    assert_eq!(errand.refused.len(), 1);
    assert!(errand.refused[0].contains(words), "{:?}", errand.refused);
    assert!(errand.refused[0].starts_with("Service tenant-a/web: "), "{:?}", errand.refused);
}

#[test]
fn c12_a_class_that_is_named_must_be_the_pools() {
    let mut scene = scene();
    scene.classes.push(read(class("other", "elsewhere", "True")));
    let wish = |class: &str| Wish { class: Some(class.to_owned()), ..wish() };
    assert!(
        plan(&scene, &wish("other")).refused[0]
            .contains("class other does not draw from IPAddressPool reserved")
    );
    assert_eq!(plan(&scene, &wish("pub")).refused, [""; 0]);
}
