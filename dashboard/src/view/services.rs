//! Services: every load balancer, and whoever has an IP past one, with where each IP comes from.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use api::Ip;
use serde::Serialize;

use super::list::List;
use super::why::sentence;
use super::{Eye, Named, When};
use crate::query::{BadQuery, Find, Paging, Params, Sort};
use crate::world::{About, AddressRow, Key, ServiceRow};

/// Where an IP of a Service comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// It has an IP that it was not given.
    Conflict,
    /// It has none yet.
    Waiting,
    /// MetalLB gave it, and the ledger knows nothing of it.
    Foreign,
    /// MetalLB gave it, and the inventory wrote it down.
    Observed,
    /// By a claim.
    Claimed,
}

impl Origin {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Claimed, Self::Observed, Self::Foreign, Self::Waiting, Self::Conflict];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Waiting => "waiting",
            Self::Foreign => "foreign",
            Self::Observed => "observed",
            Self::Claimed => "claimed",
        }
    }

    /// How it is coloured.
    pub const fn tone(self) -> &'static str {
        match self {
            Self::Conflict => "bad",
            Self::Waiting => "warn",
            Self::Foreign | Self::Observed => "idle",
            Self::Claimed => "ok",
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

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

/// By Service, which is told by where its row is.
type Worsts = HashMap<*const ServiceRow, Origin>;

/// Where a Service stands that has no IP.
fn without_ip(row: &ServiceRow) -> Origin {
    if row.hostname.is_some() { Origin::Foreign } else { Origin::Waiting }
}

impl Eye<'_> {
    /// Where an IP of a Service comes from, and the name of its address if it may be seen.
    fn origin(&self, service: &ServiceRow, ip: Ip) -> (Origin, Option<String>) {
        let row = self.world.addresses_on(ip).find(|row| row.is_valid());
        let seen = row.filter(|row| self.scope.sees_address(row));
        (self.origin_by(row, service), seen.map(|row| row.name.to_string()))
    }

    /// Where an IP of a Service comes from, by the address that stands for it.
    fn origin_by(&self, row: Option<&Arc<AddressRow>>, service: &ServiceRow) -> Origin {
        match row {
            None => Origin::Foreign,
            Some(row) if row.observed && row.is_held_by(service) => Origin::Observed,
            Some(row) if self.world.is_rightful(row, service) => Origin::Claimed,
            Some(_) => Origin::Conflict,
        }
    }

    /// The worst of the IPs of every Service that has one, found along the IPs: to look up each IP of each Service
    /// costs several times that.
    fn worsts(&self) -> Worsts {
        let mut worsts = Worsts::with_capacity(self.digest.totals.services);
        self.world.each_ip(|_, addresses, services| {
            let row = addresses.iter().copied().find(|row| row.is_valid());
            for service in services {
                let origin = self.origin_by(row, service);
                let worst = worsts.entry(Arc::as_ptr(service)).or_insert(origin);
                *worst = origin.min(*worst);
            }
        });
        worsts
    }

    /// One line of a list.
    pub fn service_item(&self, row: &ServiceRow) -> ServiceItem {
        let ip = |ip: &Ip| {
            let (origin, name) = self.origin(row, *ip);
            let external = !row.ingress.contains(ip);
            ServiceIp { address: ip.to_string(), origin, name, external }
        };
        let mut addresses: Vec<_> = row.ingress.iter().map(ip).collect();
        addresses.extend(row.external.iter().filter(|ip| !row.ingress.contains(ip)).map(ip));
        let worst = addresses.iter().map(|address| address.origin).min();
        let origin = worst.unwrap_or_else(|| without_ip(row));
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
    let find = params.get("q").map(Find::of);
    let namespace = params.get("namespace");
    let origins: Vec<_> = Origin::ALL.into_iter().map(|origin| (origin.word(), origin)).collect();
    let origin = params.one_of("origin", &origins)?;
    let sort = Sort::read(params, &COLUMNS, USUAL)?;
    // Only found where it is needed of all.
    let of_all = origin.is_some() || sort.by == By::Origin;
    let worsts = if of_all { eye.worsts() } else { Worsts::new() };
    let worst =
        |row: &Arc<ServiceRow>| worsts.get(&Arc::as_ptr(row)).copied().unwrap_or_else(|| without_ip(row));
    let takes_all = eye.scope.is_all() && namespace.is_none() && origin.is_none();
    let takes = |row: &&Arc<ServiceRow>| {
        takes_all
            || eye.scope.sees(&row.key.namespace)
                && namespace.is_none_or(|namespace| &*row.key.namespace == namespace)
                && origin.is_none_or(|origin| worst(row) == origin)
    };
    let in_order = find.as_ref().is_none_or(Find::keeps_order);
    let rows: Vec<&Arc<ServiceRow>> = match &find {
        None => eye.world.workloads().filter(takes).collect(),
        Some(find) => found(eye, find).into_iter().filter(|row| !row.placeholder).filter(takes).collect(),
    };
    let rank = |row| if sort.by == By::Origin { worst(row) } else { Origin::Claimed };
    let rows: Vec<_> = rows.into_iter().map(|row| (rank(row), row)).collect();
    let matched = rows.len();
    let page = if sort == USUAL && in_order {
        paging.slice(rows)
    } else {
        paging.cut(rows, |a, b| compare(sort, a, b))
    };
    let items = page.into_iter().map(|(_, row)| eye.service_item(row)).collect();
    Ok(List::of(eye.digest.totals.services, matched, paging, items))
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
