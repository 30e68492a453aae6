//! What a tenant sees, and that everything else is as if absent, on every way out.

use axum::body::Body;
use axum::http::Request;
use dashboard::{Live, Scope};
use rstest::rstest;
use serde_json::Value;

use crate::invented::small;
use crate::rig::{PAGES, Rig};

/// Words that only somebody who sees everything may read. (`tenant-a` is the tenant.)
const OTHERS: [&str; 19] = [
    "tenant-b",
    "tenant-c",
    "tenant-d",
    "tenant-e",
    "lb-copy",
    "legacy",
    "mx-old",
    "cloudy",
    "stuck",
    "address-system",
    "203.0.113.9<",
    "203.0.113.9\"",
    "203.0.113.9,",
    "203.0.113.10",
    "203.0.113.20",
    "203.0.113.50",
    "192.168.99.4",
    "198.51.100.3",
    "2001:db8::1f",
];

fn tenant() -> Rig {
    Rig::seen_by(small(), Scope::only(["tenant-a"]))
}

#[tokio::test]
async fn nothing_of_others_is_on_any_page_in_any_form() {
    let rig = tenant();
    // IPs of the tenant, one of them in conflict; of others, reserved, observed, foreign and lost; and of nobody.
    let ips = ["7", "8", "41", "9", "10", "20", "50", "60"].map(|last| format!("/ip/203.0.113.{last}"));
    let others = ["/ip/192.168.99.4", "/ip/2001:db8::1f"].map(str::to_owned);
    let paths = PAGES.iter().map(ToString::to_string).chain(ips).chain(others);
    let (mut shown, mut told) = (0, 0);
    for path in paths {
        for form in ["", ".json", ".csv"] {
            let answer = rig.get(&format!("{path}{form}")).await;
            assert!(answer.status == 200 || answer.status == 404, "{path}{form}: {}", answer.status);
            shown += usize::from(answer.status == 200);
            // What was asked for is repeated, by its name and by its IP; nothing else is.
            let asked = path.rsplit('/').next().unwrap();
            let text = answer.text.replace(&path, "ASKED").replace(&format!("{asked:?}"), "ASKED");
            let is_ip = path.starts_with("/ip/");
            let text = if is_ip { text.replace(asked, "ASKED") } else { text };
            told += usize::from(text.contains("tenant-a"));
            // A claim's page that is refused names it by its namespace, too.
            let text = match path.strip_prefix("/claims/") {
                Some(claim) if answer.status == 404 => text.replace(claim, "ASKED"),
                _ => text,
            };
            for word in OTHERS {
                assert!(!text.contains(word), "{path}{form} shows {word}: {text}");
            }
        }
    }
    assert!(shown > 60 && told > 20, "{shown} pages are shown, {told} have something of the tenant");
}

/// Of an IP of their own that somebody else took they learn that it is taken, in each form; not by whom.
#[rstest]
#[case("/ip/203.0.113.7", "web-v2")]
#[case("/ip/203.0.113.41", "vpn")]
#[tokio::test]
async fn l1_an_ip_of_their_own_is_told_of(#[case] path: &str, #[case] own: &str) {
    let rig = tenant();
    for form in ["", ".json", ".csv"] {
        let text = rig.page(&format!("{path}{form}")).await;
        assert!(text.contains("tenant-a") && text.contains(own), "{path}{form}: {text}");
        assert!(!text.contains("lb-copy") && !text.contains("tenant-b"), "{path}{form}: {text}");
    }
}

/// What is there and hidden is told from what is not there by nothing.
#[rstest]
#[case("/addresses/ip-203-0-113-9", "/addresses/ip-203-0-113-99")]
#[case("/addresses/ip-203-0-113-10.json", "/addresses/ip-203-0-113-98.json")]
#[case("/claims/tenant-c/mail", "/claims/tenant-c/none")]
#[case("/claims/tenant-c/mail.csv", "/claims/tenant-c/none.csv")]
#[case("/ip/203.0.113.9.json", "/ip/203.0.113.60.json")]
#[case("/ip/203.0.113.20", "/ip/203.0.113.61")]
#[case("/ip/198.51.100.3.csv", "/ip/198.51.100.4.csv")]
#[tokio::test]
async fn hidden_is_as_absent(#[case] hidden: &str, #[case] absent: &str) {
    let rig = tenant();
    let (hidden, absent) = (asked(&rig, hidden).await, asked(&rig, absent).await);
    assert_eq!(hidden, absent);
}

/// An answer, with what was asked for taken out of it.
async fn asked(rig: &Rig, path: &str) -> (u16, String) {
    let answer = rig.get(path).await;
    let name = path.rsplit('/').next().unwrap();
    let name = name.trim_end_matches(".json").trim_end_matches(".csv");
    (answer.status.as_u16(), answer.text.replace(name, "ASKED"))
}

/// A search finds nothing by what is hidden.
#[rstest]
#[case("/addresses.json?q=lb-copy")]
#[case("/addresses.json?q=tenant-b")]
#[case("/addresses.json?namespace=tenant-b")]
#[case("/claims.json?namespace=tenant-c")]
#[case("/services.json?q=203.0.113.50")]
#[case("/associations.json?q=mx-old")]
#[tokio::test]
async fn a_search_finds_nothing_by_what_is_hidden(#[case] path: &str) {
    let json = tenant().get(path).await.json();
    assert_eq!((&json["matched"], json["items"].as_array().map(Vec::len)), (&0.into(), Some(0)), "{json}");
}

/// A trace finds the tenant's own address, and nobody else's.
#[tokio::test]
async fn a_trace_finds_only_what_may_be_seen() {
    let path = "/addresses.json?q=4bf92f3577b34da6a3ce929d0e0e4736";
    for (namespace, matched) in [("tenant-a", 1), ("tenant-b", 0)] {
        let json = Rig::seen_by(small(), Scope::only([namespace])).get(path).await.json();
        assert_eq!(json["matched"], matched, "{namespace}: {json}");
    }
}

#[tokio::test]
async fn totals_are_the_tenants_own() {
    let rig = tenant();
    let json = rig.get("/overview.json").await.json();
    let counts = ["addresses", "claims", "attached", "reserved", "conflicts", "lost", "waiting"]
        .map(|field| json[field].as_u64().unwrap());
    assert_eq!(counts, [3, 3, 1, 1, 1, 0, 0], "{json}");
    for room in json["room"].as_array().unwrap() {
        // How large a pool is, and how much of it others have, is not the tenant's to know.
        assert_eq!((&room["size"], &room["free"], &room["other"]), (&Value::Null, &Value::Null, &"0".into()));
    }
    let total = async |path: &str| rig.get(path).await.json()["total"].as_u64().unwrap();
    assert_eq!((total("/addresses.json").await, total("/services.json").await), (3, 1));
    assert_eq!(total("/addresses.json?gaps=1").await, 3);
}

/// L1, L2: whose Service has the tenant's address is not told; that somebody's has, is.
#[tokio::test]
async fn l1_a_conflict_is_told_without_its_offender() {
    let page = tenant().page("/conflicts").await;
    assert!(
        page.contains("203.0.113.41") && page.contains("a Service of another namespace has it"),
        "{page}"
    );
    assert!(page.contains("An operator can end it") && !page.contains("kubectl"), "{page}");
}

/// The offender's side: its Service has an IP that it was not given, and whose it is is not told.
#[tokio::test]
async fn l1_the_offender_is_not_told_whose_address_it_has() {
    let rig = Rig::seen_by(small(), Scope::only(["tenant-b"]));
    let json = rig.get("/services.json?q=lb-copy").await.json();
    assert_eq!(json["items"][0]["origin"], "conflict", "{json}");
    assert_eq!(json["items"][0]["addresses"][0]["name"], Value::Null, "{json}");
    let json = rig.get("/ip/203.0.113.41.json").await.json();
    assert_eq!(json["sentence"], "is with Service tenant-b/lb-copy, and is reserved for somebody else.");
    for path in PAGES {
        let text = rig.get(path).await.text;
        assert!(!text.contains("vpn") || path.contains("vpn"), "{path}");
    }
}

/// A tenant's page hears of what changes in its namespaces, and of nothing else.
#[tokio::test]
async fn live_updates_are_of_the_tenants_namespaces_only() {
    use clap::Parser;
    let live: std::sync::Arc<Live> = small().live();
    let app = dashboard::web::App::new(live.clone(), &dashboard::args::Args::parse_from(["x"]));
    let visitor = dashboard::Visitor { scope: Scope::only(["tenant-a"]), name: None };
    let rig = Rig(dashboard::web::router(&app, dashboard::web::pages(&app).layer(axum::Extension(visitor))));
    let token = async || {
        let page = rig.page("/").await;
        page.split("data-token=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let first = token().await;
    let mut others = crate::invented::Invented::default();
    others.claim("tenant-b", "new", "public", &[], 1);
    others.service("tenant-b", "new", &["203.0.113.51"], serde_json::json!({}), 1);
    others.reserved("203.0.113.52", "public", "Available", None, 1);
    others.feed(&live);
    assert_eq!(token().await, first);
    let mut own = crate::invented::Invented::default();
    own.claim("tenant-a", "new", "public", &[], 1);
    own.feed(&live);
    let second = token().await;
    assert_ne!(second, first);
    // Somebody takes the tenant's address: that is the tenant's to know.
    let mut thief = crate::invented::Invented::default();
    thief.service("tenant-b", "thief", &["203.0.113.8"], serde_json::json!({}), 1);
    thief.feed(&live);
    assert_ne!(token().await, second);
}

#[tokio::test]
async fn a_scope_without_namespaces_sees_nothing() {
    let rig = Rig::seen_by(small(), Scope::only(Vec::<String>::new()));
    let json = rig.get("/overview.json").await.json();
    assert_eq!((&json["addresses"], &json["claims"]), (&0.into(), &0.into()), "{json}");
    let request = Request::get("/addresses.csv").header("host", "localhost").body(Body::empty()).unwrap();
    assert_eq!(rig.ask(request).await.text.lines().count(), 1);
}
