//! Why a claim waits, and what to do.

use api::claim::ClaimPhase;
use api::conditions::types;
use serde::Serialize;

use super::{Command, Eye, Named};
use crate::world::{About, ClaimRow, ClassRow, Key, World, condition};

/// The plural that never means another group's kind.
pub const CLAIMS: &str = "ipaddressclaims.local.sdn.cozystack.io";
/// The same for classes.
pub const CLASSES: &str = "ipaddressclasses.local.sdn.cozystack.io";

/// Why a claim has not what it asked for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Why {
    /// The cause, in one sentence.
    pub cause: String,
    /// What ends it, in one sentence.
    pub remedy: String,
    /// The commands for it.
    pub commands: Vec<Command>,
}

impl Why {
    fn new(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { cause: cause.into(), remedy: remedy.into(), commands: Vec::new() }
    }

    fn by(mut self, what: &str, line: String) -> Self {
        self.commands.push(Command::new(what, line));
        self
    }
}

/// Events of the driver on a claim that say why nothing could be reserved, with what to do.
const REFUSALS: [(&str, &str); 3] = [
    (
        "PoolExhausted",
        "Enlarge the pool or free addresses; it is tried again by itself, the oldest claim first.",
    ),
    ("ReservationFailed", "The words of the API server say what is in the way; it is tried again by itself."),
    (
        "PlaceholderRefused",
        "The words of the API server say what is in the way; it is tried again by itself.",
    ),
];

impl Eye<'_> {
    /// Why a claim waits; none if it has what it asked for.
    pub fn why(&self, row: &ClaimRow) -> Option<Why> {
        if row.phase == ClaimPhase::Bound {
            return None;
        }
        let named = Named::from(&row.key);
        let describe = super::address::kubectl("describe", CLAIMS, &named);
        let bound = condition(&row.conditions, types::BOUND);
        if row.deleting.is_some() {
            return Some(Why::new(
                "It is being deleted.",
                "It goes as soon as its addresses are given back.",
            ));
        }
        if row.phase == ClaimPhase::Lost {
            let told = bound.map_or("An address that it had is missing.", |bound| &bound.message);
            return Some(
                Why::new(told, "It is served again by itself when the address is back.")
                    .by("what is known", describe),
            );
        }
        if let Some(class) = condition(&row.conditions, types::CLASS_RESOLVED).filter(|class| !class.holds())
        {
            return Some(self.no_class(row, &class.reason, &class.message));
        }
        if let Some(bound) = bound.filter(|bound| &*bound.reason == "AddressNotAvailable") {
            return Some(
                Why::new(&*bound.message, "The sentence says what to wait for, or what to change.")
                    .by("what is known", describe),
            );
        }
        let Some(class) = row.class_or_asked() else {
            let cause = "The core has not looked at it yet.";
            return Some(Why::new(cause, "If this lasts, see whether address-controller runs."));
        };
        Some(match self.world.class(class) {
            None => Why::new(
                format!("Class {class} does not exist."),
                "Create it, or make a claim of another class.",
            ),
            Some(class) => self.unserved(row, class).by("what is known", describe),
        })
    }

    fn no_class(&self, row: &ClaimRow, reason: &str, message: &str) -> Why {
        let names: Vec<_> = self.world.classes().map(|class| class.name.to_string()).collect();
        let remedy = match reason {
            "ClassNotFound" => "Create the class, or make a claim of another one.",
            "NoDefaultClass" => "Name a class in spec.className, or mark one class as the default.",
            "MultipleDefaultClasses" => {
                "Name a class in spec.className, or leave the mark on one class only."
            }
            _ => "The sentence says what to change.",
        };
        let why = Why::new(sentence(message), remedy);
        let (namespace, name) =
            (super::words::quoted(&row.key.namespace), super::words::quoted(&row.key.name));
        match names.first().filter(|_| reason != "ClassNotFound") {
            Some(class) => why.by(
                &format!("name a class (there are: {})", names.join(", ")),
                format!(
                    r#"kubectl -n {namespace} patch {CLAIMS} {name} --type=merge -p '{{"spec":{{"className":"{class}"}}}}'"#
                ),
            ),
            None => why,
        }
    }

    /// Why the driver of a class has reserved nothing.
    fn unserved(&self, row: &ClaimRow, class: &ClassRow) -> Why {
        let name = &class.name;
        if let Some(accepted) =
            condition(&class.conditions, types::ACCEPTED).filter(|accepted| !accepted.holds())
        {
            let cause = format!("Class {name} is refused: {}.", accepted.message.trim_end_matches('.'));
            return Why::new(cause, "When the class is accepted again, this claim is served by itself.")
                .by("the class", format!("kubectl describe {CLASSES} {}", super::words::quoted(name)));
        }
        let events = self.world.events_about(About::Claim, &row.key.namespace, &row.key.name);
        let told = events.iter().find_map(|event| {
            let (_, remedy) = REFUSALS.iter().find(|(reason, _)| *reason == &*event.reason)?;
            Some(Why::new(sentence(&event.note), *remedy))
        });
        if let Some(why) = told {
            return why;
        }
        let mut rooms = self.digest.rooms.iter().filter(|room| room.class == *name);
        let full = rooms.find(|room| room.free() == Some(0) && row.family.expand().contains(&room.family));
        if let Some(room) = full {
            let cause = format!("No {} address of class {name} is free.", room.family);
            return Why::new(
                cause,
                "Enlarge the pool or free addresses; it is tried again by itself, the oldest claim first.",
            );
        }
        if !World::is_metallbs(class) {
            return Why::new(
                format!("It waits for {}, which provides class {name}.", class.provisioner),
                "That driver says on the claim, or in its log, what it waits for.",
            );
        }
        if row.provisioner.is_none() {
            return Why::new(
                "The core has not looked at it yet.",
                "If this lasts, see whether address-controller runs.",
            );
        }
        if class.conditions.is_empty() {
            return Why::new(
                format!("The driver has not looked at class {name} yet."),
                "If this lasts, see whether metallb-iad runs.",
            );
        }
        Why::new(
            "The driver is reserving an address for it.",
            "This takes seconds. If it lasts, see the log of metallb-iad.",
        )
    }

    /// The Services that name a claim and may be seen.
    pub fn services_of(&self, claim: &Key) -> Vec<Named> {
        let services = self.world.services_of(claim).filter(|service| !service.placeholder);
        services.filter_map(|service| self.named(&service.key)).collect()
    }
}

/// A message of a program as a sentence for a person.
pub fn sentence(message: &str) -> String {
    let mut text = message.trim().to_owned();
    if let Some(first) = text.get_mut(..1)
        && !message.trim_start().starts_with("spec.")
    {
        first.make_ascii_uppercase();
    }
    if !text.is_empty() && !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}
