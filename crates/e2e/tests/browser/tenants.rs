//! What tenants see: theirs, and nothing else, in every form.

use std::collections::BTreeSet;

use browser::View;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, Role, RoleBinding};
use kube::api::Api;
use serde_json::{Value, json};

use crate::desk::{self, Desk, Seen, UNDER};
use crate::rig::{self, Stage};

/// Where the dashboard's own service account is.
const OWN: &str = "system:serviceaccount:address-dashboard-system:address-dashboard";

/// A service account of the stage's namespace that may list claims there, and its token.
async fn tenant_of(desk: &Desk, stage: &Stage) -> String {
    let (client, namespace) = (stage.client(), stage.name.as_str());
    let named = json!({ "name": "tenant" });
    rig::create::<ServiceAccount>(&Api::namespaced(client.clone(), namespace), json!({ "metadata": named }))
        .await;
    let rules = json!([{
        "apiGroups": [api::wellknown::GROUP], "resources": ["ipaddressclaims"], "verbs": ["list"],
    }]);
    let role = json!({ "metadata": named, "rules": rules });
    rig::create::<Role>(&Api::namespaced(client.clone(), namespace), role).await;
    let binding = json!({
        "metadata": named,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant" },
        "subjects": [{ "kind": "ServiceAccount", "name": "tenant", "namespace": namespace }],
    });
    rig::create::<RoleBinding>(&Api::namespaced(client, namespace), binding).await;
    desk.rig.cluster.token_for(namespace, "tenant").await.unwrap()
}

/// A token of who may see everything, the ledger's own core controller among them.
async fn operators(desk: &Desk) -> String {
    desk.rig.cluster.token_for("address-controller-system", "address-controller").await.unwrap()
}

/// A stage whose claim is bound and has a Service.
async fn lived_in(desk: &Desk, name: &str) -> (Stage, String) {
    let stage = desk.rig.stage(name, 1).await;
    stage.claim("web-ip").await;
    let ip = stage.bound("web-ip").await;
    stage.web("web", "web-ip").await;
    stage.served("web", &[&ip]).await;
    (stage, ip)
}

/// A page of somebody whose programs send this token.
async fn with_token(desk: &Desk, token: &str) -> Seen {
    let headers = vec![("authorization".to_owned(), format!("Bearer {token}"))];
    desk.page(View { headers, ..View::default() }).await
}

/// Every way to look at a list.
const LISTS: [&str; 6] = ["/addresses", "/claims", "/services", "/associations", "/conflicts", "/overview"];

/// A tenant signs in by the form, sees their own namespace on every page, as JSON and as CSV, and of the others not even
/// that they are there; then signs out.
#[test]
fn d3_a_tenant_sees_their_own_only() {
    desk::run(async |desk| {
        let (ours, ip) = lived_in(desk, "ours").await;
        // Classes are everybody's to choose from, so their names are no secret; those of claims and Services are.
        let theirs = desk.rig.stage("theirs", 1).await;
        theirs.claim("hidden-claim").await;
        let other = theirs.bound("hidden-claim").await;
        theirs.web("hidden-web", "hidden-claim").await;
        theirs.served("hidden-web", &[&other]).await;
        let token = tenant_of(desk, &ours).await;

        let page = desk.page(View::default()).await;
        page.goes(&desk.guarded_at("/addresses?family=IPv4")).await;
        page.sees("h1", "Sign in").await;
        page.is_for_everybody().await;
        page.0.fill("#token", &token).await.unwrap();
        page.0.press("Enter").await.unwrap();
        page.sees("h1", "Addresses").await;
        assert!(
            page.0.url().await.unwrap().ends_with("/addresses?family=IPv4"),
            "not where they wanted to go"
        );
        page.sees("#list", "1 of 1 addresses").await;
        page.sees("header", "system:serviceaccount:ours:tenant").await;
        is_kept_well(&page, &token).await;

        for list in LISTS {
            for form in ["", ".json", ".csv"] {
                let path = format!("{UNDER}{list}{form}");
                let (status, body) = page.fetches(&path).await;
                assert_eq!(status, 200, "{path}");
                for secret in [other.as_str(), "hidden", "theirs/", r#""namespace":"theirs""#] {
                    assert!(!body.contains(secret), "{path} tells of {secret}: {body}");
                }
            }
        }
        for list in ["/addresses", "/claims", "/services"] {
            for form in ["", ".json", ".csv"] {
                let (_, body) = page.fetches(&format!("{UNDER}{list}{form}")).await;
                assert!(body.contains("ours"), "{list}{form}: {body}");
            }
        }
        // What is there and not theirs is answered as what is not there at all.
        let address = rig::address_name(&other);
        for (there, nowhere) in [
            (format!("/addresses/{address}"), "/addresses/ip-192-0-2-1".to_owned()),
            ("/claims/theirs/hidden-claim".to_owned(), "/claims/nowhere/hidden-claim".to_owned()),
        ] {
            let (status, there) = page.fetches(&format!("{UNDER}{there}.json")).await;
            let (missing, nowhere) = page.fetches(&format!("{UNDER}{nowhere}.json")).await;
            assert_eq!((status, missing), (404, 404), "{there} {nowhere}");
        }
        let told = page.0.problems().await.unwrap();
        assert!(told.iter().all(|problem| problem.contains("404 (Not Found)")), "{told:?}");
        let (_, body) = page.fetches(&format!("{UNDER}/addresses.json?q={other}")).await;
        let found: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&found["matched"], &found["total"]), (&json!(0), &json!(1)), "{body}");

        page.goes(&desk.guarded_at(&format!("/addresses/{}", rig::address_name(&ip)))).await;
        page.sees(".lede", "is attached to Service ours/web").await;
        page.is_for_everybody().await;
        page.clicks("header button", "sign out").await;
        page.sees("h1", "Sign in").await;
        page.goes(&desk.guarded_at("/")).await;
        page.sees("h1", "Sign in").await;
        page.closes().await;
    });
}

/// Who has no scripts signs in and out all the same.
#[test]
fn d3_signing_in_without_scripts() {
    desk::run(async |desk| {
        let (ours, ip) = lived_in(desk, "noscript").await;
        let token = tenant_of(desk, &ours).await;
        let page = desk.page(View { javascript: false, ..View::phone() }).await;
        page.goes(&desk.guarded_at(&format!("/addresses?q={ip}"))).await;
        page.sees("h1", "Sign in").await;
        page.0.fill("#token", &token).await.unwrap();
        page.clicks("main button", "Sign in").await;
        page.sees("#list", "1 of 1 addresses").await;
        page.clicks("header button", "sign out").await;
        page.sees("h1", "Sign in").await;
        page.goes(&desk.guarded_at("/addresses")).await;
        page.sees("h1", "Sign in").await;
        page.closes().await;
    });
}

/// The cookie is none that scripts read, other sites send or that stays for ever, and does not hold the token.
async fn is_kept_well(page: &Seen, token: &str) {
    let cookies = page.0.cookies().await.unwrap();
    assert_eq!(cookies.len(), 1, "{cookies:?}");
    let cookie = &cookies[0];
    assert_eq!(cookie["httpOnly"], true);
    assert_eq!(cookie["sameSite"], "Strict");
    assert_eq!(cookie["path"], format!("{UNDER}/"));
    assert!(cookie["expires"].as_f64().unwrap() > 0.0, "{cookie}");
    assert!(!cookie["value"].as_str().unwrap().contains(token));
    assert!(page.0.run::<String>("document.cookie").await.unwrap().is_empty());
}

/// Who hears of changes: a tenant of their own, an operator of all.
const LISTEN: &str = "window.heard = []; window.stream = new EventSource('/ips/live'); \
    stream.addEventListener('changed', (event) => heard.push(JSON.parse(event.data).token)); undefined";

async fn heard(page: &Seen) -> Vec<String> {
    page.0.run("window.heard").await.unwrap()
}

/// What happens in other namespaces is not even heard of as a change; what happens in their own is.
#[test]
fn d3_live_updates_tell_a_tenant_of_their_own_only() {
    desk::run(async |desk| {
        let (ours, _) = lived_in(desk, "hears").await;
        let (theirs, _) = lived_in(desk, "unheard").await;
        let (tenant, operator) = (tenant_of(desk, &ours).await, operators(desk).await);
        let (tenant, operator) = (with_token(desk, &tenant).await, with_token(desk, &operator).await);
        // What is written after the last handoffs has come first.
        ours.assert_at_rest().await;
        theirs.assert_at_rest().await;
        for page in [&tenant, &operator] {
            page.goes(&desk.guarded_at("/overview.json")).await;
            page.0.run::<Value>(LISTEN).await.unwrap();
            rig::eventually("the first word", async || (!heard(page).await.is_empty()).then_some(())).await;
        }
        let before = (heard(&tenant).await, heard(&operator).await.len());
        theirs.claim_with("waits", json!({ "className": "no-such-class" })).await;
        rig::eventually("the operator to hear", async || {
            (heard(&operator).await.len() > before.1).then_some(())
        })
        .await;
        assert_eq!(heard(&tenant).await, before.0, "they heard of what is not theirs");
        ours.claim_with("waits", json!({ "className": "no-such-class" })).await;
        rig::eventually("the tenant to hear", async || {
            (heard(&tenant).await.len() > before.0.len()).then_some(())
        })
        .await;
        tenant.0.close().await.unwrap();
        operator.0.close().await.unwrap();
    });
}

/// Whoever may list claims everywhere sees everything; who may nowhere, nothing; who has no token, nothing but the form.
#[test]
fn d3_who_is_let_in() {
    desk::run(async |desk| {
        let (stage, ip) = lived_in(desk, "letin").await;
        let operator = with_token(desk, &operators(desk).await).await;
        operator.goes(&desk.guarded_at(&format!("/addresses?q={ip}"))).await;
        operator.sees("#list", "1 of").await;
        operator.closes().await;

        let nobody = desk.rig.cluster.token_for(&stage.name, "default").await.unwrap();
        let nobody = with_token(desk, &nobody).await;
        nobody.goes(&desk.guarded_at("/addresses")).await;
        nobody.sees("#list", "0 of 0 addresses").await;
        nobody.closes().await;

        let stranger = desk.page(View::default()).await;
        for path in ["/addresses.json", "/addresses.csv", "/live"] {
            let (status, body) = {
                stranger.goes(&desk.guarded_at("/login")).await;
                stranger.fetches(&format!("{UNDER}{path}")).await
            };
            assert_eq!(status, 401, "{path}: {body}");
            assert!(body.contains("Authorization: Bearer"), "{path}: {body}");
        }
        stranger.0.fill("#token", "not-a-token").await.unwrap();
        stranger.0.press("Enter").await.unwrap();
        stranger.sees("[role=alert]", "does not know this token").await;
        stranger.0.close().await.unwrap();
    });
}

/// The chart's rules for the dashboard are what it asks for: nothing was denied, and nothing is granted that it does not use.
#[test]
fn d3_its_rights_are_what_it_uses() {
    desk::run(async |desk| {
        let (stage, _) = lived_in(desk, "rights").await;
        let page = with_token(desk, &tenant_of(desk, &stage).await).await;
        page.goes(&desk.guarded_at("/addresses")).await;
        page.closes().await;

        let log = std::fs::read_to_string(desk.rig.cluster.audit_log()).unwrap();
        let entries = log.lines().filter(|line| line.contains(OWN));
        let entries: Vec<Value> = entries.filter_map(|line| serde_json::from_str(line).ok()).collect();
        let own = entries.iter().filter(|entry| entry["user"]["username"] == OWN);
        let mut used = BTreeSet::new();
        for entry in own {
            assert_ne!(entry["annotations"]["authorization.k8s.io/decision"], "forbid", "{entry}");
            let object = &entry["objectRef"];
            if let Some(resource) = object["resource"].as_str() {
                used.insert(format!("{} {resource}", entry["verb"].as_str().unwrap()));
            }
        }
        let client = desk.rig.cluster.admin();
        let cluster = Api::<ClusterRole>::all(client.clone()).get("address-dashboard").await.unwrap();
        let pools =
            Api::<Role>::namespaced(client, "metallb-system").get("address-dashboard-pools").await.unwrap();
        let rules = cluster.rules.into_iter().chain(pools.rules).flatten();
        let granted: BTreeSet<String> = rules
            .flat_map(|rule| {
                let resources = rule.resources.unwrap_or_default();
                let pairs =
                    move |verb: &String| resources.iter().map(|r| format!("{verb} {r}")).collect::<Vec<_>>();
                rule.verbs.iter().flat_map(pairs).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(granted, used);
    });
}
