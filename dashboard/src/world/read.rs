//! From the objects of the cluster to rows. What cannot be read is left out; nothing here can fail.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::wellknown::{AUTO_CLAIM_CLASS, CLAIM, PROVISIONER, driver, metallb};
use api::{IPAddress, IPAddressClaim, IPAddressClass, Ip};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::{DynamicObject, ObjectMeta};
use serde_json::Value;

use super::rows::{
    About, AddressRow, BoundTo, ClaimRow, ClassRow, ConditionRow, EventRow, HandoffRow, HeldBy, Key, PastRow,
    PoolRow, ServiceRow, Words,
};

/// The prefix of the names of placeholders, and of the sharing keys that the driver makes.
const PLACEHOLDER_PREFIX: &str = "iad-";

fn created(meta: &ObjectMeta) -> Timestamp {
    meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |at| at.0)
}

fn deleting(meta: &ObjectMeta) -> Option<Timestamp> {
    meta.deletion_timestamp.as_ref().map(|at| at.0)
}

fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}

fn key(words: &mut Words, meta: &ObjectMeta) -> Key {
    Key::new(words.one(text(meta.namespace.as_ref())), words.one(text(meta.name.as_ref())))
}

fn entry<'a>(map: Option<&'a BTreeMap<String, String>>, name: &str) -> Option<&'a str> {
    map?.get(name).map(String::as_str)
}

fn is_true(map: Option<&BTreeMap<String, String>>, name: &str) -> bool {
    entry(map, name) == Some("true")
}

fn conditions(words: &mut Words, conditions: &[Condition]) -> Box<[ConditionRow]> {
    let row = |condition: &Condition| ConditionRow {
        kind: words.one(&condition.type_),
        status: words.one(&condition.status),
        reason: words.one(&condition.reason),
        message: condition.message.as_str().into(),
        since: condition.last_transition_time.0,
    };
    conditions.iter().map(row).collect()
}

/// An address.
pub fn address(words: &mut Words, object: &IPAddress) -> AddressRow {
    let (meta, spec) = (&object.metadata, &object.spec);
    let status = object.status.as_ref();
    let claim = spec.claim_ref.as_ref().map(|claim| BoundTo {
        key: Key::new(words.one(&claim.namespace), words.one(&claim.name)),
        uid: claim.uid().map(|uid| words.one(uid)),
    });
    let service = object.associated_to().map(|to| HeldBy {
        key: Key::new(words.one(&to.namespace), words.one(&to.name)),
        uid: to.uid.as_deref().filter(|uid| !uid.is_empty()).map(|uid| words.one(uid)),
    });
    let handoff = status.and_then(|status| status.last_handoff.as_ref()).map(|handoff| {
        Box::new(HandoffRow {
            direction: handoff.direction,
            mode: handoff.mode,
            from: handoff.from.as_str().into(),
            to: handoff.to.as_str().into(),
            started: handoff.started_at.0,
            finished: handoff.finished_at.as_ref().map(|at| at.0),
            unheld_ms: handoff.unheld_milliseconds,
            trace: handoff.trace_id.as_deref().map(Into::into),
        })
    });
    let past = status.map_or(&[][..], |status| &status.association_history);
    let history = past.iter().map(|past| PastRow {
        service: Key::new(words.one(&past.namespace), words.one(&past.name)),
        uid: words.one(&past.uid),
        since: past.since.0,
        until: past.until.as_ref().map(|at| at.0),
    });
    let history = history.collect();
    let mut row = AddressRow {
        name: text(meta.name.as_ref()).into(),
        uid: text(meta.uid.as_ref()).into(),
        text: spec.address.as_str().into(),
        ip: object.ip().ok(),
        class: words.one(&spec.class_name),
        phase: object.phase(),
        policy: spec.reclaim_policy,
        claim,
        service,
        observed: is_true(meta.labels.as_ref(), driver::OBSERVED),
        driven: meta.finalizers.iter().flatten().any(|finalizer| finalizer == driver::TEARDOWN),
        provider: spec.source.provider_ref.as_ref().map(|provider| provider.id.as_str().into()),
        created: created(meta),
        deleting: deleting(meta),
        conditions: conditions(words, status.map_or(&[], |status| &status.conditions)),
        handoff,
        history,
        since: created(meta),
    };
    row.since = row.stands_since();
    row
}

/// A claim.
pub fn claim(words: &mut Words, object: &IPAddressClaim) -> ClaimRow {
    let (meta, spec) = (&object.metadata, &object.spec);
    let status = object.status.as_ref();
    let annotations = meta.annotations.as_ref();
    ClaimRow {
        uid: words.one(text(meta.uid.as_ref())),
        asked_class: spec.class_name.as_deref().map(|class| words.one(class)),
        class: status.and_then(|status| status.class_name.as_deref()).map(|class| words.one(class)),
        family: spec.family,
        address_name: spec.address_name.as_deref().map(Into::into),
        phase: object.phase(),
        auto: is_true(annotations, driver::AUTO_CLAIMED) || is_true(annotations, driver::ADOPTED),
        provisioner: entry(annotations, PROVISIONER).map(|name| words.one(name)),
        created: created(meta),
        deleting: deleting(meta),
        conditions: conditions(words, status.map_or(&[], |status| &status.conditions)),
        key: key(words, meta),
    }
}

/// A class.
pub fn class(words: &mut Words, object: &IPAddressClass) -> ClassRow {
    let (meta, spec) = (&object.metadata, &object.spec);
    let status = object.status.as_ref();
    let parameters = spec.parameters.clone().unwrap_or_default();
    let told = status.and_then(|status| status.pool.as_deref());
    let pool = told.or_else(|| parameters.get("pool").and_then(Value::as_str));
    ClassRow {
        name: text(meta.name.as_ref()).into(),
        provisioner: words.one(&spec.provisioner),
        policy: spec.reclaim_policy,
        pool: pool.map(|pool| words.one(pool)),
        lb_class: status.and_then(|status| status.load_balancer_class.as_deref()).map(Into::into),
        is_default: object.is_default(),
        is_auto_claim: is_true(meta.annotations.as_ref(), AUTO_CLAIM_CLASS),
        parameters: Value::Object(parameters).to_string().into(),
        created: created(meta),
        deleting: deleting(meta),
        conditions: conditions(words, status.map_or(&[], |status| &status.conditions)),
    }
}

/// A Service, if it has to do with addresses: a load balancer, or one that names, has or takes an IP.
pub fn service(words: &mut Words, object: &Service, placeholders: &str) -> Option<ServiceRow> {
    static NO_SPEC: std::sync::LazyLock<ServiceSpec> = std::sync::LazyLock::new(ServiceSpec::default);
    let meta = &object.metadata;
    let spec = object.spec.as_ref().unwrap_or(&NO_SPEC);
    let annotations = meta.annotations.as_ref();
    let key = key(words, meta);
    let named = entry(annotations, CLAIM).map(str::trim).filter(|name| !name.is_empty());
    let claim = named.map(|name| Key::new(Arc::clone(&key.namespace), words.one(name)));
    let status = object.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let shown: Vec<_> = status.and_then(|status| status.ingress.as_ref()).into_iter().flatten().collect();
    let ingress = ips(shown.iter().filter_map(|entry| entry.ip.as_deref()));
    let external = ips(spec.external_ips.iter().flatten().map(String::as_str));
    let kind = spec.type_.as_deref().unwrap_or("ClusterIP");
    if kind != "LoadBalancer" && claim.is_none() && ingress.is_empty() && external.is_empty() {
        return None;
    }
    let (pin_field, pin) = pin(annotations, spec);
    let share = entry(annotations, metallb::SHARE).or_else(|| entry(annotations, metallb::SHARE_OLD));
    let looks_so = || {
        key.name.starts_with(PLACEHOLDER_PREFIX)
            && share.is_some_and(|share| share.starts_with(PLACEHOLDER_PREFIX))
            && claim.is_none()
    };
    // Only inside the placeholder namespace: anybody may put the label on a Service of their own.
    let placeholder =
        &*key.namespace == placeholders && (is_true(meta.labels.as_ref(), driver::PLACEHOLDER) || looks_so());
    let pool = entry(annotations, metallb::POOL).or_else(|| entry(annotations, metallb::POOL_OLD));
    Some(ServiceRow {
        uid: words.one(text(meta.uid.as_ref())),
        kind: words.one(kind),
        lb_class: spec.load_balancer_class.as_deref().map(|class| words.one(class)),
        claim,
        ingress,
        hostname: shown.iter().find_map(|entry| entry.hostname.as_deref()).map(Into::into),
        external,
        pin: pin.map(Into::into),
        pin_field,
        pool: pool.filter(|pool| !pool.is_empty()).map(Into::into),
        pinned_by_us: is_true(annotations, driver::PINNED),
        placeholder,
        ports: ports(spec).into(),
        created: created(meta),
        deleting: deleting(meta),
        key,
    })
}

fn ips<'a>(texts: impl Iterator<Item = &'a str>) -> Box<[Ip]> {
    let mut ips: Vec<Ip> = texts.filter_map(|text| Ip::lenient(text).ok()).collect();
    ips.sort_unstable();
    ips.dedup();
    ips.into()
}

/// What asks for an IP by its number, and where. The stable spelling wins, even when empty.
fn pin<'a>(
    annotations: Option<&'a BTreeMap<String, String>>,
    spec: &'a ServiceSpec,
) -> (Option<&'static str>, Option<&'a str>) {
    for name in [metallb::PIN, metallb::PIN_OLD] {
        if let Some(text) = entry(annotations, name) {
            return if text.is_empty() { (None, None) } else { (Some(name), Some(text)) };
        }
    }
    match spec.load_balancer_ip.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => (Some("spec.loadBalancerIP"), Some(text)),
        None => (None, None),
    }
}

fn ports(spec: &ServiceSpec) -> String {
    let one = |port: &k8s_openapi::api::core::v1::ServicePort| {
        format!("{}/{}", port.port, port.protocol.as_deref().unwrap_or("TCP"))
    };
    spec.ports.iter().flatten().map(one).collect::<Vec<_>>().join(", ")
}

/// A pool, by the semantics of MetalLB.
pub fn pool(words: &mut Words, object: &DynamicObject) -> PoolRow {
    let spec = object.data.get("spec");
    let field = |name: &str| spec.and_then(|spec| spec.get(name));
    let texts: Vec<&str> = field("addresses")
        .and_then(Value::as_array)
        .map(|entries| entries.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    PoolRow {
        namespace: words.one(text(object.metadata.namespace.as_ref())),
        name: words.one(text(object.metadata.name.as_ref())),
        ranges: merged(texts.iter().filter_map(|text| api::range(text)).collect()),
        texts: texts.into_iter().map(Into::into).collect(),
        auto_assign: field("autoAssign").and_then(Value::as_bool).unwrap_or(true),
        avoid_buggy: field("avoidBuggyIPs").and_then(Value::as_bool).unwrap_or(false),
        restricted: field("serviceAllocation").is_some_and(|allocation| !allocation.is_null()),
    }
}

/// Sorted, and each address in one range only.
fn merged(mut ranges: Vec<(IpAddr, IpAddr)>) -> Box<[(IpAddr, IpAddr)]> {
    ranges.sort_unstable();
    let mut whole: Vec<(IpAddr, IpAddr)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match whole.last_mut() {
            Some(before) if before.1.is_ipv4() == first.is_ipv4() && first <= before.1 => {
                before.1 = before.1.max(last);
            }
            _ => whole.push((first, last)),
        }
    }
    whole.into()
}

/// An event, if it is about one of our kinds.
pub fn event(words: &mut Words, object: &Event) -> Option<EventRow> {
    let regarding = &object.involved_object;
    let about = About::ALL.into_iter().find(|about| regarding.kind.as_deref() == Some(about.kind()))?;
    let source = object.source.as_ref().and_then(|source| source.component.as_ref());
    let source = object.reporting_component.as_ref().filter(|name| !name.is_empty()).or(source);
    let at = object.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|at| at.0);
    let at = at
        .or_else(|| object.last_timestamp.as_ref().map(|at| at.0))
        .or_else(|| object.event_time.as_ref().map(|at| at.0))
        .or_else(|| object.first_timestamp.as_ref().map(|at| at.0));
    Some(EventRow {
        about,
        namespace: words.one(text(regarding.namespace.as_ref())),
        name: text(regarding.name.as_ref()).into(),
        warning: object.type_.as_deref() == Some("Warning"),
        reason: words.one(text(object.reason.as_ref())),
        note: text(object.message.as_ref()).into(),
        source: words.one(text(source)),
        at: at.unwrap_or_else(|| created(&object.metadata)),
    })
}

#[cfg(test)]
mod tests {
    use kube::core::{ApiResource, GroupVersionKind};
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pool_of(spec: Value) -> PoolRow {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("metallb.io", "v1beta1", "IPAddressPool"));
        let mut object = DynamicObject::new("public", &kind);
        object.data = json!({ "spec": spec });
        pool(&mut Words::default(), &object)
    }

    #[rstest]
    #[case::two_entries(json!(["192.0.2.0/30", "198.51.100.0/24"]), false, 260)]
    #[case::overlapping(json!(["192.0.2.0/24", "192.0.2.128/25", "192.0.2.250-192.0.3.1"]), false, 258)]
    #[case::unaligned_counts_whole(json!(["192.0.2.9/29"]), false, 8)]
    #[case::buggy_left_out(json!(["192.0.2.0/24"]), true, 254)]
    #[case::buggy_at_the_edges(json!(["192.0.2.255-192.0.3.0"]), true, 0)]
    #[case::nonsense(json!(["nonsense", 7]), false, 0)]
    #[case::everything(json!(["0.0.0.0/0"]), false, 1 << 32)]
    fn pool_sizes(#[case] addresses: Value, #[case] avoid: bool, #[case] expected: u128) {
        let pool = pool_of(json!({ "addresses": addresses, "avoidBuggyIPs": avoid }));
        assert_eq!(pool.size(api::Family::IPv4), expected);
    }

    #[rstest]
    #[case::load_balancer(json!({"spec": {"type": "LoadBalancer"}}), true)]
    #[case::plain(json!({"spec": {"type": "ClusterIP"}}), false)]
    #[case::l2_external_ips(json!({"spec": {"type": "ClusterIP", "externalIPs": ["192.0.2.7"]}}), true)]
    #[case::names_a_claim(json!({"metadata": {"annotations": {CLAIM: "web"}}, "spec": {}}), true)]
    #[case::l2_forged_status(json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}), true)]
    fn which_services_are_kept(#[case] object: Value, #[case] kept: bool) {
        let object: Service = serde_json::from_value(object).unwrap();
        assert_eq!(service(&mut Words::default(), &object, "home").is_some(), kept);
    }

    #[rstest]
    #[case::in_its_namespace("home", true)]
    #[case::l2_a_forged_label_is_nothing("tenant-a", false)]
    fn placeholders_are_of_their_namespace(#[case] namespace: &str, #[case] expected: bool) {
        let object = json!({
            "metadata": { "namespace": namespace, "name": "iad-x", "labels": { driver::PLACEHOLDER: "true" } },
            "spec": { "type": "LoadBalancer" },
        });
        let object: Service = serde_json::from_value(object).unwrap();
        assert_eq!(service(&mut Words::default(), &object, "home").unwrap().placeholder, expected);
    }
}
