//! The API server's audit log: what our service accounts asked for.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use devcluster::Controller;
use serde_json::Value;

/// One request of one of our service accounts that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asked.
    pub controller: Controller,
    /// The verb, as in RBAC rules.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, with the subresource after a slash.
    pub resource: String,
    /// The object's namespace; empty for cluster-scoped ones.
    pub namespace: String,
    /// The object's name; empty for lists and creations with a generated name.
    pub name: String,
    /// The HTTP status of the answer.
    pub status: u64,
    /// Whether RBAC denied it; a quota or an admission policy refuses with the same status.
    pub denied: bool,
    /// The role that granted it, as `ClusterRole name` or `Role namespace/name`.
    pub role: String,
    /// When it was answered.
    pub at: String,
}

impl Request {
    /// Whether it asks for a change.
    pub fn writes(&self) -> bool {
        ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str())
    }

    /// What granted it, as `role: verb group/resource`.
    pub fn rule(&self) -> String {
        format!("{}: {} {}/{}", self.role, self.verb, self.group, self.resource)
    }

    fn parse(line: &str) -> Option<Self> {
        // Cheap first: most lines are of others.
        if !line.contains(":serviceaccount:") && !line.contains("system:serviceaccount") {
            return None;
        }
        let entry: Value = serde_json::from_str(line).ok()?;
        let user = entry["user"]["username"].as_str()?;
        let controller = [Controller::Core, Controller::Driver].into_iter().find(|controller| {
            let account = format!("system:serviceaccount:{}:{}", controller.namespace(), controller.name());
            // `helm test` is the driver's program, too, with rights of its own.
            user.strip_prefix(&account).is_some_and(|rest| rest.is_empty() || rest == "-test")
        })?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &entry["objectRef"];
        let subresource = text(&object["subresource"]);
        let resource = text(&object["resource"]);
        Some(Self {
            controller,
            verb: text(&entry["verb"]),
            group: text(&object["apiGroup"]),
            resource: if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") },
            namespace: text(&object["namespace"]),
            name: text(&object["name"]),
            status: entry["responseStatus"]["code"].as_u64().unwrap_or_default(),
            denied: entry["annotations"]["authorization.k8s.io/decision"] == "forbid",
            role: role(entry["annotations"]["authorization.k8s.io/reason"].as_str().unwrap_or_default()),
            at: text(&entry["stageTimestamp"]),
        })
    }
}

/// The role in the API server's reason to allow a request: `RBAC: allowed by RoleBinding "binding/namespace" of Role
/// "role" to …`, or of a `ClusterRole` without a namespace.
fn role(reason: &str) -> String {
    let mut quoted = reason.split('"').skip(1).step_by(2);
    match (quoted.next(), quoted.next()) {
        (Some(binding), Some(role)) if reason.contains(" of Role ") => {
            format!("Role {}/{role}", binding.rsplit('/').next().unwrap_or_default())
        }
        (Some(_), Some(role)) => format!("ClusterRole {role}"),
        _ => "no role".to_owned(),
    }
}

/// The audit log of a control plane.
#[derive(Clone, Debug)]
pub struct Audit {
    path: PathBuf,
}

impl Audit {
    pub(super) fn of(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where the log ends now.
    pub fn mark(&self) -> u64 {
        std::fs::metadata(&self.path).unwrap().len()
    }

    /// The requests of our service accounts that were answered after a mark.
    pub fn since(&self, mark: u64) -> Vec<Request> {
        let mut file = File::open(&self.path).unwrap();
        file.seek(SeekFrom::Start(mark)).unwrap();
        let mut text = Vec::new();
        file.read_to_end(&mut text).unwrap();
        // The first and the last line may be cut in two; the first is before the mark anyway.
        String::from_utf8_lossy(&text).lines().filter_map(Request::parse).collect()
    }
}
