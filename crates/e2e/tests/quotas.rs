//! Quotas and missing families: what the cluster refuses is said on the claim, in its words.

use api::Family;
use api::claim::ClaimPhase;
use api::conditions::{self, types};
use devcluster::{Controller, Families};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use kube::ResourceExt;
use kube::api::Api;
use serde_json::json;

use crate::rig::{self, Own, Request, Setup, Stage};

static OWN: Own = Own::new("quotas");
/// All cluster IPs of a small cluster; the API server has one of them.
const SMALL: &str = "10.96.0.0/28";
/// Where that control plane has its placeholders.
const HOME: &str = "iad-holds";

/// How long the attempts at what cannot be had are counted.
const A_WHILE: std::time::Duration = std::time::Duration::from_secs(5);

async fn quota(stage: &Stage, namespace: &str, hard: serde_json::Value) -> Api<ResourceQuota> {
    let quotas: Api<ResourceQuota> = Api::namespaced(stage.client(), namespace);
    rig::create(&quotas, json!({ "metadata": { "name": "quota" }, "spec": { "hard": hard } })).await;
    rig::until(&quotas, "quota", "to be counted", |quota| {
        quota.status.as_ref().is_some_and(|status| status.used.as_ref().is_some_and(|used| !used.is_empty()))
    })
    .await;
    quotas
}

/// A `ResourceQuota` on `count/ipaddressclaims.local.sdn.cozystack.io` refuses the claim over quota.
#[test]
fn quota_on_claims() {
    rig::run(async |rig| {
        let stage = rig.stage("claim-quota", 2).await;
        let hard = json!({ "count/ipaddressclaims.local.sdn.cozystack.io": "1" });
        quota(&stage, &stage.name, hard).await;
        stage.claim("first").await;
        // The API server refuses by a cache that may be behind: what it let through is taken back.
        let status = rig::eventually("a claim over quota to be refused", async || {
            let second = rig::claim_object("second", json!({ "className": stage.name }));
            match rig::try_create(&stage.claims(), second).await {
                Err(kube::Error::Api(status)) => return Some(status),
                other => drop(other.unwrap()),
            }
            rig::delete(&stage.claims(), "second").await;
            rig::gone(&stage.claims(), "second").await;
            None
        })
        .await;
        assert_eq!(status.code, 403);
        assert!(status.message.contains("exceeded quota"), "{}", status.message);
        let ip = stage.bound("first").await;
        stage.held(&ip).await;
        stage.assert_at_rest().await;
    });
}

/// §9, I2, F3: a quota on Services in the placeholder namespace, and a family that the cluster lacks, are said on the
/// claim in the API server's words; no flood of events; other claims go on.
#[test]
fn c9_i2_f3_what_the_cluster_refuses_is_said_on_the_claim() {
    let setup = Setup { families: Families::Ipv4Only, ..Setup::default() };
    rig::alone(setup, async |rig| {
        let stage = rig.stage_dual("refused", 3, 2).await;
        stage.claim_with("six", json!({ "family": "IPv6" })).await;
        let words = stage.event("six", "ReservationFailed").await;
        assert!(words.contains("IPv6"), "{words}");
        stage.claim("first").await;
        let first = stage.bound("first").await;
        stage.held(&first).await;

        let quotas =
            quota(&stage, Controller::Driver.namespace(), json!({ "services.loadbalancers": "1" })).await;
        stage.claim("second").await;
        let words = stage.event("second", "ReservationFailed").await;
        assert!(words.contains("exceeded quota") && words.contains("services.loadbalancers"), "{words}");
        stage.claim_is("second", ClaimPhase::Pending).await;
        // While the first address is with a Service, the second claim gets the one placeholder that the quota allows.
        stage.web("web", "first").await;
        stage.served("web", &[&first]).await;
        let second = stage.bound("second").await;
        stage.held(&second).await;
        // Then there is none for the first: its Service goes on having it, until there is.
        rig::delete(&stage.services(), "web").await;
        let words = stage.cluster_event(&rig::address_name(&first), "PlaceholderRefused").await;
        assert!(words.contains("exceeded quota"), "{words}");
        let web = stage.services().get("web").await.unwrap();
        assert!(rig::ingress(&web).contains(&first), "{web:?}");
        rig::delete(&quotas, "quota").await;
        stage.held(&first).await;
        rig::gone(&stage.services(), "web").await;
        assert_eq!(stage.events(&stage.name, "second", "ReservationFailed").await.len(), 1);
        assert_eq!(stage.events(&stage.name, "six", "ReservationFailed").await.len(), 1);
        stage.assert_never_unheld(&first).await;

        // F3: the family that is there is held for the claim, the other is said, and tried again with long pauses.
        let mark = rig.audit().mark();
        stage.claim_with("both", json!({ "family": "Dual" })).await;
        let words = stage.event("both", "ReservationFailed").await;
        assert!(words.contains("IPv6"), "{words}");
        let third = stage.v4.iter().find(|ip| **ip != first && **ip != second).unwrap();
        stage.held(third).await;
        stage.claim_is("both", ClaimPhase::Pending).await;
        // For good, in plain words, on the class, and on each claim that waits for it.
        let kind = types::available(Family::IPv6);
        let lacks = stage.class_says_of(&stage.name, kind, "False/FamilyNotConfigured").await;
        assert!(lacks.contains("no IPv6 service range"), "{lacks}");
        for claim in ["six", "both"] {
            rig::until(&stage.claims(), claim, "to say what the cluster lacks", |claim| {
                let bound = conditions::find(rig::claim_conditions(claim), types::BOUND);
                bound.is_some_and(|bound| bound.message.ends_with(&lacks))
            })
            .await;
        }
        tokio::time::sleep(A_WHILE).await;
        let tried = rig.audit().since(mark).into_iter();
        let tried =
            tried.filter(|request| request.verb == "create" && request.resource == "services").count();
        // At first each change wakes the claims, then they come once a second and ever more rarely; a hot loop has hundreds.
        assert!(tried < 25, "{tried} attempts in {} s", A_WHILE.as_secs());
        assert_eq!(stage.events(&stage.name, "both", "ReservationFailed").await.len(), 1);
    });
}

/// Takes all cluster IPs that are left; returns who has them.
async fn fill(stage: &Stage) -> Vec<String> {
    let mut fillers = Vec::new();
    loop {
        let name = format!("filler-{}", fillers.len());
        let filler = json!({ "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } });
        let Err(error) = rig::try_create(&stage.services(), filler).await else {
            fillers.push(name);
            continue;
        };
        assert!(error.to_string().contains("range is full"), "{error}");
        return fillers;
    }
}

/// K1: a placeholder takes no node port. With all cluster IPs taken, that is said on the claim and on the address in the API
/// server's words, nobody loses what they have, and each goes on by itself when a cluster IP is given back.
#[test]
fn k1_service_cidr_full_is_said_on_the_claim() {
    let setup = Setup {
        families: Families::Ipv4Only,
        apiserver_args: vec![format!("--service-cluster-ip-range={SMALL}")],
        leader_elect: false,
        ..Setup::default()
    };
    rig::alone(setup, async |rig| {
        let stage = rig.stage("no-cluster-ip", 2).await;
        stage.claim("first").await;
        let first = stage.bound("first").await;
        stage.held(&first).await;
        let hold = stage.placeholders_of(&first).await.pop().unwrap().spec.unwrap();
        assert_eq!(hold.allocate_load_balancer_node_ports, Some(false));
        assert!(hold.ports.iter().flatten().all(|port| port.node_port.is_none()), "{hold:?}");
        // It has its cluster IP, and names no claim yet.
        stage.service(rig::load_balancer("web", json!({}))).await;
        let fillers = fill(&stage).await;

        let mark = rig.audit().mark();
        stage.claim("second").await;
        let words = stage.event("second", "ReservationFailed").await;
        assert!(words.contains("range is full"), "{words}");
        stage.claim_is("second", ClaimPhase::Pending).await;
        tokio::time::sleep(A_WHILE).await;
        let tried = rig.audit().since(mark).into_iter().filter(|request| {
            request.verb == "create" && request.resource == "services" && request.namespace == stage.home
        });
        let tried = tried.count();
        assert!(tried < 25, "{tried} attempts in {} s", A_WHILE.as_secs());
        stage.held(&first).await;
        // The handoff gives the placeholder's cluster IP back, and the claim gets it.
        stage.name_claim("web", Some("first")).await;
        stage.served("web", &[&first]).await;
        let second = stage.bound("second").await;
        stage.held(&second).await;
        // For the way back there is none: the Service goes on having its address, until there is.
        rig::delete(&stage.services(), "web").await;
        let words = stage.cluster_event(&rig::address_name(&first), "PlaceholderRefused").await;
        assert!(words.contains("range is full"), "{words}");
        let web = stage.services().get("web").await.unwrap();
        assert!(rig::ingress(&web).contains(&first), "{web:?}");
        stage.delete_service(&fillers[0]).await;
        stage.held(&first).await;
        rig::gone(&stage.services(), "web").await;
        assert_eq!(stage.events(&stage.name, "second", "ReservationFailed").await.len(), 1);
        for ip in [&first, &second] {
            stage.assert_never_unheld(ip).await;
        }
        stage.assert_at_rest().await;
    });
}

/// I2: the placeholders' namespace is deleted with every hold in it: who has an address keeps it; made again with its role,
/// all holds return by themselves. And a quota there keeps claims waiting, never a hold that has to come back.
#[test]
fn i2_placeholder_namespace_deleted_and_made_again() {
    let setup = Setup {
        leader_elect: false,
        driver_values: vec![format!("placeholderNamespace={HOME}")],
        driver_args: vec![format!("--placeholder-namespace={HOME}")],
        ..Setup::default()
    };
    // The role goes with the namespace.
    OWN.run_though_denied(setup, async |rig| {
        let mut stage = rig.stage("homeless", 4).await;
        stage.home = HOME.to_owned();
        let claims = ["web-ip", "held-a", "held-b"];
        let mut ips = Vec::new();
        for claim in claims {
            stage.claim(claim).await;
            ips.push(stage.bound(claim).await);
            stage.held(&ips[ips.len() - 1]).await;
        }
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ips[0]]).await;
        let namespaces: Api<Namespace> = Api::all(stage.client());
        rig::delete(&namespaces, HOME).await;
        rig::gone(&namespaces, HOME).await;
        for ip in &ips[1..] {
            stage.cluster_event(&rig::address_name(ip), "PlaceholderRefused").await;
        }
        stage.served("web", &[&ips[0]]).await;
        rig.cluster
            .install_chart(Controller::Driver, &["--set", &format!("placeholderNamespace={HOME}")])
            .await
            .unwrap();
        for ip in &ips[1..] {
            stage.held(ip).await;
        }
        for claim in claims {
            stage.claim_is(claim, ClaimPhase::Bound).await;
        }
        stage.assert_at_rest().await;
        stage.served("web", &[&ips[0]]).await;
        stage.assert_never_unheld(&ips[0]).await;

        let quotas = quota(&stage, HOME, json!({ "services.loadbalancers": "2" })).await;
        stage.claim("waits-a").await;
        stage.event("waits-a", "ReservationFailed").await;
        // There is room for one.
        stage.claim("waits-b").await;
        stage.event("waits-b", "PoolExhausted").await;
        // Asked for at the very moment at which a hold goes, the claim's placeholder would come before the hold is missed: nobody
        // can tell then, so it was just refused.
        let mark = rig.audit().mark();
        rig::eventually("the claim to be refused once more", async || {
            let refused = |request: &Request| request.resource == "services" && request.status == 403;
            rig.audit().since(mark).iter().any(refused).then_some(())
        })
        .await;
        let mut gone = Vec::new();
        for ip in &ips[1..] {
            let hold = stage.placeholders_of(ip).await.pop().unwrap();
            rig::delete(&stage.placeholders(), &hold.name_any()).await;
            gone.push((ip, hold.uid()));
        }
        for (ip, gone) in gone {
            rig::eventually("another placeholder to hold the address", async || {
                let now = stage.placeholders_of(ip).await.pop()?;
                (now.uid() != gone && rig::ingress(&now).contains(ip)).then_some(())
            })
            .await;
            stage.held(ip).await;
        }
        for claim in ["waits-a", "waits-b"] {
            stage.claim_is(claim, ClaimPhase::Pending).await;
        }
        rig::delete(&quotas, "quota").await;
        stage.bound("waits-a").await;
        stage.claim_is("waits-b", ClaimPhase::Pending).await;
        stage.assert_at_rest().await;
    });
}
