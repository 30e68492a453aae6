//! Carrying one request to the API server and its answer back.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, TRANSFER_ENCODING};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::json;

use super::call::Call;
use super::rule::{Act, Hook};
use super::{Book, Entry};
use crate::{Result, probe};

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

/// The API server.
pub(super) struct Upstream {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: String,
}

impl Upstream {
    pub(super) fn new(server_url: &str, ca_pem: &str) -> Result<Self> {
        Ok(Self { client: probe::client(ca_pem)?, url: server_url.trim_end_matches('/').to_owned() })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Incoming>, String> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        head.uri = format!("{}{path}", self.url).parse::<Uri>().map_err(|error| error.to_string())?;
        for hop in [HOST, CONNECTION, TRANSFER_ENCODING] {
            head.headers.remove(hop);
        }
        let answer = self.client.request(Request::from_parts(head, Full::new(body))).await;
        answer.map_err(|error| format!("{error:?}"))
    }
}

/// Handles one request by the rules of the book.
pub(super) async fn handle(
    request: Request<Incoming>,
    upstream: Arc<Upstream>,
    book: Arc<Book>,
) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    let mut call = Call::parse(&head.method, &head.uri);
    // Requests are small and are taken whole, so that a client that dies half-way leaves no half request behind.
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Ok(refusal(400, None, &error.to_string())),
    };
    call.name_by(&body);
    let request = Request::from_parts(head, body);
    let (act, entry) = book.enter(&mut call);
    let after = match act {
        Act::Pass => None,
        Act::Answer { status, retry_after } => return Ok(refusal(status, retry_after, "refused by a rule")),
        Act::Delay(by) => {
            tokio::time::sleep(by).await;
            None
        }
        Act::Before(hook) => {
            // A task of its own: the hook may end the client, and with it this connection.
            let _ = tokio::spawn(async move { hook(call).await }).await;
            return Ok(refusal(503, None, "lost by a rule before it was forwarded"));
        }
        Act::After(hook) => Some(hook),
    };
    if entry.is_none() && after.is_none() {
        return Ok(match upstream.send(request).await {
            Ok(answer) => answer.map(http_body_util::BodyExt::boxed),
            Err(error) => refusal(502, None, &error),
        });
    }
    // A task of its own, so that what was forwarded is seen to its end even when the client is gone.
    let whole = tokio::spawn(send_whole(request, upstream, book, call, entry, after));
    Ok(whole.await.unwrap_or_else(|_| refusal(502, None, "the proxy's task ended")))
}

async fn send_whole(
    request: Request<Bytes>,
    upstream: Arc<Upstream>,
    book: Arc<Book>,
    call: Call,
    entry: Option<Entry>,
    after: Option<Hook>,
) -> Answer {
    let answer = match upstream.send(request).await {
        Ok(answer) => answer,
        Err(error) => return refusal(502, None, &error),
    };
    let (head, body) = answer.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return refusal(502, None, &error.to_string()),
    };
    if let Some(entry) = entry {
        book.answered(entry, head.status.as_u16());
    }
    if let Some(hook) = after {
        hook(call).await;
    }
    let mut answer = Response::from_parts(head, full(body));
    // The body is one piece now, whatever it was before.
    answer.headers_mut().remove(TRANSFER_ENCODING);
    answer
}

/// An error as the API server words it.
fn refusal(status: u16, retry_after: Option<u64>, message: &str) -> Answer {
    let reason = match status {
        409 => "Conflict",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        _ => "Unknown",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("devcluster proxy: {message}"), "reason": reason, "code": status,
    });
    let mut answer = Response::new(full(Bytes::from(body.to_string())));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

fn full(bytes: Bytes) -> BoxBody<Bytes, hyper::Error> {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}
