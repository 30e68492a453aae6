//! Bugs that are planted between the brains and the server, to see that the law finds them. No shipped crate knows of
//! them: a saboteur changes what one controller hears, plans or sends.

use std::collections::BTreeSet;

use api::wellknown::{driver, metallb as names};
use plan::{Action, Call, Change, Kind, Object, Plan, Ref, Target};
use serde_json::{Value, json};

use crate::server::Server;
use crate::world::env::Side;

/// What a saboteur does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// The ledger does not name a Service before it is pinned.
    SkipsTheLedger,
    /// Writes carry neither uid nor resourceVersion.
    ForgetsPreconditions,
    /// Answers to own writes are not taken into the index.
    DropsAnswers,
    /// What is irreversible is done without a live read.
    SkipsConfirmAbsent,
    /// The placeholder is deleted in the plan that pins the Service.
    ReleasesEarly,
    /// Placeholders are born without a sharing key.
    LeavesTheKeyOff,
    /// Associated Services get no handoff finalizer.
    DropsTheHandoffFinalizer,
    /// Addresses are entered without the teardown finalizer.
    DropsTheTeardownFinalizer,
    /// The core deletes what is to be released.
    RetainDeletes,
    /// The marks come off before the placeholder has the IP.
    UnpinsEarly,
    /// Deletions are not heard by the driver.
    IgnoresDeletions,
    /// What a new list no longer has is kept by the driver.
    KeepsWhatIsNotListed,
    /// A process that lost the lease goes on.
    WritesWithoutLease,
    /// The core drops the driver's conditions.
    OverwritesConditions,
    /// The driver calls every address held.
    BelievesEveryHold,
    /// The core binds what is bound already, on the strength of an old version.
    GivesToAnother,
    /// A reservation is recorded without pinning its placeholder first.
    RecordsWithoutPin,
    /// An address that goes leaves its placeholder's end to nobody: the finalizer goes first.
    TearsDownEarly,
}

/// All of them.
pub const BUGS: [Bug; 18] = [
    Bug::SkipsTheLedger,
    Bug::ForgetsPreconditions,
    Bug::DropsAnswers,
    Bug::SkipsConfirmAbsent,
    Bug::ReleasesEarly,
    Bug::LeavesTheKeyOff,
    Bug::DropsTheHandoffFinalizer,
    Bug::DropsTheTeardownFinalizer,
    Bug::RetainDeletes,
    Bug::UnpinsEarly,
    Bug::IgnoresDeletions,
    Bug::KeepsWhatIsNotListed,
    Bug::WritesWithoutLease,
    Bug::OverwritesConditions,
    Bug::BelievesEveryHold,
    Bug::GivesToAnother,
    Bug::RecordsWithoutPin,
    Bug::TearsDownEarly,
];

/// Who spoils the work of the controllers; by default nobody.
#[derive(Clone, Debug, Default)]
pub struct Saboteur {
    bug: Option<Bug>,
}

impl Saboteur {
    /// Plants a bug.
    #[cfg(any(test, feature = "planted"))]
    pub const fn of(bug: Bug) -> Self {
        Self { bug: Some(bug) }
    }

    fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// What a process hears in place of this; nothing if it misses it.
    pub fn change(&self, side: Side, change: Change) -> Option<Change> {
        match change {
            Change::Deleted(_) if self.is(Bug::IgnoresDeletions) && side == Side::Driver => None,
            change => Some(change),
        }
    }

    /// Changes a list; `ever` is everything that there ever was of the kind.
    pub fn list(&self, side: Side, objects: &mut Vec<Object>, ever: impl FnOnce() -> Vec<Object>) {
        if self.is(Bug::KeepsWhatIsNotListed) && side == Side::Driver {
            let listed: BTreeSet<_> = objects.iter().map(Object::reference).collect();
            objects.extend(ever().into_iter().filter(|object| !listed.contains(&object.reference())));
        }
    }

    /// Changes a plan.
    pub fn plan(&self, side: Side, plan: &mut Plan, server: &Server, home: &str) {
        let Some(bug) = self.bug else { return };
        match (bug, side) {
            (Bug::SkipsTheLedger, Side::Driver) => plan.actions.retain(|action| !associates(action)),
            (Bug::SkipsConfirmAbsent, _) => {
                plan.actions.retain(|action| !matches!(action, Action::ConfirmAbsent { .. }));
            }
            (Bug::ReleasesEarly, Side::Driver) => {
                let pinned: Vec<_> = plan.actions.iter().filter_map(|action| pins(action, home)).collect();
                for ip in pinned.iter().flat_map(|pin| pin.split(',')) {
                    plan.actions.extend(placeholder_of(server, ip, home).map(|hold| Action::delete(&hold)));
                }
            }
            (Bug::RecordsWithoutPin, Side::Driver)
                if plan
                    .actions
                    .iter()
                    .any(|action| matches!(action, Action::Create { object: Object::Address(_), .. })) =>
            {
                plan.actions.retain(|action| !matches!(action, Action::Patch { .. }));
            }
            (Bug::TearsDownEarly, Side::Driver) => tear_down(plan, server),
            _ => {
                for action in &mut plan.actions {
                    spoil(bug, side, action, home);
                }
            }
        }
    }

    /// Changes a call.
    pub fn call(&self, call: &mut Call) {
        if !self.is(Bug::ForgetsPreconditions) {
            return;
        }
        match call {
            Call::Patch { body, .. } => {
                for name in ["uid", "resourceVersion"] {
                    body["metadata"].as_object_mut().map(|meta| meta.remove(name));
                }
            }
            Call::Delete { uid, resource_version, .. } => {
                uid.clear();
                resource_version.clear();
            }
            _ => {}
        }
    }

    pub fn writes_without_lease(&self) -> bool {
        self.is(Bug::WritesWithoutLease)
    }

    pub fn drops_answers(&self) -> bool {
        self.is(Bug::DropsAnswers)
    }
}

/// Whether the action enters a Service into the ledger.
fn associates(action: &Action) -> bool {
    matches!(action, Action::Patch { target, status: true, body, .. }
        if target.reference.kind == Kind::Address && body["status"]["associatedTo"].is_object())
}

/// The pin that the action writes on a tenant's Service.
fn pins(action: &Action, home: &str) -> Option<String> {
    let Action::Patch { target, body, .. } = action else { return None };
    let tenants = target.reference.namespace.as_deref() != Some(home);
    body["metadata"]["annotations"][names::PIN].as_str().filter(|_| tenants).map(str::to_owned)
}

fn placeholder_of(server: &Server, ip: &str, home: &str) -> Option<Object> {
    let found = server.all(Kind::Service).find(|object| {
        let meta = object.meta();
        let pin = meta.annotations.as_ref().and_then(|annotations| annotations.get(names::PIN));
        meta.namespace.as_deref() == Some(home) && pin.is_some_and(|pin| pin == ip)
    });
    found.cloned()
}

/// The teardown of an address whose placeholder is about to be deleted forgets the placeholder.
fn tear_down(plan: &mut Plan, server: &Server) {
    for action in &mut plan.actions {
        let Action::Delete { target } = action else { continue };
        let Some(Object::Service(hold)) = server.get(&target.reference) else { continue };
        let name = hold.metadata.labels.as_ref().and_then(|labels| labels.get(driver::IP_ADDRESS));
        let Some(name) = name else { continue };
        let reference = Ref::address(&api::AddressName::new(name));
        if let Some(object) = server.get(&reference)
            && object.meta().deletion_timestamp.is_none()
        {
            let body = json!({ "metadata": { "finalizers": [] } });
            *action = Action::patch(Target::of(object), body);
        }
    }
}

fn spoil(bug: Bug, side: Side, action: &mut Action, home: &str) {
    match (bug, side, action) {
        (Bug::LeavesTheKeyOff, Side::Driver, Action::Create { object: Object::Service(service), .. }) => {
            let meta = &mut std::sync::Arc::make_mut(service).metadata;
            meta.annotations.as_mut().map(|annotations| annotations.remove(names::SHARE));
        }
        (
            Bug::DropsTheTeardownFinalizer,
            Side::Driver,
            Action::Create { object: Object::Address(address), .. },
        ) => {
            std::sync::Arc::make_mut(address).metadata.finalizers = None;
        }
        (Bug::DropsTheHandoffFinalizer, Side::Driver, Action::Patch { target, body, .. })
            if target.reference.kind == Kind::Service =>
        {
            if let Some(list) = body["metadata"]["finalizers"].as_array_mut() {
                list.retain(|name| name != driver::HANDOFF);
            }
        }
        (Bug::UnpinsEarly, Side::Driver, Action::Patch { target, body, .. })
            if target.reference.kind == Kind::Service
                && target.reference.namespace.as_deref() != Some(home)
                && body["metadata"]["annotations"][names::SHARE].is_string()
                && body["metadata"]["annotations"][names::PIN].is_null() =>
        {
            body["metadata"]["annotations"] =
                json!({ names::PIN: null, names::SHARE: null, driver::PINNED: null });
            body["metadata"]["labels"] = json!({ driver::ASSOCIATED: null });
            body["metadata"]["finalizers"] = Value::Null;
        }
        (Bug::RetainDeletes, Side::Core, action) => {
            if let Action::Patch { target, status: true, body, .. } = action
                && body["status"]["phase"] == "Released"
            {
                *action = Action::Delete { target: target.clone() };
            }
        }
        (Bug::OverwritesConditions, Side::Core, Action::Patch { target, status: true, body, .. })
            if target.reference.kind == Kind::Address =>
        {
            if let Some(list) = body["status"]["conditions"].as_array_mut() {
                list.retain(|one| one["type"] != "Held");
            }
        }
        (Bug::BelievesEveryHold, Side::Driver, Action::Patch { status: true, body, .. }) => {
            for one in body["status"]["conditions"].as_array_mut().into_iter().flatten() {
                if one["type"] == "Held" {
                    one["status"] = json!("True");
                }
            }
        }
        (Bug::GivesToAnother, Side::Core, Action::Patch { body, .. }) => {
            if let Some(claim) = body["spec"]["claimRef"].as_object_mut()
                && claim["name"] == "c3"
            {
                claim.insert("name".to_owned(), json!("c1"));
            }
        }
        _ => {}
    }
}
