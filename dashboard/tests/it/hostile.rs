//! What others write is text, whatever it holds.

use dashboard::world::About;
use serde_json::json;

use crate::invented::{Invented, condition};
use crate::rig::Rig;

const EVIL: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}";

/// A cluster in which everything that anybody can write is hostile.
fn evil() -> Invented {
    let mut all = Invented::default();
    all.pool(EVIL, &["192.0.2.0/29", EVIL], true);
    all.class(EVIL, EVIL, Some(("PoolAutoAssigns", EVIL)));
    all.claim(EVIL, EVIL, EVIL, &["192.0.2.1"], 90);
    all.attached("192.0.2.1", EVIL, (EVIL, EVIL), EVIL, 30);
    all.waiting(EVIL, "waits", Some(EVIL), &[condition("Bound", false, EVIL, EVIL, 60)], 60);
    all.waiting(EVIL, "lost-class", None, &[condition("ClassResolved", false, EVIL, EVIL, 60)], 60);
    all.address("192.0.2.2", EVIL, "Conflict", Some((EVIL, "waits")), 90, |object| {
        object["status"]["conditions"] = json!([condition(EVIL, true, EVIL, EVIL, 60)]);
        object["status"]["lastHandoff"] = json!({ "direction": "Associate", "mode": "Gap", "from": format!("{EVIL}/{EVIL}"),
            "to": format!("{EVIL}/{EVIL}"), "startedAt": "2026-11-30T14:00:00.000000Z", "traceID": EVIL });
    });
    all.service(
        EVIL,
        "taker",
        &["192.0.2.2"],
        json!({ "metallb.io/loadBalancerIPs": EVIL, "metallb.io/address-pool": EVIL }),
        20,
    );
    all.service(EVIL, "asks", &[], json!({ "local.sdn.cozystack.io/ip-address-claim": EVIL }), 20);
    for about in About::ALL {
        let namespace = if matches!(about, About::Claim | About::Service) { EVIL } else { "" };
        for name in [EVIL, "waits", "asks", "ip-192-0-2-2"] {
            all.event(about, namespace, name, "AssociationRejected", EVIL, 10);
        }
    }
    all
}

#[tokio::test]
async fn hostile_names_and_annotations_never_become_markup() {
    let rig =
        Rig::with(evil(), &["--trace-url-template=https://traces.example/{trace_id}"], dashboard::Scope::All);
    let quoted: String =
        form_urlencoded::byte_serialize(EVIL.as_bytes()).collect::<String>().replace('+', "%20");
    let mut paths: Vec<String> =
        ["/", "/addresses?gaps=1", "/claims", "/classes", "/services", "/associations", "/conflicts"]
            .map(str::to_owned)
            .into();
    paths.extend(
        ["/ip/192.0.2.1", "/ip/192.0.2.2", "/addresses/ip-192-0-2-1", "/addresses/ip-192-0-2-2"]
            .map(str::to_owned),
    );
    paths.extend([
        format!("/claims/{quoted}/{quoted}"),
        format!("/claims/{quoted}/waits"),
        format!("/classes/{quoted}"),
    ]);
    paths.push(format!("/addresses?q={quoted}&namespace={quoted}&class={quoted}"));
    for path in &paths {
        let page = rig.page(path).await;
        clean(path, &page);
    }
    for path in [
        format!("/nothing/{quoted}"),
        format!("/classes/{quoted}x"),
        format!("/addresses?{quoted}=1"),
        format!("/claims?sort={quoted}"),
    ] {
        let answer = rig.get(&path).await;
        assert!(answer.status.is_client_error(), "{path}");
        clean(&path, &answer.text);
    }
}

/// The page has the one script of ours, and no tag, attribute or scheme that somebody else wrote.
fn clean(path: &str, page: &str) {
    assert_eq!(page.matches("<script").count(), 1, "{path}: {page}");
    assert_eq!(page.matches("<img").count(), 0, "{path}");
    assert!(!page.contains("49{{") && !page.contains("javascript:"), "{path}");
    for tag in page.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap();
        // Without the values of attributes, their names are left: an odd quote would have let others in.
        let names: String = tag.split('"').step_by(2).collect();
        let odd = tag.matches('"').count() % 2 == 1;
        assert!(!odd && !names.contains("onerror") && !names.contains(['\'', '(']), "{path}: <{tag}>");
    }
}

/// What is no trace's id becomes no link.
#[tokio::test]
async fn a_forged_trace_id_becomes_no_link() {
    let rig =
        Rig::with(evil(), &["--trace-url-template=https://traces.example/{trace_id}"], dashboard::Scope::All);
    let json = rig.get("/addresses/ip-192-0-2-2.json").await.json();
    assert_eq!(json["lastHandoff"]["traceUrl"], serde_json::Value::Null, "{json}");
    let page = rig.page("/addresses/ip-192-0-2-1").await;
    assert!(page.contains("https://traces.example/4bf92f3577b34da6a3ce929d0e0e4736"));
}
