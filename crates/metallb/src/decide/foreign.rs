//! Contract §11: what others write on Services that is ours to write, and what they misspell.
//!
//! Marks that were taken off or changed are put back, one write of ours for one of theirs at most: at once the
//! first time, then after a pause that doubles. While the Service shows the address nothing is urgent, as MetalLB
//! leaves an IP where it is. One that does not show it (its pin was changed) gets its pin back at once, whatever the
//! pause: the address is with nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::wellknown::{AUTO_CLAIM, CLAIM, GROUP, PROVISIONER, TRACEPARENT, driver};
use api::{IPAddress, Ip, ServiceKey};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use plan::{Event, Moment, Object, Plan};

use super::Unit;
use super::ledger::is_under_way;
use super::marks::{ips, is_dressed, is_pinned};
use super::service::is_holder;
use crate::FIELD_MANAGER;
use crate::index::Index;
use crate::parse::service::View;

/// What a Service may carry under our prefix.
const KNOWN: [&str; 4] = [CLAIM, AUTO_CLAIM, PROVISIONER, TRACEPARENT];
/// So many letters may differ for one annotation to be taken for another.
const NEAR: usize = 4;

/// Looks at the marks of the Services that have the addresses of the unit, and remembers what others did to them.
pub(super) fn watch(index: &mut Index, unit: &Unit, moment: &Moment, plan: &mut Plan) {
    let mut holders: BTreeMap<ServiceKey, Vec<_>> = BTreeMap::new();
    for address in &unit.addresses {
        if let Some(to) = address.associated_to() {
            holders.entry(to.key()).or_default().push(Arc::clone(address));
        }
    }
    for (key, group) in holders {
        let Some(service) = index.services.get(&key) else { continue };
        let kept = service.is_load_balancer() && !service.is_deleting() && service.claim() == unit.key;
        let at_rest = |address: &Arc<_>| is_holder(address, &service) && !is_under_way(address);
        if !kept || !group.iter().all(at_rest) {
            continue;
        }
        let set: BTreeSet<Ip> = ips(&group).into_iter().collect();
        if is_dressed(index, &service, &set) {
            index.marks_are_whole(&service);
        } else {
            let served = set.is_subset(&service.ingress());
            // A label or a finalizer may be missing because an older version put none.
            let manager = (!is_pinned(&service, &set)).then(|| last_manager(&service, settled(&group)));
            index.marks_are_broken(&service, served, manager, moment.now);
        }
        for manager in index.rivals(&service) {
            let note = format!(
                "the pin of this Service ({}) was changed or taken off{manager}; it is put back, later each time; \
                 leave the annotations, the label and the finalizer of {} alone while the Service names a claim",
                api::wellknown::metallb::PIN,
                driver::PROVISIONER,
            );
            let object = Object::Service(Arc::clone(&service));
            plan.standing.push(Event::warning(&object, "PinOverwritten", "Associate", note));
        }
    }
}

/// When the last of the addresses was handed to its Service.
fn settled(group: &[Arc<IPAddress>]) -> Option<Timestamp> {
    let status = group.iter().filter_map(|address| address.status.as_ref());
    status.filter_map(|status| status.last_handoff.as_ref()?.finished_at.as_ref().map(|at| at.0)).max()
}

/// Who wrote last since then, but for ourselves and whoever writes the status: that is MetalLB. Who only takes fields
/// away leaves no name in `managedFields`: then nobody is named.
fn last_manager(service: &Service, since: Option<Timestamp>) -> String {
    let entries = service.metadata.managed_fields.as_deref().unwrap_or_default();
    let balancers: BTreeSet<_> = entries
        .iter()
        .filter(|entry| entry.subresource.as_deref() == Some("status"))
        .filter_map(|entry| entry.manager.as_deref())
        .collect();
    let written =
        entries.iter().filter_map(|entry| Some((entry.time.as_ref()?.0, entry.manager.as_deref()?)));
    let others = written.filter(|(at, manager)| {
        since.is_none_or(|since| *at > since) && *manager != FIELD_MANAGER && !balancers.contains(manager)
    });
    others.max().map_or_else(
        || " by somebody who left no name".to_owned(),
        |(_, name)| format!("; the last that wrote it was field manager {name:?}"),
    )
}

/// A Service that carries an annotation of our prefix that nobody reads is told so: a misspelt claim is waited for
/// in vain.
pub(super) fn misspelt(index: &Index, key: &ServiceKey, plan: &mut Plan) {
    let Some(service) = index.services.get(key).filter(|service| !index.is_placeholder(service)) else {
        return;
    };
    let object = Object::Service(Arc::clone(&service));
    for name in unknown_annotations(&service) {
        let nearest = KNOWN.iter().map(|known| (distance(name, known), *known)).min();
        let meant = nearest.filter(|(distance, _)| *distance <= NEAR);
        let hint = meant.map_or_else(
            || "remove it if it is a slip".to_owned(),
            |(_, known)| format!("if {known} is meant, correct it"),
        );
        let note = format!("annotation {name} means nothing to anybody; {hint}");
        plan.standing.push(Event::warning(&object, "UnknownAnnotation", "Read", note));
    }
}

/// The annotations of our prefix that are none of ours.
pub fn unknown_annotations(service: &Service) -> impl Iterator<Item = &String> {
    service.annotations().keys().filter(|name| {
        let ours = name.strip_prefix(GROUP).is_some_and(|rest| rest.starts_with('/'));
        ours && !KNOWN.contains(&name.as_str())
    })
}

/// How many letters have to be put in, taken out or changed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut corner = line;
        let mut left = line + 1;
        for (column, rival) in other.iter().enumerate() {
            let above = row.get(column + 1).copied().unwrap_or_default();
            let value = (corner + usize::from(letter != *rival)).min(above + 1).min(left + 1);
            corner = above;
            if let Some(cell) = row.get_mut(column) {
                *cell = left;
            }
            left = value;
        }
        if let Some(cell) = row.last_mut() {
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("", "abc", 3)]
    #[case("abc", "", 3)]
    #[case("kitten", "sitting", 3)]
    #[case("flaw", "lawn", 2)]
    #[case("same", "same", 0)]
    fn distances(#[case] one: &str, #[case] other: &str, #[case] expected: usize) {
        assert_eq!(distance(one, other), expected);
    }

    #[rstest]
    #[case::c11_the_newest_but_ours_and_metallbs(json!([
        { "manager": "kubectl-edit", "operation": "Update", "time": "2026-11-29T12:00:02Z" },
        { "manager": "metallb-iad", "operation": "Update", "time": "2026-11-29T12:00:09Z" },
        { "manager": "controller", "operation": "Update", "time": "2026-11-29T12:00:08Z" },
        { "manager": "controller", "operation": "Update", "subresource": "status", "time": "2026-11-29T12:00:08Z" },
        { "manager": "helm", "operation": "Update", "time": "2026-11-29T12:00:01Z" },
    ]), "field manager \"kubectl-edit\"")]
    #[case::who_only_takes_away_is_not_known(json!([
        { "manager": "helm", "operation": "Update", "time": "2026-11-29T12:00:01Z" },
    ]), "left no name")]
    #[case::nobody_known(json!([]), "left no name")]
    fn c4_who_wrote_last(#[case] fields: serde_json::Value, #[case] expected: &str) {
        let service = json!({ "metadata": { "name": "web", "managedFields": fields } });
        let service: Service = serde_json::from_value(service).unwrap();
        let since = "2026-11-29T12:00:01.5Z".parse().ok();
        let told = last_manager(&service, since);
        assert!(told.contains(expected), "{told}");
    }
}
