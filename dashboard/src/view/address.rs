//! One address: what the ledger says beside what MetalLB says, and who had it when.

use api::ReclaimPolicy;
use api::conditions::types;
use serde::Serialize;

use super::handoff::HandoffView;
use super::{AddressItem, Command, Eye, Named, When, words};
use crate::world::{About, AddressRow, ConditionRow, EventRow, ServiceRow, State};

/// The plural that never means another group's kind.
pub const ADDRESSES: &str = "ipaddresses.local.sdn.cozystack.io";

/// One address.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressView {
    /// As in a list.
    #[serde(flatten)]
    pub item: AddressItem,
    /// Where it stands, in one sentence.
    pub sentence: String,
    /// What becomes of it when its claim goes.
    pub reclaim_policy: &'static str,
    /// The provider's own name for it.
    pub provider: Option<String>,
    /// The pool that contains it; operators only.
    pub pool: Option<String>,
    /// When the object was made.
    pub created: When,
    /// Since when it is being deleted.
    pub deleting: Option<When>,
    /// What the ledger says.
    pub ledger: String,
    /// What MetalLB says.
    pub metallb: String,
    /// Whether the two say the same.
    pub agree: bool,
    /// The placeholder that shows it; operators only.
    pub placeholder: Option<Named>,
    /// The Services that show it.
    pub shown_by: Vec<ShownBy>,
    /// The conditions.
    pub conditions: Vec<ConditionView>,
    /// What was said about it lately.
    pub events: Vec<EventView>,
    /// The last change of hands.
    pub last_handoff: Option<HandoffView>,
    /// Who had it when, newest first.
    pub history: Vec<Past>,
    /// Commands that matter here.
    pub commands: Vec<Command>,
}

/// A Service that shows an IP.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownBy {
    /// The Service.
    pub service: Named,
    /// In what part: `holder`, `placeholder`, `successor`, `against the ledger`, `without a claim`.
    pub role: &'static str,
    /// By what: `MetalLB`, or `spec.externalIPs`.
    pub by: &'static str,
}

/// A condition.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionView {
    /// The type.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason, to grep for.
    pub reason: String,
    /// The sentence; none where it may name what the visitor may not see.
    pub message: Option<String>,
    /// Since when.
    pub since: When,
}

/// Something that was said.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    /// When.
    pub at: When,
    /// Whether somebody should look.
    pub warning: bool,
    /// The reason, to grep for.
    pub reason: String,
    /// The sentence.
    pub note: String,
    /// Who said it.
    pub source: String,
}

/// One line of the history.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Past {
    /// The Service that had it.
    pub service: Named,
    /// Its uid.
    pub uid: String,
    /// From when.
    pub since: When,
    /// Until when; none while it has it.
    pub until: Option<When>,
}

impl Eye<'_> {
    /// One address.
    pub fn address_view(&self, row: &AddressRow) -> AddressView {
        let item = self.item(row);
        let (ledger, metallb, agree) = self.both_sides(row, &item);
        let history = row.history.iter().filter(|past| self.scope.sees(&past.service.namespace));
        let events = self.events(About::Address, "", &row.name);
        AddressView {
            sentence: self.refusal(row).unwrap_or_else(|| sentence(&item)),
            reclaim_policy: policy(row.policy),
            provider: row.provider.as_ref().map(ToString::to_string),
            pool: self
                .operators(row.ip.and_then(|ip| self.world.pool_of(ip)))
                .map(|pool| pool.name.to_string()),
            created: self.when(row.created),
            deleting: row.deleting.map(|at| self.when(at)),
            ledger,
            metallb,
            agree,
            placeholder: self.world.hold(row).and_then(|hold| self.named(&hold.key)),
            shown_by: self.shown_by(row),
            // They name whoever stands in the way: for operators.
            conditions: self.conditions(&row.conditions, self.scope.is_all()),
            events: if self.scope.is_all() { events } else { Vec::new() },
            last_handoff: row.handoff.as_ref().and_then(|handoff| self.handoff(row, handoff)),
            history: history
                .map(|past| Past {
                    service: (&past.service).into(),
                    uid: past.uid.to_string(),
                    since: self.when(past.since),
                    until: past.until.map(|at| self.when(at)),
                })
                .collect(),
            commands: self.commands(row, &item),
            item,
        }
    }

    /// Why an address does not count. Its condition names the object that does: for operators.
    fn refusal(&self, row: &AddressRow) -> Option<String> {
        let valid = row.condition(types::VALID).filter(|valid| !valid.holds())?;
        let words = if self.scope.is_all() { &*valid.message } else { &*valid.reason };
        Some(format!("is not valid: {}.", words.trim_end_matches('.')))
    }

    /// What is for operators only.
    fn operators<T>(&self, value: Option<T>) -> Option<T> {
        value.filter(|_| self.scope.is_all())
    }

    /// Conditions, with their sentences or without.
    pub fn conditions(&self, rows: &[ConditionRow], in_full: bool) -> Vec<ConditionView> {
        let view = |row: &ConditionRow| ConditionView {
            r#type: row.kind.to_string(),
            status: row.status.to_string(),
            reason: row.reason.to_string(),
            message: in_full.then(|| row.message.to_string()),
            since: self.when(row.since),
        };
        rows.iter().map(view).collect()
    }

    /// What was said about an object, newest first.
    pub fn events(&self, about: About, namespace: &str, name: &str) -> Vec<EventView> {
        let view = |row: &EventRow| EventView {
            at: self.when(row.at),
            warning: row.warning,
            reason: row.reason.to_string(),
            note: row.note.to_string(),
            source: row.source.to_string(),
        };
        self.world.events_about(about, namespace, name).into_iter().take(20).map(view).collect()
    }

    /// What the ledger says, what MetalLB says, and whether that is the same.
    fn both_sides(&self, row: &AddressRow, item: &AddressItem) -> (String, String, bool) {
        let ledger = match (&item.service, &row.service, &item.claim) {
            (Some(service), _, _) if row.observed => format!("Service {service} has it, without a claim"),
            (Some(service), _, _) => format!("attached to Service {service}"),
            (None, Some(_), _) => "attached to a Service".to_owned(),
            (None, None, Some(claim)) if item.claim_gone => format!("kept; its claim {claim} is gone"),
            (None, None, Some(claim)) => format!("reserved for claim {claim}, attached to nothing"),
            (None, None, None) => "nobody's".to_owned(),
        };
        let wronged = !item.offenders.is_empty() || item.offended_unseen;
        let holder = self.world.holder(row);
        let shows = |service: &ServiceRow| row.ip.is_some_and(|ip| service.ingress.contains(&ip));
        let served = holder.is_some_and(|service| shows(service));
        let metallb = if wronged {
            match item.offenders.first() {
                Some(offender) => format!("Service {offender} has it, against the ledger"),
                None => "a Service of another namespace has it, against the ledger".to_owned(),
            }
        } else if let (true, Some(service)) = (served, &item.service) {
            format!("assigned to Service {service}")
        } else if item.held_by_placeholder {
            "assigned to the placeholder".to_owned()
        } else {
            "assigned to nobody".to_owned()
        };
        let agree = !wronged && if row.service.is_some() { served } else { item.held_by_placeholder };
        (ledger, metallb, agree)
    }

    fn shown_by(&self, row: &AddressRow) -> Vec<ShownBy> {
        let Some(ip) = row.ip else { return Vec::new() };
        let view = |service: &ServiceRow| {
            let role = if service.placeholder {
                "placeholder"
            } else if row.is_held_by(service) {
                if row.observed { "without a claim" } else { "holder" }
            } else if self.world.is_rightful(row, service) {
                "successor"
            } else {
                "against the ledger"
            };
            let by = if service.ingress.contains(&ip) { "MetalLB" } else { "spec.externalIPs" };
            Some(ShownBy { service: self.named(&service.key)?, role, by })
        };
        self.world.services_on(ip).filter_map(|service| view(service)).collect()
    }

    fn commands(&self, row: &AddressRow, item: &AddressItem) -> Vec<Command> {
        let name = words::quoted(&row.name);
        let mut commands = Vec::new();
        if self.scope.is_all() {
            commands.push(Command::new(
                "everything the ledger says",
                format!("kubectl describe {ADDRESSES} {name}"),
            ));
        }
        if item.state == State::Released && self.scope.is_all() {
            commands.push(Command::new(
                "give it back to a claim of the same namespace and name",
                format!(r#"kubectl patch {ADDRESSES} {name} --type=merge -p '{{"spec":{{"claimRef":{{"uid":null}}}}}}'"#),
            ));
            commands.push(Command::new(
                "free it for any claim",
                format!(
                    r#"kubectl patch {ADDRESSES} {name} --type=merge -p '{{"spec":{{"claimRef":null}}}}'"#
                ),
            ));
        }
        if let Some(claim) = item.claim.as_ref().filter(|_| !item.claim_gone) {
            commands.push(Command::new(
                "its claim",
                kubectl("describe", "ipaddressclaims.local.sdn.cozystack.io", claim),
            ));
        }
        for service in item.service.iter().chain(&item.offenders) {
            commands.push(Command::new("the Service that has it", kubectl("describe", "service", service)));
        }
        commands
    }
}

/// A command about something namespaced.
pub fn kubectl(verb: &str, kind: &str, named: &Named) -> String {
    format!("kubectl -n {} {verb} {kind} {}", words::quoted(&named.namespace), words::quoted(&named.name))
}

/// The name of a policy, as in the API.
pub const fn policy(policy: ReclaimPolicy) -> &'static str {
    match policy {
        ReclaimPolicy::Retain => "Retain",
        ReclaimPolicy::Delete => "Delete",
    }
}

/// Where an address stands, in one sentence without the address.
fn sentence(item: &AddressItem) -> String {
    let claim = item.claim.as_ref().map(ToString::to_string);
    let service = item.service.as_ref().map(ToString::to_string);
    let held =
        if item.held_by_placeholder { "a placeholder holds it" } else { "no placeholder holds it yet" };
    match item.state {
        State::Conflict => match item.offenders.first() {
            Some(offender) => format!("is in conflict: Service {offender} has it, and was not given it."),
            None if item.offended_unseen => {
                "is in conflict: a Service of another namespace has it, and was not given it.".to_owned()
            }
            None => {
                "is in conflict: a Service had it that was not given it; it is on its way back.".to_owned()
            }
        },
        State::Lost => {
            "is lost: no pool contains it any more. Put it back into a pool, and everything is as before."
                .to_owned()
        }
        State::Observed => format!(
            "is with Service {}, which no claim covers.",
            service.unwrap_or_else(|| "of another namespace".to_owned())
        ),
        State::Attached => match (service, claim) {
            (Some(service), Some(claim)) => format!("is attached to Service {service}, by claim {claim}."),
            (Some(service), None) => format!("is attached to Service {service}."),
            (None, _) => "is attached to a Service.".to_owned(),
        },
        State::Reserved => match claim {
            Some(claim) => format!("is reserved for claim {claim} and attached to nothing; {held}."),
            None => format!("is reserved and attached to nothing; {held}."),
        },
        State::Available => format!("is nobody's: the next claim that fits gets it; {held}."),
        State::Released => match claim {
            Some(claim) => format!("was released by claim {claim}, which is gone, and is kept; {held}."),
            None => format!("was released and is kept; {held}."),
        },
        State::Pending => match claim {
            Some(claim) => format!("is kept for claim {claim}, which is not there yet."),
            None => "is not settled yet.".to_owned(),
        },
    }
}
