//! What every answer carries, before and behind the access layer.

use axum::http::header;
use tower::ServiceExt as _;

use super::{bearer, dashboard, get, people, post, with_token};
use crate::web;

/// Every header that there is, on every kind of answer that there is.
#[tokio::test]
async fn every_answer_carries_every_security_header() {
    let (router, _) = dashboard(&people(), &[]);
    let token = bearer("t-all");
    let signed = [("authorization", token.as_str())];
    let css = with_token(&router, "/", "t-all").await.body;
    let css = css.split("href=\"").find(|link| link.contains("app.css")).unwrap().split('"').next().unwrap();
    let mut stranger = get("/", &[]);
    stranger.headers_mut().insert(header::HOST, header::HeaderValue::from_static("evil.example"));
    let answers = [
        ("a page", get("/addresses", &signed), 200),
        ("JSON", get("/addresses.json", &signed), 200),
        ("CSV", get("/addresses.csv", &signed), 200),
        ("the live updates", get("/live", &signed), 200),
        ("an asset", get(css, &[]), 200),
        ("an asset of another version", get("/assets/0/app.css", &[]), 404),
        ("the document", get("/openapi.json", &[]), 200),
        ("the form", get("/login", &[]), 200),
        ("a wrong token", post("/login", "token=nobodys", &[]), 401),
        ("a way to the form", get("/", &[]), 303),
        ("no token", get("/addresses.json", &[]), 401),
        ("no page", get("/nothing", &signed), 404),
        ("a bad query", get("/addresses?page=0", &signed), 400),
        ("a write", post("/addresses", "", &signed), 405),
        ("a stranger's host", stranger, 421),
        ("a probe", get("/healthz", &[]), 200),
        ("another probe", get("/readyz", &[]), 200),
    ];
    for (what, request, status) in answers {
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{what}");
        for (name, value) in web::HEADERS {
            let given: Vec<_> = response.headers().get_all(&name).iter().collect();
            assert_eq!(given, [value], "{name} of {what}");
        }
        let caching = response.headers()[header::CACHE_CONTROL].to_str().unwrap();
        let kept = if what == "an asset" { "immutable" } else { "no-" };
        assert!(caching.contains(kept), "{what} may be kept: {caching}");
    }
}
