//! Contract §11, cases C4 and E5: somebody takes our marks off again and again. One write of ours for one of theirs at
//! most, later each time, and no moment without the address.

use api::wellknown::{driver, metallb as names};
use kube::ResourceExt;
use plan::Brain;
use serde_json::{Value, json};

use super::c11_reverse::associated;
use crate::world::build::{IP, Setup, service_ref};
use crate::world::{Pace, World};

/// Everything that is ours goes, as when a tool puts its own version of the whole object.
fn replaced_by(manager: &str) -> Value {
    json!({ "metadata": {
        "annotations": { names::PIN: null, driver::PINNED: null },
        "labels": null,
        "finalizers": null,
        "managedFields": [{ "manager": manager, "operation": "Update", "time": "2026-11-30T12:00:00Z" }],
    } })
}

fn pin_writes(world: &World) -> usize {
    world.story.iter().filter(|line| line.contains("  patch Service tenant-a/web")).count()
}

#[test]
fn c4_e5_no_fight_faster_than_the_backoff() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(1)] {
        let mut world = associated(&Setup::default(), json!({}))(pace);
        let (mut theirs, mut at) = (0, Vec::new());
        for second in 0..20 {
            world.patch(&service_ref("web"), replaced_by("gitops"));
            theirs += 1;
            let before = pin_writes(&world);
            world.pass(1);
            assert_eq!(world.shows("web"), [IP], "{}", world.last_words(40));
            let ours = pin_writes(&world) - before;
            assert!(ours <= 1, "{}", world.last_words(40));
            if ours > 0 {
                at.push(second);
            }
        }
        assert!(pin_writes(&world) <= theirs && at.len() <= 6, "{at:?}");
        // It is told once, and who it is.
        let note = world.told_once(&service_ref("web"), "PinOverwritten");
        assert!(note.contains("field manager \"gitops\""), "{note}");
        world.pass(40);
        world.assert_associated("web", &[IP]);
    }
}

#[test]
fn c4_the_first_answer_comes_at_once_and_again_after_a_quiet_time() {
    let mut world = associated(&Setup::default(), json!({}))(Pace::Eager);
    for round in 1..=3 {
        world.patch(&service_ref("web"), replaced_by("kubectl-edit"));
        world.settle();
        world.assert_associated("web", &[IP]);
        assert_eq!(pin_writes(&world), round);
        world.pass(3);
    }
    // At once again is too soon.
    world.patch(&service_ref("web"), replaced_by("kubectl-edit"));
    world.settle();
    world.patch(&service_ref("web"), replaced_by("helm"));
    world.settle();
    assert_eq!(pin_writes(&world), 4);
    assert_eq!(world.service("web").annotations().get(names::PIN), None);
    assert_eq!(world.told(&service_ref("web"), "PinOverwritten").len(), 2, "each manager once");
    world.pass(1);
    world.assert_associated("web", &[IP]);
    world.delete(&service_ref("web"));
    world.settle();
    world.assert_held(IP);
}

/// A pin that is changed moves the Service: the address is with nobody, and waits for no pause.
#[test]
fn c4_a_changed_pin_is_put_back_at_once_each_time() {
    let mut world = associated(&Setup::roomy(), json!({}))(Pace::Eager);
    world.law.gap = true;
    for round in 1..=5 {
        world.annotate("web", json!({ names::PIN: "192.0.2.5" }));
        world.settle();
        world.assert_associated("web", &[IP]);
        assert_eq!(pin_writes(&world), round);
    }
}

#[test]
fn c4_marks_that_an_older_version_did_not_know_are_nobodys_fault() {
    let mut world = associated(&Setup::default(), json!({}))(Pace::Eager);
    world.patch(&service_ref("web"), json!({ "metadata": { "labels": null, "finalizers": null } }));
    world.settle();
    world.assert_associated("web", &[IP]);
    assert!(world.told(&service_ref("web"), "PinOverwritten").is_empty());
}

#[test]
fn c4_the_claim_is_taken_off_amid_a_fight() {
    for pace in [Pace::Eager, Pace::Lazy, Pace::Stale, Pace::Shuffled(1)] {
        let mut world = associated(&Setup::default(), json!({}))(pace);
        for _ in 0..3 {
            world.patch(&service_ref("web"), replaced_by("gitops"));
            world.settle();
        }
        assert_eq!(world.service("web").annotations().get(names::PIN), None);
        world.annotate("web", json!({ api::wellknown::CLAIM: null }));
        world.settle();
        world.assert_held(IP);
        world.assert_bare("web");
    }
}

/// A restart forgets the fight: the marks are put back at once.
#[test]
fn c4_a_restart_puts_the_marks_back() {
    let mut world = associated(&Setup::default(), json!({}))(Pace::Eager);
    for _ in 0..2 {
        world.patch(&service_ref("web"), replaced_by("gitops"));
        world.settle();
    }
    assert_eq!(world.service("web").annotations().get(names::PIN), None);
    world.restart();
    world.settle();
    world.assert_associated("web", &[IP]);
    let keys = world.driver.keys();
    assert!(!keys.is_empty());
}
