//! The clusters themselves.

use dashboard::world::About;
use serde_json::json;

use super::{CLAIM, DRIVER, HOME, Invented, PIN, condition, micro, object_name};

/// Everything that can be shown, once.
pub fn small() -> Invented {
    let mut all = Invented::default();
    all.pool("public", &["203.0.113.0/26", "2001:db8::/64"], false);
    all.pool("lan", &["192.168.40.10-192.168.40.29"], false);
    all.pool("partner-net", &["198.51.100.0/28"], true);
    all.default_class("public", "public");
    all.class("internal", "lan", None);
    let words = "IPAddressPool metallb-system/partner-net gives its addresses to any Service; set its spec.autoAssign to false";
    all.class("partner", "partner-net", Some(("PoolAutoAssigns", words)));

    all.claim("tenant-a", "web", "public", &["203.0.113.7"], 900);
    all.attached("203.0.113.7", "public", ("tenant-a", "web"), "web-v2", 38);
    all.claim("tenant-a", "spare", "public", &["203.0.113.8"], 1_814_400);
    all.reserved("203.0.113.8", "public", "Bound", Some(("tenant-a", "spare")), 1_814_400);
    all.reserved("203.0.113.9", "public", "Released", Some(("tenant-b", "old")), 259_200);
    all.reserved("203.0.113.10", "public", "Available", None, 5_000);
    all.claim("tenant-c", "mail", "public", &["203.0.113.20", "2001:db8::1f"], 720_000);
    for ip in ["203.0.113.20", "2001:db8::1f"] {
        all.address(ip, "public", "Bound", Some(("tenant-c", "mail")), 720_000, |object| {
            object["status"]["lastHandoff"] = json!({
                "direction": "Disassociate", "mode": "Gap", "from": "tenant-c/mx-old", "to": format!("{HOME}/iad-{}", object_name(ip)),
                "startedAt": micro(730), "finishedAt": micro(729), "unheldMilliseconds": 41 });
            object["status"]["associationHistory"] = json!([{ "namespace": "tenant-c", "name": "mx-old", "uid": "u1",
                "since": micro(700_000), "until": micro(729) }]);
        });
        all.hold(ip, 729);
    }
    // Somebody took an address that is not theirs.
    all.claim("tenant-a", "vpn", "public", &["203.0.113.41"], 50_000);
    all.address("203.0.113.41", "public", "Conflict", Some(("tenant-a", "vpn")), 50_000, |object| {
        object["status"]["conditions"] = json!([condition(
            "Conflict",
            true,
            "HeldByOther",
            "Service tenant-b/lb-copy has 203.0.113.41, and the binding does not give it to it",
            360
        )]);
    });
    all.service("tenant-b", "lb-copy", &["203.0.113.41"], json!({ PIN: "203.0.113.41" }), 400);
    all.event(
        About::Address,
        "",
        "ip-203-0-113-41",
        "AddressConflict",
        "Service tenant-b/lb-copy has 203.0.113.41, which this address reserves; take it off that Service",
        360,
    );
    all.event(
        About::Service,
        "tenant-b",
        "lb-copy",
        "AddressConflict",
        "203.0.113.41 is reserved; remove the annotation that asks for it",
        360,
    );
    // Nobody claimed it.
    all.address("203.0.113.50", "public", "Released", None, 3_600, |object| {
        object["metadata"]["labels"] = json!({ format!("{DRIVER}/observed"): "true" });
        object["spec"]["claimRef"] = json!({ "namespace": "tenant-b", "name": "legacy", "uid": "uid-tenant-b-legacy" });
        object["status"]["associatedTo"] = json!({ "kind": "Service", "namespace": "tenant-b", "name": "legacy", "uid": "uid-tenant-b-legacy" });
    });
    all.service("tenant-b", "legacy", &["203.0.113.50"], json!({}), 3_600);
    all.address("192.168.99.4", "internal", "Lost", Some(("tenant-d", "db")), 80_000, |object| {
        object["status"]["conditions"] = json!([condition(
            "Held",
            false,
            "NoPool",
            "no IPAddressPool contains 192.168.99.4 any more",
            600
        )]);
    });
    all.claim("tenant-d", "db", "internal", &["192.168.99.4"], 80_000);
    all.service("tenant-d", "cloudy", &["198.51.100.3"], json!({}), 900_000);
    all.service("tenant-e", "stuck", &[], json!({ CLAIM: "api" }), 60);

    let waits = |reason, message, seconds| condition("Bound", false, reason, message, seconds);
    all.waiting(
        "tenant-d",
        "edge",
        Some("partner"),
        &[
            condition("ClassResolved", true, "Resolved", "class partner", 240),
            waits(
                "WaitingForProvisioning",
                "no IPv4 address of class partner is available yet; waiting for its provisioner",
                240,
            ),
        ],
        240,
    );
    all.event(About::Claim, "tenant-d", "edge", "PoolRefused", words, 239);
    all.waiting("tenant-e", "api", None, &[
        condition("ClassResolved", false, "NoDefaultClass", "spec.className is not set and no IPAddressClass is marked as the default; set spec.className", 60),
        waits("WaitingForProvisioning", "the class is not known", 60)], 60);
    all
}

/// So many addresses, claims and Services, with their placeholders: half of them attached, half reserved.
pub fn large(count: u32) -> Invented {
    let mut all = Invented::default();
    all.pool("public", &["10.0.0.0/15"], false);
    all.default_class("public", "public");
    for number in 0..count {
        let ip = std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string();
        let namespace = format!("tenant-{:03}", number % 400);
        let name = format!("claim-{number:05}");
        all.claim(&namespace, &name, "public", &[&ip], i64::from(number));
        if number % 2 == 0 {
            all.attached(&ip, "public", (&namespace, &name), &format!("web-{number:05}"), i64::from(number));
        } else {
            all.reserved(&ip, "public", "Bound", Some((&namespace, &name)), i64::from(number));
            all.service(&namespace, &format!("web-{number:05}"), &[], json!({}), i64::from(number));
        }
    }
    all
}
