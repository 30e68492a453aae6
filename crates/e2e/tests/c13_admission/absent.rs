//! The policies are switched off, taken away, broken, or only warn: layer 2 tells of what they let through.

use api::address::AddressPhase;
use api::wellknown::{CLAIM, metallb};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ListParams};
use kube::client::Body;
use kube::core::Request;
use kube::{Client, ResourceExt};
use serde_json::json;

use super::{OWN, begin, dry, in_force, setup, upgrade};
use crate::rig::{self, Bar, Rig, Stage, load_balancer};

fn ours() -> ListParams {
    ListParams::default().labels("app.kubernetes.io/part-of=address-controller")
}

fn policies(rig: &Rig) -> Api<ValidatingAdmissionPolicy> {
    Api::all(rig.cluster.admin())
}

/// A tenant pins a Service to a held address and gets it in the moment in which its placeholder is away: it is told, on both sides,
/// and held again when the thief lets go.
async fn theft_is_told(stage: &Stage, own: &Api<Service>, ip: &str, thief: &str) {
    rig::create(own, load_balancer(thief, json!({ metallb::PIN: ip }))).await;
    Bar::lets_first(stage, ip, own, thief).await;
    stage.address_is(ip, AddressPhase::Conflict).await;
    let note = stage.event(thief, "AddressConflict").await;
    assert!(note.contains(ip), "{note}");
    rig::delete(own, thief).await;
    stage.held(ip).await;
}

/// §13: `false` leaves the policies out, `true` and `auto` bring them; without them, without their bindings, or with one that fails
/// and is to be ignored, layer 2 tells of the theft. The API server finds nothing wrong with their expressions.
#[test]
fn c13_without_the_policies_a_theft_is_told() {
    OWN.run(setup(), async |rig| {
        let (stage, _, own) = begin(rig, "c13-absent", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;

        upgrade(rig, &["admission.enabled=false"]).await;
        assert!(policies(rig).list(&ours()).await.unwrap().items.is_empty());
        in_force(&own, false).await;
        theft_is_told(&stage, &own, &ip, "thief-of-none").await;

        upgrade(rig, &["admission.enabled=true"]).await;
        in_force(&own, true).await;
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(rig.cluster.admin());
        for binding in bindings.list(&ours()).await.unwrap() {
            rig::delete(&bindings, &binding.name_any()).await;
        }
        in_force(&own, false).await;
        theft_is_told(&stage, &own, &ip, "thief-of-unbound").await;

        upgrade(rig, &["admission.enabled=true"]).await;
        in_force(&own, true).await;
        let fails = json!({ "expression": "object.spec.thereIsNoSuchField == 'x'" });
        let broken = json!({ "spec": { "failurePolicy": "Ignore", "validations": [fails] } });
        rig::patch(&policies(rig), "metallb-iad-wishes", broken).await;
        in_force(&own, false).await;
        theft_is_told(&stage, &own, &ip, "thief-of-broken").await;

        // Put right by an upgrade, and then made anew: a judgement of the broken one would stay for a while.
        upgrade(rig, &["admission.enabled=true"]).await;
        in_force(&own, true).await;
        upgrade(rig, &["admission.enabled=false"]).await;
        in_force(&own, false).await;
        upgrade(rig, &["admission.enabled=auto"]).await;
        in_force(&own, true).await;
        rig::eventually("the API server to have judged every expression", async || {
            let judged = |policy: &ValidatingAdmissionPolicy| {
                let status = policy.status.as_ref()?;
                let warnings = status.type_checking.as_ref()?.expression_warnings.clone().unwrap_or_default();
                assert!(warnings.is_empty(), "{}: {warnings:#?}", policy.name_any());
                Some(())
            };
            let all = policies(rig).list(&ours()).await.unwrap().items;
            assert_eq!(all.len(), 3);
            all.iter().map(judged).collect::<Option<Vec<_>>>()
        })
        .await;
    });
}

/// What the API server warns of when a tenant makes such a Service, with nothing stored; none if it is refused.
async fn warnings(tenant: &Client, own: &Api<Service>, service: &serde_json::Value) -> Option<Vec<String>> {
    let request = Request::new(own.resource_url()).create(&dry(), service.to_string().into_bytes()).unwrap();
    let answer = tenant.send(request.map(Body::from)).await.unwrap();
    let warnings = answer.headers().get_all("warning").iter().map(|words| words.to_str().unwrap().to_owned());
    answer.status().is_success().then(|| warnings.collect())
}

/// `docs/operations.md`: with `Warn` whoever would be refused is let through and told why; with `Audit` they are let through, and the
/// audit log has it.
#[test]
fn c13_whom_the_policies_would_hit_can_be_seen_first() {
    OWN.run(setup(), async |rig| {
        let (stage, tenant, own) = begin(rig, "c13-first", 1).await;
        let mut pinned = load_balancer("pinned", json!({ metallb::PIN: stage.v4[0] }));
        pinned["apiVersion"] = json!("v1");
        pinned["kind"] = json!("Service");
        assert_eq!(warnings(&tenant, &own, &pinned).await, None, "refused");

        upgrade(rig, &["admission.validationActions[0]=Warn"]).await;
        rig::eventually("a warning that names the way out", async || {
            let words = warnings(&tenant, &own, &pinned).await?;
            words.iter().any(|words| words.contains(metallb::PIN) && words.contains(CLAIM)).then_some(())
        })
        .await;
        upgrade(rig, &["admission.validationActions[0]=Audit"]).await;
        let mark = usize::try_from(rig.audit().mark()).unwrap();
        rig::eventually("a line in the audit log that names the policy", async || {
            let words = warnings(&tenant, &own, &pinned).await?;
            let log = std::fs::read(rig.cluster.audit_log()).unwrap();
            let said = String::from_utf8_lossy(&log[mark..]);
            let failed =
                |line: &str| line.contains("/validation_failure") && line.contains("metallb-iad-wishes");
            (words.is_empty() && said.lines().any(failed)).then_some(())
        })
        .await;
        upgrade(rig, &[]).await;
        in_force(&own, true).await;
    });
}
