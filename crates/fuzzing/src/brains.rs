//! What must hold of both brains after any history.
//!
//! - Deciding twice gives the same plan: nothing was changed by the first time.
//! - Two processes that were told the same decide the same: no order of a hash table shows.
//! - A process that starts decides as one that saw it all: nothing is remembered but what the cluster shows
//!   (contract §3 d), and no secondary key is left behind by a change.
//! - Plans name the version they were made for (§3 f), and write what is the controller's to write (§3).

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::thread::LocalKey;

use binder::Binder;
use metallb::{Config, Driver};
use plan::{Action, Brain, Change, Kind, Moment, Plan, Target};

use crate::shadow::Shadow;
use crate::shapes;

/// Every kind that is watched.
const KINDS: [Kind; 6] =
    [Kind::Namespace, Kind::Pool, Kind::Class, Kind::Address, Kind::Claim, Kind::Service];

/// Which of the properties are looked at: each costs a run of its own.
#[derive(Clone, Copy, Debug)]
pub enum Look {
    /// Deciding twice gives the same plan.
    Twice,
    /// Two processes decide the same.
    Twins,
    /// A process that starts decides the same.
    Afresh,
}

impl Look {
    /// One of them.
    pub const fn of(number: usize) -> Self {
        match number % 3 {
            0 => Self::Twice,
            1 => Self::Twins,
            _ => Self::Afresh,
        }
    }
}

/// Changes that come to a cluster in which something is there already.
pub fn see(changes: &[Change]) {
    look(Look::of(changes.len()), Start::Furnished, changes, &Config::default());
}

/// Shows a history to both brains.
pub fn look(what: Look, start: Start, history: &[Change], config: &Config) {
    let home = &config.placeholder_namespace;
    let core = start.of(&CORE, Binder::new);
    let driver = start.of(&DRIVER, || Driver::new(config.clone()));
    match what {
        Look::Afresh => {
            afresh(core, Binder::new, history);
            afresh(driver, || Driver::new(config.clone()), history);
        }
        Look::Twice | Look::Twins => {
            let twins = matches!(what, Look::Twins);
            follow(core, twins, history, &is_the_cores);
            follow(driver, twins, history, &|action| is_the_drivers(action, home));
        }
    }
}

/// What there is before the first change.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// Nothing.
    Empty,
    /// A small cluster. The driver has its usual settings.
    Furnished,
}

/// A brain with what it was told.
#[derive(Clone)]
struct Told<B> {
    brain: B,
    shadow: Shadow,
}

thread_local! {
    static CORE: Told<Binder> = furnished(Binder::new());
    static DRIVER: Told<Driver> = furnished(Driver::new(Config::default()));
}

/// A brain that was told of the small cluster, and decided. Once: every input begins with a copy.
fn furnished<B: Brain>(mut brain: B) -> Told<B> {
    let mut shadow = Shadow::default();
    for change in shapes::furniture() {
        shadow.apply(change);
        for key in brain.apply(change.clone()) {
            decide(&mut brain, &key);
        }
        brain.freed();
    }
    Told { brain, shadow }
}

impl Start {
    fn of<B: Clone>(self, furnished: &'static LocalKey<Told<B>>, empty: impl FnOnce() -> B) -> Told<B> {
        match self {
            Self::Empty => Told { brain: empty(), shadow: Shadow::default() },
            Self::Furnished => furnished.with(Told::clone),
        }
    }
}

fn moment() -> Moment {
    Moment { now: shapes::now(), entropy: 7 }
}

fn decide<B: Brain>(brain: &mut B, key: &B::Key) -> Plan {
    let plan = brain.decide(key, &moment());
    brain.settle(key);
    plan
}

fn follow<B: Brain + Clone>(told: Told<B>, twins: bool, history: &[Change], may: &dyn Fn(&Action) -> bool) {
    let Told { mut brain, mut shadow } = told;
    let mut twin = twins.then(|| brain.clone());
    for change in history {
        shadow.apply(change);
        let dirty = brain.apply(change.clone());
        if let Some(twin) = &mut twin {
            assert_eq!(dirty, twin.apply(change.clone()), "what becomes dirty by {change:?}");
        }
        for key in dirty {
            let plan = decide(&mut brain, &key);
            for action in &plan.actions {
                see_version(action, &shadow);
                assert!(may(action), "{key}: not this controller's to write: {action:?}");
            }
            match &mut twin {
                Some(twin) => same(&key, &plan, &decide(twin, &key)),
                None => same_again(&key, &plan, &decide(&mut brain, &key)),
            }
            let freed = brain.freed();
            if let Some(twin) = &mut twin {
                assert_eq!(freed, twin.freed());
            }
        }
    }
}

fn afresh<B: Brain>(told: Told<B>, make: impl FnOnce() -> B, history: &[Change]) {
    let Told { brain: mut old, mut shadow } = told;
    // What MetalLB said once is not kept by the cluster for long: a start may know less.
    for change in history.iter().filter(|change| change.kind() != Kind::Event) {
        shadow.apply(change);
        old.apply(change.clone());
    }
    let mut new = make();
    // Lists come in any order.
    for place in 0..KINDS.len() {
        let kind = KINDS[(place + history.len()) % KINDS.len()];
        for change in Change::list(kind, shadow.all(kind)) {
            new.apply(change);
        }
    }
    let sorted = |brain: &B| brain.keys().into_iter().collect::<BTreeSet<_>>();
    let keys = sorted(&old);
    assert_eq!(keys, sorted(&new), "the keys there are");
    for key in keys {
        same(&key, &decide(&mut old, &key), &decide(&mut new, &key));
    }
}

fn same(key: &impl Debug, one: &Plan, other: &Plan) {
    assert_eq!(one, other, "two plans for {key:?}");
}

/// How long to wait may grow: that a reservation failed is remembered when it is decided.
fn same_again(key: &impl Debug, one: &Plan, other: &Plan) {
    assert_eq!(one.actions, other.actions, "two plans for {key:?}");
    assert_eq!(one.standing, other.standing, "two plans for {key:?}");
}

/// A write is meant for the very version that the brain was told last.
fn see_version(action: &Action, shadow: &Shadow) {
    let (Action::Patch { target, .. } | Action::Delete { target }) = action else { return };
    let known = shadow.get(&target.reference);
    let known = known.unwrap_or_else(|| panic!("{action:?} is about nothing that is there"));
    assert_eq!(Target::of(&known), *target, "{action:?} is about another version");
}

/// What the core may write (contract §3): claims and addresses, and never a new one.
fn is_the_cores(action: &Action) -> bool {
    match action {
        Action::Create { .. } => false,
        Action::Patch { target, .. } => matches!(target.reference.kind, Kind::Claim | Kind::Address),
        Action::Delete { target } => target.reference.kind == Kind::Address,
        Action::ConfirmAbsent { .. } | Action::Emit(_) | Action::Trace(_) => true,
    }
}

/// What the driver may write: new addresses, claims and placeholders; Services; the status of classes. It deletes
/// nothing but placeholders, and addresses that the inventory found.
fn is_the_drivers(action: &Action, home: &str) -> bool {
    match action {
        Action::Create { object, .. } => match object.kind() {
            Kind::Service => object.meta().namespace.as_deref() == Some(home),
            kind => matches!(kind, Kind::Address | Kind::Claim),
        },
        Action::Patch { target, status, .. } => match target.reference.kind {
            Kind::Class => *status,
            Kind::Service => !*status,
            kind => kind == Kind::Address,
        },
        Action::Delete { target } => match target.reference.kind {
            Kind::Service => target.reference.namespace.as_deref() == Some(home),
            kind => kind == Kind::Address,
        },
        Action::ConfirmAbsent { .. } | Action::Emit(_) | Action::Trace(_) => true,
    }
}
