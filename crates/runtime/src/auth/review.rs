//! What the API server is asked: whose a token is, and what they may.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why nobody is let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The token is nobody's, or has run out.
    #[error("the API server does not know this token, or it has run out")]
    Unknown,
    /// The API server cannot be asked.
    #[error("the API server cannot be asked whose a token is: {0}")]
    Unavailable(String),
}

/// What somebody wants to do.
#[derive(Clone, Debug)]
pub enum Access {
    /// Something with objects.
    Objects(Box<ResourceAttributes>),
    /// To get what is at a path that is no object's.
    Path(&'static str),
}

/// Whose a token is.
///
/// # Errors
/// When it is nobody's, or the API server cannot be asked.
pub async fn owner(client: &Client, token: &str) -> Result<UserInfo, Denied> {
    let review = TokenReview {
        spec: TokenReviewSpec { token: Some(token.to_owned()), audiences: None },
        ..TokenReview::default()
    };
    let status = ask(client, &review).await?.status.unwrap_or_default();
    match status.user {
        Some(user) if status.authenticated == Some(true) => Ok(user),
        _ => Err(Denied::Unknown),
    }
}

/// Whether somebody may do something.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn may(client: &Client, user: &UserInfo, access: Access) -> Result<bool, Denied> {
    let (objects, path) = match access {
        Access::Objects(attributes) => (Some(*attributes), None),
        Access::Path(path) => {
            let (path, verb) = (Some(path.to_owned()), Some("get".to_owned()));
            (None, Some(NonResourceAttributes { path, verb }))
        }
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username.clone(),
            uid: user.uid.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone(),
            resource_attributes: objects,
            non_resource_attributes: path,
        },
        ..SubjectAccessReview::default()
    };
    Ok(ask(client, &review).await?.status.is_some_and(|status| status.allowed))
}

async fn ask<K>(client: &Client, question: &K) -> Result<K, Denied>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    match tokio::time::timeout(PATIENCE, api.create(&PostParams::default(), question)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Denied::Unavailable(error.to_string())),
        Err(_) => Err(Denied::Unavailable(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}
