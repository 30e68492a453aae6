//! What stands before every page: whoever has no token that lets them in is shown the way to the login form.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use form_urlencoded::byte_serialize;
use futures::StreamExt as _;
use runtime::auth::{Denied, bearer};

use super::gate::Gate;
use super::session::{LASTS, Sessions};
use crate::Visitor;
use crate::web::{App, Format, refuse};

/// How often it is looked whether somebody who hears live updates may still.
const EVERY: Duration = Duration::from_secs(10);
/// The cookie with the name of a session.
const COOKIE: &str = "address-dashboard";

/// Everything that letting people in needs.
#[derive(Clone)]
pub(super) struct Door(Arc<Parts>);

pub(super) struct Parts {
    pub(super) app: App,
    pub(super) gate: Gate,
    pub(super) sessions: Sessions,
}

impl std::ops::Deref for Door {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// What a request brings to be let in by.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    /// A token of its own.
    Token(String),
    /// The name of a session.
    Session(String),
}

impl Door {
    pub(super) fn new(app: App, gate: Gate) -> Self {
        Self(Arc::new(Parts { app, gate, sessions: Sessions::default() }))
    }

    /// Who comes with a key.
    async fn visitor(&self, key: &Key) -> Result<Visitor, Denied> {
        let token = match key {
            Key::Token(token) => token.clone(),
            Key::Session(name) => self.sessions.token(name).ok_or(Denied::Unknown)?,
        };
        let visitor = self.gate.visitor(&token).await;
        if let (Err(Denied::Unknown), Key::Session(name)) = (&visitor, key) {
            self.sessions.end(name);
        }
        visitor
    }

    /// Where the login form is, and where it leads to.
    fn login(&self, request: &Request) -> String {
        let next = request.uri().path_and_query().map_or("/", |next| next.as_str());
        let next: String = byte_serialize(next.as_bytes()).collect();
        format!("{}/login?next={next}", self.app.base())
    }

    /// Sets the cookie to a session, or takes it away.
    pub(super) fn cookie(&self, headers: &HeaderMap, session: Option<&str>) -> String {
        let (value, seconds) = session.map_or(("", 0), |name| (name, LASTS.as_secs()));
        let secure = if is_https(headers) { "; Secure" } else { "" };
        let base = self.app.base();
        format!("{COOKIE}={value}; Path={base}/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
    }
}

/// Lets a request through to the pages, or shows the way in.
pub(super) async fn guard(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let Some(key) = key(request.headers()) else { return ask(&door, &request) };
    let visitor = match door.visitor(&key).await {
        Ok(visitor) => visitor,
        Err(Denied::Unknown) => return ask(&door, &request),
        Err(error) => return unavailable(&door.app, form(&request), &error),
    };
    request.extensions_mut().insert(visitor.clone());
    let response = next.run(request).await;
    let kind = response.headers().get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
        return response.map(|body| {
            let gone = no_longer(door, key, visitor);
            Body::from_stream(body.into_data_stream().take_until(Box::pin(gone)))
        });
    }
    response
}

/// Ends when somebody may not see any more what they saw: a stream ends then, and the browser asks anew.
async fn no_longer(door: Door, key: Key, visitor: Visitor) {
    loop {
        tokio::time::sleep(EVERY).await;
        match door.visitor(&key).await {
            Ok(now) if now.scope == visitor.scope => {}
            _ => return,
        }
    }
}

/// A person is led to the login form, a program is told what to bring.
fn ask(door: &Door, request: &Request) -> Response {
    let person = request.method() == Method::GET
        && form(request) == Format::Html
        && names(request.headers(), header::ACCEPT, "text/html");
    if person {
        return Redirect::to(&door.login(request)).into_response();
    }
    let words = "give a token of this cluster: Authorization: Bearer TOKEN";
    let mut response = refuse(&door.app, form(request), StatusCode::UNAUTHORIZED, "Sign in", words);
    let bearer = HeaderValue::from_static("Bearer realm=\"address-dashboard\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
    response
}

/// Nobody is let in while the API server cannot be asked.
pub(super) fn unavailable(app: &App, form: Format, error: &Denied) -> Response {
    tracing::warn!("nobody is let in: {error}");
    // What the API server said is for who runs this.
    let words = "the API server cannot be asked whose this token is; try again in a moment";
    refuse(app, form, StatusCode::SERVICE_UNAVAILABLE, "Cannot let you in", words)
}

/// The form in which an answer is read.
fn form(request: &Request) -> Format {
    Format::of(request.uri().path())
}

/// The token that a request brings, or its session.
fn key(headers: &HeaderMap) -> Option<Key> {
    if headers.contains_key(header::AUTHORIZATION) {
        // One that is no bearer's lets nobody in, whatever the cookie says.
        return bearer(headers).map(|token| Key::Token(token.to_owned()));
    }
    session(headers).map(Key::Session)
}

/// The session that the cookie names.
pub(super) fn session(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|cookies| cookies.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';'));
    let mut found = pairs.filter_map(|pair| pair.trim().split_once('='));
    found.find(|(name, value)| *name == COOKIE && !value.is_empty()).map(|(_, value)| value.to_owned())
}

/// Whether the visitor came by HTTPS, as the proxy before us says. Who lies about it only gets a cookie that they do not
/// send back.
fn is_https(headers: &HeaderMap) -> bool {
    names(headers, header::HeaderName::from_static("x-forwarded-proto"), "https")
}

fn names(headers: &HeaderMap, name: header::HeaderName, word: &str) -> bool {
    headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains(word))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&[], None)]
    #[case(&[("authorization", "Bearer abc")], Some(Key::Token("abc".into())))]
    #[case(&[("authorization", "bearer  abc ")], Some(Key::Token("abc".into())))]
    #[case(&[("authorization", "Basic abc"), ("cookie", "address-dashboard=s")], None)]
    #[case(&[("cookie", "a=b; address-dashboard=s; c=d")], Some(Key::Session("s".into())))]
    #[case(&[("cookie", "a=b"), ("cookie", "address-dashboard=s")], Some(Key::Session("s".into())))]
    #[case(&[("cookie", "not-address-dashboard=s")], None)]
    #[case(&[("cookie", "address-dashboard=")], None)]
    #[case(&[("authorization", "Bearer abc"), ("cookie", "address-dashboard=s")], Some(Key::Token("abc".into())))]
    fn keys(#[case] given: &[(&'static str, &'static str)], #[case] expected: Option<Key>) {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, HeaderValue::from_static(value));
        }
        assert_eq!(key(&headers), expected);
    }
}
