//! The same page as JSON and as CSV.

use crate::invented::small;
use crate::rig::{PAGES, Rig};

#[tokio::test]
async fn every_page_is_there_as_json_and_csv() {
    let rig = Rig::of(small());
    for path in PAGES {
        let answer = rig.get(&format!("{path}.json")).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("content-type")),
            (200, "application/json"),
            "{path}"
        );
        assert_eq!(answer.json()["asOf"], "2026-11-30T14:02:31Z", "{path}");
        let answer = rig.get(&format!("{path}.csv")).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.header("content-type").starts_with("text/csv"), "{path}");
        let mut lines = answer.text.lines();
        let heads = lines.next().unwrap().split(',').count();
        // Cells of these rows hold no comma, but for the sentences, which are quoted.
        let plain = lines.filter(|line| !line.contains('"'));
        plain.for_each(|line| assert_eq!(line.split(',').count(), heads, "{path}: {line}"));
    }
}

#[tokio::test]
async fn json_says() {
    let rig = Rig::of(small());
    for path in ["/overview", "/addresses/ip-203-0-113-41", "/claims/tenant-d/edge", "/ip/203.0.113.7"] {
        let json = rig.get(&format!("{path}.json")).await.json();
        insta::assert_json_snapshot!(
            format!("json-{}", path.trim_matches('/').replace(['/', '.'], "-")),
            json
        );
    }
}

#[tokio::test]
async fn csv_says() {
    let rig = Rig::of(small());
    for path in ["/addresses", "/claims", "/classes", "/services", "/conflicts"] {
        let csv = rig.page(&format!("{path}.csv")).await.replace("\r\n", "\n");
        insta::assert_snapshot!(format!("csv-{}", path.trim_matches('/')), csv);
    }
}

/// An export has every row that matches, unless a page of it is asked for.
#[tokio::test]
async fn an_export_is_whole_and_has_the_same_filters() {
    let rig = Rig::of(crate::invented::large(300));
    let rows = async |path: &str| rig.page(path).await.lines().count() - 1;
    assert_eq!(rows("/addresses.csv").await, 300);
    assert_eq!(rows("/addresses.csv?state=attached").await, 150);
    assert_eq!(rows("/addresses.csv?limit=20&page=2").await, 20);
    let json = rig.get("/addresses.json?state=attached&limit=7").await.json();
    assert_eq!((json["total"].as_u64(), json["matched"].as_u64()), (Some(300), Some(150)));
    assert_eq!((json["pages"].as_u64(), json["items"].as_array().unwrap().len()), (Some(22), 7));
}
