//! Classes: whether new addresses are drawn, from what, and how much is left.

use std::sync::Arc;

use api::Ip;
use serde::Serialize;

use super::address::{ConditionView, EventView, policy};
use super::list::List;
use super::overview::RoomView;
use super::why::CLASSES;
use super::{ClaimItem, Command, Eye, When, words};
use crate::query::{BadQuery, Find, Paging, Params};
use crate::world::{About, ClassRow, First, Key, PoolRow};

/// One class in a list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassItem {
    /// The object's name.
    pub name: String,
    /// The driver.
    pub provisioner: String,
    /// What becomes of its addresses when their claims go.
    pub reclaim_policy: &'static str,
    /// The pool.
    pub pool: Option<String>,
    /// Whether new addresses are drawn; none while the driver has not said.
    pub accepted: Option<bool>,
    /// The reason, to grep for.
    pub reason: Option<String>,
    /// Why not, or from what.
    pub message: Option<String>,
    /// Whether claims that name no class get this one.
    pub default: bool,
    /// Whether plain Services get claims of this class.
    pub auto_claim: bool,
    /// What a Service must carry in `spec.loadBalancerClass`.
    pub load_balancer_class: Option<String>,
    /// How full it is, family by family.
    pub room: Vec<RoomView>,
    /// How many claims of it wait.
    pub waiting: usize,
    /// When it was made.
    pub created: When,
}

impl ClassItem {
    /// The verdict in a word.
    pub const fn word(&self) -> &'static str {
        match self.accepted {
            Some(true) => "accepted",
            Some(false) => "refused",
            None => "not judged yet",
        }
    }

    /// How the verdict is coloured.
    pub const fn tone(&self) -> &'static str {
        match self.accepted {
            Some(true) => "ok",
            Some(false) => "bad",
            None => "warn",
        }
    }
}

/// One class.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassView {
    /// As in a list.
    #[serde(flatten)]
    pub item: ClassItem,
    /// Where it stands, in one sentence without its name.
    pub sentence: String,
    /// `spec.parameters`.
    pub parameters: String,
    /// The ranges of its pool; operators only.
    pub ranges: Vec<RangeView>,
    /// Whether the pool serves only some namespaces or Services; operators only.
    pub restricted: bool,
    /// The claims that wait longest.
    pub waiting_claims: Vec<ClaimItem>,
    /// The conditions.
    pub conditions: Vec<ConditionView>,
    /// What was said about it lately.
    pub events: Vec<EventView>,
    /// Commands that matter here.
    pub commands: Vec<Command>,
}

/// One entry of a pool, as it stands and as it is meant.
#[derive(Clone, Debug, Serialize)]
pub struct RangeView {
    /// The text of the entry.
    pub text: String,
    /// What it covers, where the text reads as something else; what is wrong with it, where it covers nothing.
    pub covers: Option<String>,
}

/// The parameters of the list.
pub const KNOWN: [&str; 3] = ["q", "page", "limit"];

impl Eye<'_> {
    /// One line of a list.
    pub fn class_item(&self, row: &ClassRow) -> ClassItem {
        let accepted = row.accepted();
        ClassItem {
            name: row.name.to_string(),
            provisioner: row.provisioner.to_string(),
            reclaim_policy: policy(row.policy),
            pool: row.pool.as_ref().map(ToString::to_string),
            accepted: accepted.map(crate::world::ConditionRow::holds),
            reason: accepted.map(|accepted| accepted.reason.to_string()),
            message: accepted.map(|accepted| accepted.message.to_string()),
            default: row.is_default,
            auto_claim: row.is_auto_claim,
            load_balancer_class: row.lb_class.as_ref().map(ToString::to_string),
            room: self
                .digest
                .rooms
                .iter()
                .filter(|room| room.class == row.name)
                .map(RoomView::from)
                .collect(),
            waiting: self.waiting_of(row).map_or(0, |waiting| waiting.count),
            created: self.when(row.created),
        }
    }

    /// The claims that wait for the class, the longest first.
    fn waiting_of(&self, row: &ClassRow) -> Option<&First<Key>> {
        self.digest.waiting_by_class.get(&row.name)
    }

    /// One class.
    pub fn class_view(&self, row: &ClassRow) -> ClassView {
        let item = self.class_item(row);
        // A pool is nobody's: what it holds besides the visitor's own is for operators.
        let pool = row.pool.as_deref().and_then(|pool| self.world.pool(pool)).filter(|_| self.scope.is_all());
        let name = words::quoted(&row.name);
        let mut commands = Vec::new();
        if self.scope.is_all() {
            commands.push(Command::new(
                "everything the class says",
                format!("kubectl describe {CLASSES} {name}"),
            ));
        }
        if let Some(pool) = pool.filter(|pool| pool.auto_assign) {
            commands.push(Command::new(
                "keep its addresses for claims",
                format!(
                    r#"kubectl -n {} patch ipaddresspools.metallb.io {} --type=merge -p '{{"spec":{{"autoAssign":false}}}}'"#,
                    words::quoted(&pool.namespace),
                    words::quoted(&pool.name)
                ),
            ));
        }
        ClassView {
            sentence: sentence(&item),
            parameters: row.parameters.to_string(),
            ranges: pool.map(|pool| ranges(pool)).unwrap_or_default(),
            restricted: pool.is_some_and(|pool| pool.restricted),
            waiting_claims: self
                .waiting_of(row)
                .into_iter()
                .flat_map(|waiting| &waiting.few)
                .filter_map(|key| Some(self.claim_item(self.world.claim(key)?)))
                .collect(),
            conditions: self.conditions(&row.conditions, true),
            events: if self.scope.is_all() { self.events(About::Class, "", &row.name) } else { Vec::new() },
            commands,
            item,
        }
    }
}

fn sentence(item: &ClassItem) -> String {
    match (&item.accepted, &item.message) {
        (Some(true), _) => {
            let pool = item.pool.as_deref().map_or_else(String::new, |pool| format!(" from pool {pool}"));
            format!("is accepted: new addresses are drawn{pool}.")
        }
        (Some(false), Some(message)) => {
            format!("is refused: {}. What exists stays held.", message.trim_end_matches('.'))
        }
        _ => format!("is not judged yet by its driver {}.", item.provisioner),
    }
}

fn ranges(pool: &PoolRow) -> Vec<RangeView> {
    let view = |text: &str| {
        let covers = match api::range(text) {
            None => Some("nothing: MetalLB does not understand it".to_owned()),
            Some((first, last)) => {
                let (first, last) = (Ip::from(first), Ip::from(last));
                // A network whose number is not its first address covers others than it reads.
                let reads_so =
                    text.split_once(['/', '-']).is_none_or(|(start, _)| Ip::lenient(start) == Ok(first));
                (!reads_so).then(|| format!("covers {first} to {last}"))
            }
        };
        RangeView { text: text.to_owned(), covers }
    };
    pool.texts.iter().map(|text| view(text)).collect()
}

/// The list that a query asks for.
///
/// # Errors
/// When the query cannot be understood.
pub fn list(eye: &Eye, params: &Params, paging: Paging) -> Result<List<ClassItem>, BadQuery> {
    let find = params.get("q").map(Find::of);
    let takes = |row: &&Arc<ClassRow>| {
        let text = |find: &Find| {
            find.has_text(&row.name) || row.pool.as_deref().is_some_and(|pool| find.has_text(pool))
        };
        find.as_ref().is_none_or(text)
    };
    let rows: Vec<_> = eye.world.classes().filter(takes).collect();
    let matched = rows.len();
    let page = paging.cut(rows, |a, b| a.name.cmp(&b.name));
    let items = page.into_iter().map(|row| eye.class_item(row)).collect();
    Ok(List::of(eye.digest.totals.classes, matched, paging, items))
}
