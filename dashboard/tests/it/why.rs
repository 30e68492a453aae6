//! Why a claim waits, in each case that there is, and what ends it.

use dashboard::world::About;
use plan::Kind;
use rstest::rstest;
use serde_json::{Value, json};

use crate::invented::{DRIVER, Invented, ago, condition};
use crate::rig::Rig;

const VERSION: &str = "local.sdn.cozystack.io/v1alpha1";

/// A claim that waits for class `public`, as the core has stamped it.
fn waits(cluster: &mut Invented, edit: impl FnOnce(&mut Value)) {
    cluster.waiting_as("tenant-a", "web", Some("public"), &[], 60, edit);
}

/// The same, as it is, where only the class or an event says why.
fn plain(cluster: &mut Invented) {
    cluster.class("public", "public", None);
    waits(cluster, |_| ());
}

fn says(kind: &str, reason: &str, message: &str) -> Value {
    json!([condition(kind, false, reason, message, 60)])
}

fn deleted(cluster: &mut Invented) {
    waits(cluster, |claim| claim["metadata"]["deletionTimestamp"] = ago(5).into());
}

fn lost(cluster: &mut Invented) {
    waits(cluster, |claim| {
        claim["status"]["phase"] = "Lost".into();
        claim["status"]["conditions"] = says("Bound", "AddressMissing", "address ip-192-0-2-1 is gone");
    });
}

fn lost_without_words(cluster: &mut Invented) {
    waits(cluster, |claim| claim["status"]["phase"] = "Lost".into());
}

fn unresolved(cluster: &mut Invented, reason: &str, message: &str) {
    cluster.class("internal", "lan", None);
    waits(cluster, |claim| claim["status"]["conditions"] = says("ClassResolved", reason, message));
}

fn class_not_found(cluster: &mut Invented) {
    unresolved(cluster, "ClassNotFound", "IPAddressClass public does not exist");
}

fn no_default(cluster: &mut Invented) {
    unresolved(cluster, "NoDefaultClass", "spec.className is not set");
}

fn two_defaults(cluster: &mut Invented) {
    unresolved(cluster, "MultipleDefaultClasses", "two classes are marked as the default");
}

fn another_reason(cluster: &mut Invented) {
    unresolved(cluster, "FamilyNotServed", "class public serves no IPv6");
}

fn address_not_available(cluster: &mut Invented) {
    cluster.class("public", "public", None);
    let words = "spec.addressName ip-192-0-2-1 is bound to another claim";
    waits(cluster, |claim| claim["status"]["conditions"] = says("Bound", "AddressNotAvailable", words));
}

fn never_seen(cluster: &mut Invented) {
    waits(cluster, |claim| {
        claim["spec"]["className"] = Value::Null;
        claim["status"] = Value::Null;
        claim["metadata"]["annotations"] = Value::Null;
    });
}

fn class_went(cluster: &mut Invented) {
    waits(cluster, |_| ());
}

fn class_refused(cluster: &mut Invented) {
    cluster.class(
        "public",
        "public",
        Some(("PoolNotFound", "IPAddressPool metallb-system/public does not exist")),
    );
    waits(cluster, |_| ());
}

fn told(cluster: &mut Invented, reason: &str, note: &str) {
    plain(cluster);
    cluster.event(About::Claim, "tenant-a", "web", "Unrelated", "something else was said later", 1);
    cluster.event(About::Claim, "tenant-a", "web", reason, note, 30);
}

fn exhausted(cluster: &mut Invented) {
    told(cluster, "PoolExhausted", "pool public has no IPv4 address left");
}

fn reservation_failed(cluster: &mut Invented) {
    told(cluster, "ReservationFailed", "services \"iad-x\" is forbidden: exceeded quota");
}

fn placeholder_refused(cluster: &mut Invented) {
    told(cluster, "PlaceholderRefused", "admission webhook denied the request");
}

fn full(cluster: &mut Invented) {
    cluster.pool("public", &["192.0.2.1/32"], false);
    plain(cluster);
    cluster.reserved("192.0.2.1", "public", "Bound", Some(("tenant-b", "other")), 90);
}

/// A claim of a class without a status.
fn bare_class(cluster: &mut Invented, spec: &Value) {
    let class = json!({ "apiVersion": VERSION, "kind": "IPAddressClass", "metadata": { "name": "public", "uid": "c" }, "spec": spec });
    cluster.add(Kind::Class, class);
    waits(cluster, |_| ());
}

fn another_driver(cluster: &mut Invented) {
    bare_class(cluster, &json!({ "provisioner": "cloud.example", "reclaimPolicy": "Retain" }));
}

fn not_stamped(cluster: &mut Invented) {
    cluster.class("public", "public", None);
    waits(cluster, |claim| claim["metadata"]["annotations"] = Value::Null);
}

fn class_not_judged(cluster: &mut Invented) {
    let parameters = json!({ "pool": "public" });
    bare_class(
        cluster,
        &json!({ "provisioner": DRIVER, "reclaimPolicy": "Retain", "parameters": parameters }),
    );
}

#[rstest]
#[case::deleted(deleted, "It is being deleted.", "It goes as soon as", "")]
#[case::lost(
    lost,
    "address ip-192-0-2-1 is gone",
    "It is served again by itself",
    "kubectl -n tenant-a describe"
)]
#[case::lost_without_words(
    lost_without_words,
    "An address that it had is missing.",
    "It is served again",
    "describe"
)]
#[case::class_not_found(class_not_found, "IPAddressClass public does not exist.", "Create the class", "")]
#[case::no_default(
    no_default,
    "spec.className is not set.",
    "Name a class",
    r#"{"spec":{"className":"internal"}}"#
)]
#[case::two_defaults(
    two_defaults,
    "Two classes are marked",
    "Name a class in spec.className, or leave",
    "internal"
)]
#[case::another_reason(another_reason, "Class public serves no IPv6.", "The sentence says", "internal")]
#[case::address_not_available(
    address_not_available,
    "spec.addressName ip-192-0-2-1 is bound",
    "The sentence says",
    "describe"
)]
#[case::never_seen(
    never_seen,
    "The core has not looked at it yet.",
    "If this lasts, see whether address-controller",
    ""
)]
#[case::class_went(class_went, "Class public does not exist.", "Create it", "")]
#[case::class_refused(
    class_refused,
    "Class public is refused: IPAddressPool metallb-system/public does not exist.",
    "When the class is accepted again",
    "kubectl describe ipaddressclasses"
)]
#[case::exhausted(exhausted, "Pool public has no IPv4 address left.", "Enlarge the pool", "describe")]
#[case::reservation_failed(
    reservation_failed,
    "Services \"iad-x\" is forbidden: exceeded quota.",
    "The words of the API server",
    "describe"
)]
#[case::placeholder_refused(
    placeholder_refused,
    "Admission webhook denied the request.",
    "The words of the API server",
    "describe"
)]
#[case::full(full, "No IPv4 address of class public is free.", "Enlarge the pool", "describe")]
#[case::another_driver(
    another_driver,
    "It waits for cloud.example, which provides class public.",
    "That driver says",
    "describe"
)]
#[case::not_stamped(
    not_stamped,
    "The core has not looked at it yet.",
    "If this lasts, see whether address-controller",
    "describe"
)]
#[case::class_not_judged(
    class_not_judged,
    "The driver has not looked at class public yet.",
    "If this lasts, see whether metallb-iad",
    "describe"
)]
#[case::under_way(plain, "The driver is reserving an address for it.", "This takes seconds.", "describe")]
#[tokio::test]
async fn a_claim_waits_for_a_reason_and_there_is_something_to_do(
    #[case] scene: fn(&mut Invented),
    #[case] cause: &str,
    #[case] remedy: &str,
    #[case] command: &str,
) {
    let mut cluster = Invented::default();
    scene(&mut cluster);
    let rig = Rig::of(cluster);
    let json = rig.get("/claims/tenant-a/web.json").await.json();
    let why = |field: &str| json["why"][field].as_str().unwrap_or_else(|| panic!("{json}"));
    assert!(why("cause").starts_with(cause), "{}", why("cause"));
    assert!(why("remedy").starts_with(remedy), "{}", why("remedy"));
    let commands = json["why"]["commands"].as_array().unwrap();
    let lines: Vec<_> = commands.iter().map(|command| command["line"].as_str().unwrap()).collect();
    assert_eq!(lines.is_empty(), command.is_empty(), "{lines:?}");
    assert!(lines.concat().contains(command), "{lines:?}");
    // The page says the same, and the list does.
    for path in ["/claims/tenant-a/web", "/claims"] {
        let page = rig.page(path).await.replace("&#34;", "\"");
        assert!(page.contains(why("cause")), "{path}: {page}");
    }
}

/// What has what it asked for is asked no why.
#[tokio::test]
async fn a_bound_claim_waits_for_nothing() {
    let mut cluster = Invented::default();
    cluster.class("public", "public", None);
    cluster.claim("tenant-a", "web", "public", &["192.0.2.1"], 60);
    let json = Rig::of(cluster).get("/claims/tenant-a/web.json").await.json();
    assert_eq!(json["why"], Value::Null, "{json}");
}
