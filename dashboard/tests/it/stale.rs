//! While the API server does not answer, every way out says so.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use clap::Parser;
use dashboard::args::Args;
use dashboard::web::{self, App};
use dashboard::{Live, auth};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::invented::{NOW, small};
use crate::rig::Rig;

/// Two and a half minutes before the moment of the pages.
const SINCE: &str = "2026-11-30T14:00:01Z";

fn looked_at(live: &Arc<Live>) -> (Rig, Rig) {
    let app = App::new(Arc::clone(live), &Args::parse_from(["x"])).frozen(NOW.parse().unwrap());
    let pages = Rig(web::router(&app, auth::open(web::pages(&app))));
    (pages, Rig(web::metrics(&app, runtime::Requests::default())))
}

/// The first event of the live updates.
async fn first_word(rig: &Rig) -> String {
    let request = Request::get("/live").header("host", "localhost").body(Body::empty()).unwrap();
    let mut body = rig.0.clone().oneshot(request).await.unwrap().into_body();
    let frame = body.frame().await.unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn what_is_stale_says_so_and_since_when() {
    let live = small().live();
    let (pages, metrics) = looked_at(&live);
    live.hear(Some(SINCE.parse().unwrap()));
    for path in ["/", "/addresses", "/addresses/ip-203-0-113-7", "/ip/203.0.113.7", "/conflicts"] {
        let page = pages.page(path).await;
        assert!(page.contains(r#"role="alert"><p><span class="tag bad">Stale</span>"#), "{path}: {page}");
        assert!(page.contains("What you see is as of 14:00:01 UTC"), "{path}: {page}");
        let stamp = page.split(r#"id="asof""#).nth(1).unwrap().split("</span>").next().unwrap();
        assert!(
            stamp.contains(&format!(r#"stale: as of <time datetime="{SINCE}">14:00:01 UTC"#)),
            "{path}: {stamp}"
        );
        assert!(page.contains(r#"class="asof stale""#), "{path}");
        let json = if path == "/" { "/overview.json".to_owned() } else { format!("{path}.json") };
        assert_eq!(pages.get(&json).await.json()["asOf"], SINCE, "{json}");
    }
    let word = first_word(&pages).await;
    assert!(word.contains(r#""silent":true"#) && word.contains(&format!(r#""asOf":"{SINCE}""#)), "{word}");
    let told = metrics.get("/metrics").await.text;
    assert!(told.contains("address_dashboard_silence_seconds 150.0\n"), "{told}");
    // It is served all the same: old news are better than none, when they say so.
    assert_eq!(pages.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn what_is_fresh_again_says_nothing_of_it() {
    let live = small().live();
    let (pages, metrics) = looked_at(&live);
    live.hear(Some(SINCE.parse().unwrap()));
    live.hear(None);
    let page = pages.page("/").await;
    assert!(
        !page.contains("Stale") && !page.contains("asof stale") && page.contains("14:02:31 UTC"),
        "{page}"
    );
    assert_eq!(pages.get("/overview.json").await.json()["asOf"], NOW);
    assert!(first_word(&pages).await.contains(r#""silent":false"#));
    assert!(metrics.get("/metrics").await.text.contains("address_dashboard_silence_seconds 0.0\n"));
}
