//! What every answer carries, and which requests are answered at all.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use tower::ServiceExt;

use super::App;

/// Nothing from elsewhere, nothing inline, no frame around us.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What every answer carries, whatever it is.
pub(crate) const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// Puts the headers on an answer. What an answer says of caching itself stands.
pub async fn headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Turns away requests that were made for another host: a page of a stranger whose name leads here.
pub async fn host(State(app): State<App>, request: Request, next: Next) -> Response {
    let authority = request.uri().authority().map(ToString::to_string);
    let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = authority.as_deref().or(named).unwrap_or_default();
    if is_allowed(host, &app.0.hosts) {
        return next.run(request).await;
    }
    let name = bare(host);
    let words = format!(
        "this dashboard does not answer for host {name:?}; if that is its name, start it with --allowed-host={name} \
         (chart value allowedHosts)\n"
    );
    (StatusCode::MISDIRECTED_REQUEST, words).into_response()
}

/// A host without its port.
fn bare(host: &str) -> &str {
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if let Some(end) = host.strip_prefix('[').and_then(|rest| rest.find(']')) {
        return host.get(1..=end).unwrap_or_default();
    }
    host.split_once(':').map_or(host, |(name, _)| name)
}

/// IP addresses cannot be pointed here by a stranger's name server; names can, so they have to be listed.
fn is_allowed(host: &str, hosts: &[String]) -> bool {
    let name = bare(host).trim_end_matches('.').to_lowercase();
    let is_listed = || hosts.iter().any(|host| host == "*" || *host == name);
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok() || is_listed()
}

/// Serves `inner` under a path; the path alone leads to the first page.
pub fn under(base: &str, inner: Router) -> Router {
    let home = format!("{base}/");
    let base = base.to_owned();
    let strip = move |mut request: Request| {
        let rest = request.uri().path_and_query().map_or("/", |rest| rest.as_str());
        let inside = rest.strip_prefix(base.as_str()).filter(|rest| rest.starts_with('/'));
        let stripped = inside.and_then(|rest| rest.parse::<Uri>().ok());
        let inner = inner.clone();
        let home = home.clone();
        let is_base = request.uri().path() == base;
        async move {
            if is_base {
                return Redirect::permanent(&home).into_response();
            }
            let Some(uri) = stripped else {
                let words = format!("nothing is here; the dashboard is at {home}\n");
                return (StatusCode::NOT_FOUND, words).into_response();
            };
            *request.uri_mut() = uri;
            match inner.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        }
    };
    Router::new().fallback(strip)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("localhost:8080", true)]
    #[case("127.0.0.1", true)]
    #[case("[::1]:8080", true)]
    #[case("10.1.2.3:80", true)]
    #[case("ips.example.org", true)]
    #[case("IPs.example.org.:443", true)]
    #[case("evil.example", false)]
    #[case("ips.example.org.evil.example", false)]
    #[case("", false)]
    fn hosts(#[case] host: &str, #[case] expected: bool) {
        assert_eq!(is_allowed(host, &["ips.example.org".to_owned()]), expected);
    }

    #[test]
    fn a_star_is_any_host() {
        assert!(is_allowed("anything.example", &["*".to_owned()]));
    }
}
