//! Contract §14: what the core says of its operations to whoever collects traces.

use std::sync::Arc;

use api::wellknown::{TRACEPARENT, TRACEPARENT_KUBERNETES};
use api::{IPAddress, IPAddressClaim};
use jiff::Timestamp;
use kube::ResourceExt;
use plan::trace::{Attribute, Context, Operation, Timing, of_claim, user_context};
use plan::{Action, Plan};

use crate::index::Index;

/// The reservation of the claim, if it is traced.
pub(super) fn reservation(index: &Index, claim: &IPAddressClaim) -> Option<Operation> {
    of_claim(index.sampler, claim)
}

/// The context for others to go on with. Where somebody wrote one already, or anything else, it stays.
pub(super) fn annotation(operation: Option<&Operation>, claim: &IPAddressClaim) -> Option<String> {
    let given = [TRACEPARENT, TRACEPARENT_KUBERNETES].map(|name| claim.annotations().contains_key(name));
    operation.filter(|_| given == [false, false]).map(|operation| operation.context.to_string())
}

/// The claim is bound by this plan. One that was bound before, and now has more, has had its root.
pub(super) fn bound(
    operation: &Operation,
    claim: &IPAddressClaim,
    class: Option<&str>,
    addresses: &[Arc<IPAddress>],
    plan: &mut Plan,
) {
    let about = attributes(claim, class, addresses);
    let uids: Vec<_> = addresses.iter().filter_map(|address| address.metadata.uid.as_deref()).collect();
    plan.push(operation.step("claim.bind", &uids.join(","), Timing::Step, about.clone()));
    let before = claim.status.as_ref().is_some_and(|status| !status.addresses.is_empty());
    if let Some(created) = claim.metadata.creation_timestamp.as_ref().filter(|_| !before) {
        plan.push(operation.end(created.0, None, about));
    }
}

/// The claim's addresses are given up. The trace of the reservation is linked.
pub(super) fn reclaimed(index: &Index, claim: &IPAddressClaim) -> Option<Operation> {
    let uid = claim.metadata.uid.as_deref()?;
    let (user, linked) = match claim.annotations().get(TRACEPARENT).and_then(|text| Context::parse(text)) {
        Some(own) if reservation(index, claim).is_some_and(|ours| ours.context == own) => {
            (claim.annotations().get(TRACEPARENT_KUBERNETES).and_then(|text| Context::parse(text)), Some(own))
        }
        _ => (user_context(claim.annotations()), None),
    };
    Some(Operation::begin(index.sampler, "claim.reclaim", &[uid], user)?.linked(linked))
}

/// The root of a reclaim.
pub(super) fn end_of_reclaim(
    operation: &Operation,
    claim: &IPAddressClaim,
    addresses: &[Arc<IPAddress>],
    now: Timestamp,
) -> Action {
    let since = claim.metadata.deletion_timestamp.as_ref().map_or(now, |at| at.0);
    let class = claim.status.as_ref().and_then(|status| status.class_name.as_deref());
    operation.end(since, None, attributes(claim, class, addresses))
}

fn attributes(
    claim: &IPAddressClaim,
    class: Option<&str>,
    addresses: &[Arc<IPAddress>],
) -> Vec<(&'static str, Attribute)> {
    let mut all: Vec<(&'static str, Attribute)> = vec![
        ("k8s.namespace.name", claim.namespace().unwrap_or_default().into()),
        ("ipam.claim", claim.name_any().into()),
    ];
    all.extend(class.map(|class| ("ipam.class", class.into())));
    let ips: Vec<_> = addresses.iter().map(|address| address.spec.address.as_str()).collect();
    if !ips.is_empty() {
        all.push(("ipam.address", ips.join(",").into()));
    }
    all
}
