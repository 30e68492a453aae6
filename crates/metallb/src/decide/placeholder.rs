//! Placeholders: how they are made, and which of them are orphans (contract §7, §12).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::wellknown::{TRACEPARENT, driver, metallb};
use api::{ClaimKey, Family, IPAddress, IPAddressClaim, Ip, ServiceKey};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use kube::ResourceExt;
use kube::core::ObjectMeta;
use plan::trace::Context;
use plan::{Action, Object, Plan, Ref, Target};
use serde_json::{Map, Value, json};

use crate::index::Index;
use crate::parse::service::{Shape, View};

/// The port of a placeholder, unless the tenant's Service uses it.
const PORT: i32 = 65535;

/// What a placeholder is to be like.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Its name.
    pub name: String,
    /// The family of its one address.
    pub family: Family,
    /// The address it holds, if it is known already.
    pub address: Option<(api::AddressName, Ip)>,
    /// The claim it was made for.
    pub claim: Option<ClaimKey>,
    /// The pool it draws from.
    pub pool: Option<String>,
    /// The sharing key.
    pub key: String,
    /// The Service it shares the address with for a moment.
    pub beside: Option<Beside>,
}

/// What a placeholder must have to share an IP with a Service.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// The Service's backend shape.
    pub shape: Shape,
    /// The Service's ports.
    pub ports: BTreeSet<(String, i32)>,
    /// When the handoff back to the placeholder began.
    pub started: Option<jiff::Timestamp>,
    /// Nobody has the address by then: it comes back in a gap.
    pub alone: bool,
    /// MetalLB is not to look at it yet.
    pub unseen: bool,
    /// The trace of that handoff.
    pub trace: Option<Context>,
}

impl Beside {
    /// Beside this Service.
    pub fn of(service: &Service) -> Self {
        Self { shape: service.shape(), ports: service.ports(), ..Self::default() }
    }

    /// A port that the Service does not use.
    fn port(&self) -> i32 {
        let taken = |port: &i32| self.ports.contains(&("TCP".to_owned(), *port));
        (1..=PORT).rev().find(|port| !taken(port)).unwrap_or(PORT)
    }
}

/// The name of the placeholder that holds an address.
pub fn hold_name(address: &IPAddress) -> String {
    format!("iad-{}", address.name_any())
}

/// Which of those that are being deleted keeps a new placeholder of the address from being made, by having its name. Somebody's
/// finalizer may keep it.
pub fn in_the_way<'a>(address: &IPAddress, lingering: &'a [Arc<Service>]) -> Option<&'a Arc<Service>> {
    lingering.iter().find(|one| one.name_any() == hold_name(address))
}

/// The name of the placeholder that gets an address for a claim: racers collide on it.
pub fn allocation_name(claim: &IPAddressClaim, family: Family) -> String {
    format!("iad-{}-{}", claim.metadata.uid.as_deref().unwrap_or_default(), family.suffix())
}

/// Makes a placeholder.
pub fn make(index: &Index, wish: Wish) -> Service {
    let beside = wish.beside.unwrap_or_default();
    let mut labels = BTreeMap::from([(driver::PLACEHOLDER.to_owned(), "true".to_owned())]);
    let mut annotations = BTreeMap::from([
        (driver::DESCRIPTION.to_owned(), description(wish.claim.as_ref())),
        (metallb::SHARE.to_owned(), wish.key),
    ]);
    if let Some((name, ip)) = wish.address {
        labels.insert(driver::IP_ADDRESS.to_owned(), name.to_string());
        annotations.insert(metallb::PIN.to_owned(), ip.to_string());
    }
    if let Some(claim) = wish.claim {
        annotations.insert(driver::CLAIM_NAMESPACE.to_owned(), claim.namespace);
        annotations.insert(driver::CLAIM_NAME.to_owned(), claim.name);
    }
    if let Some(pool) = wish.pool {
        annotations.insert(metallb::POOL.to_owned(), pool);
    }
    if let Some(started) = beside.started {
        annotations.insert(driver::HANDOFF_STARTED.to_owned(), started.to_string());
    }
    if beside.alone {
        annotations.insert(driver::HANDOFF_MODE.to_owned(), driver::GAP.to_owned());
    }
    if let Some(trace) = beside.trace {
        annotations.insert(TRACEPARENT.to_owned(), trace.to_string());
    }
    let mut spec = ServiceSpec {
        ip_family_policy: Some("SingleStack".to_owned()),
        ip_families: Some(vec![wish.family.to_string()]),
        ports: Some(vec![service_port(beside.port())]),
        ..ServiceSpec::default()
    };
    let (policy, selector) = match beside.shape {
        Shape::Cluster => ("Cluster", None),
        Shape::Local(selector) => ("Local", Some(selector)),
    };
    spec.selector = selector;
    if beside.unseen {
        spec.type_ = Some("ClusterIP".to_owned());
    } else {
        spec.type_ = Some("LoadBalancer".to_owned());
        spec.load_balancer_class.clone_from(&index.config.lb_class);
        spec.allocate_load_balancer_node_ports = Some(false);
        spec.external_traffic_policy = Some(policy.to_owned());
    }
    Service {
        metadata: ObjectMeta {
            name: Some(wish.name),
            namespace: Some(index.config.placeholder_namespace.clone()),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

fn service_port(port: i32) -> ServicePort {
    ServicePort {
        name: Some("placeholder".to_owned()),
        port,
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    }
}

fn description(claim: Option<&ClaimKey>) -> String {
    let owner = claim.map_or_else(String::new, |claim| format!(" for IPAddressClaim {claim}"));
    format!(
        "Keeps an IP address reserved{owner}. Without endpoints by design: do not delete; metallb-iad makes it anew."
    )
}

/// The annotations and spec fields by which a placeholder differs from what it is to be: a merge patch, none
/// if it is right. `beside` is the Service it shares with at this moment.
pub fn mend(
    index: &Index,
    placeholder: &Service,
    address: &IPAddress,
    key: &str,
    beside: Option<&Beside>,
) -> Option<Value> {
    let mut annotations = Map::new();
    let mut spec = Map::new();
    let mut meta = labels(placeholder, address);
    if placeholder.metadata.owner_references.is_some() {
        // Nothing but us may end it, garbage collection least of all.
        meta.insert("ownerReferences".to_owned(), Value::Null);
    }
    if let Ok(ip) = address.ip()
        && placeholder.pin().ok() != Some(BTreeSet::from([ip]))
    {
        annotations.insert(metallb::PIN.to_owned(), json!(ip.to_string()));
    }
    if placeholder.sharing_key() != Some(key) {
        annotations.insert(metallb::SHARE.to_owned(), json!(key));
    }
    // A pool that no longer has the IP would clear it: then the pin alone holds.
    if let (Some(pool), Ok(ip)) = (placeholder.pool(), address.ip())
        && !index.pool(pool).is_some_and(|pool| pool.contains(ip))
        && index.pool_containing(&[ip]).is_some()
    {
        for name in [metallb::POOL, metallb::POOL_OLD] {
            if placeholder.annotation(name).is_some() {
                annotations.insert(name.to_owned(), Value::Null);
            }
        }
    }
    let wanted = beside.map(|beside| beside.shape.clone()).unwrap_or_default();
    if placeholder.shape() != wanted {
        let (policy, selector) = match wanted {
            Shape::Cluster => ("Cluster", Value::Null),
            Shape::Local(selector) => ("Local", replaced_map(placeholder, &selector)),
        };
        spec.insert("externalTrafficPolicy".to_owned(), json!(policy));
        spec.insert("selector".to_owned(), selector);
    } else if wanted == Shape::Cluster && placeholder.spec().selector.is_some() {
        spec.insert("selector".to_owned(), Value::Null);
    }
    if let Some(beside) = beside
        && !placeholder.ports().is_disjoint(&beside.ports)
    {
        spec.insert("ports".to_owned(), json!([service_port(beside.port())]));
    }
    spec.extend(type_of(index, placeholder));
    spec.extend(plain_families(placeholder, address));
    if !annotations.is_empty() {
        meta.insert("annotations".to_owned(), Value::Object(annotations));
    }
    let mut body = Map::new();
    if !meta.is_empty() {
        body.insert("metadata".to_owned(), Value::Object(meta));
    }
    if !spec.is_empty() {
        body.insert("spec".to_owned(), Value::Object(spec));
    }
    (!body.is_empty()).then_some(Value::Object(body))
}

/// What makes it a load balancer again, if it is none.
pub fn type_of(index: &Index, placeholder: &Service) -> Map<String, Value> {
    let mut spec = Map::new();
    if !placeholder.is_load_balancer() {
        spec.insert("type".to_owned(), json!("LoadBalancer"));
        spec.insert("allocateLoadBalancerNodePorts".to_owned(), json!(false));
        if let Some(class) = &index.config.lb_class {
            spec.insert("loadBalancerClass".to_owned(), json!(class));
        }
    }
    spec
}

/// The labels by which a placeholder is found, as far as they are missing.
fn labels(placeholder: &Service, address: &IPAddress) -> Map<String, Value> {
    let name = address.name_any();
    let wanted = [(driver::PLACEHOLDER, "true"), (driver::IP_ADDRESS, name.as_str())];
    let label = |name: &str| placeholder.metadata.labels.as_ref()?.get(name).map(String::as_str);
    let missing = wanted.into_iter().filter(|(name, value)| label(name) != Some(value));
    let labels: Map<_, _> = missing.map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let meta = (!labels.is_empty()).then(|| ("labels".to_owned(), Value::Object(labels)));
    meta.into_iter().collect()
}

/// One family, and no second way of asking for an IP: MetalLB serves no Service that asks in two ways.
fn plain_families(placeholder: &Service, address: &IPAddress) -> Map<String, Value> {
    let mut spec = Map::new();
    let old = placeholder.spec();
    if old.load_balancer_ip.as_deref().is_some_and(|ip| !ip.is_empty()) {
        spec.insert("loadBalancerIP".to_owned(), Value::Null);
    }
    if let Ok(ip) = address.ip()
        && old.ip_family_policy.as_deref().is_some_and(|policy| policy != "SingleStack")
    {
        spec.insert("ipFamilyPolicy".to_owned(), json!("SingleStack"));
        spec.insert("ipFamilies".to_owned(), json!([ip.family().as_str()]));
    }
    spec
}

/// Whether its first family, which nobody can change, is this one.
pub fn is_of_family(placeholder: &Service, family: Family) -> bool {
    let first = placeholder.spec().ip_families.as_deref().and_then(<[String]>::first);
    first.is_none_or(|first| first == family.as_str())
}

fn replaced_map(placeholder: &Service, selector: &BTreeMap<String, String>) -> Value {
    let old = placeholder.spec().selector.iter().flatten();
    let mut merged: Map<String, Value> = old.map(|(key, _)| (key.clone(), Value::Null)).collect();
    merged.extend(selector.iter().map(|(key, value)| (key.clone(), json!(value))));
    Value::Object(merged)
}

/// The patch of one placeholder, with its preconditions.
pub fn patch(placeholder: &Arc<Service>, body: Value) -> Action {
    Action::patch(Target::of(&Object::Service(Arc::clone(placeholder))), body)
}

/// The orphan sweep (contract §12): a placeholder whose address and claim are both gone is deleted, after a
/// live look at both.
pub(super) fn sweep(index: &Index, key: &ServiceKey) -> Plan {
    let mut plan = Plan::default();
    let Some(placeholder) = index.services.get(key).filter(|service| index.is_placeholder(service)) else {
        return plan;
    };
    if placeholder.is_deleting() {
        return plan;
    }
    if index.address_held_by(&placeholder).is_some() {
        return plan;
    }
    let address = placeholder.held_address();
    let claim = placeholder
        .annotation(driver::CLAIM_NAMESPACE)
        .zip(placeholder.annotation(driver::CLAIM_NAME))
        .map(|(namespace, name)| ClaimKey::new(namespace, name));
    let alive = claim.as_ref().and_then(|claim| index.claims.get(claim));
    if alive.as_ref().is_some_and(|claim| address.is_some() || is_for(&placeholder, claim)) {
        return plan;
    }
    if let Some(address) = &address {
        plan.push(Action::ConfirmAbsent { reference: Ref::address(address), uid: None });
    }
    if let Some(claim) = &claim {
        let uid = alive.is_some().then(|| uid_in_name(&placeholder).to_owned());
        plan.push(Action::ConfirmAbsent { reference: Ref::claim(claim), uid });
    }
    plan.push(Action::delete(&Object::Service(Arc::clone(&placeholder))));
    plan
}

/// Whether an allocation placeholder was made for this incarnation of a claim.
fn is_for(placeholder: &Service, claim: &IPAddressClaim) -> bool {
    claim.metadata.uid.as_deref() == Some(uid_in_name(placeholder))
}

fn uid_in_name(placeholder: &Service) -> &str {
    let name = placeholder.metadata.name.as_deref().unwrap_or_default();
    let rest = name.strip_prefix("iad-").unwrap_or(name);
    rest.strip_suffix("-v4").or_else(|| rest.strip_suffix("-v6")).unwrap_or(rest)
}
