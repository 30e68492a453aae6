//! Contract §9: claims that wait for room.

use api::claim::ClaimPhase;
use kube::ResourceExt;
use metallb::Key;
use plan::{Brain as _, Change, Kind, Object};
use serde_json::json;

use crate::world::build::{Setup, claim, claim_ref, pool_ref};
use crate::world::{Pace, World, crash};

const MANY: usize = 10;

fn name(number: usize) -> String {
    format!("late-{number}")
}

fn bound(world: &World) -> Vec<String> {
    let claims = world.server.all(Kind::Claim).filter_map(|object| match object {
        Object::Claim(claim) if claim.phase() == ClaimPhase::Bound => Some(claim.name_any()),
        _ => None,
    });
    claims.collect()
}

fn widen(world: &mut World, range: &str) {
    world.patch(&pool_ref("reserved"), json!({ "spec": { "addresses": [range] } }));
    world.settle();
}

/// Room comes in every way there is: the pool grows, a claim that has an address goes, one that waits goes.
#[test]
fn c9_22_of_many_that_wait_nobody_is_forgotten() {
    let setup = Setup { contended: false, ..Setup::delete() };
    crash::freely(
        |pace| {
            let mut world = setup.world(pace);
            for number in 0..MANY {
                world.pass(5);
                world.create(claim("tenant-a", &name(number), json!({})));
            }
            world.settle();
            world
        },
        |world| {
            widen(world, "192.0.2.0/31");
            widen(world, "192.0.2.0/30");
            assert_eq!(bound(world).len(), 4, "{}", world.last_words(60));
            world.delete(&claim_ref("web-ip"));
            world.delete(&claim_ref(&name(5)));
            world.settle();
            assert_eq!(bound(world).len(), 4, "{}", world.last_words(60));
            // Two at once, while nobody has heard of either.
            world.delete(&claim_ref(&name(0)));
            world.delete(&claim_ref(&name(1)));
        },
        |world| {
            // Who waited longest has one, and nobody else.
            let expected = [2, 3, 4, 6].map(name);
            assert_eq!(bound(world), expected, "{}", world.last_words(60));
        },
    );
}

/// The counters of a pool change with each address that MetalLB gives out: whoever has a placeholder waits for MetalLB, and
/// is not looked at again for that.
#[test]
fn c9_23_of_claims_that_come_at_once_none_is_looked_at_for_anothers_sake() {
    let mut world = Setup::roomy().empty(Pace::Eager);
    world.metallb.down = true;
    for number in 0..8 {
        world.create(claim("tenant-a", &name(number), json!({})));
    }
    world.settle();
    assert_eq!(world.placeholders().len(), 8);
    let Some(Object::Pool(pool)) = world.server.get(&pool_ref("reserved")) else { panic!("no pool") };
    let mut pool = (**pool).clone();
    pool.metadata.resource_version = Some("1000000".to_owned());
    pool.data["status"] = json!({ "availableIPv4": 7, "availableIPv6": 0 });
    assert_eq!(world.driver.apply(Change::Applied(pool.into())), []);
    // One that goes makes room for nobody who has a placeholder.
    let gone = world.server.get(&claim_ref(&name(3))).unwrap().clone();
    let dirty = world.driver.apply(Change::Deleted(gone));
    let others = dirty.iter().filter(|key| matches!(key, Key::Claim(key) if key.name != name(3)));
    assert_eq!(others.count(), 0, "{dirty:?}");
}
