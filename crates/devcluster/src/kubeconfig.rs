//! Kubeconfig files.

use std::path::Path;

use serde_json::{Value, json};

use crate::pki::Identity;
use crate::{Error, Result};

/// How a user proves who it is.
pub(crate) enum Credentials<'a> {
    /// A client certificate.
    Certificate(&'a Identity),
    /// A bearer token.
    Token(&'a str),
}

/// The server a kubeconfig leads to.
pub(crate) struct Server<'a> {
    pub(crate) url: &'a str,
    /// The authority of its certificate; `None` for plain HTTP.
    pub(crate) ca_pem: Option<&'a str>,
}

/// Writes a kubeconfig with one context, named after the user.
pub(crate) fn write(
    path: &Path,
    server: &Server<'_>,
    user: &str,
    credentials: &Credentials<'_>,
) -> Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(Error::io(format!("creating {}", parent.display())))?;
    }
    let text = serde_json::to_string_pretty(&document(server, user, credentials))
        .map_err(|error| Error::Malformed { path: path.to_owned(), message: error.to_string() })?;
    // JSON is YAML: every reader of kubeconfigs takes it.
    std::fs::write(path, text + "\n").map_err(Error::io(format!("writing {}", path.display())))
}

fn document(server: &Server<'_>, user: &str, credentials: &Credentials<'_>) -> Value {
    let mut cluster = json!({ "server": server.url });
    if let Some(pem) = server.ca_pem {
        cluster["certificate-authority-data"] = base64(pem);
    }
    let auth = match credentials {
        Credentials::Token(token) => json!({ "token": token }),
        Credentials::Certificate(identity) => json!({
            "client-certificate-data": base64(&identity.certificate),
            "client-key-data": base64(&identity.key),
        }),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "devcluster", "cluster": cluster }],
        "users": [{ "name": user, "user": auth }],
        "contexts": [{ "name": user, "context": { "cluster": "devcluster", "user": user } }],
        "current-context": user,
    })
}

/// The base64 of a text, by the type of the Kubernetes API that is serialized so.
fn base64(text: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap_or_default()
}
