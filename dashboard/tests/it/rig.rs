//! Asks for a page, without a network.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use clap::Parser;
use dashboard::args::Args;
use dashboard::web::{self, App};
use dashboard::{Scope, Visitor, auth};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use crate::invented::{Invented, NOW};

/// Every page there is over the small cluster, without its form.
pub const PAGES: [&str; 24] = [
    "/overview",
    "/addresses",
    "/addresses/ip-203-0-113-7",
    "/addresses/ip-203-0-113-8",
    "/addresses/ip-203-0-113-9",
    "/addresses/ip-203-0-113-41",
    "/addresses/ip-203-0-113-50",
    "/addresses/ip-192-168-99-4",
    "/claims",
    "/claims/tenant-a/web",
    "/claims/tenant-a/vpn",
    "/claims/tenant-c/mail",
    "/claims/tenant-d/edge",
    "/claims/tenant-e/api",
    "/classes",
    "/classes/public",
    "/classes/partner",
    "/services",
    "/associations",
    "/conflicts",
    "/ip/203.0.113.7",
    "/ip/203.0.113.60",
    "/ip/198.51.100.3",
    "/ip/10.9.9.9",
];

/// A dashboard over an invented cluster.
pub struct Rig(pub Router);

pub struct Answer {
    pub status: StatusCode,
    pub headers: axum::http::HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Rig {
    pub fn of(cluster: Invented) -> Self {
        Self::with(cluster, &[], Scope::All)
    }

    pub fn seen_by(cluster: Invented, scope: Scope) -> Self {
        Self::with(cluster, &[], scope)
    }

    pub fn with(cluster: Invented, flags: &[&str], scope: Scope) -> Self {
        let args = Args::parse_from(std::iter::once("x").chain(flags.iter().copied()));
        let app = App::new(cluster.live(), &args).frozen(NOW.parse().unwrap());
        let pages = match scope {
            Scope::All => auth::open(web::pages(&app)),
            scope @ Scope::Only(_) => web::pages(&app).layer(axum::Extension(Visitor { scope, name: None })),
        };
        Self(web::router(&app, pages))
    }

    pub async fn ask(&self, request: Request<Body>) -> Answer {
        let response = self.0.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Request::get(path).header("host", "localhost").body(Body::empty()).unwrap()).await
    }

    pub async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        answer.text
    }
}
