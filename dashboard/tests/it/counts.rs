//! What is counted along with every change is what counting everything anew gives.

use dashboard::Scope;
use dashboard::world::{Digest, Key, Origin, Source, World};
use plan::{Change, Kind};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::invented::{HOME, Invented, ago, condition, object, object_name};
use crate::rig::Rig;

const IPS: [&str; 4] = ["192.0.2.1", "192.0.2.2", "192.0.2.9", "2001:db8::1"];
const CLAIMS: [(&str, &str); 3] = [("a", "one"), ("a", "two"), ("b", "one")];
const SERVICES: [(&str, &str); 5] =
    [("a", "web"), ("a", "mail"), ("b", "web"), (HOME, "iad-x"), (HOME, "guest")];
const CLASSES: [&str; 2] = ["public", "other"];
const POOLS: [&[&str]; 3] = [&["192.0.2.0/29", "2001:db8::/64"], &["192.0.2.0/24"], &[]];
const DRIVERS: [&str; 2] = ["metallb.drivers.local.sdn.cozystack.io", "somebody.else"];
const PHASES: [&str; 6] = ["Pending", "Available", "Bound", "Released", "Conflict", "Lost"];

/// Something that happens: an object comes, changes, or goes.
type Step = (Kind, Value, bool);

fn uid() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(&[Some("1"), Some("2"), None][..])
}

fn of<T: Clone + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(all)
}

prop_compose! {
    fn address()(
        number in 0..5_usize, class in of(&CLASSES), phase in of(&PHASES), claim in prop::option::of(of(&CLAIMS)),
        claim_uid in uid(), service in prop::option::of(of(&SERVICES)), service_uid in uid(), is_ip in prop::bool::weighted(0.8), flags in 0..4_u8, at in 1..9_i64,
    ) -> Value {
        // Two objects carry the first IP; one carries none.
        let ip = if is_ip { IPS[number % IPS.len()] } else { "no ip" };
        let mut status = json!({ "phase": phase });
        if flags & 1 == 1 {
            status["conditions"] = json!([condition("Valid", false, "DuplicateAddress", "it is another's", at)]);
        }
        if let Some((namespace, name)) = service {
            status["associatedTo"] = json!({ "kind": "Service", "namespace": namespace, "name": name, "uid": service_uid.unwrap_or("") });
            status["lastHandoff"] = json!({ "direction": "Associate", "mode": "Gap", "from": "", "to": format!("{namespace}/{name}"),
                "startedAt": ago(at).replace('Z', ".000000Z") });
        }
        let claim = claim.map(|(namespace, name)| match claim_uid {
            Some(uid) => json!({ "namespace": namespace, "name": name, "uid": uid }),
            None => json!({ "namespace": namespace, "name": name }),
        });
        json!({
            "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
            "metadata": { "name": format!("address-{number}"), "uid": number.to_string(), "creationTimestamp": ago(90),
                "labels": { "metallb.drivers.local.sdn.cozystack.io/observed": if flags & 2 == 2 { "true" } else { "false" } } },
            "spec": { "className": class, "address": ip, "source": { "fromClass": {} }, "claimRef": claim },
            "status": status,
        })
    }
}

prop_compose! {
    fn claim()((namespace, name) in of(&CLAIMS), uid in uid(), class in of(&CLASSES), phase in of(&["Pending", "Bound", "Lost"]), at in 1..9_i64) -> Value {
        json!({
            "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClaim",
            "metadata": { "namespace": namespace, "name": name, "uid": uid, "creationTimestamp": ago(90) },
            "spec": { "className": class },
            "status": { "phase": phase, "conditions": [condition("Bound", phase == "Bound", "Waits", "it waits", at)] },
        })
    }
}

prop_compose! {
    fn service()(
        (namespace, name) in of(&SERVICES), uid in uid(), shown in prop::collection::vec(of(&IPS), 0..3),
        external in prop::collection::vec(of(&IPS), 0..2), claim in prop::option::of(of(&["one", "two"])),
    ) -> Value {
        let ingress: Vec<_> = shown.iter().map(|ip| json!({ "ip": ip })).collect();
        let annotations = claim.map(|claim| json!({ "local.sdn.cozystack.io/ip-address-claim": claim }));
        let placeholder = if name == "iad-x" { "true" } else { "false" };
        json!({
            "metadata": { "namespace": namespace, "name": name, "uid": uid, "creationTimestamp": ago(90), "annotations": annotations,
                "labels": { "metallb.drivers.local.sdn.cozystack.io/placeholder": placeholder } },
            "spec": { "type": "LoadBalancer", "externalIPs": external },
            "status": { "loadBalancer": { "ingress": ingress } },
        })
    }
}

prop_compose! {
    fn class()(name in of(&CLASSES), driver in of(&DRIVERS), pool in of(&["one", "two"])) -> Value {
        json!({
            "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClass", "metadata": { "name": name, "uid": name },
            "spec": { "provisioner": driver, "reclaimPolicy": "Retain", "parameters": { "pool": pool } },
        })
    }
}

prop_compose! {
    fn pool()(name in of(&["one", "two"]), ranges in of(&POOLS)) -> Value {
        json!({
            "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": { "namespace": "metallb-system", "name": name },
            "spec": { "addresses": ranges },
        })
    }
}

fn step() -> impl Strategy<Value = Step> {
    let object = prop_oneof![
        6 => address().prop_map(|object| (Kind::Address, object)),
        3 => claim().prop_map(|object| (Kind::Claim, object)),
        6 => service().prop_map(|object| (Kind::Service, object)),
        1 => class().prop_map(|object| (Kind::Class, object)),
        1 => pool().prop_map(|object| (Kind::Pool, object)),
    ];
    (object, prop::bool::weighted(0.25)).prop_map(|((kind, object), goes)| (kind, object, goes))
}

/// The workloads from the worst origin on, each looked at.
fn sorted(world: &World) -> Vec<(Origin, Key)> {
    let mut all: Vec<_> = world.workloads().map(|row| (world.origin(row), row.key.clone())).collect();
    all.sort_unstable();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counting_along_is_counting_anew(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new(HOME);
        for (kind, value, goes) in steps {
            let told = format!("{} {value}", if goes { "gone:" } else { "there:" });
            let object = object(kind, value);
            let change = if goes { Change::Deleted(object) } else { Change::Applied(object) };
            world.take_in(Source::Kind(kind), change);
            prop_assert_eq!(Digest::of(&world, &Scope::All), Digest::counted(&world, &Scope::All), "after {}", told);
            let all = sorted(&world);
            let kept: Vec<_> = world.by_origin(None).cloned().collect();
            let expected: Vec<_> = all.iter().map(|(_, key)| key.clone()).collect();
            prop_assert_eq!(kept, expected, "after {}", told);
            for origin in Origin::ALL {
                let count = all.iter().filter(|(of, _)| *of == origin).count();
                prop_assert_eq!(world.count_by_origin(Some(origin)), count, "{} after {}", origin, told);
            }
        }
    }
}

/// A cluster whose one reserved address has no placeholder, and what the ledger says of that.
fn unheld(held: Option<Value>) -> Invented {
    let mut cluster = Invented::default();
    cluster.pool("public", &["192.0.2.0/29"], false);
    cluster.class("public", "public", None);
    cluster.claim("tenant-a", "web", "public", &["192.0.2.1"], 90);
    cluster.address("192.0.2.1", "public", "Bound", Some(("tenant-a", "web")), 90, |address| {
        address["status"]["conditions"] = held.into_iter().collect();
    });
    cluster.claim("tenant-a", "kept", "public", &["192.0.2.2"], 90);
    cluster.reserved("192.0.2.2", "public", "Bound", Some(("tenant-a", "kept")), 90);
    cluster
}

fn numbers(json: &Value) -> [u64; 4] {
    ["addresses", "held", "unheld", "reserved"].map(|field| json[field].as_u64().unwrap())
}

/// An address whose placeholder is missing is not said to be held, and needs a person.
#[tokio::test]
async fn c10_an_address_without_its_placeholder_is_not_said_to_be_held() {
    let words = "pods \"iad-x\" is forbidden: exceeded quota: services";
    let refused = condition("Held", false, "NotAssigned", words, 60);
    let rig = Rig::of(unheld(Some(refused)));
    let json = rig.get("/overview.json").await.json();
    assert_eq!(numbers(&json), [2, 1, 1, 2], "{json}");
    assert_eq!(json["unheldAddresses"][0]["name"], object_name("192.0.2.1"), "{json}");
    let page = rig.page("/").await;
    assert!(page.contains("All but 1 are either attached to a Service, or held by a placeholder"), "{page}");
    let needs = page.split("Needs a person").nth(1).unwrap_or_else(|| panic!("{page}"));
    assert!(
        needs.contains("Not held") && needs.contains("192.0.2.1") && needs.contains("exceeded quota"),
        "{needs}"
    );
    // A tenant learns that it is so, not who stands in the way.
    let tenant = Rig::seen_by(
        unheld(Some(condition("Held", false, "NotAssigned", words, 60))),
        Scope::only(["tenant-a"]),
    );
    let json = tenant.get("/overview.json").await.json();
    assert_eq!((numbers(&json), &json["unheldAddresses"][0]["why"]), ([2, 1, 1, 2], &Value::Null), "{json}");
}

/// The ledger's word for it is not enough: the placeholder has to be there.
#[tokio::test]
async fn c10_a_hold_is_what_metallb_shows_not_what_the_ledger_says() {
    let rig = Rig::of(unheld(Some(condition("Held", true, "Held", "placeholder holds the address", 60))));
    let page = rig.page("/").await;
    assert!(page.contains("All but 1 are"), "{page}");
    assert!(page.contains("see whether metallb-iad and MetalLB run"), "{page}");
}

/// A Service that lost its IP, while the ledger says that it has it, holds nothing.
#[tokio::test]
async fn c11_an_address_is_not_held_by_a_service_that_does_not_show_it() {
    let mut cluster = unheld(None);
    cluster.hold("192.0.2.1", 60);
    cluster.claim("tenant-a", "lost", "public", &["192.0.2.3"], 90);
    cluster.attached("192.0.2.3", "public", ("tenant-a", "lost"), "web", 60);
    cluster.service("tenant-a", "web", &[], json!({}), 60);
    let json = Rig::of(cluster).get("/overview.json").await.json();
    assert_eq!(
        (&json["attached"], &json["held"], &json["unheld"]),
        (&1.into(), &2.into(), &1.into()),
        "{json}"
    );
}
