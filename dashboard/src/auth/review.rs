//! What the API server is asked: whose a token is, and in which namespaces they may list claims.

use std::time::Duration;

use api::wellknown;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many questions about one visitor are asked at a time.
const AT_ONCE: usize = 16;

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

/// Whose a token is.
pub(super) async fn owner(client: &Client, token: &str) -> Result<UserInfo, Denied> {
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

/// Whether somebody may list claims: in a namespace, or in all of them.
pub(super) async fn may_list(
    client: &Client,
    user: &UserInfo,
    namespace: Option<&str>,
) -> Result<bool, Denied> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username.clone(),
            uid: user.uid.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone(),
            resource_attributes: Some(ResourceAttributes {
                group: Some(wellknown::GROUP.to_owned()),
                resource: Some("ipaddressclaims".to_owned()),
                verb: Some("list".to_owned()),
                namespace: namespace.map(str::to_owned),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    Ok(ask(client, &review).await?.status.is_some_and(|status| status.allowed))
}

/// Those of the namespaces in which somebody may list claims.
pub(super) async fn listable(
    client: &Client,
    user: &UserInfo,
    namespaces: Vec<String>,
) -> Result<Vec<String>, Denied> {
    let verdicts = stream::iter(namespaces).map(|namespace| async move {
        let may = may_list(client, user, Some(&namespace)).await?;
        Ok(may.then_some(namespace))
    });
    verdicts.buffer_unordered(AT_ONCE).try_filter_map(async |found| Ok(found)).try_collect().await
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
