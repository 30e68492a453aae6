//! What surrounds the pages: probes, hosts, headers, the base path, forms.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use dashboard::Scope;

use crate::invented::{Invented, small};
use crate::rig::{PAGES, Rig};

#[tokio::test]
async fn strangers_hosts_are_told_how_to_be_let_in() {
    let rig = Rig::of(small());
    let request = Request::get("/").header("host", "evil.example:80").body(Body::empty()).unwrap();
    let answer = rig.ask(request).await;
    assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST);
    assert!(answer.text.contains("--allowed-host=evil.example"), "{}", answer.text);
    let probe = Request::get("/healthz").header("host", "evil.example").body(Body::empty()).unwrap();
    assert_eq!(rig.ask(probe).await.status, StatusCode::OK);
}

/// The policy lets in nothing from elsewhere, and nothing inline. (That each answer carries each header: `auth/tests.rs`.)
#[tokio::test]
async fn the_policy_is_strict() {
    let rig = Rig::of(small());
    for path in ["/", "/addresses.json", "/no-such-page", "/addresses?nonsense=1"] {
        let answer = rig.get(path).await;
        let policy = answer.header("content-security-policy");
        let parts: Vec<_> = policy.split(';').map(str::trim).collect();
        assert_eq!(parts[0], "default-src 'none'", "{path}: {policy}");
        for part in &parts[1..] {
            assert!(part.ends_with(" 'self'") || part.ends_with(" 'none'"), "{path}: {part}");
        }
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
    }
}

#[tokio::test]
async fn pages_are_only_read() {
    let rig = Rig::of(small());
    let request = Request::post("/addresses").header("host", "localhost").body(Body::empty()).unwrap();
    let answer = rig.ask(request).await;
    assert_eq!((answer.status, answer.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD"));
}

#[tokio::test]
async fn a_base_path_is_before_every_link() {
    let rig = Rig::with(small(), &["--base-path=/ips"], Scope::All);
    let mut pages: Vec<_> = PAGES.iter().map(|path| (format!("/ips{path}"), 200)).collect();
    pages.extend(
        [("/ips/", 200), ("/ips/addresses?gaps=1&limit=2", 200)].map(|(path, code)| (path.to_owned(), code)),
    );
    pages.extend(
        [("/ips/nothing", 404), ("/ips/claims?page=0", 400)].map(|(path, code)| (path.to_owned(), code)),
    );
    for (path, code) in &pages {
        let answer = rig.get(path).await;
        assert_eq!(answer.status.as_u16(), *code, "{path}");
        let page = &answer.text;
        let links =
            ["href=\"", "src=\"", "action=\""].map(|name| page.split(name).skip(1)).into_iter().flatten();
        let mut count = 0;
        for link in links.map(|link| link.split('"').next().unwrap()) {
            count += usize::from(link.starts_with('/'));
            assert!(!link.starts_with('/') || link.starts_with("/ips/"), "{link} on {path}");
        }
        assert!(count > 10, "{path} has {count} links");
    }
    let page = rig.page("/ips/").await;
    let css = page.split("href=\"").find(|link| link.contains("app.css")).unwrap().split('"').next().unwrap();
    assert!(rig.get(css).await.header("cache-control").contains("immutable"));
    assert_eq!(rig.get("/ips").await.header("location"), "/ips/");
    assert_eq!(rig.get("/addresses").await.status, StatusCode::NOT_FOUND);
    assert_eq!(rig.get("/healthz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn nothing_is_said_before_the_first_lists_have_come() {
    let live = dashboard::Live::new(dashboard::world::World::new("home"));
    let args = clap::Parser::parse_from(["x"]);
    let app = dashboard::web::App::new(live, &args);
    let rig = Rig(dashboard::web::router(&app, dashboard::auth::open(dashboard::web::pages(&app))));
    for path in ["/readyz", "/", "/addresses.json"] {
        let answer = rig.get(path).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert!(answer.text.contains("ipaddresses"), "{path}: {}", answer.text);
    }
    assert_eq!(Rig::of(Invented::default()).get("/readyz").await.text, "ok");
}

#[tokio::test]
async fn without_the_access_layer_nothing_is_shown() {
    let args = clap::Parser::parse_from(["x"]);
    let app = dashboard::web::App::new(small().live(), &args);
    let rig = Rig(dashboard::web::router(&app, dashboard::web::pages(&app)));
    for path in ["/", "/addresses.json", "/live"] {
        let answer = rig.get(path).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
        assert!(!answer.text.contains("203.0.113"), "{path}");
    }
}

#[tokio::test]
async fn what_is_asked_for_is_counted_under_few_names_and_for_no_visitor() {
    let args = clap::Parser::parse_from(["x", "--base-path=/ips"]);
    let app = dashboard::web::App::new(small().live(), &args);
    let rig = Rig(dashboard::web::router(&app, dashboard::auth::open(dashboard::web::pages(&app))));
    for path in
        ["/ips/", "/ips/addresses.csv", "/ips/addresses/a", "/ips/addresses/b", "/ips/made/up", "/made-up"]
    {
        rig.get(path).await;
    }
    assert_eq!(rig.get("/ips/metrics").await.status, StatusCode::NOT_FOUND);
    let told = Rig(dashboard::web::metrics(&app, runtime::Requests::default())).get("/metrics").await;
    assert!(told.header("content-type").starts_with("application/openmetrics-text"), "{:?}", told.headers);
    let asked = "address_dashboard_http_requests_total";
    for line in [
        format!("{asked}{{page=\"overview\",format=\"html\",code=\"200\"}} 1"),
        format!("{asked}{{page=\"addresses\",format=\"csv\",code=\"200\"}} 1"),
        format!("{asked}{{page=\"address\",format=\"html\",code=\"404\"}} 2"),
        format!("{asked}{{page=\"other\",format=\"html\",code=\"404\"}} 3"),
        "address_dashboard_http_request_duration_seconds_count{page=\"address\"} 2".to_owned(),
        "address_dashboard_silence_seconds 0.0".to_owned(),
        "address_dashboard_cache_complete{kind=\"services\"} 1".to_owned(),
    ] {
        assert!(told.text.contains(&line), "{line} is missing in:\n{}", told.text);
    }
    assert!(!told.text.contains("203.0.113"), "{}", told.text);
}
