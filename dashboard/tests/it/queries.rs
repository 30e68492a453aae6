//! Whatever is asked, the answer is a page or a sentence.

use proptest::prelude::*;

use crate::invented::small;
use crate::rig::Rig;

const LISTS: [&str; 7] =
    ["/overview", "/addresses", "/claims", "/classes", "/services", "/associations", "/conflicts"];
const NAMES: [&str; 16] = [
    "q",
    "class",
    "namespace",
    "phase",
    "family",
    "state",
    "gaps",
    "sort",
    "page",
    "limit",
    "origin",
    "at",
    "Q",
    "",
    "page[]",
    "x",
];
const VALUES: [&str; 26] = [
    "",
    "1",
    "0",
    "-1",
    "99999999999999999999",
    "1e3",
    "IPv4",
    "ipv6",
    "Bound",
    "attached",
    "conflict",
    "claimed",
    "current",
    "past",
    "-address",
    "service",
    "--since",
    "203.0.113.0/24",
    "0.0.0.0/0",
    "::/0",
    "::-ffff::",
    "a/b/c",
    "2026-11-30T14:00:00Z",
    "-009999-01-01T00:00:00Z",
    "%00",
    "%ff%fe",
];

fn pair() -> impl Strategy<Value = String> {
    let name = prop_oneof![4 => prop::sample::select(&NAMES[..]).prop_map(str::to_owned), 1 => "\\PC{0,12}"];
    let value =
        prop_oneof![3 => prop::sample::select(&VALUES[..]).prop_map(str::to_owned), 1 => "\\PC{0,40}"];
    (name, value).prop_map(|(name, value)| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~%/:".contains(c);
        let quote = |text: String| {
            text.chars()
                .map(|c| {
                    if plain(c) {
                        c.to_string()
                    } else {
                        form_urlencoded::byte_serialize(c.to_string().as_bytes()).collect()
                    }
                })
                .collect::<String>()
        };
        format!("{}={}", quote(name), quote(value))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_query_is_answered_or_refused_with_a_sentence(
        list in prop::sample::select(&LISTS[..]),
        form in prop::sample::select(&["", ".json", ".csv"][..]),
        pairs in prop::collection::vec(pair(), 0..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let rig = thread_rig();
        let path = format!("{list}{form}?{}", pairs.join("&"));
        let answer = runtime.block_on(rig.get(&path));
        prop_assert!(matches!(answer.status.as_u16(), 200 | 400), "{path}: {}", answer.status);
        if answer.status == 400 {
            let words = answer.text.trim();
            prop_assert!(words.contains(' ') && words.len() > 20, "{path}: {words}");
        }
    }

    #[test]
    fn any_path_is_a_page_or_is_none(path in "(/[ -~&&[^ \"<>`{}|^\\\\#?%]]{0,20}|/%[0-9a-f]{2}|/ip|/addresses|/claims|/classes){1,4}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(thread_rig().get(&path));
        prop_assert!(matches!(answer.status.as_u16(), 200 | 400 | 404), "{path}: {}", answer.status);
    }
}

fn thread_rig() -> Rig {
    static RIG: std::sync::OnceLock<axum::Router> = std::sync::OnceLock::new();
    Rig(RIG.get_or_init(|| Rig::of(small()).0).clone())
}
