//! The access layer before real pages, with an API server that says what a test wants.

mod headers;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use clap::Parser;
use http_body_util::BodyExt;
use kube::Client;
use plan::{Change, Kind, Object};
use rstest::rstest;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::gate::Gate;
use crate::args::Args;
use crate::web::{self, App};
use crate::world::{Source, World};
use crate::{Live, auth};

/// What the API server says.
#[derive(Default)]
struct Word {
    /// Tokens, whose they are, and where they may list claims; `*` is everywhere.
    tokens: Mutex<Vec<(&'static str, &'static str, Vec<&'static str>)>>,
    reviews: AtomicUsize,
    /// The namespaces that were asked about; `*` for all of them.
    questions: Mutex<Vec<String>>,
    away: AtomicBool,
}

/// What the API server knows of whoever has a token.
fn user(who: &str) -> Value {
    json!({
        "username": who, "uid": format!("uid-{who}"), "groups": ["system:authenticated", format!("team-{who}")],
        "extra": { "authentication.kubernetes.io/credential-id": [format!("id-{who}")], "scopes": ["a", "b"] },
    })
}

impl Word {
    fn of(tokens: &[(&'static str, &'static str, &[&'static str])]) -> Arc<Self> {
        let tokens = tokens.iter().map(|(token, who, places)| (*token, *who, places.to_vec())).collect();
        Arc::new(Self { tokens: Mutex::new(tokens), ..Self::default() })
    }

    fn answer(&self, question: &Value) -> (u16, Value) {
        if self.away.load(Ordering::Relaxed) {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": "etcd is away",
            });
            return (500, status);
        }
        let tokens = self.tokens.lock().unwrap();
        let mut answer = question.clone();
        if question["kind"] == "TokenReview" {
            self.reviews.fetch_add(1, Ordering::Relaxed);
            let found = tokens.iter().find(|(token, _, _)| question["spec"]["token"] == *token);
            answer["status"] = match found {
                Some((_, who, _)) => json!({ "authenticated": true, "user": user(who) }),
                None => json!({ "authenticated": false }),
            };
        } else {
            let spec = &question["spec"];
            let asked = &spec["resourceAttributes"];
            assert_eq!((&asked["verb"], &asked["resource"]), (&json!("list"), &json!("ipaddressclaims")));
            // Rights come by groups, uid and extra as well as by the name: all of it is handed on as it was told.
            let who = spec["user"].as_str().unwrap();
            let told = json!({ "username": who, "uid": spec["uid"], "groups": spec["groups"], "extra": spec["extra"] });
            assert_eq!(told, user(who));
            let namespace = asked["namespace"].as_str().unwrap_or("*");
            self.questions.lock().unwrap().push(namespace.to_owned());
            let may = tokens.iter().any(|(_, name, places)| who == *name && places.contains(&namespace));
            answer["status"] = json!({ "allowed": may });
        }
        (201, answer)
    }

    fn client(self: &Arc<Self>) -> Client {
        let word = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let word = Arc::clone(&word);
            async move {
                let bytes = request.into_body().collect().await?.to_bytes();
                let (status, answer) = word.answer(&serde_json::from_slice(&bytes).unwrap());
                let body = kube::client::Body::from(answer.to_string().into_bytes());
                Ok::<_, kube::Error>(Response::builder().status(status).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }
}

/// An address that a claim of a namespace has.
fn address(ip: &str, namespace: &str) -> Change {
    let name = ip.replace('.', "-");
    let address: api::IPAddress = serde_json::from_value(json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
        "metadata": { "name": format!("ip-{name}"), "uid": ip, "creationTimestamp": "2026-01-02T03:04:05Z" },
        "spec": {
            "className": "public", "address": ip, "source": { "fromClass": {} },
            "claimRef": { "namespace": namespace, "name": "web-ip", "uid": namespace },
        },
        "status": { "phase": "Bound" },
    }))
    .unwrap();
    Change::Applied(Object::from(address))
}

/// A dashboard with an address of `ours` and one of `theirs`, guarded by what the API server says.
fn dashboard(word: &Arc<Word>, flags: &[&str]) -> (Router, Arc<Live>) {
    let live = Live::new(World::new("holds"));
    for kind in crate::follow::NEEDED {
        live.edit().take_in(Source::Kind(kind), Change::Listed(kind));
    }
    for (ip, namespace) in [("192.0.2.1", "ours"), ("192.0.2.2", "theirs")] {
        live.edit().take_in(Source::Kind(Kind::Address), address(ip, namespace));
    }
    let args = Args::parse_from(["x"].iter().chain(flags));
    let app = App::new(Arc::clone(&live), &args);
    let gate = Gate::new(word.client(), Arc::clone(&live));
    let pages = auth::guarded(web::pages(&app), &app, gate);
    (web::router(&app, pages), live)
}

struct Answer {
    status: StatusCode,
    headers: header::HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

async fn ask(router: &Router, request: Request<Body>) -> Answer {
    let (parts, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    Answer { status: parts.status, headers: parts.headers, body }
}

fn get(path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let asks = headers.iter().any(|(name, _)| *name == "accept");
    let html = [("accept", "text/html")];
    let headers = headers.iter().chain(if asks { &[][..] } else { &html[..] });
    let request = Request::get(path).header(header::HOST, "localhost");
    headers.fold(request, |request, (name, value)| request.header(*name, *value)).body(Body::empty()).unwrap()
}

fn post(path: &str, form: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let request = Request::post(path).header(header::HOST, "localhost");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(Body::from(form.to_owned())).unwrap()
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

async fn with_token(router: &Router, path: &str, token: &str) -> Answer {
    ask(router, get(path, &[("authorization", &bearer(token))])).await
}

fn people() -> Arc<Word> {
    Word::of(&[("t-all", "olga", &["*"]), ("t-ours", "ann", &["ours"]), ("t-none", "bob", &[])])
}

#[tokio::test]
async fn without_a_token_a_person_is_led_to_the_form_and_a_program_is_told() {
    let (router, _) = dashboard(&people(), &["--base-path=/ips"]);
    let answer = ask(&router, get("/ips/addresses?q=a%20b", &[])).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert_eq!(answer.header("location"), "/ips/login?next=%2Faddresses%3Fq%3Da%2520b");
    for path in ["/ips/addresses.json", "/ips/addresses.csv", "/ips/no-such-page.json"] {
        let answer = ask(&router, get(path, &[])).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(answer.header("www-authenticate").starts_with("Bearer"), "{path}");
        assert!(answer.body.contains("Authorization: Bearer"), "{path}: {}", answer.body);
    }
    let answer = ask(&router, get("/ips/live", &[("accept", "text/event-stream")])).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "a stream is no page");
    assert_eq!(ask(&router, get("/ips/login", &[])).await.status, StatusCode::OK);
    assert_eq!(ask(&router, get("/healthz", &[])).await.status, StatusCode::OK);
}

#[rstest]
#[case("t-all", true, true)]
#[case("t-ours", true, false)]
#[case("t-none", false, false)]
#[tokio::test]
async fn each_sees_the_namespaces_in_which_they_may_list_claims(
    #[case] token: &str,
    #[case] ours: bool,
    #[case] theirs: bool,
) {
    let (router, _) = dashboard(&people(), &[]);
    for path in ["/addresses", "/addresses.json", "/addresses.csv"] {
        let answer = with_token(&router, path, token).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        let seen = (answer.body.contains("ours"), answer.body.contains("theirs"));
        assert_eq!(seen, (ours, theirs), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_session_is_begun_by_the_form_and_ended_by_the_button() {
    let (router, _) = dashboard(&people(), &["--base-path=/ips"]);
    let form = "token=%20t-ours%0A&next=%2Faddresses";
    let answer = ask(&router, post("/ips/login", form, &[("sec-fetch-site", "same-origin")])).await;
    assert_eq!((answer.status, answer.header("location")), (StatusCode::SEE_OTHER, "/ips/addresses"));
    let cookie = answer.header("set-cookie").to_owned();
    assert!(cookie.ends_with("; Path=/ips/; Max-Age=28800; HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains("t-ours"), "{cookie}");
    let sent = cookie.split(';').next().unwrap().to_owned();
    let answer = ask(&router, get("/ips/addresses", &[("cookie", &sent)])).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body.contains("ann"), "the visitor is not named");

    let elsewhere = [("cookie", sent.as_str()), ("sec-fetch-site", "cross-site")];
    assert_eq!(ask(&router, post("/ips/logout", "", &elsewhere)).await.status, StatusCode::FORBIDDEN);
    let answer = ask(&router, post("/ips/logout", "", &[("cookie", &sent)])).await;
    assert!(answer.header("set-cookie").contains("Max-Age=0"), "{}", answer.header("set-cookie"));
    let answer = ask(&router, get("/ips/addresses", &[("cookie", &sent)])).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "the session goes on");
}

/// Signs in by the form; what the browser sends from then on.
async fn signed_in(router: &Router, token: &str) -> String {
    let answer = ask(router, post("/login", &format!("token={token}"), &[])).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

/// What a page and a program are answered that come with a cookie.
async fn with_cookie(router: &Router, cookie: &str) -> [StatusCode; 2] {
    let page = ask(router, get("/addresses", &[("cookie", cookie)])).await;
    let json = ask(router, get("/addresses.json", &[("cookie", cookie)])).await;
    [page.status, json.status]
}

const IN: [StatusCode; 2] = [StatusCode::OK; 2];
const OUT: [StatusCode; 2] = [StatusCode::SEE_OTHER, StatusCode::UNAUTHORIZED];

#[tokio::test(start_paused = true)]
async fn a_session_ends_after_eight_hours_whatever_the_browser_keeps() {
    let (router, _) = dashboard(&people(), &[]);
    let cookie = signed_in(&router, "t-ours").await;
    tokio::time::advance(Duration::from_secs(8 * 3600 - 1)).await;
    assert_eq!(with_cookie(&router, &cookie).await, IN);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(with_cookie(&router, &cookie).await, OUT);
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_with_its_token_and_does_not_come_back_with_it() {
    let word = people();
    let (router, _) = dashboard(&word, &[]);
    let cookie = signed_in(&router, "t-ours").await;
    assert_eq!(with_cookie(&router, &cookie).await, IN);
    let known = std::mem::take(&mut *word.tokens.lock().unwrap());
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(with_cookie(&router, &cookie).await, OUT);
    *word.tokens.lock().unwrap() = known;
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(with_cookie(&router, &cookie).await, OUT);
}

#[tokio::test]
async fn behind_https_the_cookie_is_secure() {
    let (router, _) = dashboard(&people(), &[]);
    let https = [("x-forwarded-proto", "https")];
    let answer = ask(&router, post("/login", "token=t-ours", &https)).await;
    assert!(answer.header("set-cookie").ends_with("; SameSite=Strict; Secure"), "{:?}", answer.headers);
}

#[rstest]
#[case("token=nobodys", StatusCode::UNAUTHORIZED, "does not know this token")]
#[case("token=", StatusCode::BAD_REQUEST, "Paste a token first")]
#[case("", StatusCode::BAD_REQUEST, "Paste a token first")]
#[case("token=%00%ff", StatusCode::UNAUTHORIZED, "does not know this token")]
#[tokio::test]
async fn a_wrong_token_is_told(#[case] form: &str, #[case] status: StatusCode, #[case] words: &str) {
    let (router, _) = dashboard(&people(), &[]);
    let answer = ask(&router, post("/login", form, &[])).await;
    assert_eq!(answer.status, status);
    assert!(answer.body.contains(words), "{}", answer.body);
    assert_eq!(answer.header("set-cookie"), "");
}

#[tokio::test(start_paused = true)]
async fn the_word_of_the_api_server_is_kept_for_seconds_only() {
    let word = people();
    let (router, _) = dashboard(&word, &[]);
    for _ in 0..3 {
        assert_eq!(with_token(&router, "/addresses", "t-ours").await.status, StatusCode::OK);
        assert_eq!(with_token(&router, "/addresses.json", "nobodys").await.status, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(word.reviews.load(Ordering::Relaxed), 2, "one for each token");
    // A right that was taken away.
    word.tokens.lock().unwrap().retain(|(token, _, _)| *token != "t-ours");
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(with_token(&router, "/addresses.json", "t-ours").await.status, StatusCode::UNAUTHORIZED);
}

/// Who may list claims everywhere is asked about once; others once for each namespace, however often they look.
#[rstest]
#[case("t-all", &["*"])]
#[case("t-ours", &["*", "ours", "theirs"])]
#[case("t-none", &["*", "ours", "theirs"])]
#[tokio::test]
async fn one_question_is_asked_for_each_namespace_and_for_an_operator_none(
    #[case] token: &str,
    #[case] expected: &[&str],
) {
    let word = people();
    let (router, _) = dashboard(&word, &[]);
    for path in ["/addresses", "/claims.json", "/", "/services.csv"] {
        assert_eq!(with_token(&router, path, token).await.status, StatusCode::OK, "{path}");
    }
    let mut asked = word.questions.lock().unwrap().clone();
    asked.sort_unstable();
    assert_eq!(asked, expected);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_let_in_on_old_news_while_the_api_server_is_away() {
    let word = people();
    let (router, _) = dashboard(&word, &[]);
    assert_eq!(with_token(&router, "/addresses", "t-all").await.status, StatusCode::OK);
    word.away.store(true, Ordering::Relaxed);
    tokio::time::advance(Duration::from_secs(30)).await;
    let answer = with_token(&router, "/addresses", "t-all").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!answer.body.contains("etcd"), "what the API server said is not for everybody: {}", answer.body);
    word.away.store(false, Ordering::Relaxed);
    assert_eq!(with_token(&router, "/addresses", "t-all").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_namespace_that_came_later_is_asked_about() {
    let word = Word::of(&[("t", "ann", &["ours", "new"])]);
    let (router, live) = dashboard(&word, &[]);
    assert!(!with_token(&router, "/addresses.json", "t").await.body.contains("\"new\""));
    live.edit().take_in(Source::Kind(Kind::Address), address("192.0.2.3", "new"));
    let answer = with_token(&router, "/addresses.json", "t").await;
    assert!(answer.body.contains("\"new\"") && !answer.body.contains("theirs"), "{}", answer.body);
    assert_eq!(word.reviews.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn live_updates_end_with_the_right_to_hear_them() {
    let word = people();
    let (router, _) = dashboard(&word, &[]);
    let request = get("/live", &[("authorization", &bearer("t-ours"))]);
    let response = router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let mut body = response.into_body();
    assert!(body.frame().await.is_some(), "the first word");
    word.tokens.lock().unwrap().retain(|(token, _, _)| *token != "t-ours");
    let began = tokio::time::Instant::now();
    while body.frame().await.is_some() {}
    assert!(began.elapsed() < Duration::from_secs(60), "ended after {:?}", began.elapsed());
}
