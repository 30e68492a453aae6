//! Conflicts: who holds the IP, who is entitled to it, since when, and the command that ends it.

use api::Ip;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::list::List;
use super::{AddressItem, Command, Eye, Named, words};
use crate::query::{Paging, Params};
use crate::world::{AddressRow, ServiceRow};

/// One address that is with somebody it was not given to.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConflictItem {
    /// The address, as in its list.
    #[serde(flatten)]
    pub item: AddressItem,
    /// Whom the binding gives it to: the claim, or nobody.
    pub entitled: Option<Named>,
    /// The Service of that claim.
    pub entitled_service: Option<Named>,
    /// Who has it, and how.
    pub held_by: Vec<Offence>,
    /// Whether the ledger says so too: if not, the driver has not seen it yet, or does not run.
    pub recorded: bool,
}

/// One Service that has an IP that it was not given.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Offence {
    /// The Service.
    pub service: Named,
    /// By what it has the IP.
    pub how: String,
    /// The command that ends it.
    pub command: Command,
}

/// The parameters of the list.
pub const KNOWN: [&str; 2] = Paging::KNOWN;

impl Eye<'_> {
    /// One conflict.
    pub fn conflict(&self, row: &AddressRow) -> ConflictItem {
        let item = self.item(row);
        let offenders = self.world.offenders(row);
        let seen = offenders.iter().filter(|service| self.scope.sees(&service.key.namespace));
        let entitled = item.claim.clone().filter(|_| !item.claim_gone);
        let of_claim = row.claim.as_ref().and_then(|bound| self.world.service_of(&bound.key));
        ConflictItem {
            entitled_service: of_claim.and_then(|service| self.named(&service.key)),
            held_by: seen.filter_map(|service| Some(offence(service, row.ip?))).collect(),
            recorded: row.phase == api::address::AddressPhase::Conflict,
            entitled,
            item,
        }
    }
}

fn offence(service: &ServiceRow, ip: Ip) -> Offence {
    Offence { service: (&service.key).into(), how: how(service, ip), command: ending(service, ip) }
}

/// By what a Service has an IP.
fn how(service: &ServiceRow, ip: Ip) -> String {
    let shown = service.ingress.contains(&ip);
    let pinned = service.pin.as_deref().zip(service.pin_field);
    match (service.external.contains(&ip), pinned, &service.pool) {
        (true, _, _) if !shown => "it names the IP in spec.externalIPs, past MetalLB".to_owned(),
        (true, _, _) => "it names the IP in spec.externalIPs, and MetalLB gave it too".to_owned(),
        (false, Some((pin, field)), _) => format!("it asks for {pin:?} in {field}"),
        (false, None, Some(pool)) => format!("it asks for pool {pool:?}"),
        (false, None, None) => "MetalLB gave it, or somebody wrote its status".to_owned(),
    }
}

const LET_GO: &str = "make it let go: it asks for the IP no more and is no load balancer; set its type back afterwards, and it \
                      gets another IP";

/// The command that ends it. Taking the pin off is not enough: MetalLB leaves an IP where it is until the Service is no
/// load balancer any more.
fn ending(service: &ServiceRow, ip: Ip) -> Command {
    let mut spec = Map::new();
    let mut annotations = Map::new();
    if service.external.contains(&ip) {
        let rest: Vec<_> = service.external.iter().filter(|other| **other != ip).map(Ip::to_string).collect();
        spec.insert("externalIPs".to_owned(), if rest.is_empty() { Value::Null } else { json!(rest) });
    }
    let mut what = "take the IP out of its spec.externalIPs".to_owned();
    if service.ingress.contains(&ip) {
        match service.pin_field {
            Some("spec.loadBalancerIP") => {
                spec.insert("loadBalancerIP".to_owned(), Value::Null);
            }
            Some(annotation) => {
                annotations.insert(annotation.to_owned(), Value::Null);
            }
            None => {}
        }
        if service.pool.is_some() {
            for name in [api::wellknown::metallb::POOL, api::wellknown::metallb::POOL_OLD] {
                annotations.insert(name.to_owned(), Value::Null);
            }
        }
        spec.insert("type".to_owned(), json!("ClusterIP"));
        LET_GO.clone_into(&mut what);
    }
    let mut patch = json!({ "spec": spec });
    if !annotations.is_empty() {
        patch["metadata"] = json!({ "annotations": annotations });
    }
    let key = &service.key;
    let (namespace, name) = (words::quoted(&key.namespace), words::quoted(&key.name));
    let patch = words::quoted(&patch.to_string());
    Command::new(what, format!("kubectl -n {namespace} patch service {name} --type=merge -p {patch}"))
}

/// The conflicts, in the order of their IPs.
pub fn list(eye: &Eye, _: &Params, paging: Paging) -> List<ConflictItem> {
    let all: Vec<_> = eye.digest.conflicts.iter().filter_map(|name| eye.address(name)).collect();
    let total = all.len();
    let page = all.into_iter().skip(paging.offset()).take(paging.limit);
    List::of(total, total, paging, page.map(|row| eye.conflict(row)).collect())
}
