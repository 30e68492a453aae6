//! The login form: it takes a token, and gives a session for it.

use askama::Template;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use runtime::auth::Denied;

use super::door::{Door, session, unavailable};
use crate::web::{Format, Shell, refuse};

/// A form longer than this holds no token.
const LONGEST: usize = 32 * 1024;

/// `/login`
#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage<'a> {
    shell: &'a Shell,
    /// Where it leads to, within the base path.
    next: &'a str,
    /// What was wrong with the last token.
    wrong: Option<&'a str>,
}

/// The form.
pub(super) async fn form(State(door): State<Door>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    page(&door, StatusCode::OK, &next_of(query.as_bytes()), None)
}

/// The token that was written into it.
pub(super) async fn sign_in(State(door): State<Door>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if is_from_elsewhere(&parts.headers) {
        return elsewhere(&door);
    }
    let Ok(form) = to_bytes(body, LONGEST).await else {
        return page(&door, StatusCode::PAYLOAD_TOO_LARGE, "/", Some("That is too long to be a token."));
    };
    let next = next_of(&form);
    let token = field(&form, "token").unwrap_or_default();
    let token = token.trim().trim_start_matches("Bearer ").trim();
    if token.is_empty() {
        return page(&door, StatusCode::BAD_REQUEST, &next, Some("Paste a token first."));
    }
    let visitor = match door.gate.visitor(token).await {
        Ok(visitor) => visitor,
        Err(Denied::Unknown) => {
            let words = "The API server does not know this token, or it has run out.";
            return page(&door, StatusCode::UNAUTHORIZED, &next, Some(words));
        }
        Err(error) => return unavailable(&door.app, Format::Html, &error),
    };
    if let Some(old) = session(&parts.headers) {
        door.sessions.end(&old);
    }
    let name = door.sessions.begin(token, visitor.name);
    let cookie = door.cookie(&parts.headers, Some(&name));
    let to = format!("{}{next}", door.app.base());
    ([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response()
}

/// Ends the session.
pub(super) async fn sign_out(State(door): State<Door>, headers: HeaderMap) -> Response {
    if is_from_elsewhere(&headers) {
        return elsewhere(&door);
    }
    if let Some(name) = session(&headers) {
        door.sessions.end(&name);
    }
    let to = format!("{}/login", door.app.base());
    ([(header::SET_COOKIE, door.cookie(&headers, None))], Redirect::to(&to)).into_response()
}

fn page(door: &Door, status: StatusCode, next: &str, wrong: Option<&str>) -> Response {
    let shell = Shell::plain(&door.app);
    match (LoginPage { shell: &shell, next, wrong }).render() {
        Ok(page) => (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response(),
        Err(error) => {
            tracing::error!("the login form could not be written: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn elsewhere(door: &Door) -> Response {
    let words = "this form was sent by a page of somebody else; open the dashboard and sign in there";
    refuse(&door.app, Format::Html, StatusCode::FORBIDDEN, "Not from here", words)
}

fn field(form: &[u8], name: &str) -> Option<String> {
    form_urlencoded::parse(form).find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// The page that was asked for; one of ours, or the first.
fn next_of(form: &[u8]) -> String {
    field(form, "next").filter(|next| is_ours(next)).unwrap_or_else(|| "/".to_owned())
}

/// Whether a path leads to a page of ours and not, as browsers read it, to another host.
fn is_ours(path: &str) -> bool {
    let second = path.chars().nth(1);
    path.starts_with('/')
        && !matches!(second, Some('/' | '\\'))
        && path.bytes().all(|byte| byte.is_ascii_graphic())
        && !path.contains('\\')
        && !path.starts_with("/login")
}

/// Whether a form was sent by a page of another origin. A browser that tells neither is too old to, or none.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return !matches!(site, "same-origin" | "none");
    }
    // "null" is what our own pages send: they tell nobody where they are.
    let origin = text("origin").filter(|origin| *origin != "null");
    let host = |origin: &str| origin.split_once("://").map(|(_, host)| host.to_owned());
    origin.is_some_and(|origin| host(origin).as_deref() != text("host"))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("next=%2Faddresses%3Fq%3D10.0.0.1", "/addresses?q=10.0.0.1")]
    #[case("next=https%3A%2F%2Fevil.example", "/")]
    #[case("next=%2F%2Fevil.example", "/")]
    #[case("next=%2F%5Cevil.example", "/")]
    #[case("next=%2Fa%0d%0aSet-Cookie:x", "/")]
    #[case("next=%2Flogin", "/")]
    #[case("", "/")]
    fn login_leads_to_pages_of_ours_only(#[case] form: &str, #[case] expected: &str) {
        assert_eq!(next_of(form.as_bytes()), expected);
    }

    #[rstest]
    #[case(&[], false)]
    #[case(&[("sec-fetch-site", "same-origin")], false)]
    #[case(&[("sec-fetch-site", "cross-site")], true)]
    #[case(&[("sec-fetch-site", "same-site"), ("origin", "https://a.example"), ("host", "a.example")], true)]
    #[case(&[("origin", "https://a.example"), ("host", "a.example")], false)]
    #[case(&[("origin", "https://evil.example"), ("host", "a.example")], true)]
    #[case(&[("origin", "null"), ("host", "a.example")], false)]
    fn forms_of_other_pages(#[case] given: &[(&'static str, &'static str)], #[case] elsewhere: bool) {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, HeaderValue::from_static(value));
        }
        assert_eq!(is_from_elsewhere(&headers), elsewhere);
    }
}
