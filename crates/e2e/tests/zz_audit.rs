//! Contract §13: after all other tests, the audit log shows no denied request and no rule that was never used.
//!
//! The API server says of each request which role granted it, so a right that a `ClusterRole` and a `Role` both give is
//! told apart. The module's name is the last in the alphabet, as tests are begun in that order.

use std::collections::BTreeSet;

use devcluster::Controller;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use crate::rig::{self, Request, Rig};

/// What a role grants, as `role: verb group/resource`.
fn rules(role: &str, rules: Option<Vec<PolicyRule>>) -> BTreeSet<String> {
    let mut granted = BTreeSet::new();
    for rule in rules.unwrap_or_default() {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                granted.extend(rule.verbs.iter().map(|verb| format!("{role}: {verb} {group}/{resource}")));
            }
        }
    }
    granted
}

/// What the charts' roles grant to our service accounts.
async fn granted(rig: &Rig) -> BTreeSet<String> {
    let client = rig.cluster.admin();
    let ours = ListParams::default().labels("app.kubernetes.io/part-of=address-controller");
    let mut granted = BTreeSet::new();
    for role in Api::<ClusterRole>::all(client.clone()).list(&ours).await.unwrap() {
        // What is aggregated into the roles of people is not for controllers.
        let name = role.name_any();
        let of = name.strip_suffix("-test").unwrap_or(&name);
        if [Controller::Core, Controller::Driver].iter().any(|one| one.name() == of) {
            granted.extend(rules(&format!("ClusterRole {name}"), role.rules));
        }
    }
    for role in Api::<Role>::all(client).list(&ours).await.unwrap() {
        let name = format!("Role {}/{}", role.namespace().unwrap(), role.name_any());
        granted.extend(rules(&name, role.rules));
    }
    granted
}

/// Whether this run of the binary leaves tests out: then a rule may go unused.
fn is_a_part() -> bool {
    // `--name=value` is one word, as `cargo verify` writes it; any other word picks tests.
    std::env::args().skip(1).any(|word| !word.starts_with("--") || word.starts_with("--skip"))
}

/// §13: nothing was denied to our service accounts, every rule of the charts' roles was used, and nothing was done by a right
/// from elsewhere.
#[test]
fn c13_rbac_is_least_privilege() {
    rig::run(async |rig| {
        let tests = rig::all_others_are_done().await;
        let requests = rig.audit().since(0);
        rig.assert_none_denied();
        let granted = granted(rig).await;
        let about_objects = requests.iter().filter(|request| !request.resource.is_empty());
        let used: BTreeSet<_> = about_objects.map(Request::rule).collect();
        let unused: Vec<_> = granted.difference(&used).collect();
        let from_elsewhere: Vec<_> = used.difference(&granted).collect();
        println!("{tests} tests, {} requests, {} rules", requests.len(), granted.len());
        println!("never used: {unused:#?}, from elsewhere: {from_elsewhere:#?}");
        assert!(!used.is_empty() && from_elsewhere.is_empty(), "from elsewhere: {from_elsewhere:#?}");
        assert!(is_a_part() || unused.is_empty(), "never used: {unused:#?}");
    });
}
