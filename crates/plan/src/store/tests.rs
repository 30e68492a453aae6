use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::*;

fn meta(uid: &str, version: u64) -> Arc<ObjectMeta> {
    let version = Some(version.to_string());
    Arc::new(ObjectMeta { uid: Some(uid.to_owned()), resource_version: version, ..ObjectMeta::default() })
}

type Names = Store<&'static str, ObjectMeta>;

/// One object is warm at a time.
fn empty() -> Names {
    Store::with_room(|meta| meta, 1)
}

/// A list was taken in: there is one object.
fn store() -> Names {
    let mut store = empty();
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
    assert_eq!(store.get(&"b"), Some(meta("2", 20)));
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
    assert_eq!(store.get(&"c"), Some(meta("4", 18)));
}

/// Of the first list each object counts as it comes, and nothing else stays.
#[test]
fn c3g_the_first_list_is_not_held_twice() {
    let mut store = empty();
    store.list_begins();
    assert_eq!(store.in_list("a", meta("1", 10)), Some(None));
    // It is cut before its end.
    store.list_begins();
    assert_eq!(store.in_list("b", meta("2", 12)), Some(None));
    assert_eq!(store.missing(), [("a", meta("1", 10))]);
    is_over(&mut store);
    assert_eq!(all(&store), [("b", "12".to_owned())]);
}

fn packed_ones<K, T>(store: &Store<K, T>) -> usize {
    store.objects.values().filter(|entry| entry.form.borrow().warm.is_none()).count()
}

#[test]
fn objects_at_rest_are_packed_and_come_back_as_they_were() {
    let mut store: Store<u64, ObjectMeta> = Store::with_room(|meta| meta, 2);
    let object = |number: u64| meta(&format!("uid-{number}"), number);
    for number in 0..10 {
        assert_eq!(store.put(number, object(number)), Some(None));
    }
    assert_eq!((store.len(), packed_ones(&store)), (10, 8));
    for number in 0..10 {
        assert_eq!(store.get(&number), Some(object(number)));
    }
    assert_eq!(packed_ones(&store), 8);
    assert!(store.iter().all(|(number, found)| found == object(*number)));
    assert_eq!((store.get(&10), store.contains(&10)), (None, false));
}

#[test]
fn what_is_packed_is_changed_and_removed_like_the_rest() {
    let mut store: Store<u64, ObjectMeta> = Store::with_room(|meta| meta, 2);
    let uid = |number: u64| format!("uid-{number}");
    for number in 0..10 {
        store.put(number, meta(&uid(number), 5));
    }
    assert_eq!(store.put(0, meta("uid-0", 5)), None, "nothing new");
    assert_eq!(store.put(1, meta("uid-1", 4)), None, "older");
    assert_eq!(store.put(2, meta("uid-2", 6)), Some(Some(meta("uid-2", 5))));
    assert_eq!(store.get(&2), Some(meta("uid-2", 6)));
    assert_eq!(store.gone(&3, "uid-of-another"), None);
    assert_eq!(store.gone(&3, "uid-3"), Some(meta("uid-3", 5)));
    assert_eq!(store.put(3, meta("uid-3", 7)), None, "deleted by us");
    assert_eq!(store.deleted(&4, &meta("uid-4", 8)), Some(meta("uid-4", 5)));
    assert_eq!(store.len(), 8);
    // A name that comes back is warm again, and packed again.
    assert_eq!(store.put(4, meta("uid-4", 9)), Some(None));
    for number in 5..10 {
        store.get(&number);
    }
    assert_eq!((store.get(&4), packed_ones(&store)), (Some(meta("uid-4", 9)), 7));
}

#[test]
fn what_would_not_come_back_as_it_is_stays_warm() {
    /// Forgets what it is.
    #[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
    struct Forgetful {
        meta: ObjectMeta,
        #[serde(skip)]
        secret: u32,
    }
    impl PartialEq for Forgetful {
        fn eq(&self, other: &Self) -> bool {
            self.secret == other.secret
        }
    }
    let mut store: Store<u32, Forgetful> = Store::with_room(|object| &object.meta, 0);
    store.put(1, Arc::new(Forgetful { secret: 7, ..Forgetful::default() }));
    store.put(2, Arc::new(Forgetful::default()));
    assert_eq!(store.get(&1).unwrap().secret, 7);
    assert!(store.objects[&1].form.borrow().warm.is_some());
    assert!(store.objects[&2].form.borrow().warm.is_none());
}

/// A hold, as the API server shows it and a controller keeps it.
fn hold() -> Value {
    json!({
        "metadata": {
            "annotations": {
                "metallb.drivers.local.sdn.cozystack.io/claim-name": "claim-00007",
                "metallb.drivers.local.sdn.cozystack.io/claim-namespace": "tenant",
                "metallb.io/address-pool": "public",
                "metallb.io/allow-shared-ip": "iad-0f3c8e5a9b1d4c6f7a2e8b5d1c9f4a3e",
                "metallb.io/ip-allocated-from-pool": "public",
                "metallb.io/loadBalancerIPs": "198.18.0.7",
            },
            "creationTimestamp": "2026-11-29T10:00:00Z",
            "labels": {
                "metallb.drivers.local.sdn.cozystack.io/ip-address": "ip-198-18-0-7",
                "metallb.drivers.local.sdn.cozystack.io/placeholder": "true",
            },
            "name": "iad-5a1f27be-9d43-4b9c-8a55-0d7de1c0ffee-v4",
            "namespace": "metallb-iad-system",
            "resourceVersion": "123456",
            "uid": "8d1c2f1e-6f3a-4d0b-9c55-1b2a3c4d5e6f",
        },
        "spec": {
            "allocateLoadBalancerNodePorts": false, "clusterIP": "10.96.12.34", "clusterIPs": ["10.96.12.34"],
            "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{ "name": "placeholder", "port": 65535, "protocol": "TCP", "targetPort": 65535 }],
            "sessionAffinity": "None", "type": "LoadBalancer",
        },
        "status": { "loadBalancer": { "ingress": [{ "ip": "198.18.0.7", "ipMode": "VIP" }] } },
    })
}

#[test]
fn a_hold_at_rest_takes_little_memory() {
    let hold: Service = serde_json::from_value(hold()).unwrap();
    let packed = pack::packed(&hold).unwrap();
    assert_eq!(pack::unpacked::<Service>(&packed), hold);
    assert!(packed.len() < 400, "{} bytes", packed.len());
}
