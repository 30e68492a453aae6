//! The pictures of the documentation.

use std::path::Path;

use browser::View;
use serde_json::json;

use crate::rig;
use crate::{desk, journeys};

/// Pages, as files in `docs/dashboard`, each whole, light and dark.
const PICTURES: [(&str, &str); 5] = [
    ("overview", "/"),
    ("addresses", "/addresses"),
    ("address", "/addresses/ADDRESS"),
    ("claim", "/claims/shop/next-ip"),
    ("conflicts", "/conflicts"),
];

/// Writes the pictures: `cargo xtask screenshots`.
#[test]
#[ignore = "writes docs/dashboard/*.png"]
fn screenshots() {
    desk::run(async |desk| {
        let stage = desk.rig.stage_dual("shop", 6, 2).await;
        for (claim, service) in [("web-ip", "web"), ("mail-ip", "mail"), ("dns-ip", "dns")] {
            stage.claim(claim).await;
            let ip = stage.bound(claim).await;
            stage.web(service, claim).await;
            stage.served(service, &[&ip]).await;
        }
        stage.claim("vpn-ip").await;
        let robbed = stage.bound("vpn-ip").await;
        stage.held(&robbed).await;
        stage.claim_with("v6-ip", json!({ "family": "IPv6" })).await;
        stage.bound("v6-ip").await;
        stage.claim_with("next-ip", json!({ "className": "gold" })).await;
        stage.claim_says("next-ip", "ClassResolved", "False/ClassNotFound").await;
        journeys::rob(&stage, &robbed).await;
        let shown = stage.bound("web-ip").await;

        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dashboard");
        std::fs::create_dir_all(&folder).unwrap();
        for dark in [false, true] {
            let page = desk.page(View { dark, width: 1280, height: 800, ..View::default() }).await;
            for (name, path) in PICTURES {
                let path = path.replace("ADDRESS", &rig::address_name(&shown));
                page.goes(&format!("{}{path}", desk.open.url)).await;
                page.sees("h1", "").await;
                let file = folder.join(format!("{name}-{}.png", if dark { "dark" } else { "light" }));
                page.0.screenshot(&file, true).await.unwrap();
            }
            page.closes().await;
        }
    });
}
