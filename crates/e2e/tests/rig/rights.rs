//! What the charts' roles grant to our service accounts, and whether it is used.

use std::collections::BTreeSet;

use devcluster::Controller;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde::Deserialize;

use super::Rig;
use super::audit::Request;

/// A role in a rendered chart.
#[derive(Deserialize)]
struct Rendered {
    kind: String,
    metadata: Named,
    rules: Option<Vec<PolicyRule>>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    namespace: Option<String>,
}

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

impl Rig {
    /// What the roles of the charts that are installed grant to our service accounts.
    pub async fn granted(&self) -> BTreeSet<String> {
        let client = self.cluster.admin();
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

    /// By which rules our service accounts have done what they did.
    pub fn used(&self) -> BTreeSet<String> {
        let requests = self.audit().since(0);
        requests.iter().filter(|request| !request.resource.is_empty()).map(Request::rule).collect()
    }

    /// What a value of a chart adds to its roles was used, and nothing was done by a right from elsewhere.
    pub async fn assert_used(&self, controller: Controller, value: &str) {
        let with = self.rendered(controller, &["--set", value]).await;
        let without = self.rendered(controller, &[]).await;
        let added: BTreeSet<_> = with.difference(&without).collect();
        assert!(!added.is_empty(), "{value} adds no right");
        let (used, granted) = (self.used(), self.granted().await);
        let unused: Vec<_> = added.iter().filter(|rule| !used.contains(**rule)).collect();
        assert!(unused.is_empty(), "never used: {unused:#?}");
        let from_elsewhere: Vec<_> = used.difference(&granted).collect();
        assert!(from_elsewhere.is_empty(), "from elsewhere: {from_elsewhere:#?}");
    }

    /// What the roles of a rendered chart grant.
    async fn rendered(&self, controller: Controller, values: &[&str]) -> BTreeSet<String> {
        let chart = controller.chart();
        let mut args = vec!["template", controller.name(), chart.to_str().unwrap()];
        args.extend(["--namespace", controller.namespace()]);
        args.extend(values);
        let output = self.cluster.helm(&args).await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let documents = serde_yaml_ng::Deserializer::from_str(&text)
            .map(|document| serde_yaml_ng::Value::deserialize(document).unwrap());
        let roles = documents.filter(|one| one["kind"] == "ClusterRole" || one["kind"] == "Role");
        let granted = |role: Rendered| {
            let Named { name, namespace } = role.metadata;
            let namespace = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
            rules(&format!("{} {namespace}{name}", role.kind), role.rules)
        };
        roles.flat_map(|role| granted(serde_yaml_ng::from_value(role).unwrap())).collect()
    }
}
