//! Contract §11, `--handoff=gap`: the successor is pinned before the holder lets go, and no key is ever written on a
//! Service. A claim waits for an address of the full pool, and never gets this one.

use api::address::HandoffMode;
use api::wellknown::{CLAIM, driver, metallb as names};
use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::build::{
    IP, IP6, Setup, claim, claim_ref, key, pool_ref, service, service_ref, static_address, web,
};
use crate::world::{Pace, World, crash};

pub fn gap(setup: Setup) -> Setup {
    let mut setup = Setup { contended: false, ..setup };
    setup.config.gap = true;
    setup
}

/// The claim is bound, the pool is full, a claim of another tenant waits.
fn waited_for(setup: &Setup) -> impl Fn(Pace) -> World {
    move |pace| {
        let mut world = setup.world(pace);
        world.law.unheld = true;
        world.create(claim("tenant-b", "late", json!({ "family": setup.family })));
        world.settle();
        world.mark();
        world
    }
}

fn associated(setup: &Setup, spec: Value) -> impl Fn(Pace) -> World {
    move |pace| {
        let mut world = waited_for(setup)(pace);
        world.create(service("web", json!({ CLAIM: "web-ip" }), spec.clone()));
        world.settle();
        assert_eq!(world.address_of(IP).associated_to().map(|to| to.name.clone()).as_deref(), Some("web"));
        world.mark();
        world
    }
}

fn assert_by_gap(world: &World, ip: &str) {
    let handoff = world.address_of(ip).status.clone().unwrap().last_handoff.unwrap();
    assert_eq!(handoff.mode, HandoffMode::Gap, "{}", world.last_words(60));
    assert!(handoff.finished_at.is_some());
    // The clock of this world goes on by 10 ms at each decision.
    let unheld = handoff.unheld_milliseconds.unwrap();
    assert!((0..=1_000).contains(&unheld), "{unheld} ms; {}", world.last_words(60));
}

fn assert_no_key_written(world: &World) {
    let keyed = |line: &&String| line.contains("patch Service tenant-a/") && line.contains(names::SHARE);
    assert_eq!(world.story.iter().find(keyed), None);
}

fn with_families(setup: &Setup, mut spec: Value) -> Value {
    if setup.family == "Dual" {
        let fields = spec.as_object_mut().unwrap();
        fields.insert("ipFamilies".into(), json!(["IPv4", "IPv6"]));
        fields.insert("ipFamilyPolicy".into(), json!("RequireDualStack"));
    }
    spec
}

#[rstest]
#[case::c11_100_cluster(Setup::default(), json!({}))]
#[case::c11_101_local(Setup::default(), json!({ "externalTrafficPolicy": "Local" }))]
#[case::c11_102_port_of_the_placeholder(Setup::default(), json!({ "ports": [{ "port": 65535 }] }))]
#[case::c11_103_dual(Setup::dual(), json!({}))]
fn c11_100_forward_by_gap(#[case] setup: Setup, #[case] spec: Value) {
    let setup = gap(setup);
    let ips: &[&str] = if setup.family == "Dual" { &[IP, IP6] } else { &[IP] };
    let spec = with_families(&setup, spec);
    crash::from(
        waited_for(&setup),
        |world| drop(world.create(service("web", json!({ CLAIM: "web-ip" }), spec.clone()))),
        |world| {
            world.assert_associated("web", ips);
            assert_no_key_written(world);
            for ip in ips {
                assert_by_gap(world, ip);
            }
        },
    );
}

fn annotation_off(world: &mut World) {
    world.annotate("web", json!({ CLAIM: null }));
}

fn service_off(world: &mut World) {
    world.delete(&service_ref("web"));
}

fn foreign_finalizer(world: &mut World) {
    let body = json!({ "metadata": { "finalizers": [driver::HANDOFF, "x.example/y"] } });
    world.patch(&service_ref("web"), body);
    world.delete(&service_ref("web"));
}

#[rstest]
#[case::c11_104_annotation_off(Setup::default(), annotation_off)]
#[case::c11_105_deleted(Setup::default(), service_off)]
#[case::c11_106_terminating(Setup::default(), foreign_finalizer)]
#[case::c11_107_missing_claim(Setup::default(), |world: &mut World| world.annotate("web", json!({ CLAIM: "typo" })))]
#[case::c11_108_claim_deleted(Setup::default(), |world: &mut World| world.delete(&claim_ref("web-ip")))]
#[case::c11_109_dual_annotation_off(Setup::dual(), annotation_off)]
#[case::c11_110_dual_deleted(Setup::dual(), service_off)]
fn c11_104_reverse_by_gap(#[case] setup: Setup, #[case] act: fn(&mut World)) {
    let setup = gap(setup);
    for policy in ["Cluster", "Local"] {
        let spec = with_families(&setup, json!({ "externalTrafficPolicy": policy }));
        crash::from(associated(&setup, spec), act, |world| {
            world.assert_held(IP);
            assert_by_gap(world, IP);
            if setup.family == "Dual" {
                world.assert_held(IP6);
                assert_by_gap(world, IP6);
            }
            assert_no_key_written(world);
            if world.service_at(&key("web")).is_some() {
                world.assert_bare("web");
                assert_eq!(world.shows("web"), Vec::<String>::new());
            }
        });
    }
}

#[test]
fn c11_111_without_hold_on_delete() {
    let mut setup = gap(Setup::default());
    setup.config.hold_on_delete = false;
    for act in [annotation_off, service_off] {
        crash::from(associated(&setup, json!({})), act, |world| world.assert_held(IP));
    }
}

#[test]
fn c11_112_the_successor_is_pinned_and_refused_before_the_holder_lets_go() {
    let setup = gap(Setup::default());
    let mut world = waited_for(&setup)(Pace::Lazy);
    world.create(web("web-ip"));
    world.settle();
    let at = |world: &World, words: &[&str]| {
        let found = world.story.iter().position(|line| words.iter().all(|word| line.contains(word)));
        found.unwrap_or_else(|| panic!("{words:?} is not in\n{}", world.last_words(60)))
    };
    let recorded = at(&world, &["patch IPAddress", "associatedTo"]);
    let pinned = at(&world, &["patch Service tenant-a/web", names::PIN]);
    let refused = pinned
        + 1
        + world.story[pinned + 1..].iter().position(|line| line.contains("tenant-a/web has []")).unwrap();
    let deleted = at(&world, &["delete Service"]);
    let served = at(&world, &["tenant-a/web has [192.0.2.0]"]);
    assert!(
        recorded < pinned && pinned < refused && refused < deleted && deleted < served,
        "{}",
        world.last_words(60)
    );
    world.mark();
    world.annotate("web", json!({ CLAIM: null }));
    world.settle();
    let waits = at(&world, &["create Service metallb-iad-system/"]);
    let banished = at(&world, &["patch Service tenant-a/web", "0.0.0.0"]);
    let stripped = at(&world, &["patch Service tenant-a/web", "loadBalancerIPs\":null"]);
    assert!(waits < banished && banished < stripped, "{}", world.last_words(60));
}

#[test]
fn c11_113_a_cycle_takes_at_most_twelve_writes() {
    let setup = gap(Setup::default());
    let mut world = setup.world(Pace::Eager);
    world.law.unheld = true;
    world.create(web("web-ip"));
    world.settle();
    world.annotate("web", json!({ CLAIM: null }));
    world.settle();
    world.assert_held(IP);
    assert!(world.writes + world.emitted <= 12, "{}\n{}", world.writes + world.emitted, world.last_words(60));
}

/// The flag changes in the middle of a handoff.
#[rstest]
#[case::to_gap(true)]
#[case::to_auto(false)]
fn c11_115_the_flag_changes_in_the_middle(#[case] to_gap: bool) {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(2)] {
        for spec in [json!({}), json!({ "externalTrafficPolicy": "Local" })] {
            for turns in 0..14 {
                let mut setup = gap(Setup::default());
                setup.config.gap = !to_gap;
                let mut world = waited_for(&setup)(pace);
                let flag = |world: &mut World, gap: bool| {
                    world.config.gap = gap;
                    world.restart();
                };
                world.create(service("web", json!({ CLAIM: "web-ip" }), spec.clone()));
                world.turns(turns);
                flag(&mut world, to_gap);
                world.settle();
                world.assert_associated("web", &[IP]);
                flag(&mut world, !to_gap);
                world.annotate("web", json!({ CLAIM: null }));
                world.turns(turns);
                flag(&mut world, to_gap);
                world.settle();
                world.assert_held(IP);
                world.assert_bare("web");
            }
        }
    }
}

#[test]
fn c11_116_turned_round_whenever() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(3)] {
        let origin = waited_for(&gap(Setup::default()))(pace);
        for turns in 0..16 {
            let mut world = origin.fork();
            world.settle();
            world.create(web("web-ip"));
            world.turns(turns);
            world.annotate("web", json!({ CLAIM: null }));
            world.settle();
            world.assert_held(IP);
            world.assert_bare("web");
            world.annotate("web", json!({ CLAIM: "web-ip" }));
            world.settle();
            world.assert_associated("web", &[IP]);
            world.annotate("web", json!({ CLAIM: null }));
            world.turns(turns);
            world.annotate("web", json!({ CLAIM: "web-ip" }));
            world.settle();
            world.assert_associated("web", &[IP]);
        }
    }
}

/// No gap is opened while a placeholder of ours waits for any address of the pool.
#[test]
fn c11_117_no_gap_while_one_of_ours_waits_in_metallb() {
    for reverse in [false, true] {
        let mut setup = gap(Setup::roomy());
        setup.config.gap = true;
        let mut world = setup.world(Pace::Eager);
        world.law.unheld = true;
        if reverse {
            world.create(web("web-ip"));
            world.settle();
        }
        world.metallb.down = true;
        world.create(claim("tenant-b", "late", json!({})));
        world.settle();
        assert!(world.placeholders().iter().any(|one| !one.annotations().contains_key(names::PIN)));
        if reverse {
            world.annotate("web", json!({ CLAIM: null }));
        } else {
            world.create(web("web-ip"));
        }
        world.settle();
        // MetalLB says nothing: that it has seen the pin is taken for granted after a while.
        world.pass(10);
        let told_to_go =
            world.service("web").annotations().get(names::PIN).is_some_and(|pin| pin == "0.0.0.0");
        assert!(
            !told_to_go && (reverse || world.hold(IP).annotations()[names::PIN] == IP),
            "{}",
            world.last_words(60)
        );
        world.metallb.restart(&mut world.server);
        world.settle();
        world.pass(10);
        if reverse {
            world.assert_held(IP);
        } else {
            world.assert_associated("web", &[IP]);
        }
        let late =
            world.addresses().into_iter().filter(|one| one.spec.claim_ref.as_ref().unwrap().name == "late");
        assert_eq!(late.map(|one| one.spec.address.clone()).collect::<Vec<_>>(), ["192.0.2.1"]);
    }
}

#[test]
fn c11_118_a_waiting_service_follows() {
    let setup = gap(Setup::default());
    crash::from(
        |pace| {
            let mut world = associated(&setup, json!({}))(pace);
            world.create(service("web-v2", json!({ CLAIM: "web-ip" }), json!({})));
            world.settle();
            world
        },
        |world| world.delete(&service_ref("web")),
        |world| world.assert_associated("web-v2", &[IP]),
    );
}

#[test]
fn c11_119_widened_to_dual_keeps_the_first() {
    let setup = gap(Setup { family: "IPv4", ..Setup::dual() });
    crash::from(
        |pace| {
            let mut world = setup.world(pace);
            world.law.unheld = true;
            world.create(web("web-ip"));
            world.settle();
            world.patch(&claim_ref("web-ip"), json!({ "spec": { "family": "Dual" } }));
            let mut second = static_address("second", IP6);
            let namespace = "tenant-a".to_owned();
            second.spec.claim_ref =
                Some(api::address::ClaimRef { namespace, name: "web-ip".into(), uid: None });
            world.create(second);
            world.settle();
            world.assert_associated("web", &[IP]);
            world.assert_held(IP6);
            world
        },
        |world| {
            // MetalLB takes the IP off a Service whose families its pin does not fit.
            world.law.gap = true;
            let spec = json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" });
            world.patch(&service_ref("web"), json!({ "spec": spec }));
        },
        |world| world.assert_associated("web", &[IP, IP6]),
    );
}

/// A pool that admits no placeholder: the Service keeps the address until one is admitted.
#[test]
fn c11_150_no_gap_that_no_placeholder_could_close() {
    let setup = gap(Setup::default());
    crash::from(
        associated(&setup, json!({})),
        |world| {
            let allocation = json!({ "namespaces": ["tenant-a"] });
            world.patch(&pool_ref("reserved"), json!({ "spec": { "serviceAllocation": allocation } }));
            world.settle();
            world.delete(&service_ref("web"));
            world.settle();
            world.pass(20);
            assert_eq!(world.holders(IP), ["tenant-a/web"], "{}", world.last_words(60));
            world.patch(&pool_ref("reserved"), json!({ "spec": { "serviceAllocation": null } }));
        },
        |world| world.assert_held(IP),
    );
}
