//! What the old driver left, as far as it was migrated already, and what is not touched.

use rstest::rstest;

use super::*;

const DRIVER: &str = api::wellknown::driver::PROVISIONER;

fn class(name: &str, provisioner: &str, parameters: Value) -> Arc<IPAddressClass> {
    let class = json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClass",
        "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1" },
        "spec": { "provisioner": provisioner, "parameters": parameters },
    });
    Arc::new(serde_json::from_value(class).unwrap())
}

fn owner(class: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClass", "name": class, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

fn object(kind: &str, name: &str, owners: &[Value], spec: Value) -> Arc<DynamicObject> {
    let object = json!({
        "apiVersion": "metallb.io/v1beta1", "kind": kind,
        "metadata": {
            "namespace": "metallb-system", "name": name, "uid": format!("uid-{kind}-{name}"),
            "resourceVersion": "1", "ownerReferences": owners, "labels": { "tier": "public" },
        },
        "spec": spec,
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn pool(owners: &[Value]) -> Arc<DynamicObject> {
    object(
        "IPAddressPool",
        "iad-pub",
        owners,
        json!({ "addresses": ["203.0.113.0/24"], "autoAssign": false }),
    )
}

fn l2(owners: &[Value]) -> Arc<DynamicObject> {
    object("L2Advertisement", "iad-pub", owners, json!({ "ipAddressPools": ["iad-pub"] }))
}

/// As the old driver left it.
fn old() -> Scene {
    let owners = [owner("pub", "uid-pub")];
    Scene {
        classes: vec![class("pub", DRIVER, json!({ "addresses": ["203.0.113.0/24"] }))],
        pools: vec![pool(&owners)],
        advertisements: vec![l2(&owners)],
    }
}

fn lines(errand: &Errand) -> Vec<&str> {
    errand.steps.iter().map(|step| step.line.as_str()).collect()
}

fn patch(errand: &Errand, number: usize) -> (&Target, &Value) {
    let Write::Known(action) = &errand.steps[number].write else { panic!("{errand:?}") };
    let Action::Patch { target, body, status: false, .. } = &**action else { panic!("{action:?}") };
    (target, body)
}

const POOL: &str = "IPAddressPool metallb-system/iad-pub: remove the owner reference to IPAddressClass pub";
const L2: &str = "L2Advertisement metallb-system/iad-pub: remove the owner reference to IPAddressClass pub";
const CLASS: &str = "IPAddressClass pub: set spec.parameters to {pool: iad-pub}";

/// Each prefix of the steps leads to the rest of them, in the same order.
#[rstest]
#[case::nothing_done(0, &[POOL, L2, CLASS])]
#[case::pool_done(1, &[L2, CLASS])]
#[case::both_references_gone(2, &[CLASS])]
#[case::all_done(3, &[])]
fn c8_each_prefix_of_a_migration_leads_to_the_rest(#[case] done: usize, #[case] rest: &[&str]) {
    let mut scene = old();
    if done > 0 {
        scene.pools = vec![pool(&[])];
    }
    if done > 1 {
        scene.advertisements = vec![l2(&[])];
    }
    if done > 2 {
        scene.classes = vec![class("pub", DRIVER, json!({ "pool": "iad-pub" }))];
    }
    let errand = plan(&scene, None);
    assert_eq!(lines(&errand), rest);
    assert_eq!((errand.refused, errand.notes), (vec![], vec![]));
}

#[test]
fn c8_owner_references_of_others_stay() {
    let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "u" });
    let mut scene = old();
    scene.pools = vec![pool(&[other.clone(), owner("pub", "uid-pub")])];
    let errand = plan(&scene, Some("pub"));
    let (target, body) = patch(&errand, 0);
    assert_eq!(body.pointer("/metadata/ownerReferences"), Some(&json!([other])));
    assert_eq!((target.uid.as_str(), target.resource_version.as_str()), ("uid-IPAddressPool-iad-pub", "1"));
    let (_, body) = patch(&errand, 2);
    assert_eq!(*body, json!({ "spec": { "parameters": { "addresses": null, "pool": "iad-pub" } } }));
}

#[test]
fn c8_a_class_migrated_by_hand_loses_the_forgotten_owner_references() {
    let mut scene = old();
    scene.classes = vec![class("pub", DRIVER, json!({ "pool": "iad-pub" }))];
    assert_eq!(lines(&plan(&scene, None)), [POOL, L2]);
}

#[rstest]
#[case::no_such_class(json!(null), |_: &mut Scene| {}, "does not exist; check --class")]
#[case::not_ours(json!({ "addresses": [] }), |scene: &mut Scene| scene.classes = vec![class("pub", "x.example", json!({}))],
    "spec.provisioner is \"x.example\"")]
#[case::pool_missing(json!({ "addresses": ["203.0.113.0/24"] }), |scene: &mut Scene| scene.pools.clear(),
    "IPAddressPool iad-pub does not exist")]
#[case::owned_by_an_earlier_class(json!({ "addresses": ["203.0.113.0/24"] }),
    |scene: &mut Scene| scene.pools = vec![pool(&[owner("pub", "uid-before")])], "of uid uid-before")]
#[case::owned_by_another(json!({ "addresses": ["203.0.113.0/24"] }),
    |scene: &mut Scene| scene.pools = vec![pool(&[owner("other", "uid-other")])], "belongs to IPAddressClass other")]
#[case::advertisement_of_another(json!({ "addresses": ["203.0.113.0/24"] }),
    |scene: &mut Scene| scene.advertisements = vec![l2(&[owner("other", "uid-other")])],
    "L2Advertisement iad-pub belongs to IPAddressClass other")]
#[case::both(json!({ "addresses": ["203.0.113.0/24"], "pool": "x" }), |_: &mut Scene| {}, "addresses and pool: \"x\"")]
#[case::unknown_field(json!({ "addresses": [], "range": "x" }), |_: &mut Scene| {}, "spec.parameters.range")]
#[case::not_covered(json!({ "addresses": ["203.0.112.0/23"] }), |_: &mut Scene| {},
    "\"203.0.112.0/23\" of spec.parameters.addresses is not within spec.addresses of IPAddressPool iad-pub")]
#[case::auto_assigns(json!({ "addresses": ["203.0.113.0/24"] }),
    |scene: &mut Scene| scene.pools = vec![object("IPAddressPool", "iad-pub", &[], json!({ "addresses": ["203.0.113.0/24"] }))],
    "set its spec.autoAssign to false")]
#[case::named_by_another(json!({ "addresses": ["203.0.113.0/24"] }),
    |scene: &mut Scene| scene.classes.push(class("other", DRIVER, json!({ "pool": "iad-pub" }))), "named by class other")]
fn c8_half_known_states_are_refused(
    #[case] parameters: Value,
    #[case] change: fn(&mut Scene),
    #[case] words: &str,
) {
    let mut scene = old();
    scene.classes = if parameters.is_null() { Vec::new() } else { vec![class("pub", DRIVER, parameters)] };
    change(&mut scene);
    let errand = plan(&scene, Some("pub"));
    assert_eq!(lines(&errand), [""; 0]);
    assert_eq!(errand.refused.len(), 1, "{errand:?}");
    assert!(errand.refused[0].contains(words), "{:?}", errand.refused);
    assert!(errand.refused[0].starts_with("IPAddressClass pub"), "{:?}", errand.refused);
}

#[test]
fn c8_addresses_beside_the_right_pool_go() {
    let mut scene = old();
    scene.classes = vec![class("pub", DRIVER, json!({ "addresses": ["203.0.113.0/24"], "pool": "iad-pub" }))];
    assert_eq!(lines(&plan(&scene, None)), [POOL, L2, CLASS]);
}

#[test]
fn c8_one_bad_class_keeps_no_other_from_being_migrated() {
    let mut scene = old();
    scene.classes.push(class("bad", DRIVER, json!({ "addresses": ["198.51.100.0/24"] })));
    scene.classes.push(class("new", DRIVER, json!({ "pool": "mine" })));
    scene.classes.push(class("foreign", "x.example", json!({ "addresses": [] })));
    let errand = plan(&scene, None);
    assert_eq!(lines(&errand), [POOL, L2, CLASS]);
    assert_eq!(errand.refused.len(), 1);
    assert!(errand.refused[0].starts_with("IPAddressClass bad: IPAddressPool iad-bad does not exist"));
    assert_eq!(plan(&scene, Some("new")), Errand::default());
}

#[rstest]
#[case::none(json!(null), "not announced until you make one")]
#[case::by_name(json!({ "ipAddressPools": ["iad-pub"] }), "announced by BGPAdvertisement mine")]
#[case::another(json!({ "ipAddressPools": ["other"] }), "not announced until you make one")]
#[case::all(json!({}), "announced by BGPAdvertisement mine")]
#[case::by_label(json!({ "ipAddressPoolSelectors": [{ "matchLabels": { "tier": "public" } }] }), "by BGPAdvertisement mine")]
#[case::by_other_label(json!({ "ipAddressPoolSelectors": [{ "matchLabels": { "tier": "x" } }] }), "not announced")]
fn c8_without_the_rendered_advertisement_the_admins_own_is_named(#[case] spec: Value, #[case] words: &str) {
    let mut scene = old();
    scene.advertisements = Vec::new();
    if !spec.is_null() {
        scene.advertisements.push(object("BGPAdvertisement", "mine", &[], spec));
    }
    let errand = plan(&scene, None);
    assert_eq!(lines(&errand), [POOL, CLASS]);
    assert_eq!(errand.notes.len(), 1);
    assert!(errand.notes[0].contains(words), "{:?}", errand.notes);
}
