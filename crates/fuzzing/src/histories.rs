//! Histories: objects that come, change and go in any order, also such as no API server would send: old versions, other
//! incarnations, complete lists that lack half of what there was.

use std::collections::BTreeMap;

use api::address::{AddressPhase, AssociatedTo, ClaimRef, Source};
use api::claim::{ClaimAddress, ClaimPhase};
use api::wellknown::{CLAIM, DEFAULT_CLASS, PROVISIONER, driver, metallb as names};
use api::{ClaimFamily, IPAddress, IPAddressClaim, IPAddressClass, ReclaimPolicy};
use arbitrary::{Result, Unstructured};
use k8s_openapi::api::core::v1::{
    Event, LoadBalancerIngress, LoadBalancerStatus, Namespace, ObjectReference, Service, ServicePort,
    ServiceStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::{DynamicObject, ObjectMeta};
use metallb::Config;
use plan::{Change, Kind, Object};
use serde_json::{Value, json};

use crate::brains::{self, Look, Start};

/// More changes than these tell nothing new.
const MOST: usize = 24;
const KINDS: [Kind; 7] =
    [Kind::Service, Kind::Address, Kind::Claim, Kind::Class, Kind::Pool, Kind::Namespace, Kind::Event];
const TEXTS: [&str; 10] = [
    "192.0.2.1",
    "192.0.2.2",
    "192.0.2.0",
    "2001:db8::",
    "2001:db8::1",
    "198.51.100.7",
    "::ffff:192.0.2.1",
    " 192.0.2.2",
    "192.0.2.01",
    "",
];
const NAMES: [&str; 3] = ["web", "db", "wait"];
const SPACES: [&str; 3] = ["tenant", "other", "metallb-iad-system"];
const CLASSES: [&str; 3] = ["public", "spare", ""];
const UIDS: [&str; 4] = ["u1", "u2", UID, ""];
const UID: &str = "0b5ad9a0-8f5c-4c8e-9a3b-2f1d54a3c0de";
const KEYS: [&str; 4] =
    ["iad-00000000000000000000000000000001", "iad-00000000000000000000000000000002", "theirs", ""];
const RANGES: [&str; 6] =
    ["192.0.2.0/30", "192.0.2.1-192.0.2.2", "2001:db8::/127", "198.51.100.0/24", "::/80", "nonsense"];

/// The bytes as choices.
pub fn hold(data: &[u8]) {
    let mut dice = Dice { bytes: Unstructured::new(data), version: 10 };
    let Ok(what) = dice.bytes.int_in_range(0..=2) else { return };
    let Ok(config) = dice.config() else { return };
    let mut history = Vec::new();
    while !dice.bytes.is_empty() && history.len() < MOST {
        let Ok(changes) = dice.changes() else { break };
        history.extend(changes);
    }
    brains::look(Look::of(what), Start::Empty, &history, &config);
}

struct Dice<'a> {
    bytes: Unstructured<'a>,
    version: u64,
}

impl Dice<'_> {
    fn config(&mut self) -> Result<Config> {
        Ok(Config {
            lb_class: self.seldom()?.then(|| "metallb".to_owned()),
            hold_on_delete: !self.seldom()?,
            gap: self.seldom()?,
            inventory: !self.seldom()?,
            auto_claim: self.seldom()?,
            crowd: if self.seldom()? { 0 } else { usize::MAX },
            ..Config::default()
        })
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> Result<T> {
        self.bytes.choose(of).copied()
    }

    fn text(&mut self, of: &[&str]) -> Result<String> {
        self.one(of).map(str::to_owned)
    }

    fn often(&mut self) -> Result<bool> {
        self.bytes.ratio(3, 4)
    }

    fn seldom(&mut self) -> Result<bool> {
        Ok(!self.bytes.ratio(7, 8)?)
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.bytes.arbitrary()? { make(self).map(Some) } else { Ok(None) }
    }

    fn few<T>(&mut self, make: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.bytes.int_in_range(0..=2)?;
        (0..count).map(|_| make(self)).collect()
    }

    /// What a watch tells at once: a change, or a whole list.
    fn changes(&mut self) -> Result<Vec<Change>> {
        let kind = self.one(&KINDS)?;
        let change = match self.bytes.int_in_range(0..=9)? {
            0 => {
                let reference = self.object(kind)?.reference();
                Change::Gone { reference, uid: self.text(&UIDS)? }
            }
            1 => return Ok(Change::list(kind, self.few(|dice| dice.object(kind))?).collect()),
            2 => Change::Deleted(self.object(kind)?),
            _ => Change::Applied(self.object(kind)?),
        };
        Ok(vec![change])
    }

    fn object(&mut self, kind: Kind) -> Result<Object> {
        Ok(match kind {
            Kind::Class => self.class()?.into(),
            Kind::Address => self.address()?.into(),
            Kind::Claim => self.claim()?.into(),
            Kind::Service => self.service()?.into(),
            Kind::Namespace => self.namespace()?.into(),
            Kind::Event => self.event()?.into(),
            Kind::Pool => self.pool()?.into(),
        })
    }

    fn meta(&mut self, namespace: Option<String>, name: String) -> Result<ObjectMeta> {
        self.version += 1;
        let stale = self.seldom()?;
        let version = if stale { self.bytes.int_in_range(0..=self.version)? } else { self.version };
        let time = |seconds: u8| {
            Time(jiff::Timestamp::from_second(1_790_000_000 + i64::from(seconds)).unwrap_or_default())
        };
        let deleting = self.seldom()?;
        Ok(ObjectMeta {
            name: Some(name),
            namespace,
            uid: Some(self.text(&UIDS)?),
            resource_version: Some(version.to_string()),
            generation: Some(1),
            creation_timestamp: Some(time(self.bytes.int_in_range(0..=3)?)),
            deletion_timestamp: deleting.then(|| time(200)),
            ..ObjectMeta::default()
        })
    }

    fn class(&mut self) -> Result<IPAddressClass> {
        let name = self.text(&CLASSES)?;
        let mut class = IPAddressClass::new(&name, api::IPAddressClassSpec::default());
        class.metadata = self.meta(None, name)?;
        if !self.seldom()? {
            class.spec.provisioner.push_str(driver::PROVISIONER);
        }
        let pool = self.text(&CLASSES)?;
        let odd = self.seldom()?;
        let parameters = if odd { json!({ "addresses": [pool] }) } else { json!({ "pool": pool }) };
        class.spec.parameters = parameters.as_object().cloned();
        let marks = [DEFAULT_CLASS, api::wellknown::AUTO_CLAIM_CLASS];
        class.metadata.annotations = self.maybe(|dice| Ok(map([(dice.one(&marks)?, "true")])))?;
        Ok(class)
    }

    fn address(&mut self) -> Result<IPAddress> {
        let text = self.text(&TEXTS)?;
        let by_hand = self.seldom()?;
        let name = match api::Ip::lenient(&text) {
            Ok(ip) if !by_hand => ip.object_name().to_string(),
            _ => "by-hand".to_owned(),
        };
        let mut address = IPAddress::new(&name, api::IPAddressSpec::default());
        address.metadata = self.meta(None, name)?;
        let finalizers = [driver::TEARDOWN, api::wellknown::ADDRESS_PROTECTION];
        address.metadata.finalizers = Some(self.few(|dice| dice.text(&finalizers))?);
        if self.seldom()? {
            address.metadata.labels = Some(map([(driver::OBSERVED, "true")]));
        }
        address.spec.address = text;
        address.spec.class_name = self.text(&CLASSES)?;
        address.spec.reclaim_policy = self.one(&[ReclaimPolicy::Retain, ReclaimPolicy::Delete])?;
        address.spec.source = Source::from_class();
        address.spec.claim_ref = self.maybe(|dice| {
            let (namespace, name) = (dice.text(&SPACES)?, dice.text(&NAMES)?);
            Ok(ClaimRef { namespace, name, uid: dice.maybe(|dice| dice.text(&UIDS))? })
        })?;
        let mut status =
            api::IPAddressStatus { phase: Some(self.one(&AddressPhase::ALL)?), ..Default::default() };
        status.associated_to = self.maybe(|dice| {
            let (kind, namespace, name) = ("Service".to_owned(), dice.text(&SPACES)?, dice.text(&NAMES)?);
            Ok(AssociatedTo { kind, namespace, name, uid: dice.maybe(|dice| dice.text(&UIDS))? })
        })?;
        address.status = Some(status);
        Ok(address)
    }

    fn claim(&mut self) -> Result<IPAddressClaim> {
        let (namespace, name) = (self.text(&SPACES)?, self.text(&NAMES)?);
        let mut claim = IPAddressClaim::new(&name, api::IPAddressClaimSpec::default());
        claim.metadata = self.meta(Some(namespace), name)?;
        let mut annotations = BTreeMap::new();
        if self.often()? {
            annotations.insert(PROVISIONER.to_owned(), driver::PROVISIONER.to_owned());
        }
        if self.seldom()? {
            annotations.insert(driver::ADOPTED.to_owned(), "true".to_owned());
        }
        claim.metadata.annotations = Some(annotations);
        let finalizers = [api::wellknown::CLAIM_PROTECTION];
        claim.metadata.finalizers = Some(self.few(|dice| dice.text(&finalizers))?);
        claim.spec.class_name = self.maybe(|dice| dice.text(&CLASSES))?;
        claim.spec.family = self.one(&[ClaimFamily::IPv4, ClaimFamily::IPv6, ClaimFamily::Dual])?;
        if self.seldom()? {
            claim.spec.address_name = Some(self.text(&["ip-192-0-2-1", "by-hand", ""])?);
        }
        claim.status = self.maybe(|dice| {
            let phase = dice.one(&[ClaimPhase::Pending, ClaimPhase::Bound, ClaimPhase::Lost])?;
            let addresses = dice.few(|dice| {
                let address = dice.text(&TEXTS)?;
                Ok(ClaimAddress { name: "ip-192-0-2-1".to_owned(), address })
            })?;
            let class_name = dice.maybe(|dice| dice.text(&CLASSES))?;
            Ok(api::IPAddressClaimStatus { phase: Some(phase), class_name, addresses, ..Default::default() })
        })?;
        Ok(claim)
    }

    fn service(&mut self) -> Result<Service> {
        let placeholder = self.bytes.arbitrary()?;
        let mut service = Service::default();
        let (namespace, name) = if placeholder {
            let name = self.one(&["iad-ip-192-0-2-1", "iad-ip-2001-db8--1", "iad-by-hand", "", ""])?;
            let made = format!("iad-{UID}-{}", if self.bytes.arbitrary()? { "v4" } else { "v6" });
            ("metallb-iad-system".to_owned(), if name.is_empty() { made } else { name.to_owned() })
        } else {
            (self.text(&SPACES)?, self.text(&NAMES)?)
        };
        service.metadata = self.meta(Some(namespace), name)?;
        service.metadata.annotations = Some(self.annotations(placeholder)?);
        let mut labels = BTreeMap::new();
        if placeholder && self.often()? {
            labels.insert(driver::PLACEHOLDER.to_owned(), "true".to_owned());
        }
        if placeholder && self.bytes.arbitrary()? {
            labels.insert(driver::IP_ADDRESS.to_owned(), self.text(&["ip-192-0-2-1", "by-hand"])?);
        }
        if !placeholder && self.bytes.arbitrary()? {
            labels.insert(driver::ASSOCIATED.to_owned(), "true".to_owned());
        }
        service.metadata.labels = Some(labels);
        service.metadata.finalizers = self.maybe(|_| Ok(vec![driver::HANDOFF.to_owned()]))?;
        self.shape(&mut service)?;
        Ok(service)
    }

    fn annotations(&mut self, placeholder: bool) -> Result<BTreeMap<String, String>> {
        let mut given = BTreeMap::new();
        let mut give = |name: &str, value: String| _ = given.insert(name.to_owned(), value);
        if placeholder {
            give(driver::CLAIM_NAMESPACE, self.text(&SPACES)?);
            give(driver::CLAIM_NAME, self.text(&NAMES)?);
        } else if self.often()? {
            give(CLAIM, self.text(&NAMES)?);
        }
        if self.bytes.arbitrary()? {
            give(if self.seldom()? { names::PIN_OLD } else { names::PIN }, self.text(&TEXTS)?);
        }
        if self.bytes.arbitrary()? {
            give(if self.seldom()? { names::SHARE_OLD } else { names::SHARE }, self.text(&KEYS)?);
        }
        if self.seldom()? {
            give(names::POOL, self.text(&CLASSES)?);
        }
        if !placeholder && self.bytes.arbitrary()? {
            give(driver::PINNED, "true".to_owned());
        }
        if self.seldom()? {
            give("local.sdn.cozystack.io/ip-adress-claim", "web".to_owned());
        }
        Ok(given)
    }

    fn shape(&mut self, service: &mut Service) -> Result<()> {
        let spec = service.spec.get_or_insert_default();
        spec.type_ = Some(if self.seldom()? { "ClusterIP" } else { "LoadBalancer" }.to_owned());
        if self.seldom()? {
            spec.load_balancer_class = Some("metallb".to_owned());
        }
        if self.seldom()? {
            spec.load_balancer_ip = Some(self.text(&TEXTS)?);
        }
        if self.seldom()? {
            spec.external_ips = Some(vec![self.text(&TEXTS)?]);
        }
        if self.seldom()? {
            spec.external_traffic_policy = Some("Local".to_owned());
            spec.selector = Some(map([("app", "web")]));
        }
        spec.ip_family_policy = Some(self.text(&["SingleStack", "PreferDualStack", "RequireDualStack"])?);
        spec.ip_families = Some(self.few(|dice| dice.text(&["IPv4", "IPv6"]))?);
        let port = self.one(&[80, 65535])?;
        spec.ports = Some(vec![ServicePort { port, ..ServicePort::default() }]);
        let shown = self.few(|dice| dice.text(&TEXTS))?;
        let ingress = shown.into_iter().map(|ip| LoadBalancerIngress { ip: Some(ip), ..Default::default() });
        let load_balancer = Some(LoadBalancerStatus { ingress: Some(ingress.collect()) });
        service.status = Some(ServiceStatus { load_balancer, ..ServiceStatus::default() });
        Ok(())
    }

    fn namespace(&mut self) -> Result<Namespace> {
        let name = self.text(&SPACES)?;
        let mut namespace = Namespace { metadata: self.meta(None, name)?, ..Namespace::default() };
        namespace.metadata.labels = self.maybe(|dice| Ok(map([("team", dice.one(&["a", "b"])?)])))?;
        Ok(namespace)
    }

    fn event(&mut self) -> Result<Event> {
        let placeholder = self.bytes.arbitrary()?;
        let (namespace, name) = if placeholder {
            ("metallb-iad-system".to_owned(), self.text(&["iad-ip-192-0-2-1"])?)
        } else {
            (self.text(&SPACES)?, self.text(&NAMES)?)
        };
        Ok(Event {
            metadata: self.meta(Some("tenant".to_owned()), "event".to_owned())?,
            involved_object: ObjectReference {
                namespace: Some(namespace),
                name: Some(name),
                uid: Some(self.text(&UIDS)?),
                ..ObjectReference::default()
            },
            message: Some("no available IPs".to_owned()),
            ..Event::default()
        })
    }

    fn pool(&mut self) -> Result<DynamicObject> {
        let name = self.text(&CLASSES)?;
        let metadata = self.meta(Some("metallb-system".to_owned()), name)?;
        let mut spec = json!({ "addresses": self.few(|dice| dice.text(&RANGES))? });
        if self.often()? {
            spec["autoAssign"] = json!(false);
        }
        if self.seldom()? {
            spec["avoidBuggyIPs"] = json!(true);
        }
        if self.seldom()? {
            spec["serviceAllocation"] = self.allocation()?;
        }
        let status = json!({
            "availableIPv4": self.bytes.int_in_range(-1..=3)?,
            "availableIPv6": self.bytes.int_in_range(0..=3)?,
        });
        Ok(DynamicObject { types: None, metadata, data: json!({ "spec": spec, "status": status }) })
    }

    fn allocation(&mut self) -> Result<Value> {
        Ok(json!({
            "namespaces": self.few(|dice| dice.text(&SPACES))?,
            "namespaceSelectors": self.few(|dice| Ok(json!({ "matchLabels": { "team": dice.one(&["a", "b"])? } })))?,
            "serviceSelectors": self.few(|_| Ok(json!({ "matchLabels": { driver::ASSOCIATED: "true" } })))?,
        }))
    }
}

fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
