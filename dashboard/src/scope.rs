//! What a visitor may see.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;

use crate::world::AddressRow;

/// The namespaces that a visitor may see. Everything outside of it is as if absent, on every way out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everything: an operator.
    All,
    /// These namespaces only: a tenant.
    Only(Arc<BTreeSet<String>>),
}

impl Scope {
    /// A tenant's scope.
    pub fn only<S: Into<String>>(namespaces: impl IntoIterator<Item = S>) -> Self {
        Self::Only(Arc::new(namespaces.into_iter().map(Into::into).collect()))
    }

    /// Whether what is in this namespace may be seen.
    pub fn sees(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(namespaces) => namespaces.contains(namespace),
        }
    }

    /// Whether this is an operator's scope.
    pub const fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }
}

/// Who asks, and what they may see. The access layer puts it into each request; without it nothing is answered.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// What they may see.
    pub scope: Scope,
    /// Their name, if they gave a token: shown beside a way to sign out.
    pub name: Option<String>,
}

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        // Fails closed: a route that was left out of the access layer shows nothing to anybody.
        let visitor = parts.extensions.get::<Self>().cloned();
        visitor.ok_or((StatusCode::INTERNAL_SERVER_ERROR, "this page lies outside of the access layer"))
    }
}

impl Scope {
    /// Whether an address may be seen: its claim is of a namespace that is seen, or the Service that has it.
    pub fn sees_address(&self, row: &AddressRow) -> bool {
        if self.is_all() {
            return true;
        }
        let claim = row.claim.as_ref().map(|claim| &claim.key);
        let service = row.service.as_ref().map(|service| &service.key);
        claim.into_iter().chain(service).any(|key| self.sees(&key.namespace))
    }
}
