//! Contract §13: after all other tests, the audit log shows no denied request and no rule that was never used.
//!
//! The module's name is the last in the alphabet, as tests are begun in that order.

use std::collections::BTreeSet;

use devcluster::Controller;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::api::{Api, ListParams};

use crate::rig::{self, Request, Rig};

/// What is granted, as `controller: verb group/resource`.
async fn granted(rig: &Rig) -> BTreeSet<String> {
    let client = rig.cluster.admin();
    let mut granted = BTreeSet::new();
    let mut add = |controller: Controller, rules: Option<Vec<PolicyRule>>| {
        for rule in rules.unwrap_or_default() {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    for verb in &rule.verbs {
                        granted.insert(format!("{}: {verb} {group}/{resource}", controller.name()));
                    }
                }
            }
        }
    };
    let owner = |name: &str| {
        [Controller::Core, Controller::Driver]
            .into_iter()
            .find(|controller| name.starts_with(controller.name()))
    };
    for role in Api::<ClusterRole>::all(client.clone()).list(&ListParams::default()).await.unwrap() {
        if let Some(controller) = role.metadata.name.as_deref().and_then(owner) {
            add(controller, role.rules);
        }
    }
    for role in Api::<Role>::all(client).list(&ListParams::default()).await.unwrap() {
        if let Some(controller) = role.metadata.name.as_deref().and_then(owner) {
            add(controller, role.rules);
        }
    }
    granted
}

/// §13: nothing was denied to our service accounts, and every rule of the charts' roles was used.
#[test]
fn c13_rbac_is_least_privilege() {
    rig::run(async |rig| {
        let tests = rig::all_others_are_done().await;
        let requests = rig.audit().since(0);
        rig.assert_none_denied();
        let used: BTreeSet<_> = requests.iter().map(Request::rule).collect();
        let granted = granted(rig).await;
        assert!(!granted.is_empty());
        let unused: Vec<_> = granted.difference(&used).collect();
        println!("{tests} tests, {} requests, rules never used: {unused:#?}", requests.len());
        // A part of the tests does not use every rule.
        if tests > 30 {
            assert!(unused.is_empty(), "never used: {unused:#?}");
        }
    });
}
