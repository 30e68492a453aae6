//! An API server for tests: answers what a function says, and remembers what it was asked.

use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

impl Call {
    /// `PATCH /path`.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// The calls so far.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<Call>>>);

impl Calls {
    pub(crate) fn all(&self) -> Vec<Call> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.all().iter().map(Call::line).collect()
    }
}

/// A client of a server that answers by `answer`: status code and body.
pub(crate) fn server(answer: impl Fn(&Call) -> (u16, Value) + Send + Sync + 'static) -> (Client, Calls) {
    let calls = Calls::default();
    let (answer, kept) = (Arc::new(answer), calls.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (answer, kept) = (Arc::clone(&answer), kept.clone());
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await?.to_bytes();
            let call = Call {
                method: parts.method,
                path: parts.uri.path().to_owned(),
                query: parts.uri.query().unwrap_or_default().to_owned(),
                body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            };
            let (status, value) = answer(&call);
            kept.0.lock().unwrap().push(call);
            if status == 0 {
                return std::future::pending().await;
            }
            let response = Response::builder().status(status);
            Ok::<_, kube::Error>(response.body(Body::from(value.to_string().into_bytes())).unwrap())
        }
    });
    (Client::new(service, "default"), calls)
}

/// There is no such object.
pub(crate) fn not_found(call: &Call) -> (u16, Value) {
    let (code, mut status) = failure(404, "NotFound", "not found");
    status["details"] = json!({ "name": call.path.rsplit('/').next() });
    (code, status)
}

/// A `Status` of failure.
pub(crate) fn failure(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    });
    (code, status)
}
