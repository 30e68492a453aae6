//! Which lines a query finds, and where an IP stands.

use rstest::rstest;
use serde_json::Value;

use crate::invented::{Invented, small};
use crate::rig::Rig;

async fn found(path: &str, name: impl Fn(&Value) -> String) -> String {
    let (list, query) = path.split_once('?').unwrap_or((path, ""));
    let json = Rig::of(small()).get(&format!("{list}.json?{query}")).await.json();
    let items = json["items"].as_array().unwrap_or_else(|| panic!("{json}"));
    items.iter().map(name).collect::<Vec<_>>().join(" ")
}

fn last(address: &str) -> String {
    address.rsplit(['.']).next().unwrap().to_owned()
}

#[rstest]
#[case::all("", "4 7 8 9 10 20 41 50 2001:db8::1f")]
#[case::one_ip("q=203.0.113.7", "7")]
#[case::a1_another_spelling("q=2001:DB8:0::1F", "2001:db8::1f")]
#[case::a2_mapped("q=::ffff:203.0.113.7", "7")]
#[case::cidr("q=203.0.113.8/29", "8 9 10")]
#[case::range("q=203.0.113.8-203.0.113.20", "8 9 10 20")]
#[case::service("q=web-v2", "7")]
#[case::claim("q=tenant-a/", "7 8 41")]
#[case::claim_of_a_namespace("q=tenant-c/mail", "20 2001:db8::1f")]
#[case::namespace("namespace=tenant-b", "9 50")]
#[case::class("class=internal", "4")]
#[case::phase("phase=Released", "9 50")]
#[case::state("state=released", "9")]
#[case::family("family=ipv6", "2001:db8::1f")]
#[case::two_filters("family=IPv4&state=reserved", "8 20")]
#[case::trace("q=4bf92f3577b34da6a3ce929d0e0e4736", "7")]
#[case::trace_in_capitals("q=4BF92F3577B34DA6A3CE929D0E0E4736&state=attached", "7")]
#[case::a_part_of_a_trace_is_none("q=4bf92f3577b34da6", "")]
#[case::by_state("sort=state", "7 8 20 2001:db8::1f 10 9 50 41 4")]
#[case::by_state_backwards("sort=-state", "4 41 50 9 10 2001:db8::1f 20 8 7")]
#[case::by_service("sort=service", "7 50 4 8 9 10 20 41 2001:db8::1f")]
#[case::by_claim("sort=claim", "8 41 7 9 20 2001:db8::1f 4 10 50")]
#[case::newest_first("sort=since", "7 41 4 20 2001:db8::1f 50 10 9 8")]
#[case::oldest_first("sort=-since&limit=4", "8 9 10 50")]
#[case::newest_of_a_search("q=tenant-a&sort=since", "7 41 8")]
#[case::sorted_and_paged("sort=since&limit=4&page=2", "2001:db8::1f 50 10 9")]
#[case::sorted_by_service("sort=service&state=attached", "7")]
#[case::sorted_backwards("sort=-address&limit=3", "2001:db8::1f 50 41")]
#[case::second_page("limit=4&page=2", "10 20 41 50")]
#[case::past_the_end("page=99", "")]
#[case::nothing("q=no-such-thing", "")]
#[tokio::test]
async fn addresses(#[case] query: &str, #[case] expected: &str) {
    let text = |item: &Value| last(item["address"].as_str().unwrap());
    assert_eq!(found(&format!("/addresses?{query}"), text).await, expected);
}

/// Classes in name order, whatever the order of their addresses.
#[rstest]
#[case("sort=class", "1 3 2")]
#[case("sort=-class", "2 3 1")]
#[tokio::test]
async fn addresses_by_class(#[case] query: &str, #[case] expected: &str) {
    let mut cluster = Invented::default();
    for (ip, class) in [("192.0.2.1", "a"), ("192.0.2.2", "b"), ("192.0.2.3", "a")] {
        cluster.reserved(ip, class, "Available", None, 60);
    }
    let json = Rig::of(cluster).get(&format!("/addresses.json?{query}")).await.json();
    let items = json["items"].as_array().unwrap();
    let found: Vec<_> = items.iter().map(|item| last(item["address"].as_str().unwrap())).collect();
    assert_eq!(found.join(" "), expected);
}

/// One line for each gap, never one for each IP, also of a /64.
#[rstest]
#[case::of_a_class("class=internal&gaps=1", "192.168.40.10-192.168.40.29=20 192.168.99.4")]
#[case::between("q=203.0.113.6/30&gaps=1", "203.0.113.4-203.0.113.6=3 203.0.113.7")]
#[case::a_page_of_them(
    "family=IPv4&class=public&gaps=1&limit=3",
    "203.0.113.0-203.0.113.6=7 203.0.113.7 203.0.113.8"
)]
#[case::the_next_page(
    "family=IPv4&class=public&gaps=1&limit=3&page=2",
    "203.0.113.9 203.0.113.10 203.0.113.11-203.0.113.19=9"
)]
#[case::of_a_family(
    "family=IPv6&gaps=1",
    "2001:db8::-2001:db8::1e=31 2001:db8::1f 2001:db8::20-2001:db8::ffff:ffff:ffff:ffff=18446744073709551584"
)]
#[case::a_state_has_no_gaps("state=released&gaps=1", "203.0.113.9")]
#[tokio::test]
async fn gaps(#[case] query: &str, #[case] expected: &str) {
    let text = |item: &Value| match item["from"].as_str() {
        Some(from) => format!("{from}-{}={}", item["to"].as_str().unwrap(), item["free"].as_str().unwrap()),
        None => item["address"].as_str().unwrap().to_owned(),
    };
    assert_eq!(found(&format!("/addresses?{query}"), text).await, expected);
}

#[rstest]
#[case::all(
    "",
    "tenant-a/spare tenant-a/vpn tenant-a/web tenant-c/mail tenant-d/db tenant-d/edge tenant-e/api"
)]
#[case::waiting_first("sort=phase&limit=2", "tenant-d/edge tenant-e/api")]
#[case::by_ip("q=203.0.113.41", "tenant-a/vpn")]
#[case::by_service("q=web-v2", "tenant-a/web")]
#[case::pending("phase=pending", "tenant-d/edge tenant-e/api")]
#[case::dual("family=Dual", "tenant-c/mail")]
#[case::class("class=partner", "tenant-d/edge")]
#[case::namespace("namespace=tenant-a", "tenant-a/spare tenant-a/vpn tenant-a/web")]
#[case::namespace_and_search("namespace=tenant-d&q=edge", "tenant-d/edge")]
#[case::no_such_namespace("namespace=tenant", "")]
#[case::second_page("limit=2&page=2", "tenant-a/web tenant-c/mail")]
#[case::by_class(
    "sort=class",
    "tenant-e/api tenant-d/db tenant-d/edge tenant-a/spare tenant-a/vpn tenant-a/web tenant-c/mail"
)]
#[case::by_class_backwards("sort=-class&limit=2", "tenant-c/mail tenant-a/web")]
#[case::newest_first(
    "sort=since",
    "tenant-e/api tenant-d/edge tenant-a/web tenant-a/vpn tenant-d/db tenant-c/mail tenant-a/spare"
)]
#[case::oldest_first("sort=-since&limit=2", "tenant-a/spare tenant-c/mail")]
#[case::backwards("sort=-claim&limit=2", "tenant-e/api tenant-d/edge")]
#[tokio::test]
async fn claims(#[case] query: &str, #[case] expected: &str) {
    let text =
        |item: &Value| format!("{}/{}", item["namespace"].as_str().unwrap(), item["name"].as_str().unwrap());
    assert_eq!(found(&format!("/claims?{query}"), text).await, expected);
}

#[rstest]
#[case::all("", "web-v2=claimed lb-copy=conflict legacy=observed cloudy=foreign stuck=waiting")]
#[case::worst_first("sort=origin&limit=2", "lb-copy=conflict stuck=waiting")]
#[case::foreign("origin=foreign", "cloudy=foreign")]
#[case::by_ip("q=203.0.113.0/24", "web-v2=claimed lb-copy=conflict legacy=observed")]
#[case::by_claim("q=tenant-e/api", "stuck=waiting")]
#[case::best_first(
    "sort=-origin",
    "web-v2=claimed legacy=observed cloudy=foreign stuck=waiting lb-copy=conflict"
)]
#[case::worst_first_of_a_search(
    "q=tenant-&sort=origin&limit=3",
    "lb-copy=conflict stuck=waiting cloudy=foreign"
)]
#[case::second_page_by_origin("sort=origin&limit=2&page=2", "cloudy=foreign legacy=observed")]
#[case::of_a_namespace("namespace=tenant-b", "lb-copy=conflict legacy=observed")]
#[case::of_a_namespace_and_an_origin("namespace=tenant-b&origin=observed", "legacy=observed")]
#[case::sorted_by_claim(
    "sort=claim",
    "web-v2=claimed stuck=waiting lb-copy=conflict legacy=observed cloudy=foreign"
)]
#[case::newest_first(
    "sort=created",
    "web-v2=claimed stuck=waiting lb-copy=conflict legacy=observed cloudy=foreign"
)]
#[case::oldest_first("sort=-created&limit=2", "cloudy=foreign legacy=observed")]
#[case::oldest_of_an_origin("sort=-created&origin=claimed", "web-v2=claimed")]
#[case::second_page("limit=2&page=2", "legacy=observed cloudy=foreign")]
#[tokio::test]
async fn services(#[case] query: &str, #[case] expected: &str) {
    let text =
        |item: &Value| format!("{}={}", item["name"].as_str().unwrap(), item["origin"].as_str().unwrap());
    assert_eq!(found(&format!("/services?{query}"), text).await, expected);
}

#[rstest]
#[case::newest_first("", "7:web-v2 20:mx-old 2001:db8::1f:mx-old")]
#[case::current("state=current", "7:web-v2")]
#[case::past("state=past", "20:mx-old 2001:db8::1f:mx-old")]
#[case::of_a_namespace("namespace=tenant-c", "20:mx-old 2001:db8::1f:mx-old")]
#[case::of_another_namespace("namespace=tenant-a", "7:web-v2")]
#[case::of_no_namespace("namespace=tenant", "")]
#[case::second_page("limit=1&page=2", "20:mx-old")]
#[case::at_a_moment("at=2026-11-30T13:00:00Z", "20:mx-old 2001:db8::1f:mx-old")]
#[case::at_a_moment_without_zone("at=2026-11-30T14:02:20", "7:web-v2")]
#[case::of_an_ip("q=203.0.113.20", "20:mx-old")]
#[tokio::test]
async fn associations(#[case] query: &str, #[case] expected: &str) {
    let text = |item: &Value| {
        format!("{}:{}", last(item["address"].as_str().unwrap()), item["service"]["name"].as_str().unwrap())
    };
    assert_eq!(found(&format!("/associations?{query}"), text).await, expected);
}

/// Any IP is answered for.
#[rstest]
#[case::attached("203.0.113.7", "is attached to Service tenant-a/web-v2, by claim tenant-a/web.")]
#[case::reserved(
    "203.0.113.8",
    "is reserved for claim tenant-a/spare and attached to nothing; a placeholder holds it."
)]
#[case::released(
    "203.0.113.9",
    "was released by claim tenant-b/old, which is gone, and is kept; a placeholder holds it."
)]
#[case::available("203.0.113.10", "is nobody's: the next claim that fits gets it; a placeholder holds it.")]
#[case::conflict("203.0.113.41", "is in conflict: Service tenant-b/lb-copy has it, and was not given it.")]
#[case::observed("203.0.113.50", "is with Service tenant-b/legacy, which no claim covers.")]
#[case::free("203.0.113.60", "is free: pool public has it, and class public draws from it.")]
#[case::free_of_a_64("2001:db8::abcd", "is free: pool public has it, and class public draws from it.")]
#[case::foreign("198.51.100.3", "is with Service tenant-d/cloudy, and no address is written down for it.")]
#[case::lost(
    "192.168.99.4",
    "is lost: no pool contains it any more. Put it back into a pool, and everything is as before."
)]
#[case::of_no_pool("10.9.9.9", "is in no pool of MetalLB, and nobody has it.")]
#[tokio::test]
async fn ips(#[case] ip: &str, #[case] expected: &str) {
    let json = Rig::of(small()).get(&format!("/ip/{ip}.json")).await.json();
    assert_eq!(json["sentence"], expected);
}

/// What is counted adds up: every address of the pool is in one piece of the bar.
#[tokio::test]
async fn the_bar_adds_up() {
    let json = Rig::of(small()).get("/overview.json").await.json();
    for room in json["room"].as_array().unwrap() {
        let count = |field: &str| room[field].as_str().unwrap().parse::<u128>().unwrap();
        let pieces: u128 = ["attached", "reserved", "conflict", "other", "free"].map(count).iter().sum();
        assert_eq!(pieces, count("size"), "{room}");
    }
    let public = &json["room"][2];
    assert_eq!((&public["class"], &public["family"]), (&"public".into(), &"IPv4".into()), "{json}");
    let counts =
        ["attached", "reserved", "conflict", "other", "free"].map(|field| public[field].as_str().unwrap());
    assert_eq!(counts, ["2", "4", "1", "0", "57"]);
}

/// An IP that is with a stranger is a conflict before the ledger says so.
#[tokio::test]
async fn l2_a_conflict_is_shown_before_the_ledger_says_so() {
    let mut cluster = Invented::default();
    cluster.pool("public", &["192.0.2.0/29"], false);
    cluster.class("public", "public", None);
    cluster.claim("tenant-a", "web", "public", &["192.0.2.1"], 90);
    cluster.reserved("192.0.2.1", "public", "Bound", Some(("tenant-a", "web")), 90);
    cluster.service("tenant-b", "thief", &["192.0.2.1"], serde_json::json!({}), 5);
    let json = Rig::of(cluster).get("/conflicts.json").await.json();
    assert_eq!((&json["total"], &json["items"][0]["recorded"]), (&1.into(), &false.into()), "{json}");
    assert_eq!(json["items"][0]["heldBy"][0]["service"]["name"], "thief");
}

/// The command names what is to go, and nothing else.
#[rstest]
#[case::pin(serde_json::json!({"metallb.io/loadBalancerIPs": "192.0.2.1"}), None, &["192.0.2.1"], &[],
    r#"{"metadata":{"annotations":{"metallb.io/loadBalancerIPs":null}},"spec":{"type":"ClusterIP"}}"#)]
#[case::old_pin(serde_json::json!({"metallb.universe.tf/loadBalancerIPs": "192.0.2.1"}), None, &["192.0.2.1"], &[],
    r#"{"metadata":{"annotations":{"metallb.universe.tf/loadBalancerIPs":null}},"spec":{"type":"ClusterIP"}}"#)]
#[case::load_balancer_ip(serde_json::json!({}), Some("192.0.2.1"), &["192.0.2.1"], &[],
    r#"{"spec":{"loadBalancerIP":null,"type":"ClusterIP"}}"#)]
#[case::pool(serde_json::json!({"metallb.io/address-pool": "public"}), None, &["192.0.2.1"], &[],
    r#"{"metadata":{"annotations":{"metallb.io/address-pool":null,"metallb.universe.tf/address-pool":null}},"spec":{"type":"ClusterIP"}}"#)]
#[case::old_pool_and_load_balancer_ip(serde_json::json!({"metallb.universe.tf/address-pool": "public"}), Some("192.0.2.1"), &["192.0.2.1"], &[],
    r#"{"metadata":{"annotations":{"metallb.io/address-pool":null,"metallb.universe.tf/address-pool":null}},"spec":{"loadBalancerIP":null,"type":"ClusterIP"}}"#)]
#[case::l2_a_forged_status(serde_json::json!({}), None, &["192.0.2.1"], &[], r#"{"spec":{"type":"ClusterIP"}}"#)]
#[case::external_ips(serde_json::json!({}), None, &[], &["192.0.2.1", "198.51.100.9"], r#"{"spec":{"externalIPs":["198.51.100.9"]}}"#)]
#[case::the_only_external_ip(serde_json::json!({}), None, &[], &["192.0.2.1"], r#"{"spec":{"externalIPs":null}}"#)]
#[case::both(serde_json::json!({}), Some("192.0.2.1"), &["192.0.2.1"], &["192.0.2.1"],
    r#"{"spec":{"externalIPs":null,"loadBalancerIP":null,"type":"ClusterIP"}}"#)]
#[tokio::test]
async fn conflicts_end_by(
    #[case] annotations: Value,
    #[case] lb_ip: Option<&str>,
    #[case] ingress: &[&str],
    #[case] external: &[&str],
    #[case] patch: &str,
) {
    let mut cluster = Invented::default();
    cluster.pool("public", &["192.0.2.0/29"], false);
    cluster.class("public", "public", None);
    cluster.claim("tenant-a", "web", "public", &["192.0.2.1"], 90);
    cluster.address("192.0.2.1", "public", "Conflict", Some(("tenant-a", "web")), 90, |_| ());
    cluster.taker("tenant-b", "thief", ingress, external, annotations, lb_ip);
    let json = Rig::of(cluster).get("/conflicts.json").await.json();
    let line = json["items"][0]["heldBy"][0]["command"]["line"].as_str().unwrap_or_else(|| panic!("{json}"));
    assert_eq!(line, format!("kubectl -n tenant-b patch service thief --type=merge -p '{patch}'"));
}

/// Why a Service waits is what can be seen now, not what was said once.
#[tokio::test]
async fn why_services_wait() {
    let mut cluster = small();
    let asks = |claim: &str| serde_json::json!({ "local.sdn.cozystack.io/ip-address-claim": claim });
    cluster.service("tenant-a", "late", &[], asks("web"), 5);
    cluster.service("tenant-a", "misspelt", &[], asks("wbe"), 5);
    cluster.event(
        dashboard::world::About::Service,
        "tenant-a",
        "late",
        "ClaimNotBound",
        "said long ago",
        900,
    );
    let json = Rig::of(cluster).get("/services.json?namespace=tenant-a&origin=waiting").await.json();
    let why = |place: usize| json["items"][place]["why"].as_str().unwrap_or_default();
    assert_eq!(why(0), "Claim web is with Service tenant-a/web-v2; it follows when that lets go.");
    assert_eq!(why(1), "Claim wbe does not exist in its namespace.");
}

/// Of two objects with one IP the younger does not count, and says so.
#[tokio::test]
async fn c3c_a_duplicate_is_not_counted_and_says_so() {
    let mut cluster = small();
    cluster.address("203.0.113.7", "public", "Pending", None, 5, |object| {
        object["metadata"]["name"] = "by-hand".into();
        let words = "spec.address 203.0.113.7 belongs to the older IPAddress ip-203-0-113-7 already; delete one of the two";
        object["status"]["conditions"] =
            serde_json::json!([crate::invented::condition("Valid", false, "DuplicateAddress", words, 5)]);
    });
    let rig = Rig::of(cluster);
    let json = rig.get("/addresses/by-hand.json").await.json();
    assert!(json["sentence"].as_str().is_some_and(|words| words.contains("belongs to the older")), "{json}");
    let json = rig.get("/overview.json").await.json();
    assert_eq!(json["room"][2]["attached"], "2", "{json}");
}
