//! Contract §11: every way in which an address changes hands, contended.

use api::address::{AddressPhase, HandoffDirection};
use api::claim::ClaimPhase;
use api::wellknown::{CLAIM, driver, metallb};
use kube::ResourceExt;
use serde_json::json;

use crate::rig::{self, ingress};

/// §11: removing the annotation leads back to the hold; the Service wears none of our marks any more.
#[test]
fn c11_annotation_removed() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("annotation-removed").await;
        stage.web("web", "web-ip").await;
        let service = stage.served("web", &[&ip]).await;
        assert_eq!(service.annotations()[metallb::PIN], ip);
        assert_eq!(service.annotations()[driver::PINNED], "true");
        assert_eq!(service.labels()[driver::ASSOCIATED], "true");
        assert!(service.finalizers().iter().any(|name| name == driver::HANDOFF));

        stage.name_claim("web", None).await;
        let address = stage.held(&ip).await;
        assert!(rig::handed(&address, HandoffDirection::Disassociate), "{address:?}");
        let service = stage.unserved("web").await;
        let left =
            serde_json::to_string(&(service.annotations(), service.labels(), service.finalizers())).unwrap();
        assert!(!left.contains("metallb"), "marks were left: {left}");
        stage.finish().await;
    });
}

/// Where MetalLB's walk over all Services takes longer than a write, the placeholder is there before the Service gets its key, and
/// becomes a load balancer with it.
#[test]
fn c11_back_among_many_services() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("many-services").await;
        for number in 0..64_i32 {
            let name = format!("plain-{number}");
            stage
                .service(json!({ "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } }))
                .await;
        }
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.assert_at_rest().await;
        let mark = rig.audit().mark();
        stage.name_claim("web", None).await;
        stage.held(&ip).await;
        stage.unserved("web").await;
        stage.assert_at_rest().await;
        let hold = format!("iad-{}", rig::address_name(&ip));
        let mut writes = rig.audit().since(mark);
        writes.retain(|request| request.writes() && request.resource == "services");
        let of = |name: &str| {
            let about = writes.iter().filter(|request| request.name == name);
            about.map(|request| request.verb.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(&hold), ["create", "patch"], "{writes:#?}");
        stage.finish().await;
    });
}

/// B8: a Service moved to another claim and back within a second ends where it was; moved to a claim that does not
/// exist, it lets go and is told.
#[test]
fn b8_moved_between_claims() {
    rig::run(async |rig| {
        let stage = rig.stage("moved", 2).await;
        for claim in ["web-ip", "alt-ip"] {
            stage.claim(claim).await;
        }
        let (web, alt) = (stage.bound("web-ip").await, stage.bound("alt-ip").await);
        stage.held(&web).await;
        stage.held(&alt).await;
        stage.contend(&[&web, &alt]).await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&web]).await;

        stage.name_claim("web", Some("alt-ip")).await;
        stage.name_claim("web", Some("web-ip")).await;
        stage.assert_at_rest().await;
        stage.served("web", &[&web]).await;
        stage.held(&alt).await;

        stage.name_claim("web", Some("alt-ip")).await;
        stage.served("web", &[&alt]).await;
        stage.held(&web).await;

        stage.name_claim("web", Some("typo")).await;
        stage.held(&alt).await;
        stage.unserved("web").await;
        let words = stage.event("web", "ClaimNotFound").await;
        assert!(words.contains("typo"), "{words}");
        stage.finish().await;
    });
}

/// H3, Retain: the claim goes while a Service has its address: the workload keeps nothing, the address is held and
/// `Released`.
#[test]
fn h3_claim_deleted_while_associated_retain() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("claim-deleted-retain").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.delete_claim("web-ip").await;
        stage.address_is(&ip, AddressPhase::Released).await;
        stage.unserved("web").await;
        stage.held(&ip).await;
        stage.event("web", "ClaimNotFound").await;
        stage.finish().await;
    });
}

/// H3, Delete: the claim goes while a Service has its address: the address is really free when the next claim gets it.
#[test]
fn h3_claim_deleted_while_associated_delete() {
    rig::run(async |rig| {
        let stage = rig.stage("claim-deleted-delete", 1).await;
        stage.delete_with_claims().await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        let first = stage.held(&ip).await.uid();
        stage.wait_in_line().await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.delete_claim("web-ip").await;
        assert_eq!(stage.bound(rig::LATE).await, ip, "the waiting claim gets what became free");
        let address = stage.held(&ip).await;
        assert_ne!(address.uid(), first, "an address of policy Delete is another object for the next claim");
        stage.unserved("web").await;
        stage.assert_at_rest().await;
    });
}

/// B6: a Service turned into a `ClusterIP` has let go, the address is held again at once; turned back, it has the same
/// IP. Twice within a second too. The API server itself frees the IP, so only the waiting claim contends.
#[test]
fn b6_type_change_and_back() {
    rig::run(async |rig| {
        let stage = rig.stage("type-change", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.wait_in_line().await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        let flip = async |kind: &str| {
            rig::patch(&stage.services(), "web", json!({ "spec": { "type": kind } })).await;
        };
        flip("ClusterIP").await;
        stage.held(&ip).await;
        stage.event_with("web", "AssociationRejected", "ClusterIP").await;
        flip("LoadBalancer").await;
        stage.served("web", &[&ip]).await;
        for kind in ["ClusterIP", "LoadBalancer", "ClusterIP", "LoadBalancer"] {
            flip(kind).await;
        }
        stage.assert_at_rest().await;
        stage.served("web", &[&ip]).await;
        stage.assert_nothing_stolen().await;
    });
}

/// B6 while thieves wait: the API server frees the IP before anybody can act, so the race may be lost. The address then
/// tells who has it, and when that one lets go, it is held, and served again to the Service that was turned back.
#[test]
fn b6_type_change_while_thieves_wait() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("type-change-theft").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        rig::patch(&stage.services(), "web", json!({ "spec": { "type": "ClusterIP" } })).await;
        let stolen = stage.held_or_stolen(&ip, None).await;
        rig::patch(&stage.services(), "web", json!({ "spec": { "type": "LoadBalancer" } })).await;
        if stolen {
            stage.assert_at_rest().await;
            stage.unserved("web").await;
            stage.clear_thieves().await;
        }
        stage.served("web", &[&ip]).await;
        stage.claim_is(rig::LATE, ClaimPhase::Pending).await;
        stage.assert_at_rest().await;
    });
}

/// E5: a Service deleted and made again under its name at once, ten times, has the same IP each time; only this
/// incarnation is in the ledger.
#[test]
fn e5_service_recreated_under_its_name() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("recreated").await;
        stage.web("web", "web-ip").await;
        for _ in 0..10 {
            stage.delete_service("web").await;
            stage.web("web", "web-ip").await;
        }
        let service = stage.served("web", &[&ip]).await;
        let address = stage.ledger(&ip, "to be there", |_| true).await;
        assert_eq!(address.associated_to().unwrap().uid, service.uid());
        let history = address.status.unwrap_or_default().association_history;
        let open: Vec<_> = history.iter().filter(|line| line.until.is_none()).collect();
        assert_eq!(open.len(), 1, "{history:#?}");
        assert_eq!(Some(open[0].uid.clone()), service.uid());
        stage.finish().await;
    });
}

/// B7: of two Services of one claim the first has it, the second is told once, and so is the address; when the first
/// goes, the second follows with nobody touching it.
#[test]
fn b7_loser_follows_when_the_first_lets_go() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("waiter").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.web("web-v2", "web-ip").await;
        let words = stage.event("web-v2", "AssociationRejected").await;
        assert!(words.contains("claim web-ip") && words.contains("used by Service web;"), "{words}");
        let address = rig::address_name(&ip);
        stage.cluster_event(&address, "AssociationRejected").await;
        let version = stage.services().get("web-v2").await.unwrap().resource_version();
        // Harmless edits of either repeat nothing.
        for number in 0..5 {
            let labels = json!({ "metadata": { "labels": { "harmless": number.to_string() } } });
            rig::patch(&stage.services(), "web", labels).await;
        }
        stage.assert_at_rest().await;
        assert_eq!(stage.services().get("web-v2").await.unwrap().resource_version(), version);
        assert_eq!(stage.events(&stage.name, "web-v2", "AssociationRejected").await.len(), 1);
        assert_eq!(stage.events("default", &address, "AssociationRejected").await.len(), 1);

        stage.delete_service("web").await;
        stage.served("web-v2", &[&ip]).await;
        stage.finish().await;
    });
}

/// B5: a Service that is being deleted and lingers behind somebody's finalizer has the address until it lets go; the
/// next Service then gets it, and no placeholder fights for it.
#[test]
fn b5_terminating_service_with_a_foreign_finalizer() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("terminating").await;
        let mut web = rig::load_balancer("web", json!({ CLAIM: "web-ip" }));
        web["metadata"]["finalizers"] = json!(["x.example/y"]);
        stage.service(web).await;
        stage.served("web", &[&ip]).await;
        rig::delete(&stage.services(), "web").await;
        stage.web("web-v2", "web-ip").await;
        stage.served("web-v2", &[&ip]).await;
        let web = stage.services().get("web").await.unwrap();
        assert!(ingress(&web).is_empty(), "{web:?}");
        assert_eq!(web.finalizers(), ["x.example/y"], "only the foreign finalizer is left");
        rig::patch(&stage.services(), "web", json!({ "metadata": { "finalizers": null } })).await;
        rig::gone(&stage.services(), "web").await;
        stage.served("web-v2", &[&ip]).await;
        stage.finish().await;
    });
}

/// §11: a Service that is being deleted before it ever had the address never gets it.
#[test]
fn c11_a_dying_service_is_not_associated() {
    rig::run(async |rig| {
        let stage = rig.stage("dying", 1).await;
        let mut web = rig::load_balancer("web", json!({ CLAIM: "web-ip" }));
        web["metadata"]["finalizers"] = json!(["x.example/y"]);
        stage.service(web).await;
        rig::delete(&stage.services(), "web").await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.assert_at_rest().await;
        stage.held(&ip).await;
        rig::patch(&stage.services(), "web", json!({ "metadata": { "finalizers": null } })).await;
        rig::gone(&stage.services(), "web").await;
    });
}

/// B9: harmless edits of an associated Service cause no write of ours and no change of its IP.
#[test]
fn b9_harmless_edits_cause_no_write() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("harmless").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.assert_at_rest().await;
        let (mark, changes) = (rig.audit().mark(), stage.timeline(&ip).await.len());
        for number in 0..20_i32 {
            let edit = json!({
                "metadata": { "labels": { "edit": number.to_string() }, "annotations": { "edit": number.to_string() } },
                "spec": {
                    "selector": { "app": format!("web-{number}") },
                    "ports": [{ "name": "web", "port": 80, "targetPort": 8080 + number }],
                },
            });
            rig::patch(&stage.services(), "web", edit).await;
        }
        stage.assert_at_rest().await;
        let mut writes = rig.audit().since(mark);
        let object = rig::address_name(&ip);
        writes.retain(|request| {
            let about =
                [&request.namespace, &request.name].map(|text| text.split('.').next().unwrap_or_default());
            request.writes() && (about == [stage.name.as_str(), "web"] || about[1] == object)
        });
        assert!(writes.is_empty(), "{writes:#?}");
        assert_eq!(stage.timeline(&ip).await.len(), changes);
        assert_eq!(stage.claim_is(rig::LATE, ClaimPhase::Pending).await.name_any(), rig::LATE);
        stage.finish().await;
    });
}
