//! Live updates: what is sent, when, and that nothing piles up.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use clap::Parser;
use dashboard::args::Args;
use dashboard::web::{self, App};
use dashboard::{Live, auth};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::invented::{Invented, small};

async fn connect(live: &std::sync::Arc<Live>) -> Body {
    let app = App::new(live.clone(), &Args::parse_from(["x"]));
    let router = web::router(&app, auth::open(web::pages(&app)));
    let request = Request::get("/live").header("host", "localhost").body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    response.into_body()
}

async fn heard(body: &mut Body) -> String {
    let frame = tokio::time::timeout(Duration::from_secs(60), body.frame()).await.unwrap().unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

fn change(live: &Live, name: &str) {
    let mut one = Invented::default();
    one.claim("tenant-a", name, "public", &[], 1);
    one.feed(live);
}

#[tokio::test(start_paused = true)]
async fn a_page_hears_of_changes_and_that_it_is_up_to_date() {
    let live = small().live();
    let mut body = connect(&live).await;
    let first = heard(&mut body).await;
    assert!(first.contains("event: changed") && first.contains("\"token\""), "{first}");
    let still = heard(&mut body).await;
    assert!(still.contains("event: still"), "{still}");
    change(&live, "one");
    live.tell();
    let second = heard(&mut body).await;
    assert!(second.contains("event: changed") && second != first, "{second}");
}

/// A client that does not read misses versions: there is one event for it, however much happened.
#[tokio::test(start_paused = true)]
async fn a_slow_client_misses_versions_and_holds_no_memory() {
    let live = small().live();
    let mut body = connect(&live).await;
    heard(&mut body).await;
    for number in 0..1_000 {
        change(&live, &format!("claim-{number}"));
        live.tell();
    }
    assert!(heard(&mut body).await.contains("event: changed"));
    assert!(heard(&mut body).await.contains("event: still"));
}

/// A right that was taken away ends with the connection, and that ends by itself.
#[tokio::test(start_paused = true)]
async fn a_connection_ends_by_itself() {
    let live = small().live();
    let mut body = connect(&live).await;
    let whole = async {
        let mut count = 0;
        while body.frame().await.is_some() {
            count += 1;
        }
        count
    };
    let count = tokio::time::timeout(Duration::from_secs(600), whole).await.unwrap();
    assert!(count > 5);
}
