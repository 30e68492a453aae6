//! What a request to the API server means.

use hyper::{Method, Uri};

/// The API's word for what a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many objects.
    List,
    /// Follows changes.
    Watch,
    /// Makes an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes an object.
    Patch,
    /// Deletes an object.
    Delete,
    /// Deletes many objects.
    DeleteCollection,
}

/// One request, as rules see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What it does.
    pub verb: Verb,
    /// The API group, empty for the core group.
    pub group: String,
    /// The resource in plural, such as `services`; empty for requests that concern none, such as discovery.
    pub resource: String,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: String,
    /// The namespace, empty for cluster-scoped objects and for requests across namespaces.
    pub namespace: String,
    /// The object's name, empty where the request names none; what is created is named by the request's body.
    pub name: String,
    /// The whole path with its query.
    pub path: String,
    /// Which counted write this is, from 1; `None` for reads, and for writes that no decision depends on (leases,
    /// events, tokens and reviews of rights).
    pub write: Option<u64>,
}

impl Call {
    pub(super) fn parse(method: &Method, uri: &Uri) -> Self {
        let path = uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string);
        let segments: Vec<&str> = uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _version, rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => ("", &[][..]),
        };
        let (namespace, rest) = match rest {
            // A namespace's own subresources look like kinds inside it.
            ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, inner @ ..] if !inner.is_empty() => (*namespace, inner),
            _ => ("", rest),
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        let (resource, name, subresource) = (part(0), part(1), part(2));
        let verb = verb(method, !name.is_empty(), uri.query().unwrap_or_default());
        let (group, namespace) = (group.to_owned(), namespace.to_owned());
        Self { verb, group, resource, subresource, namespace, name, path, write: None }
    }

    /// Takes the name of what is created from the request's body.
    pub(super) fn name_by(&mut self, body: &[u8]) {
        if self.verb == Verb::Create && self.name.is_empty() {
            let object: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
            object["metadata"]["name"].as_str().unwrap_or_default().clone_into(&mut self.name);
        }
    }

    /// Whether the request changes something that a decision may depend on.
    pub(super) fn is_counted_write(&self) -> bool {
        let reads = matches!(self.verb, Verb::Get | Verb::List | Verb::Watch);
        let aside = matches!(self.resource.as_str(), "" | "leases" | "events")
            || matches!(self.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
            || self.subresource == "token";
        !reads && !aside
    }
}

fn verb(method: &Method, named: bool, query: &str) -> Verb {
    let watch = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
    match *method {
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if named => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ if watch => Verb::Watch,
        _ if named => Verb::Get,
        _ => Verb::List,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &Method, path: &str, expected: (Verb, &str, &str, &str, &str, &str), counted: bool) {
        let call = Call::parse(method, &path.parse().unwrap());
        let Call { verb, group, resource, subresource, namespace, name, .. } = &call;
        assert_eq!((*verb, &**group, &**namespace, &**resource, &**name, &**subresource), expected, "{path}");
        assert_eq!(call.is_counted_write(), counted, "{path}");
    }

    #[test]
    fn paths_are_understood() {
        let (get, post, put, patch) = (&Method::GET, &Method::POST, &Method::PUT, &Method::PATCH);
        let delete = &Method::DELETE;
        check(get, "/api/v1/services?&watch=true", (Verb::Watch, "", "", "services", "", ""), false);
        check(get, "/api/v1/namespaces/a/services/b", (Verb::Get, "", "a", "services", "b", ""), false);
        check(get, "/api/v1/namespaces/a", (Verb::Get, "", "", "namespaces", "a", ""), false);
        check(get, "/api/v1/namespaces", (Verb::List, "", "", "namespaces", "", ""), false);
        check(
            put,
            "/api/v1/namespaces/a/finalize",
            (Verb::Update, "", "", "namespaces", "a", "finalize"),
            true,
        );
        check(post, "/api/v1/namespaces/a/services", (Verb::Create, "", "a", "services", "", ""), true);
        let status = "/apis/metallb.io/v1beta1/namespaces/m/ipaddresspools/p/status?fieldManager=x";
        check(patch, status, (Verb::Patch, "metallb.io", "m", "ipaddresspools", "p", "status"), true);
        check(delete, "/apis/g/v1/things/t", (Verb::Delete, "g", "", "things", "t", ""), true);
        check(delete, "/apis/g/v1/things", (Verb::DeleteCollection, "g", "", "things", "", ""), true);
        check(get, "/version", (Verb::List, "", "", "", "", ""), false);
    }

    #[test]
    fn what_is_created_is_named_by_its_body() {
        let mut call = Call::parse(&Method::POST, &"/api/v1/namespaces/a/services".parse().unwrap());
        call.name_by(br#"{"metadata": {"name": "web"}}"#);
        assert_eq!(call.name, "web");
        call.name_by(b"not read again");
        assert_eq!(call.name, "web");
        call.name.clear();
        call.name_by(b"nonsense");
        assert_eq!(call.name, "");
    }

    #[test]
    fn writes_that_nothing_depends_on_are_not_counted() {
        let (post, put) = (&Method::POST, &Method::PUT);
        let lease = "/apis/coordination.k8s.io/v1/namespaces/a/leases/l";
        check(put, lease, (Verb::Update, "coordination.k8s.io", "a", "leases", "l", ""), false);
        let event = "/apis/events.k8s.io/v1/namespaces/a/events";
        check(post, event, (Verb::Create, "events.k8s.io", "a", "events", "", ""), false);
        let token = "/api/v1/namespaces/a/serviceaccounts/s/token";
        check(post, token, (Verb::Create, "", "a", "serviceaccounts", "s", "token"), false);
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        check(
            post,
            review,
            (Verb::Create, "authorization.k8s.io", "", "selfsubjectaccessreviews", "", ""),
            false,
        );
    }
}
