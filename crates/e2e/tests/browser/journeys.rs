//! What an operator comes for.

use api::address::AddressPhase;
use browser::View;
use k8s_openapi::api::core::v1::Service;
use kube::api::Api;
use serde_json::{Value, json};

use crate::desk::{self, Desk};
use crate::rig::{self, Bar, LATE, Stage, load_balancer};

/// Marks a document, to know later that it was not loaded anew.
const MARK: &str = "window.marked = true";
const IS_MARKED: &str = "window.marked === true";

/// Who has this IP? From the first page by the search field, in three steps.
#[test]
fn d1_who_has_an_ip() {
    desk::run(async |desk| {
        let stage = desk.rig.stage("who", 2).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.web("web", "web-ip").await;
        stage.served("web", &[&ip]).await;

        let page = desk.at("/").await;
        page.searches(&ip).await;
        page.sees("#list", "1 of").await;
        page.clicks("#list a", &ip).await;
        page.sees(".lede", "is attached to Service who/web, by claim who/web-ip.").await;
        page.sees("dd", "assigned to Service who/web").await;

        // Any IP has an answer, also one that nobody has.
        let free = stage.v4.iter().find(|other| **other != ip).unwrap();
        page.goes(&format!("{}/ip/{free}", desk.open.url)).await;
        page.sees("main", "who").await;
        page.sees("main", "free").await;
        page.closes().await;
    });
}

/// An address changes hands while somebody looks: the page says so by itself, and is not loaded anew.
#[test]
fn d1_a_handoff_is_seen_as_it_happens() {
    desk::run(async |desk| {
        let stage = desk.rig.stage("live", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;

        let page = desk.at(&format!("/addresses/{}", rig::address_name(&ip))).await;
        page.sees(".lede", "attached to nothing; a placeholder holds it.").await;
        page.0.run::<bool>(MARK).await.unwrap();
        stage.web("web", "web-ip").await;
        page.sees(".lede", "is attached to Service live/web, by claim live/web-ip.").await;
        page.sees("main", "never unheld").await;
        stage.delete_service("web").await;
        page.sees(".lede", "attached to nothing; a placeholder holds it.").await;
        assert!(page.0.run::<bool>(IS_MARKED).await.unwrap(), "the page was loaded anew");
        page.closes().await;
    });
}

/// What somebody is at, a filter half written, a place in a long list, stays while the list changes.
#[test]
fn d1_live_updates_disturb_nobody() {
    desk::run(async |desk| {
        let stage = desk.rig.stage("calm", 40).await;
        for number in 0..39 {
            stage.claim(&format!("claim-{number:02}")).await;
        }
        for number in 0..39 {
            stage.bound(&format!("claim-{number:02}")).await;
        }
        let page = desk.at("/addresses?class=calm&state=reserved").await;
        page.sees("#list", "39 of").await;
        page.0.fill("form[data-filters] [name=q]", "half writ").await.unwrap();
        let scroll = "window.scrollTo(0, 500), window.scrollY";
        let before: f64 = page.0.run(scroll).await.unwrap();
        assert!(before > 0.0, "the list is too short to scroll");
        stage.claim("last").await;
        page.sees("#list", "40 of").await;
        assert_eq!(page.0.run::<f64>("window.scrollY").await.unwrap().to_bits(), before.to_bits());
        let field = "document.querySelector('form[data-filters] [name=q]').value";
        assert_eq!(page.0.run::<String>(field).await.unwrap(), "half writ");
        assert!(page.0.url().await.unwrap().ends_with("/addresses?class=calm&state=reserved"));
        page.closes().await;
    });
}

/// Why does this claim wait? Its page says it in words, with the reason to grep for.
#[test]
fn d1_why_a_claim_waits() {
    desk::run(async |desk| {
        let stage = desk.rig.stage("waits", 1).await;
        stage.wait_in_line().await;
        let page = desk.at("/claims?q=waits").await;
        page.clicks("main a", &format!("waits/{LATE}")).await;
        page.sees("h1", LATE).await;
        page.sees("main", "PoolExhausted").await;
        page.closes().await;
    });
}

/// Gives an address to a thief, which no hold that is back first prevents.
pub async fn rob(stage: &Stage, ip: &str) {
    stage.thief_service(load_balancer("grab", json!({ api::wellknown::metallb::PIN: ip }))).await;
    Bar::lets_first(stage, ip, &stage.thief_services(), "grab").await;
    stage.address_is(ip, AddressPhase::Conflict).await;
}

/// Does what kubectl would do at a command of this form: `kubectl -n NAMESPACE patch service NAME --type=merge -p 'PATCH'`.
async fn obey(stage: &Stage, command: &str) {
    let (words, patch) = command.split_once(" --type=merge -p '").unwrap();
    let words: Vec<&str> = words.split(' ').collect();
    let ["kubectl", "-n", namespace, "patch", "service", name] = words[..] else { panic!("{command}") };
    let patch: Value = serde_json::from_str(patch.trim_end().trim_end_matches('\'')).unwrap();
    rig::patch::<Service>(&Api::namespaced(stage.client(), namespace), name, patch).await;
}

/// The pages that show a conflict can be used by everybody, in light, dark and on a phone.
async fn a_conflict_is_for_everybody(desk: &Desk, ip: &str) {
    let dark = View { dark: true, ..View::default() };
    for view in [View::default(), dark, View::phone()] {
        let page = desk.page(view).await;
        for path in ["/conflicts", "/", &format!("/addresses/{}", rig::address_name(ip))] {
            page.goes(&format!("{}{path}", desk.open.url)).await;
            page.sees("main", "robbed-thief/grab").await;
            page.is_for_everybody().await;
            page.fits().await;
            page.was_well().await;
        }
        page.closes().await;
    }
}

/// A conflict is ended by the very command that its page shows.
#[test]
fn d1_a_conflict_ends_by_the_command_on_its_page() {
    desk::run(async |desk| {
        let stage = desk.rig.stage("robbed", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        rob(&stage, &ip).await;

        let page = desk.at("/").await;
        page.clicks("nav a", "Conflicts").await;
        page.sees("main", &ip).await;
        page.sees("main", "robbed-thief/grab").await;
        page.sees("main", "robbed/web-ip").await;
        a_conflict_is_for_everybody(desk, &ip).await;
        let command = page.texts("main pre").await.into_iter().next().unwrap();
        obey(&stage, &command).await;
        page.sees_no_more("main", &ip).await;
        page.goes(&format!("{}/addresses/{}", desk.open.url, rig::address_name(&ip))).await;
        page.sees(".lede", "attached to nothing; a placeholder holds it.").await;
        page.closes().await;
    });
}
