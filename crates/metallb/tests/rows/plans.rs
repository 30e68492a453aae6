//! What a whole cycle writes, for people to read, and how much.

use api::wellknown::{CLAIM, metallb};
use k8s_openapi::api::core::v1::Service;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::build::{Setup, service, service_ref, web};
use crate::world::{Pace, World};

fn cycle(back: impl Fn(&mut World)) -> (String, String, usize) {
    cycle_of(Setup::default(), web("web-ip"), back)
}

fn cycle_of(setup: Setup, web: Service, back: impl Fn(&mut World)) -> (String, String, usize) {
    let mut world = Setup { contended: false, ..setup }.world(Pace::Eager);
    world.create(web);
    world.settle();
    let forward = world.last_words(usize::MAX);
    let first = world.writes + world.emitted;
    world.mark();
    back(&mut world);
    world.settle();
    (forward, world.last_words(usize::MAX), first + world.writes + world.emitted)
}

fn unannotated(world: &mut World) {
    world.annotate("web", json!({ CLAIM: null }));
}

#[test]
fn c11_90_forward() {
    insta::assert_snapshot!(cycle(unannotated).0);
}

#[test]
fn c11_91_reverse() {
    insta::assert_snapshot!(cycle(unannotated).1);
}

/// MetalLB has the placeholder's change before it begins to look at every Service.
#[test]
fn c11_94_reverse_among_many_services() {
    insta::assert_snapshot!(cycle_of(Setup::default().among(true), web("web-ip"), unannotated).1);
}

#[rstest]
#[case::unannotated(unannotated)]
#[case::deleted(|world: &mut World| world.delete(&service_ref("web")))]
fn c11_92_a_full_cycle_takes_at_most_twelve_writes_events_included(#[case] back: fn(&mut World)) {
    let writes = cycle(back).2;
    assert!(writes <= 12, "{writes}");
    // Where MetalLB's walk takes longer than a write, one more.
    let writes = cycle_of(Setup::default().among(true), web("web-ip"), back).2;
    assert!(writes <= 13, "{writes}");
}

/// Those that take another path cost what that path takes: the placeholder is changed before it may share, and back; two
/// addresses are not twice one.
#[rstest]
#[case::local(Setup::default(), json!({}), json!({ "externalTrafficPolicy": "Local" }), 14)]
#[case::port_of_the_placeholder(Setup::default(), json!({}), json!({ "ports": [{ "port": 65535 }] }), 13)]
#[case::a_tenants_own_key(Setup::default(), json!({ metallb::SHARE: "mine" }), json!({}), 13)]
#[case::dual(
    Setup::dual(), json!({}), json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" }), 18
)]
fn c11_93_other_shapes_have_a_budget_too(
    #[case] setup: Setup,
    #[case] annotations: Value,
    #[case] spec: Value,
    #[case] budget: usize,
) {
    let mut annotations = annotations;
    annotations[CLAIM] = json!("web-ip");
    for back in [unannotated, |world: &mut World| world.delete(&service_ref("web"))] {
        let writes = cycle_of(setup.clone(), service("web", annotations.clone(), spec.clone()), back).2;
        assert!(writes <= budget, "{writes}");
    }
}
