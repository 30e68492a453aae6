//! What the API server is asked: in which namespaces somebody may list claims.

use api::wellknown;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::Client;
use runtime::auth::{Access, Denied, may};

/// How many questions about one visitor are asked at a time.
const AT_ONCE: usize = 16;

/// Whether somebody may list claims: in a namespace, or in all of them.
pub(super) async fn may_list(
    client: &Client,
    user: &UserInfo,
    namespace: Option<&str>,
) -> Result<bool, Denied> {
    let claims = ResourceAttributes {
        group: Some(wellknown::GROUP.to_owned()),
        resource: Some("ipaddressclaims".to_owned()),
        verb: Some("list".to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    may(client, user, Access::Objects(Box::new(claims))).await
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
