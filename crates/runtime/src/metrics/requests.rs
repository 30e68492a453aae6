//! Every request to the API server, counted as client-go does it.

use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tower::{Layer, Service};

/// What a request was and became.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    code: String,
    host: String,
    method: &'static str,
}

/// The requests of one client, by method and answer. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    host: String,
    answered: Family<Answered, Counter>,
}

impl Requests {
    /// None yet, to this API server.
    pub(crate) fn to(cluster: &http::Uri) -> Self {
        let host = cluster.authority().map(ToString::to_string).unwrap_or_default();
        Self { host, answered: Family::default() }
    }

    /// Makes them part of what a registry tells.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "rest_client_requests",
            "Requests to the API server by method and answer; <error> is no answer",
            self.answered.clone(),
        );
    }

    fn count(&self, method: &'static str, code: Option<u16>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.answered.get_or_create(&Answered { code, host: self.host.clone(), method }).inc();
    }
}

/// The methods that the Kubernetes API has.
const fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "OTHER",
    }
}

impl<S> Layer<S> for Requests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, requests: self.clone() }
    }
}

/// A client whose requests are counted.
#[derive(Debug)]
pub struct Counted<S> {
    inner: S,
    requests: Requests,
}

impl<S, A, B> Service<Request<A>> for Counted<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (requests, method) = (self.requests.clone(), name(request.method()));
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await;
            requests.count(method, answer.as_ref().ok().map(|response| response.status().as_u16()));
            answer
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode_registry;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn requests_are_counted_by_method_and_answer() {
        let requests = Requests::to(&"https://192.0.2.1:6443/path".parse().unwrap());
        let server = tower::service_fn(async |request: Request<()>| match *request.method() {
            Method::GET => Ok(Response::builder().status(404).body(()).unwrap()),
            Method::PATCH => Err("no answer"),
            _ => Ok(Response::new(())),
        });
        for method in [Method::GET, Method::GET, Method::PATCH, Method::TRACE] {
            let request = Request::builder().method(method).body(()).unwrap();
            let _ = requests.layer(server).oneshot(request).await;
        }
        let (mut registry, mut text) = (Registry::default(), String::new());
        requests.register(&mut registry);
        encode_registry(&mut text, &registry).unwrap();
        let mut lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                r#"rest_client_requests_total{code="200",host="192.0.2.1:6443",method="OTHER"} 1"#,
                r#"rest_client_requests_total{code="404",host="192.0.2.1:6443",method="GET"} 2"#,
                r#"rest_client_requests_total{code="<error>",host="192.0.2.1:6443",method="PATCH"} 1"#,
            ]
        );
    }
}
