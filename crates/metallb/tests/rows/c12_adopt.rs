//! Contract §12, adoption: a Service goes on having what it has, after each write of the command and of the driver.

use ::metallb::Config;
use ::metallb::errand::adopt::{self, Scene, Wish};
use ::metallb::errand::{Errand, Write};
use api::wellknown::{driver, metallb as names};
use api::{ClaimKey, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Action, Kind, Object, Ref};
use rstest::rstest;
use serde_json::json;

use crate::world::build::{IP, IP6, Setup, service};
use crate::world::{Pace, World, crash};
use sim::metallb::NAMESPACE;

macro_rules! all {
    ($world:ident, $kind:ident) => {
        $world
            .server
            .all(Kind::$kind)
            .filter_map(|object| match object {
                Object::$kind(object) => Some(object.clone()),
                _ => None,
            })
            .collect()
    };
}

fn plan(world: &World) -> Errand {
    let claim = match world.server.get(&Ref::claim(&ClaimKey::new("tenant-a", "mine"))) {
        Some(Object::Claim(claim)) => Some(claim.clone()),
        _ => None,
    };
    let scene = Scene {
        services: all!(world, Service),
        addresses: all!(world, Address),
        claim,
        classes: all!(world, Class),
        pools: all!(world, Pool),
        namespaces: all!(world, Namespace),
        metallb_namespace: NAMESPACE.to_owned(),
    };
    let wish = Wish { service: ServiceKey::new("tenant-a", "plain"), claim: "mine".to_owned(), class: None };
    adopt::plan(&scene, &wish)
}

/// Does the next step; says whether there was one. What became stale is planned anew, as the command does.
fn step(world: &mut World) -> bool {
    let errand = plan(world);
    assert!(errand.refused.is_empty(), "{errand:?}\n{}", world.last_words(60));
    let Some(step) = errand.steps.into_iter().next() else { return false };
    let Write::Known(action) = step.write else { panic!("{}", step.line) };
    match *action {
        Action::Create { object, .. } => drop(world.create(object)),
        Action::Patch { target, body, .. } => world.patch(&target.reference, body),
        other => panic!("{other:?}"),
    }
    true
}

fn adopted(world: &World, ips: &[&str]) {
    for ip in ips {
        assert_eq!(world.holders(ip), ["tenant-a/plain"], "{}", world.last_words(60));
        let address = world.address_of(ip);
        assert!(!address.metadata.labels.iter().flatten().any(|(name, _)| name == driver::OBSERVED));
        assert!(address.metadata.finalizers.iter().flatten().any(|name| name == driver::TEARDOWN));
    }
    let service = world.service("plain");
    assert!(service.finalizers().iter().any(|name| name == driver::HANDOFF), "{}", world.last_words(60));
    assert!(!service.annotations().contains_key(names::SHARE));
    for ip in ips {
        let address = world.address_of(ip);
        assert_eq!(address.associated_to().and_then(|to| to.uid.clone()), service.uid());
        let history = address.status.as_ref().map(|status| status.association_history.clone());
        let open: Vec<_> = history.into_iter().flatten().filter(|line| line.until.is_none()).collect();
        assert_eq!((open.len(), Some(open[0].uid.clone())), (1, service.uid()));
    }
    assert_eq!(world.claim_phase("mine"), "Bound");
    assert!(world.placeholders().is_empty(), "{}", world.last_words(60));
    assert_eq!(world.addresses().len(), ips.len(), "{}", world.last_words(60));
    assert!(plan(world).steps.is_empty());
}

/// The Services that can be adopted: by pool, pinned by hand, by `loadBalancerIP`, with both families.
fn shapes() -> Vec<(Service, Vec<&'static str>)> {
    let pool = json!({ names::POOL: "reserved" });
    let v4 = json!({ "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack" });
    let dual = json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" });
    vec![
        (service("plain", pool.clone(), v4.clone()), vec![IP]),
        (service("plain", json!({ names::PIN: IP }), v4.clone()), vec![IP]),
        (service("plain", json!({ names::PIN_OLD: IP }), v4), vec![IP]),
        (service("plain", pool, dual), vec![IP, IP6]),
    ]
}

/// With room for more than the Service has: what is reserved besides is seen.
fn roomy(config: Config) -> Setup {
    let addresses = vec!["192.0.2.0/30", "2001:db8::7-2001:db8::a"];
    Setup { contended: false, config, addresses, ..Setup::default() }
}

#[rstest]
#[case::observed(true)]
#[case::no_inventory(false)]
fn c12_80_adopted_with_the_traffic_untouched(#[case] inventory: bool, #[values(0, 1, 2, 3)] shape: usize) {
    let config = Config { inventory, ..Config::default() };
    let setup = roomy(config);
    let (service, ips) = shapes().swap_remove(shape);
    for at_once in [false, true] {
        crash::from(
            |pace| {
                let mut world = setup.empty(pace);
                world.create(service.clone());
                world.settle();
                world.keep_still("plain");
                world
            },
            |world| {
                while step(world) {
                    if !at_once {
                        world.settle();
                    }
                }
            },
            |world| adopted(world, &ips),
        );
    }
}

/// Cut off after any step and left alone for a long time, nothing moves; run again, it is done.
#[rstest]
#[case::observed(true)]
#[case::no_inventory(false)]
fn c12_81_an_adoption_that_was_cut_off(
    #[case] inventory: bool,
    #[values(1, 2, 3)] done: usize,
    #[values(0, 3)] shape: usize,
) {
    let config = Config { inventory, ..Config::default() };
    let setup = roomy(config);
    let (service, ips) = shapes().swap_remove(shape);
    for pace in crash::paces() {
        let mut world = setup.empty(pace);
        world.create(service.clone());
        world.settle();
        world.keep_still("plain");
        for _ in 0..done {
            step(&mut world);
            world.settle();
            world.pass(600);
            for ip in &ips {
                assert_eq!(world.holders(ip), ["tenant-a/plain"], "{}", world.last_words(60));
            }
        }
        while step(&mut world) {}
        world.settle();
        adopted(&world, &ips);
    }
}

/// A pool that gives its addresses to anybody makes no reservations, and nothing of it is adopted.
#[test]
fn c12_82_a_class_that_is_refused_adopts_nothing() {
    let mut world = Setup { contended: false, ..Setup::default() }.empty(Pace::Eager);
    world.create(service("plain", json!({}), json!({ "ipFamilies": ["IPv4"] })));
    let auto = json!({ "spec": { "autoAssign": true } });
    world.patch(&crate::world::build::pool_ref("reserved"), auto);
    world.settle();
    assert_eq!(world.holders(IP), ["tenant-a/plain"]);
    let errand = plan(&world);
    assert!(errand.steps.is_empty());
    assert!(errand.refused[0].contains("autoAssign"), "{:?}", errand.refused);
}

/// A driver that has heard of the address and its Service, and not yet of the claim, looks for that claim before it gives anything
/// back.
#[test]
fn c12_83_a_claim_that_was_not_heard_of_is_looked_for() {
    let (service, _) = shapes().swap_remove(0);
    let mut world = roomy(Config { inventory: true, ..Config::default() }).empty(Pace::Eager);
    world.create(service);
    world.settle();
    assert!(world.address_of(IP).associated_to().is_some(), "{}", world.last_words(40));
    while step(&mut world) {}
    let mut driver = ::metallb::Driver::new(world.config.clone());
    for kind in [Kind::Class, Kind::Address, Kind::Service, Kind::Namespace, Kind::Pool, Kind::Event] {
        for change in plan::Change::list(kind, world.server.all(kind).cloned()) {
            drop(plan::Brain::apply(&mut driver, change));
        }
    }
    for change in plan::Change::list(Kind::Claim, std::iter::empty()) {
        drop(plan::Brain::apply(&mut driver, change));
    }
    let key = ::metallb::Key::Claim(ClaimKey::new("tenant-a", "mine"));
    let moment = plan::Moment { now: world.server.now(), entropy: 1 };
    let plan = plan::Brain::decide(&mut driver, &key, &moment);
    let writes =
        plan.actions.iter().position(|action| matches!(action, Action::Patch { .. } | Action::Create { .. }));
    let looks = plan.actions.iter().position(|action| matches!(action, Action::ConfirmAbsent { .. }));
    assert!(looks.is_some() && looks < writes, "{:?}", plan.actions);
}
