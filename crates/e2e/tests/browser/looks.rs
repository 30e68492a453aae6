//! Every page, as different people look at it.

use browser::View;
use serde_json::json;

use crate::desk::{self, Desk, Seen};
use crate::rig::{self, Stage, load_balancer};

/// What tries to become markup.
const HOSTILE: &str = "<img src=x onerror=alert(1)><script>alert(2)</script>";

/// A stage with something on every page: an address with a Service, one without, a claim that waits, a class that is
/// refused, a Service without a claim.
async fn filled(desk: &Desk, name: &str) -> (Stage, String) {
    let stage = desk.rig.stage(name, 3).await;
    stage.claim("web-ip").await;
    let ip = stage.bound("web-ip").await;
    stage.web("web", "web-ip").await;
    stage.served("web", &[&ip]).await;
    stage.claim("kept").await;
    stage.bound("kept").await;
    let nobody = json!({ "className": "no-such-class" });
    stage.claim_with("waits", nobody).await;
    stage.claim_says("waits", "ClassResolved", "False/ClassNotFound").await;
    stage.class_with(&format!("{name}-refused"), "Retain", json!({ "pool": "no-such-pool" })).await;
    stage.class_says(&format!("{name}-refused"), "False/PoolNotFound").await;
    (stage, ip)
}

fn pages(stage: &str, ip: &str) -> Vec<String> {
    let address = rig::address_name(ip);
    let of = |path: &str| path.replace("STAGE", stage).replace("IP", ip).replace("ADDRESS", &address);
    let paths = [
        "/",
        "/addresses",
        "/addresses?q=STAGE&gaps=1",
        "/addresses?q=nothing-is-called-so",
        "/addresses/ADDRESS",
        "/claims",
        "/claims/STAGE/web-ip",
        "/claims/STAGE/waits",
        "/classes",
        "/classes/STAGE",
        "/classes/STAGE-refused",
        "/services",
        "/associations",
        "/conflicts",
        "/ip/IP",
        "/ip/192.0.2.1",
    ];
    // The longer name first: one holds the other.
    paths.iter().map(|path| of(&path.replace("ADDRESS", &address))).collect()
}

/// Every page, and every page that says why it is none, in light, dark, on a phone and on a tablet: axe finds nothing, nothing goes wrong, nothing is wider than the screen, and
/// nothing comes from elsewhere.
#[test]
fn d2_every_page_is_for_everybody() {
    desk::run(async |desk| {
        let (stage, ip) = filled(desk, "looks").await;
        let dark = View { dark: true, ..View::default() };
        for view in [View::default(), dark, View::phone(), View::tablet()] {
            let page = desk.page(view.clone()).await;
            for path in pages(&stage.name, &ip) {
                page.goes(&format!("{}{path}", desk.open.url)).await;
                page.sees("h1", "").await;
                page.is_for_everybody().await;
                page.fits().await;
                page.was_well().await;
                assert_eq!(is_dark(&page).await, view.dark, "{path}");
            }
            for (path, status) in ERRORS {
                assert_eq!(page.0.goto(&format!("{}{path}", desk.open.url)).await.unwrap(), status, "{path}");
                page.sees("main a", "To the overview").await;
                page.is_for_everybody().await;
                page.fits().await;
                // That the page is none is told in the console, too.
                let told = page.0.problems().await.unwrap();
                assert!(told.iter().all(|problem| problem.contains(&status.to_string())), "{path}: {told:?}");
            }
            page.closes().await;
        }
    });
}

/// Pages that are none, with the status that says so.
const ERRORS: [(&str, u16); 3] = [("/addresses/none", 404), ("/addresses?page=0", 400), ("/nothing", 404)];

/// Whether what is written is lighter than what it is written on.
async fn is_dark(page: &Seen) -> bool {
    let light = async |what: &str| -> u32 {
        let script = format!(
            "getComputedStyle(document.body).{what}.match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b)"
        );
        page.0.run(&script).await.unwrap()
    };
    light("color").await > light("backgroundColor").await
}

/// Without scripts every page is there, and searching, filtering and following links work.
#[test]
fn d2_without_scripts() {
    desk::run(async |desk| {
        let (stage, ip) = filled(desk, "plain").await;
        let page = desk.page(View { javascript: false, ..View::default() }).await;
        for path in pages(&stage.name, &ip) {
            page.goes(&format!("{}{path}", desk.open.url)).await;
            page.sees("h1", "").await;
        }
        page.goes(&desk.open.url).await;
        page.searches("plain/web").await;
        page.clicks("#list a", &ip).await;
        page.sees(".lede", "is attached to Service plain/web").await;
        page.goes(&format!("{}/addresses?q=plain", desk.open.url)).await;
        page.0.select("[name=state]", "attached").await.unwrap();
        page.clicks("form[data-filters] button", "Show").await;
        page.sees("#list", "1 of").await;
        page.closes().await;
    });
}

/// The keyboard alone leads past the navigation to the content.
#[test]
fn d2_by_keyboard() {
    desk::run(async |desk| {
        let page = desk.at("/addresses").await;
        page.0.press("Tab").await.unwrap();
        let focused: String = page.0.run("document.activeElement.textContent").await.unwrap();
        assert_eq!(focused.trim(), "To the content");
        page.0.press("Enter").await.unwrap();
        assert!(page.0.url().await.unwrap().ends_with("#main"));
        page.closes().await;
    });
}

/// Single keys lead to the search field, to other pages, and through the pages of a list; not while somebody writes.
#[test]
fn d2_by_single_keys() {
    desk::run(async |desk| {
        filled(desk, "keys").await;
        let page = desk.at("/addresses?q=keys&limit=1").await;
        page.sees(".pager", "page 1 of 2").await;
        page.0.press("]").await.unwrap();
        page.sees(".pager", "page 2 of 2").await;
        page.is_loaded().await;
        page.0.press("[").await.unwrap();
        page.sees(".pager", "page 1 of 2").await;
        page.is_loaded().await;
        page.0.press("/").await.unwrap();
        let focused = "document.activeElement.id";
        assert_eq!(page.0.run::<String>(focused).await.unwrap(), "search");
        for key in ["g", "c", "]"] {
            page.0.press(key).await.unwrap();
        }
        let written = "document.getElementById('search').value";
        assert_eq!(
            page.0.run::<String>(written).await.unwrap(),
            "gc]",
            "keys lead away while somebody writes"
        );
        page.0.press("Escape").await.unwrap();
        assert_ne!(page.0.run::<String>(focused).await.unwrap(), "search");
        for (key, heading) in [
            ("c", "Claims"),
            ("s", "Services"),
            ("l", "Classes"),
            ("h", "Who had which"),
            ("a", "Addresses"),
            ("o", "Who holds"),
        ] {
            page.0.press("g").await.unwrap();
            page.0.press(key).await.unwrap();
            page.sees("h1", heading).await;
            page.is_loaded().await;
        }
        page.closes().await;
    });
}

/// What tenants write into annotations and objects is text wherever it is shown.
#[test]
fn d2_hostile_texts_stay_text() {
    desk::run(async |desk| {
        let stage = desk.rig.stage("hostile", 2).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;
        stage.claim_with("named", json!({ "className": "hostile" })).await;
        let wishes = json!({
            api::wellknown::metallb::PIN: HOSTILE,
            api::wellknown::metallb::POOL: HOSTILE,
            api::wellknown::CLAIM: HOSTILE,
        });
        stage.service(load_balancer("hostile", wishes)).await;
        stage.event("hostile", "AllocationFailed").await;
        stage.class_with("hostile-class", "Retain", json!({ "pool": HOSTILE })).await;
        stage.class_says("hostile-class", "False/PoolNotFound").await;
        let page = desk.page(View::default()).await;
        let asked = "/addresses?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E";
        let more = ["/services?q=hostile", "/classes/hostile-class", "/claims?q=hostile", asked];
        for path in pages("hostile", &ip).iter().map(String::as_str).chain(more) {
            if path.contains("refused") || path.ends_with("/waits") {
                continue;
            }
            page.goes(&format!("{}{path}", desk.open.url)).await;
            let made = page.0.attributes("img, script:not([src])", "src").await.unwrap();
            assert!(made.is_empty(), "{path}: {made:?}");
            page.was_well().await;
        }
        page.closes().await;
    });
}
