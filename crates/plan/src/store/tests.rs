use super::*;

fn meta(uid: &str, version: u64) -> Arc<ObjectMeta> {
    let version = Some(version.to_string());
    Arc::new(ObjectMeta { uid: Some(uid.to_owned()), resource_version: version, ..ObjectMeta::default() })
}

type Names = Store<&'static str, ObjectMeta>;

/// A list was taken in: there is one object.
fn store() -> Names {
    let mut store = Store::new(|meta: &ObjectMeta| meta);
    list(&mut store, &[("a", "1", 10)]);
    store
}

fn list(store: &mut Names, objects: &[(&'static str, &str, u64)]) {
    store.list_begins();
    for (name, uid, version) in objects {
        store.in_list(name, meta(uid, *version));
    }
    is_over(store);
}

fn is_over(store: &mut Names) {
    for (key, object) in store.missing() {
        store.dropped(&key, &object);
    }
    for (key, object) in store.list_ends() {
        store.put_listed(key, object);
    }
}

/// What there is: names and versions.
fn all(store: &Names) -> Vec<(&'static str, String)> {
    let mut all: Vec<_> =
        store.iter().map(|(name, meta)| (*name, meta.resource_version.clone().unwrap())).collect();
    all.sort();
    all
}

/// The answer to our write comes after the watch has told that somebody deleted the object.
#[test]
fn c3_a_late_answer_brings_nothing_back() {
    let mut store = store();
    assert!(store.deleted(&"a", &meta("1", 12)).is_some());
    assert!(store.put("a", meta("1", 11)).is_none());
    assert!(store.is_empty());
    assert!(store.put("a", meta("2", 13)).is_some());
}

/// Neither after a list nor while one is taken in.
#[test]
fn c3_a_late_answer_brings_nothing_back_after_a_list() {
    for meanwhile in [false, true] {
        let mut store = store();
        store.list_begins();
        store.in_list("b", meta("2", 12));
        if meanwhile {
            store.put("a", meta("1", 11));
        }
        is_over(&mut store);
        assert!(store.put("a", meta("1", 11)).is_none());
        assert_eq!(all(&store), [("b", "12".to_owned())]);
        assert!(store.put("c", meta("3", 13)).is_some());
    }
}

/// A list brings what was missed, however old it is; also after the versions began anew.
#[test]
fn c3_a_list_is_believed() {
    let mut store = store();
    assert!(store.deleted(&"a", &meta("1", 12)).is_some());
    list(&mut store, &[("b", "2", 5)]);
    assert_eq!(all(&store), [("b", "5".to_owned())]);
    assert!(store.put("c", meta("3", 6)).is_some());
}

/// The answer to our own write overtook the list, and what somebody else made before it is still to come.
#[test]
fn c3_our_own_answer_hides_nothing_that_is_still_to_come() {
    let mut store = store();
    assert!(store.put("b", meta("2", 20)).is_some());
    list(&mut store, &[("a", "1", 10), ("b", "2", 12)]);
    assert!(store.put("c", meta("3", 15)).is_some());
    assert_eq!(store.get(&"b"), Some(&meta("2", 20)));
}

/// Half a list is neither what was nor what is: an address that moved within it would be seen nowhere.
#[test]
fn c3g_a_list_that_begins_anew_counts_as_a_whole() {
    let mut store = store();
    list(&mut store, &[("a", "1", 10), ("b", "2", 11)]);
    let before = all(&store);
    store.list_begins();
    assert_eq!(store.in_list("b", meta("2", 15)), None);
    assert_eq!(store.in_list("c", meta("3", 14)), None);
    assert_eq!(all(&store), before);
    // It is cut, and another list takes its place.
    store.list_begins();
    store.in_list("b", meta("2", 16));
    store.in_list("d", meta("4", 12));
    assert_eq!(all(&store), before);
    is_over(&mut store);
    assert_eq!(all(&store), [("b", "16".to_owned()), ("d", "12".to_owned())]);
}

/// Answers to our own writes that come while a list does.
#[test]
fn c3_answers_stand_beside_a_list_that_is_under_way() {
    let mut store = store();
    list(&mut store, &[("a", "1", 10), ("b", "2", 11), ("c", "3", 12)]);
    store.list_begins();
    store.put("a", meta("1", 21));
    assert!(store.gone(&"b", "2").is_some());
    for (name, uid, version) in [("a", "1", 20), ("b", "2", 19), ("c", "4", 18)] {
        store.in_list(name, meta(uid, version));
    }
    assert!(store.gone(&"c", "4").is_none());
    is_over(&mut store);
    // Ours is newer; ours is deleted; somebody made another of that name.
    assert_eq!(all(&store), [("a", "21".to_owned()), ("c", "18".to_owned())]);
    assert_eq!(store.get(&"c"), Some(&meta("4", 18)));
}

/// Of the first list each object counts as it comes, and nothing else stays.
#[test]
fn c3g_the_first_list_is_not_held_twice() {
    let mut store = Store::new(|meta: &ObjectMeta| meta);
    store.list_begins();
    assert_eq!(store.in_list("a", meta("1", 10)), Some(None));
    // It is cut before its end.
    store.list_begins();
    assert_eq!(store.in_list("b", meta("2", 12)), Some(None));
    assert_eq!(store.missing(), [("a", meta("1", 10))]);
    is_over(&mut store);
    assert_eq!(all(&store), [("b", "12".to_owned())]);
}
