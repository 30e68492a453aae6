//! Whom the policies are not about, and who is only like them.

use api::IPAddress;
use api::wellknown::metallb;
use devcluster::Controller;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::api::{Api, DeleteParams, Patch};
use serde_json::json;

use super::who::Who;
use super::{OWN, begin, dry_patch, in_force, refused, services, setup, try_create, try_patch, upgrade};
use crate::rig::{self, Setup, load_balancer};

/// The control plane's own: they write placeholders, and pick no addresses.
const SYSTEM: [&str; 7] = [
    "system:apiserver",
    "system:cloud-controller-manager",
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:cloud-controller-manager",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:service-controller",
];

fn account(namespace: &str, name: &str) -> Who {
    Who::Account(namespace.to_owned(), name.to_owned())
}

/// §13: whom the values name, admins by group, and the control plane's own identities are let through, each where they work;
/// their neighbours are not.
#[test]
fn c13_the_allowed_and_the_system_pass() {
    OWN.run(setup(), async |rig| {
        let (stage, _, _) = begin(rig, "c13-allowed", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        let hold = stage.placeholders_of(&ip).await.pop().unwrap().metadata.name.unwrap();
        let pinned = load_balancer("pinned", json!({ metallb::PIN: ip }));
        let edit = json!({ "metadata": { "annotations": { "seen": "true" } } });
        let claim_ref = Patch::Merge(json!({ "spec": { "claimRef": { "name": "other" } } }));
        let address = rig::address_name(&ip);
        let allowed = [
            account("c13-gitops", "deployer"),
            Who::User("restorer", &[]),
            Who::User("jane", &["operators"]),
            Who::User("kubernetes-admin", &["kubeadm:cluster-admins"]),
            Who::User("root", &["system:masters"]),
            Who::User(
                "system:serviceaccount:metallb-system:controller",
                &["system:serviceaccounts:metallb-system"],
            ),
        ];
        for who in allowed {
            let client = who.client(rig).await;
            try_create(&services(&client, &stage.name), pinned.clone()).await.unwrap();
            try_patch(&services(&client, &stage.home), &hold, &edit).await.unwrap();
            let addresses: Api<IPAddress> = Api::all(client.clone());
            addresses.patch(&address, &dry_patch(), &claim_ref).await.unwrap();
        }
        for user in SYSTEM {
            let client = Who::User(user, &[]).client(rig).await;
            let there = services(&client, &stage.home);
            try_patch(&there, &hold, &edit).await.unwrap();
            there.delete(&hold, &DeleteParams { dry_run: true, ..DeleteParams::default() }).await.unwrap();
            refused(try_create(&services(&client, &stage.name), pinned.clone()).await, user);
        }
        let neighbours = [
            account("c13-gitops", "another"),
            account("kube-system", "another"),
            Who::User("restorers", &["operators-of-something-else"]),
        ];
        for who in neighbours {
            let client = who.client(rig).await;
            let what = format!("{who:?}");
            refused(try_create(&services(&client, &stage.name), pinned.clone()).await, &what);
            refused(try_patch(&services(&client, &stage.home), &hold, &edit).await, &what);
            let addresses: Api<IPAddress> = Api::all(client.clone());
            refused(addresses.patch(&address, &dry_patch(), &claim_ref).await, &what);
        }
    });
}

const SECOND: &str = "metallb-iad-two";
const ITS_NAMESPACE: &str = "c13-second-driver";

/// `docs/operations.md`: two releases of the driver name each other's service account; then each may write what it has to, and
/// nobody else may.
#[test]
fn c13_two_releases_of_the_driver_let_each_other_through() {
    OWN.run(setup(), async |rig| {
        let (stage, _, own) = begin(rig, "c13-two", 1).await;
        let pinned = load_balancer("pinned", json!({ metallb::PIN: stage.v4[0] }));
        let chart = Controller::Driver.chart();
        let first = Controller::Driver;
        let values = [
            "loadBalancerClass=example.org/second".to_owned(),
            format!("admission.allowedServiceAccounts[0].namespace={}", first.namespace()),
            format!("admission.allowedServiceAccounts[0].name={}", first.name()),
        ];
        let mut args = vec!["install", SECOND, chart.to_str().unwrap(), "--namespace", ITS_NAMESPACE];
        args.push("--create-namespace");
        args.extend(values.iter().flat_map(|value| ["--set", value.as_str()]));
        rig.cluster.helm(&args).await.unwrap();

        let second = services(&account(ITS_NAMESPACE, SECOND).client(rig).await, &stage.name);
        refused(
            try_create(&second, pinned.clone()).await,
            "the second driver, of which the first does not know",
        );
        let namespace = format!("admission.allowedServiceAccounts[1].namespace={ITS_NAMESPACE}");
        let name = format!("admission.allowedServiceAccounts[1].name={SECOND}");
        upgrade(rig, &[&namespace, &name]).await;
        rig::eventually("the second driver to be let through", async || {
            try_create(&second, pinned.clone()).await.is_ok().then_some(())
        })
        .await;
        in_force(&own, true).await;
        // The first works under the policies of both.
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.delete_service("web").await;
        stage.held(&ip).await;

        rig.cluster.helm(&["uninstall", SECOND, "--namespace", ITS_NAMESPACE]).await.unwrap();
        upgrade(rig, &[]).await;
    });
}

/// §13: the core is found by its binding, whatever namespace it is in, and may bind claims.
#[test]
fn c13_the_core_is_found_wherever_it_is() {
    const ELSEWHERE: &str = "c13-core";
    let setup = Setup { controllers: false, leader_elect: false, ..Setup::default() };
    rig::alone(setup, async |rig| {
        let core = Controller::Core;
        let knows = async || {
            let policies: Api<ValidatingAdmissionPolicy> = Api::all(rig.cluster.admin());
            let ledger = serde_json::to_string(&policies.get("metallb-iad-ledger").await.unwrap()).unwrap();
            ledger.contains(&format!("system:serviceaccount:{ELSEWHERE}:{}", core.name()))
        };
        assert!(!knows().await);
        rig.cluster.helm(&["uninstall", core.name(), "--namespace", core.namespace()]).await.unwrap();
        let chart = core.chart();
        let args = ["install", core.name(), chart.to_str().unwrap(), "--namespace", ELSEWHERE];
        // The kinds were the other release's.
        rig.cluster.helm(&[&args[..], &["--create-namespace", "--take-ownership"]].concat()).await.unwrap();
        rig.cluster.install_chart(Controller::Driver, &[]).await.unwrap();
        assert!(knows().await);

        rig.start_in(core, ELSEWHERE).await;
        rig.start(Controller::Driver).await;
        let stage = rig.stage("c13-elsewhere", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        // By a match, too: the core writes whose the address is.
        stage.delete_claim("web-ip").await;
        rig::patch(&stage.addresses(), &rig::address_name(&ip), json!({ "spec": { "claimRef": null } }))
            .await;
        stage.claim("next").await;
        assert_eq!(stage.bound("next").await, ip);
    });
}
