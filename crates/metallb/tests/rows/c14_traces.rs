//! Contract §14: what the driver says of its handoffs and reservations to whoever collects traces.

use api::address::Handoff;
use api::wellknown::{CLAIM, TRACEPARENT, TRACEPARENT_KUBERNETES, metallb};
use api::{IPAddress, ServiceKey};
use kube::ResourceExt;
use plan::Ref;
use plan::trace::{Attribute, Context, Sampler, Span, Timing, of_claim};
use rstest::rstest;
use serde_json::json;

use crate::world::build::{IP, IP6, Setup, claim, home_ref, service, service_in, service_ref, web};
use crate::world::{Pace, World, crash};

const USER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const FORWARD: [&str; 6] = [
    "serviceability.check",
    "ledger.associate",
    "service.pin",
    "metallb.assign",
    "hold.release",
    "handoff.associate",
];
const REVERSE: [&str; 5] =
    ["hold.arm", "metallb.assign", "service.unpin", "ledger.disassociate", "handoff.disassociate"];
/// Nobody has the address before MetalLB gives it to the hold.
const LOST_HOLD_OF: [&str; 4] = ["hold.arm", "ledger.disassociate", "metallb.assign", "handoff.disassociate"];

fn traced(mut world: World) -> World {
    world.sampler = Some(Sampler::ParentBased(1.0));
    world.restart();
    world.settle();
    world.mark();
    world
}

fn trace_id(address: &IPAddress) -> String {
    let handoff = address.status.as_ref().and_then(|status| status.last_handoff.clone());
    handoff.and_then(|handoff| handoff.trace_id).unwrap_or_default()
}

fn handoffs(world: &World) -> Vec<Handoff> {
    let addresses = world.addresses();
    addresses.iter().filter_map(|address| address.status.as_ref()?.last_handoff.clone()).collect()
}

/// Every span belongs to the trace that the ledger names, below its one root; all of `names` are there unless the
/// driver died, and then what it did not come to say is missing.
fn assert_one_trace(world: &World, names: &[&str]) {
    let id = trace_id(&world.address_of(IP));
    let said: Vec<_> = world.spans.iter().map(|span| span.name).collect();
    let words = || format!("{said:?}\n{}", world.last_words(60));
    assert!(world.spans.iter().all(|span| span.context.trace.to_string() == id), "{id}: {}", words());
    let died = world.story.iter().any(|line| line == "driver starts");
    let roots: Vec<_> = world.spans.iter().filter(|span| span.name == *names.last().unwrap()).collect();
    assert!(roots.len() <= 1 && (died || roots.len() == 1), "{}", words());
    if let Some(root) = roots.first() {
        let below = |span: &&Span| span.name != root.name;
        assert!(world.spans.iter().filter(below).all(|span| span.parent == Some(root.context.span)));
        let unheld = root.attributes.iter().find(|(name, _)| *name == "handoff.unheld_ms");
        // Of two addresses the one that was with nobody for longer.
        let expected = handoffs(world).iter().filter_map(|handoff| handoff.unheld_milliseconds).max();
        assert_eq!(unheld.map(|(_, value)| value), expected.map(Attribute::Number).as_ref());
        for (name, text) in
            [("k8s.namespace.name", "tenant-a"), ("ipam.claim", "web-ip"), ("ipam.class", "pub")]
        {
            let value = Attribute::from(text);
            assert!(
                world.spans.iter().all(|span| span.attributes.contains(&(name, value.clone()))),
                "{}",
                words()
            );
        }
        let service = ("k8s.service.name", Attribute::from("web"));
        assert!(world.spans.iter().all(|span| span.attributes.contains(&service)), "{}", words());
    }
    if !died {
        let mut distinct = said.clone();
        distinct.dedup();
        assert_eq!(distinct, names, "{}", words());
    }
}

#[rstest]
#[case::one(Setup::default(), json!({}))]
#[case::dual(
    Setup::dual(), json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" })
)]
fn c14_a_handoff_is_one_trace_whenever_the_driver_dies(
    #[case] setup: Setup,
    #[case] spec: serde_json::Value,
) {
    crash::from(
        |pace| traced(setup.world(pace)),
        |world| {
            let web = service("web", json!({ CLAIM: "web-ip" }), spec.clone());
            world.create(web);
        },
        |world| assert_one_trace(world, &FORWARD),
    );
}

#[rstest]
#[case::deleted(|world: &mut World| world.delete(&service_ref("web")))]
#[case::without_its_annotation(|world: &mut World| world.annotate("web", json!({ CLAIM: null })))]
fn c14_the_way_back_is_one_trace_whenever_the_driver_dies(#[case] act: fn(&mut World)) {
    crash::from(
        |pace| associated(traced(Setup::default().world(pace)), json!({})),
        act,
        |world| assert_one_trace(world, &REVERSE),
    );
}

fn associated(mut world: World, spec: serde_json::Value) -> World {
    world.create(service("web", json!({ CLAIM: "web-ip" }), spec));
    world.settle();
    world.mark();
    world
}

/// The Service loses the address before the driver hears of it: the API server takes it off what is no load balancer, or
/// it is gone without the driver's finalizer. The wait of the hold is shown, and it is as long as the ledger says.
#[rstest]
#[case::a_cluster_ip(Setup::default(), json!({}), true)]
#[case::both_families(
    Setup::dual(), json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" }), true
)]
#[case::gone(Setup::default(), json!({}), false)]
fn c14_a_service_that_loses_the_address_is_one_trace_whenever_the_driver_dies(
    #[case] setup: Setup,
    #[case] spec: serde_json::Value,
    #[case] is_still_there: bool,
) {
    let mut setup = Setup { contended: false, ..setup };
    setup.config.hold_on_delete = is_still_there;
    crash::from(
        |pace| {
            let mut world = associated(traced(setup.world(pace)), spec.clone());
            world.law.gap = true;
            world
        },
        |world| {
            if is_still_there {
                world.patch(&service_ref("web"), json!({ "spec": { "type": "ClusterIP" } }));
            } else {
                world.delete(&service_ref("web"));
            }
        },
        |world| {
            world.assert_held(IP);
            assert_one_trace(world, &LOST_HOLD_OF);
            let unheld = handoffs(world).iter().all(|handoff| handoff.unheld_milliseconds > Some(0));
            assert!(unheld, "{}", world.last_words(60));
        },
    );
}

/// Told to let go in a gap; whether MetalLB or the ledger is the first to have the hold is chance.
#[test]
fn c14_a_way_back_by_a_gap_is_one_trace() {
    let mut setup = Setup { contended: false, ..Setup::default() };
    setup.config.gap = true;
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale] {
        let mut world = traced(setup.world(pace));
        world.law.gap = true;
        world.create(web("web-ip"));
        world.settle();
        world.pass(10);
        world.mark();
        world.annotate("web", json!({ CLAIM: null }));
        world.settle();
        world.pass(10);
        world.assert_held(IP);
        let said: Vec<_> = world.spans.iter().map(|span| span.name).collect();
        let rest = said.strip_prefix(&["hold.arm", "service.unpin"]).unwrap_or_else(|| panic!("{said:?}"));
        let known = [
            ["metallb.assign", "ledger.disassociate", "handoff.disassociate"],
            ["ledger.disassociate", "metallb.assign", "handoff.disassociate"],
        ];
        assert!(known.iter().any(|known| rest == known), "{pace:?}: {said:?}");
        assert_one_trace(&world, &said);
        assert!(handoffs(&world).iter().all(|handoff| handoff.unheld_milliseconds > Some(0)));
    }
}

#[test]
fn c14_a_gap_is_one_trace() {
    let mut setup = Setup { contended: false, ..Setup::default() };
    setup.config.gap = true;
    let mut world = traced(setup.world(Pace::Eager));
    world.law.gap = true;
    world.create(web("web-ip"));
    world.settle();
    world.pass(10);
    world.assert_associated("web", &[IP]);
    let names = ["serviceability.check", "ledger.associate", "service.pin", "hold.release", "metallb.assign"];
    assert_one_trace(&world, &[&names[..], &["handoff.associate"]].concat());
}

/// A parent that is sampled has the handoff in its own trace; one that is not is linked; what is none is nothing.
#[rstest]
#[case::ours(TRACEPARENT, USER, true, false)]
#[case::of_kubernetes(TRACEPARENT_KUBERNETES, USER, true, false)]
#[case::not_sampled(TRACEPARENT, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", false, true)]
#[case::garbage(TRACEPARENT, "00-zz\u{0}-\u{1F41F}", false, false)]
#[case::long(TRACEPARENT, &"0".repeat(5000), false, false)]
fn c14_the_users_context(
    #[case] annotation: &str,
    #[case] text: &str,
    #[case] parent: bool,
    #[case] link: bool,
) {
    let mut world = traced(Setup::default().world(Pace::Eager));
    let annotations = json!({ CLAIM: "web-ip", annotation: text });
    world.create(service("web", annotations, json!({})));
    world.settle();
    world.assert_associated("web", &[IP]);
    let user = Context::parse(text);
    let root = world.spans.last().unwrap();
    assert_eq!(root.parent.is_some(), parent);
    assert_eq!(root.parent, user.filter(|_| parent).map(|user| user.span));
    assert_eq!(root.link, user.filter(|_| link));
    assert_eq!(user.map(|user| user.trace) == Some(root.context.trace), parent);
    assert_one_trace(&world, &FORWARD);
}

/// The driver's spans hang below the root that the core will say, and both find it by the claim alone.
#[test]
fn c14_a_reservation_hangs_below_the_cores_root() {
    let setup = Setup { contended: false, ..Setup::dual() };
    crash::from(
        |pace| traced(setup.empty(pace)),
        |world| {
            world.create(claim("tenant-a", "web-ip", json!({ "family": "Dual" })));
        },
        |world| {
            world.assert_held(IP);
            world.assert_held(IP6);
            let root = of_claim(world.sampler, &world.claim("web-ip").unwrap()).unwrap();
            assert!(world.spans.iter().all(|span| span.parent == Some(root.context.span)));
            assert!(world.spans.iter().all(|span| span.context.trace == root.context.trace));
            let address = world.address("ip-192-0-2-0");
            let written = address.metadata.annotations.as_ref().and_then(|all| all.get(TRACEPARENT));
            assert_eq!(written, Some(&root.context.to_string()));
            let count = |name: &str| world.spans.iter().filter(|span| span.name == name).count();
            if !world.story.iter().any(|line| line == "driver starts") {
                let counts = ["placeholder.create", "metallb.assign", "ledger.record"].map(count);
                assert_eq!(counts, [2, 2, 2]);
            }
        },
    );
}

/// Nothing is said, and nothing is written, by who does not trace, or not this one.
#[rstest]
#[case::off(None)]
#[case::never(Some(Sampler::Never))]
#[case::by_a_share(Some(Sampler::ParentBased(0.0)))]
fn c14_off_leaves_no_mark(#[case] sampler: Option<Sampler>) {
    let setup = Setup { contended: false, ..Setup::default() };
    let mut world = setup.empty(Pace::Eager);
    world.sampler = sampler;
    world.restart();
    world.create(claim("tenant-a", "web-ip", json!({})));
    world.settle();
    world.create(web("web-ip"));
    world.settle();
    world.assert_associated("web", &[IP]);
    assert!(world.spans.is_empty());
    assert_eq!(trace_id(&world.address_of(IP)), "");
    assert!(world.address("ip-192-0-2-0").metadata.annotations.is_none());
}

/// From the moment the address went into `Conflict` to the moment it came out of it.
#[test]
fn c14_a_conflict_is_one_trace() {
    let mut world = traced(Setup { contended: false, ..Setup::default() }.world(Pace::Eager));
    world.law.gap = true;
    let hold = world.hold(IP).name_any();
    let thief = json!({ metallb::PIN: IP });
    world.create(service_in("tenant-b", "thief", thief, json!({})));
    world.settle();
    world.delete(&home_ref(&hold));
    world.settle();
    assert!(world.spans.is_empty());
    world.pass(60);
    world.delete(&Ref::service(&ServiceKey::new("tenant-b", "thief")));
    world.settle();
    world.assert_held(IP);
    let [span] = &world.spans[..] else { panic!("{:?}", world.spans) };
    assert_eq!((span.name, span.parent), ("address.conflict", None));
    let Timing::Whole { since, until: None } = span.timing else { panic!("{span:?}") };
    assert!(world.server.now().duration_since(since).as_secs() >= 60);
    let trace = Some(span.context.trace);
    let told = world.told.iter().find(|event| event.reason == "ConflictResolved").unwrap();
    assert_eq!(told.trace, trace);
    // Those about the address and about the thief, whenever they were told.
    let accusations: Vec<_> = world.told.iter().filter(|event| event.reason == "AddressConflict").collect();
    assert_eq!(accusations.len(), 2, "{accusations:#?}");
    assert!(accusations.iter().all(|event| event.trace == trace), "{accusations:#?}");
}
