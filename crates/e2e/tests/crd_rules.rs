//! Every rule of contract §2 that stands in a schema, asked of the real API server.

mod address;
mod claim;
mod class;

use api::{IPAddress, IPAddressClaim, IPAddressClass};
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::shared;

/// One object, perhaps one change of it, and what the API server is to say of the last step.
struct Row {
    name: &'static str,
    kind: Kind,
    spec: Value,
    status: Option<Value>,
    change: Option<Value>,
    verdict: Verdict,
}

#[derive(Clone, Copy)]
enum Kind {
    Class,
    Address,
    Claim,
}

#[derive(Clone, Copy)]
enum Verdict {
    Accepted,
    /// Refused with a message that has this in it.
    Refused(&'static str),
}
use Verdict::{Accepted, Refused};

impl Row {
    fn new(kind: Kind, name: &'static str, spec: Value, verdict: Verdict) -> Self {
        Self { name, kind, spec, status: None, change: None, verdict }
    }

    /// The verdict is on this merge patch of the whole object; the object itself must be accepted.
    fn then(mut self, change: Value) -> Self {
        self.change = Some(change);
        self
    }

    /// The object has this status before it is changed.
    fn with_status(mut self, status: Value) -> Self {
        self.status = Some(status);
        self
    }
}

impl Kind {
    fn api(self, client: &Client) -> Api<DynamicObject> {
        match self {
            Self::Class => Api::all_with(client.clone(), &ApiResource::erase::<IPAddressClass>(&())),
            Self::Address => Api::all_with(client.clone(), &ApiResource::erase::<IPAddress>(&())),
            Self::Claim => {
                Api::default_namespaced_with(client.clone(), &ApiResource::erase::<IPAddressClaim>(&()))
            }
        }
    }

    fn type_meta(self) -> Value {
        let kind = match self {
            Self::Class => "IPAddressClass",
            Self::Address => "IPAddress",
            Self::Claim => "IPAddressClaim",
        };
        json!({ "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": kind })
    }

    fn object(self, name: &str, spec: &Value) -> DynamicObject {
        let mut object = self.type_meta();
        object["metadata"] = json!({ "name": name });
        object["spec"] = spec.clone();
        serde_json::from_value(object).unwrap()
    }
}

/// Carries out a row and returns the answer to its last step.
async fn carry_out(client: &Client, name: &str, row: &Row) -> kube::Result<DynamicObject> {
    let api = row.kind.api(client);
    let object = row.kind.object(name, &row.spec);
    let Some(change) = &row.change else {
        return api.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await;
    };
    let created = api.create(&PostParams::default(), &object).await;
    assert!(created.is_ok(), "{}: the object was to be accepted: {created:?}", row.name);
    let answer = edit(&api, name, row.status.as_ref(), change).await;
    api.delete(name, &DeleteParams::default()).await.unwrap();
    answer
}

/// Gives the object its status, then changes it.
async fn edit(
    api: &Api<DynamicObject>,
    name: &str,
    status: Option<&Value>,
    change: &Value,
) -> kube::Result<DynamicObject> {
    let params = PatchParams::default();
    if let Some(status) = status {
        api.patch_status(name, &params, &Patch::Merge(json!({ "status": status }))).await?;
    }
    api.patch(name, &params, &Patch::Merge(change)).await
}

/// What is wrong with the answer, if anything is.
fn complaint(row: &Row, answer: &kube::Result<DynamicObject>) -> Option<String> {
    let said = match (row.verdict, answer) {
        (Accepted, Ok(_)) => return None,
        (Refused(words), Err(error)) if error.to_string().contains(words) => return None,
        (Accepted, Err(error)) => format!("was to be accepted, but: {error}"),
        (Refused(words), Err(error)) => format!("was to be refused with {words:?}, but: {error}"),
        (Refused(words), Ok(_)) => format!("was to be refused with {words:?}, but was accepted"),
    };
    Some(format!("{}: {said}", row.name))
}

fn check(label: &'static str, rows: Vec<Row>) {
    shared::run(async |cluster| {
        let client = cluster.admin();
        let mut complaints = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            let answer = carry_out(&client, &format!("{label}-{number}"), row).await;
            complaints.extend(complaint(row, &answer));
        }
        assert!(complaints.is_empty(), "{} of {}:\n{}", complaints.len(), rows.len(), complaints.join("\n"));
    });
}

#[test]
fn classes() {
    check("class", class::rows());
}

#[test]
fn addresses() {
    check("address", address::rows());
}

/// Cases A1 and A2: one IP, many spellings, of which the ledger takes one.
#[test]
fn spellings_of_addresses() {
    check("spelling", address::spellings());
}

#[test]
fn claims() {
    check("claim", claim::rows());
}

#[test]
fn an_address_is_found_by_its_text() {
    shared::run(async |cluster| {
        let api = Kind::Address.api(&cluster.admin());
        let spec = json!({ "address": "2001:db8:f::7", "source": { "fromClass": {} } });
        let object = Kind::Address.object("selected", &spec);
        api.create(&PostParams::default(), &object).await.unwrap();
        let found = api.list(&ListParams::default().fields("spec.address=2001:db8:f::7")).await.unwrap();
        let names: Vec<_> = found.items.iter().filter_map(|item| item.metadata.name.as_deref()).collect();
        assert_eq!(names, ["selected"]);
        api.delete("selected", &DeleteParams::default()).await.unwrap();
    });
}

#[test]
fn absent_fields_get_their_defaults() {
    let defaults = [
        (
            Kind::Class,
            json!({ "provisioner": "p" }),
            json!({ "provisioner": "p", "reclaimPolicy": "Retain" }),
        ),
        (
            Kind::Address,
            json!({ "address": "203.0.113.7", "source": { "fromClass": {} } }),
            json!({
                "address": "203.0.113.7", "source": { "fromClass": {} },
                "className": "", "reclaimPolicy": "Retain",
            }),
        ),
        (Kind::Claim, json!({}), json!({ "family": "IPv4" })),
    ];
    shared::run(async |cluster| {
        for (kind, given, stored) in defaults {
            let dry_run = PostParams { dry_run: true, ..PostParams::default() };
            let answer = kind.api(&cluster.admin()).create(&dry_run, &kind.object("defaults", &given)).await;
            assert_eq!(answer.unwrap().data["spec"], stored);
        }
    });
}
