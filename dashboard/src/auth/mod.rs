//! Who may see what: every request gets a [`Visitor`] here, or is turned away.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};

use crate::{Scope, Visitor};

/// How visitors are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum AuthMode {
    /// Not at all: whoever reaches the port sees everything. For a port-forward.
    #[default]
    None,
    /// By the tokens of Kubernetes.
    Kubernetes,
}

/// Lets everybody see everything.
pub fn open(pages: Router) -> Router {
    pages.layer(middleware::from_fn(async |mut request: Request, next: Next| {
        request.extensions_mut().insert(Visitor { scope: Scope::All, name: None });
        next.run(request).await
    }))
}
