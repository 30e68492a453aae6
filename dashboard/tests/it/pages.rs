//! What each page says of the small cluster, word for word.

use std::sync::Arc;

use axum::http::{Request, Response};
use clap::Parser;
use dashboard::args::Args;
use dashboard::auth::{self, Gate};
use dashboard::web::{self, App};
use rstest::rstest;

use crate::invented::{NOW, small};
use crate::rig::{PAGES, Rig};

/// The markup without what changes with every edit of the style: the names of the assets.
fn stable(page: &str) -> String {
    let mut text = String::new();
    for (place, part) in page.split("/assets/").enumerate() {
        match part.split_once('/') {
            Some((_, rest)) if place > 0 => {
                text.push_str("/assets/HASH/");
                text.push_str(rest);
            }
            _ => text.push_str(part),
        }
    }
    text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

fn main_of(page: &str) -> String {
    let start = page.find("<main").unwrap();
    let end = page.find("</main>").unwrap();
    stable(page.get(start..end).unwrap())
}

#[rstest]
#[case::overview("/")]
#[case::addresses("/addresses?gaps=1")]
#[case::attached("/addresses/ip-203-0-113-7")]
#[case::released("/addresses/ip-203-0-113-9")]
#[case::conflict("/addresses/ip-203-0-113-41")]
#[case::reserved("/addresses/ip-203-0-113-8")]
#[case::available("/addresses/ip-203-0-113-10")]
#[case::observed("/addresses/ip-203-0-113-50")]
#[case::lost("/addresses/ip-192-168-99-4")]
#[case::claims("/claims?sort=phase")]
#[case::claim_of_a_refused_class("/claims/tenant-d/edge")]
#[case::bound_claim("/claims/tenant-a/web")]
#[case::classes("/classes")]
#[case::accepted_class("/classes/public")]
#[case::class("/classes/partner")]
#[case::services("/services")]
#[case::associations("/associations")]
#[case::conflicts("/conflicts")]
#[case::free_ip("/ip/203.0.113.60")]
#[tokio::test]
async fn pages_say(#[case] path: &str) {
    let rig = Rig::with(
        small(),
        &["--trace-url-template=https://traces.example/{trace_id}"],
        dashboard::Scope::All,
    );
    let page = rig.page(path).await;
    let name = path.trim_matches('/').replace(['/', '?', '=', '.'], "-");
    insta::assert_snapshot!(format!("page-{name}"), main_of(&page));
}

#[tokio::test]
async fn the_frame_says() {
    let page = Rig::of(small()).page("/conflicts").await;
    let main = page.find("<main").unwrap();
    let end = page.find("</main>").unwrap();
    insta::assert_snapshot!("frame", stable(&format!("{}\n{}", &page[..main], &page[end..])));
}

#[tokio::test]
async fn the_login_form_says() {
    let live = small().live();
    let app = App::new(Arc::clone(&live), &Args::parse_from(["x"])).frozen(NOW.parse().unwrap());
    let nobody = tower::service_fn(async |_: Request<kube::client::Body>| {
        Err::<Response<kube::client::Body>, _>(std::io::Error::other("nobody is asked"))
    });
    let gate = Gate::new(kube::Client::new(nobody, "default"), live);
    let rig = Rig(web::router(&app, auth::guarded(web::pages(&app), &app, gate)));
    let page = rig.page("/login?next=%2Faddresses%3Fclass%3D%22").await;
    insta::assert_snapshot!("page-login", main_of(&page));
}

/// An empty cluster is told what would appear there.
#[rstest]
#[case("/", "No address is reserved yet")]
#[case("/addresses", "kubectl create")]
#[case("/claims", "kubectl create")]
#[case("/classes", "kubectl create")]
#[case("/services", "type LoadBalancer is a line here")]
#[case("/associations", "No Service has had an address yet")]
#[case("/conflicts", "No conflicts")]
#[case("/ip/192.0.2.1", "is in no pool of MetalLB")]
#[tokio::test]
async fn empty_pages_say_what_would_be_there(#[case] path: &str, #[case] words: &str) {
    let page = Rig::of(crate::invented::Invented::default()).page(path).await;
    assert!(page.contains(words), "{page}");
}

#[tokio::test]
async fn every_link_of_every_page_leads_somewhere() {
    let rig = Rig::of(small());
    let mut seen = std::collections::BTreeSet::new();
    for path in PAGES {
        let page = rig.page(path).await;
        for link in page.split("href=\"").skip(1) {
            let link = link.split('"').next().unwrap().replace("&amp;", "&").replace("&#38;", "&");
            if link.starts_with('/') && seen.insert(link.clone()) {
                let answer = rig.get(&link).await;
                assert_eq!(answer.status, 200, "{link} on {path}");
            }
        }
    }
    assert!(seen.len() > 60, "{seen:?}");
}
