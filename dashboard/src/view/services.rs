//! Services: every load balancer, and whoever has an IP past one, with where each IP comes from.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::Ip;
use serde::Serialize;

use super::csv::{Pieces, pieces};
use super::list::List;
use super::why::sentence;
use super::{Eye, Named, When};
use crate::query::{BadQuery, Find, Paging, Params, Sort};
use crate::world::{About, Key, Origin, ServiceRow};

/// One IP of a Service.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceIp {
    /// The IP.
    pub address: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The name of its address object, if it may be seen.
    pub name: Option<String>,
    /// Whether it is taken by `spec.externalIPs`, past MetalLB.
    pub external: bool,
}

/// One Service in a list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceItem {
    /// Namespace and name.
    #[serde(flatten)]
    pub named: Named,
    /// `spec.type`.
    pub r#type: String,
    /// The worst of its IPs, or that it has none.
    pub origin: Origin,
    /// Its IPs.
    pub addresses: Vec<ServiceIp>,
    /// The host name that its load balancer gave it.
    pub hostname: Option<String>,
    /// The claim it names.
    pub claim: Option<Named>,
    /// Whether that claim is there.
    pub claim_there: bool,
    /// Why it has no IP, or not the one it asks for, in the words of the driver.
    pub why: Option<String>,
    /// Its ports.
    pub ports: String,
    /// `spec.loadBalancerClass`.
    pub load_balancer_class: Option<String>,
    /// When it was made.
    pub created: When,
    /// Since when it is being deleted.
    pub deleting: Option<When>,
}

/// The parameters of the list.
pub const KNOWN: [&str; 6] = ["q", "namespace", "origin", "sort", "page", "limit"];

/// Events of the driver on a Service that say what is in the way.
const REFUSALS: [&str; 7] = [
    "AssociationRejected",
    "ClaimNotFound",
    "ClaimNotBound",
    "AddressConflict",
    "AutoClaimBlocked",
    "UnknownAnnotation",
    "AllocationFailed",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Name,
    Origin,
    Claim,
    Created,
}

const COLUMNS: [(&str, By); 4] =
    [("service", By::Name), ("origin", By::Origin), ("claim", By::Claim), ("created", By::Created)];

/// The order in which the index has them.
const USUAL: Sort<By> = Sort { by: By::Name, down: false };

impl Eye<'_> {
    /// One line of a list.
    pub fn service_item(&self, row: &ServiceRow) -> ServiceItem {
        let ip = |ip: &Ip| {
            let address = self.world.address_for(*ip);
            let seen = address.filter(|address| self.scope.sees_address(address));
            ServiceIp {
                address: ip.to_string(),
                origin: self.world.origin_by(address, row),
                name: seen.map(|address| address.name.to_string()),
                external: !row.ingress.contains(ip),
            }
        };
        let mut addresses: Vec<_> = row.ingress.iter().map(ip).collect();
        addresses.extend(row.external.iter().filter(|ip| !row.ingress.contains(ip)).map(ip));
        let origin = self.world.origin(row);
        // A Service that names a claim and has something else waits too.
        let lacks = match origin {
            Origin::Waiting | Origin::Conflict => true,
            Origin::Foreign | Origin::Observed => row.claim.is_some(),
            Origin::Claimed => false,
        };
        let told = lacks.then(|| self.told(row)).flatten();
        ServiceItem {
            named: (&row.key).into(),
            r#type: row.kind.to_string(),
            origin,
            addresses,
            hostname: row.hostname.as_ref().map(ToString::to_string),
            claim: row.claim.as_ref().map(Named::from),
            claim_there: row.claim.as_ref().is_some_and(|claim| self.world.claim(claim).is_some()),
            why: told,
            ports: row.ports.to_string(),
            load_balancer_class: row.lb_class.as_ref().map(ToString::to_string),
            created: self.when(row.created),
            deleting: row.deleting.map(|at| self.when(at)),
        }
    }

    /// Why it has not the IP it asks for: what can be seen at this moment comes before what was said.
    fn told(&self, row: &ServiceRow) -> Option<String> {
        self.claim_in_the_way(row).or_else(|| {
            let events = self.world.events_about(About::Service, &row.key.namespace, &row.key.name);
            let event = events.iter().find(|event| REFUSALS.contains(&&*event.reason))?;
            Some(sentence(&event.note))
        })
    }

    fn claim_in_the_way(&self, row: &ServiceRow) -> Option<String> {
        let key = row.claim.as_ref()?;
        let Some(claim) = self.world.claim(key) else {
            return Some(format!("Claim {} does not exist in its namespace.", key.name));
        };
        if let Some(why) = self.why(claim) {
            return Some(format!("Its claim waits. {}", why.cause));
        }
        let mut holders = self.world.addresses_of(key).filter_map(|address| self.world.holder(address));
        let other = holders.find(|holder| holder.key != row.key)?;
        Some(format!(
            "Claim {} is with Service {}; it follows when that lets go.",
            key.name,
            self.named(&other.key)?
        ))
    }
}

/// The list that a query asks for.
///
/// # Errors
/// When the query cannot be understood.
pub fn list(eye: &Eye, params: &Params, paging: Paging) -> Result<List<ServiceItem>, BadQuery> {
    let (matched, page) = page(eye, params, paging)?;
    let items = page.into_iter().map(|row| eye.service_item(row)).collect();
    Ok(List::of(eye.digest.totals.services, matched, paging, items))
}

/// The whole list as a table.
///
/// # Errors
/// When the query cannot be understood.
pub fn export(eye: &Eye, params: &Params) -> Result<Pieces, BadQuery> {
    let (_, rows) = page(eye, params, Paging::all())?;
    Ok(pieces(rows.into_iter().cloned().collect(), |eye, row: &Arc<ServiceRow>| eye.service_item(row)))
}

/// How many match, and those of the page.
type Page<'a> = (usize, Vec<&'a Arc<ServiceRow>>);

fn page<'a>(eye: &'a Eye, params: &Params, paging: Paging) -> Result<Page<'a>, BadQuery> {
    let find = params.get("q").map(Find::of);
    let namespace = params.get("namespace");
    let origins: Vec<_> = Origin::ALL.into_iter().map(|origin| (origin.word(), origin)).collect();
    let origin = params.one_of("origin", &origins)?;
    let sort = Sort::read(params, &COLUMNS, USUAL)?;
    let is_whole = eye.scope.is_all() && find.is_none() && namespace.is_none();
    let by_origin = sort.by == By::Origin || sort == USUAL && origin.is_some();
    if is_whole && by_origin {
        let keys = eye.world.by_origin(origin);
        let keys = if sort.down { paging.slice(keys.rev()) } else { paging.slice(keys) };
        let rows = keys.into_iter().filter_map(|key| eye.world.service(key)).collect();
        return Ok((eye.world.count_by_origin(origin), rows));
    }
    if is_whole && sort == USUAL {
        return Ok((eye.digest.totals.services, paging.slice(eye.world.workloads())));
    }
    let takes = |row: &&Arc<ServiceRow>| {
        eye.scope.sees(&row.key.namespace)
            && namespace.is_none_or(|namespace| &*row.key.namespace == namespace)
            && origin.is_none_or(|origin| eye.world.origin(row) == origin)
    };
    let rows: Vec<_> = match &find {
        None => eye.world.workloads().filter(takes).collect(),
        Some(find) => found(eye, find).into_iter().filter(|row| !row.placeholder).filter(takes).collect(),
    };
    let matched = rows.len();
    if sort == USUAL && find.as_ref().is_none_or(Find::keeps_order) {
        return Ok((matched, paging.slice(rows)));
    }
    let rank = |row| if sort.by == By::Origin { eye.world.origin(row) } else { Origin::Claimed };
    let rows = rows.into_iter().map(|row| (rank(row), row)).collect();
    let page = paging.cut(rows, |a, b| compare(sort, a, b));
    Ok((matched, page.into_iter().map(|(_, row)| row).collect()))
}

/// What a search finds, in the order of the index unless it is by a part of a text.
fn found<'a>(eye: &'a Eye, find: &Find) -> Vec<&'a Arc<ServiceRow>> {
    if let Some(part) = find.part() {
        return eye.world.services_with(part);
    }
    match find.range() {
        None => eye.world.services().filter(|row| finds(row, find)).collect(),
        Some((first, last)) => {
            let shown = eye.world.shown_between(first, last).flat_map(|(_, rows)| rows);
            let by_key: BTreeMap<&Key, &Arc<ServiceRow>> = shown.map(|row| (&row.key, row)).collect();
            by_key.into_values().collect()
        }
    }
}

/// Whether a search by namespace and name finds it.
fn finds(row: &ServiceRow, find: &Find) -> bool {
    let keys = [Some(&row.key), row.claim.as_ref()];
    keys.into_iter().flatten().any(|key| find.has_named(&key.namespace, &key.name))
}

fn compare(sort: Sort<By>, a: &(Origin, &Arc<ServiceRow>), b: &(Origin, &Arc<ServiceRow>)) -> Ordering {
    let by_column = match sort.by {
        By::Name => Ordering::Equal,
        By::Origin => a.0.cmp(&b.0),
        By::Claim => b.1.claim.is_some().cmp(&a.1.claim.is_some()).then_with(|| a.1.claim.cmp(&b.1.claim)),
        By::Created => b.1.created.cmp(&a.1.created),
    };
    let order = by_column.then_with(|| a.1.key.cmp(&b.1.key));
    if sort.down { order.reverse() } else { order }
}
