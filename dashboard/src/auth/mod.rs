//! Who may see what: every request gets a [`Visitor`] here, or is turned away.
//!
//! With [`AuthMode::Kubernetes`], a visitor brings a token of the cluster, with each request or once to the login form. The
//! API server says whose it is and in which namespaces they may list claims; that is what they see. Its word is kept for
//! seconds only.

mod door;
mod gate;
mod login;
mod review;
mod session;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::routing::{get, post};

use crate::web::App;
use crate::{Scope, Visitor};

pub use gate::Gate;

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

/// Lets each see what their token lets them, and gives them a form to sign in by.
pub fn guarded(pages: Router, app: &App, gate: Gate) -> Router {
    let door = door::Door::new(app.clone(), gate);
    let forms = Router::new()
        .route("/login", get(login::form).post(login::sign_in))
        .route("/logout", post(login::sign_out))
        .with_state(door.clone());
    forms.merge(pages.layer(middleware::from_fn_with_state(door, door::guard)))
}
