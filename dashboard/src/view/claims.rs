//! Claims: who asked for addresses, what they got, and why not.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use api::claim::ClaimPhase;
use serde::Serialize;

use super::address::{ConditionView, EventView, kubectl};
use super::csv::{Pieces, pieces};
use super::list::List;
use super::why::{CLAIMS, Why};
use super::{AddressItem, Command, Eye, Named, When};
use crate::query::{BadQuery, Find, Paging, Params, Sort};
use crate::world::{About, AddressRow, ClaimRow, Key};

/// One claim in a list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimItem {
    /// Namespace and name.
    #[serde(flatten)]
    pub named: Named,
    /// The phase.
    pub phase: String,
    /// The families asked for.
    pub family: String,
    /// The class.
    pub class: Option<String>,
    /// The addresses it has.
    pub addresses: Vec<AddressName>,
    /// The Services that name it.
    pub services: Vec<Named>,
    /// Why it waits.
    pub why: Option<Why>,
    /// Since when it waits, or has what it asked for.
    pub since: When,
    /// When it was made.
    pub created: When,
    /// Whether it was made for a Service, not by a person.
    pub auto: bool,
}

impl ClaimItem {
    /// How the phase is coloured.
    pub fn tone(&self) -> &'static str {
        match self.phase.as_str() {
            "Bound" => "ok",
            "Lost" => "bad",
            _ => "warn",
        }
    }

    /// The phase in a word of a tenant.
    pub fn word(&self) -> &'static str {
        match self.phase.as_str() {
            "Bound" => "bound",
            "Lost" => "lost",
            _ => "waiting",
        }
    }
}

/// An address by name and text.
#[derive(Clone, Debug, Serialize)]
pub struct AddressName {
    /// The object's name.
    pub name: String,
    /// The IP.
    pub address: String,
}

/// One claim.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimView {
    /// As in a list.
    #[serde(flatten)]
    pub item: ClaimItem,
    /// Where it stands, in one sentence without its name.
    pub sentence: String,
    /// The certain address it asks for.
    pub address_name: Option<String>,
    /// Its addresses, as in their list.
    pub held: Vec<AddressItem>,
    /// The conditions.
    pub conditions: Vec<ConditionView>,
    /// What was said about it lately.
    pub events: Vec<EventView>,
    /// Commands that matter here.
    pub commands: Vec<Command>,
    /// Since when it is being deleted.
    pub deleting: Option<When>,
}

/// The parameters of the list.
pub const KNOWN: [&str; 8] = ["q", "class", "namespace", "phase", "family", "sort", "page", "limit"];

const PHASES: [(&str, ClaimPhase); 3] =
    [("Pending", ClaimPhase::Pending), ("Bound", ClaimPhase::Bound), ("Lost", ClaimPhase::Lost)];

const FAMILIES: [(&str, api::ClaimFamily); 3] =
    [("IPv4", api::ClaimFamily::IPv4), ("IPv6", api::ClaimFamily::IPv6), ("Dual", api::ClaimFamily::Dual)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Name,
    Phase,
    Class,
    Since,
}

const COLUMNS: [(&str, By); 4] =
    [("claim", By::Name), ("phase", By::Phase), ("class", By::Class), ("since", By::Since)];

/// The order in which the index has them.
const USUAL: Sort<By> = Sort { by: By::Name, down: false };

impl Eye<'_> {
    /// The addresses that a claim has: those of an earlier claim of its name are not its.
    fn held_by<'a>(&'a self, row: &'a ClaimRow) -> Vec<&'a Arc<AddressRow>> {
        let own = |address: &&Arc<AddressRow>| {
            let uid = address.claim.as_ref().and_then(|bound| bound.uid.as_ref());
            uid.is_none_or(|uid| *uid == row.uid)
        };
        let mut held: Vec<_> = self.world.addresses_of(&row.key).filter(own).collect();
        held.sort_by_key(|address| address.ip);
        held
    }

    /// One line of a list.
    pub fn claim_item(&self, row: &ClaimRow) -> ClaimItem {
        let name = |address: &Arc<AddressRow>| AddressName {
            name: address.name.to_string(),
            address: address.text.to_string(),
        };
        ClaimItem {
            named: (&row.key).into(),
            phase: format!("{:?}", row.phase),
            family: format!("{:?}", row.family),
            class: row.class_or_asked().map(ToString::to_string),
            addresses: self.held_by(row).into_iter().map(name).collect(),
            services: self.services_of(&row.key),
            why: self.why(row),
            since: self.when(row.waiting_since()),
            created: self.when(row.created),
            auto: row.auto,
        }
    }

    /// One claim.
    pub fn claim_view(&self, row: &ClaimRow) -> ClaimView {
        let item = self.claim_item(row);
        let mut commands =
            vec![Command::new("everything the claim says", kubectl("describe", CLAIMS, &item.named))];
        if item.services.is_empty() && row.phase == ClaimPhase::Bound {
            commands.push(Command::new(
                "give its addresses to a Service of this namespace (type LoadBalancer)",
                format!(
                    "kubectl -n {} annotate service NAME local.sdn.cozystack.io/ip-address-claim={}",
                    super::words::quoted(&item.named.namespace),
                    super::words::quoted(&item.named.name)
                ),
            ));
        }
        ClaimView {
            sentence: sentence(&item),
            address_name: row.address_name.as_ref().map(ToString::to_string),
            held: self.held_by(row).into_iter().map(|address| self.item(address)).collect(),
            // Contract §4: what the core says on a claim names nobody else.
            conditions: self.conditions(&row.conditions, true),
            events: self.events(About::Claim, &row.key.namespace, &row.key.name),
            deleting: row.deleting.map(|at| self.when(at)),
            commands,
            item,
        }
    }
}

fn sentence(item: &ClaimItem) -> String {
    let all = |names: Vec<String>| names.join(" and ");
    let addresses = all(item.addresses.iter().map(|address| address.address.clone()).collect());
    let services = all(item.services.iter().map(ToString::to_string).collect());
    match (item.phase.as_str(), &item.why) {
        ("Bound", _) if services.is_empty() => {
            format!("has {addresses}, held for it and attached to no Service.")
        }
        ("Bound", _) => format!("has {addresses}, for Service {services}."),
        ("Lost", Some(why)) => format!("lost an address. {}", why.cause),
        (_, Some(why)) => format!("has been waiting for {}. {}", item.since.age, why.cause),
        (_, None) => "waits.".to_owned(),
    }
}

/// The list that a query asks for.
///
/// # Errors
/// When the query cannot be understood.
pub fn list(eye: &Eye, params: &Params, paging: Paging) -> Result<List<ClaimItem>, BadQuery> {
    let (matched, page) = page(eye, params, paging)?;
    let items = page.into_iter().map(|row| eye.claim_item(row)).collect();
    Ok(List::of(eye.digest.totals.claims, matched, paging, items))
}

/// The whole list as a table.
///
/// # Errors
/// When the query cannot be understood.
pub fn export(eye: &Eye, params: &Params) -> Result<Pieces, BadQuery> {
    let (_, rows) = page(eye, params, Paging::all())?;
    Ok(pieces(rows.into_iter().cloned().collect(), |eye, row: &Arc<ClaimRow>| eye.claim_item(row)))
}

/// How many match, and those of the page.
type Page<'a> = (usize, Vec<&'a Arc<ClaimRow>>);

fn page<'a>(eye: &'a Eye, params: &Params, paging: Paging) -> Result<Page<'a>, BadQuery> {
    let find = params.get("q").map(Find::of);
    let (class, namespace) = (params.get("class"), params.get("namespace"));
    let phase = params.one_of("phase", &PHASES)?;
    let family = params.one_of("family", &FAMILIES)?;
    let sort = Sort::read(params, &COLUMNS, USUAL)?;
    let takes_all = eye.scope.is_all() && !params.has_any(&["class", "namespace", "phase", "family"]);
    if takes_all && find.is_none() && sort == USUAL {
        return Ok((eye.digest.totals.claims, paging.slice(eye.world.claims())));
    }
    let takes = |row: &&Arc<ClaimRow>| {
        // The row itself is looked at last: that is waiting for memory, most of the time.
        takes_all
            || eye.scope.sees(&row.key.namespace)
                && class.is_none_or(|class| row.class_or_asked().is_some_and(|of| **of == *class))
                && namespace.is_none_or(|namespace| &*row.key.namespace == namespace)
                && phase.is_none_or(|phase| row.phase == phase)
                && family.is_none_or(|family| row.family == family)
    };
    let rows: Vec<_> = match &find {
        None => eye.world.claims().filter(takes).collect(),
        Some(find) => found(eye, find).into_iter().filter(takes).collect(),
    };
    let matched = rows.len();
    let in_order = find.as_ref().is_none_or(Find::keeps_order);
    let page = if sort == USUAL && in_order {
        paging.slice(rows)
    } else {
        paging.cut(rows, |a, b| compare(sort, a, b))
    };
    Ok((matched, page))
}

/// What a search finds, in the order of the index unless it is by a part of a text. What is found by an address is
/// looked up from there.
fn found<'a>(eye: &'a Eye, find: &Find) -> Vec<&'a Arc<ClaimRow>> {
    if let Some(part) = find.part() {
        return eye.world.claims_with(part);
    }
    if let Some((first, last)) = find.range() {
        let addresses = eye.world.addresses_between(first, last);
        let keys: BTreeSet<&Key> = addresses.filter_map(|row| Some(&row.claim.as_ref()?.key)).collect();
        let claims = keys.into_iter().filter_map(|key| eye.world.claim(key));
        let has_one = |row: &&Arc<ClaimRow>| {
            eye.held_by(row).iter().any(|address| address.ip.is_some_and(|ip| find.has_ip(ip)))
        };
        return claims.filter(has_one).collect();
    }
    eye.world.claims().filter(|row| finds(eye, row, find)).collect()
}

/// Whether a search by namespace and name finds it.
fn finds(eye: &Eye, row: &ClaimRow, find: &Find) -> bool {
    let has = |key: &Key| find.has_named(&key.namespace, &key.name);
    has(&row.key)
        || find.has_namespace(&row.key.namespace) && eye.world.services_of(&row.key).any(|row| has(&row.key))
}

fn compare(sort: Sort<By>, a: &ClaimRow, b: &ClaimRow) -> Ordering {
    // What waits comes first.
    let rank = |row: &ClaimRow| match row.phase {
        ClaimPhase::Lost => 0,
        ClaimPhase::Pending => 1,
        ClaimPhase::Bound => 2,
    };
    let by_column = match sort.by {
        By::Name => Ordering::Equal,
        By::Phase => rank(a).cmp(&rank(b)).then_with(|| a.waiting_since().cmp(&b.waiting_since())),
        By::Class => a.class_or_asked().cmp(&b.class_or_asked()),
        By::Since => b.waiting_since().cmp(&a.waiting_since()),
    };
    let order = by_column.then_with(|| a.key.cmp(&b.key));
    if sort.down { order.reverse() } else { order }
}
