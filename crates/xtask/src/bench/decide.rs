//! What the driver's brain costs by itself, in a fleet of growing size: no cluster, no network. The cost of a handoff
//! must not grow with the fleet.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use ::metallb::{Config, Driver, Key};
use anyhow::{Context as _, Result, ensure};
use api::wellknown::{CLAIM, PROVISIONER, driver, metallb as names};
use api::{Ip, ServiceKey};
use plan::trace::Sampler;
use plan::{Action, Brain as _, Change, Moment, Object, Ref};
use serde_json::{Map, Value, json};

use super::meter::rounded;

const HOME: &str = "metallb-iad-system";
const VERSION: &str = "local.sdn.cozystack.io/v1alpha1";
/// 198.18.0.0/15 is set aside for benchmarks.
const FIRST: u32 = 0xc612_0001;

/// Handoffs there and back in memory, among more and more addresses that are held.
#[derive(clap::Args)]
pub(super) struct Args {
    /// How many addresses are held; may be repeated.
    #[arg(long, value_name = "N", default_values_t = [1000, 10_000, 20_000])]
    held: Vec<u32>,
    /// How many of them go to a Service and come back.
    #[arg(long, value_name = "N", default_value_t = 500)]
    handoffs: u32,
    /// Each fleet twice: with traces off, and with every handoff traced (what is said of it goes nowhere).
    #[arg(long)]
    traces: bool,
}

impl Args {
    pub(super) fn run(&self) -> Result<()> {
        let all = Some(Sampler::ParentBased(1.0));
        for held in &self.held {
            for sampler in [None, all].into_iter().take(1 + usize::from(self.traces)) {
                self.measure(*held, sampler)?;
            }
        }
        Ok(())
    }

    fn measure(&self, held: u32, sampler: Option<Sampler>) -> Result<()> {
        let mut world = World::with(held, sampler)?;
        let set = std::mem::take(&mut world.spent);
        let handoffs = self.handoffs.min(held);
        for number in 0..handoffs {
            // All over the fleet, not at one end of it.
            world.hand_over(number * (held / handoffs))?;
        }
        let begun = Instant::now();
        let told: usize = world.brain.gauges().iter().map(|gauge| gauge.samples.len()).sum();
        let scrape = begun.elapsed();
        ensure!(told > 0, "the metrics tell nothing");
        ensure!((world.spans > 0) == sampler.is_some(), "{} spans were said", world.spans);
        let (each, spent) = (1_000_000.0 / f64::from(handoffs), world.spent);
        let line = json!({
            "bench": "decide",
            "held": held,
            "handoffs": handoffs,
            "traces": sampler.is_some(),
            "hold_us_each": rounded(set.brain.as_secs_f64() * 1_000_000.0 / f64::from(held)),
            "handoff_us_each": rounded(spent.brain.as_secs_f64() * each),
            "changes_each": rounded(f64::from(spent.changes) / f64::from(handoffs)),
            "decisions_each": rounded(f64::from(spent.decisions) / f64::from(handoffs)),
            "scrape_us": rounded(scrape.as_secs_f64() * 1_000_000.0),
            "slowest_us": rounded(spent.slowest.as_secs_f64() * 1_000_000.0),
        });
        println!("{line}");
        Ok(())
    }
}

/// What the brain was asked and how long it thought.
#[derive(Default)]
struct Spent {
    brain: Duration,
    slowest: Duration,
    changes: u32,
    decisions: u32,
}

/// Just enough of an API server and of MetalLB.
struct World {
    brain: Driver,
    objects: HashMap<Ref, Value>,
    dirty: BTreeSet<Key>,
    version: u64,
    spent: Spent,
    spans: usize,
}

fn ip(number: u32) -> Ip {
    Ip::from(Ipv4Addr::from(FIRST + number))
}

fn tenant(number: u32) -> ServiceKey {
    ServiceKey::new("tenant", format!("web-{number:05}"))
}

fn hold(number: u32) -> Ref {
    Ref::service(&ServiceKey::new(HOME, format!("iad-{}", ip(number).object_name())))
}

impl World {
    /// So many addresses, all bound and held.
    fn with(held: u32, sampler: Option<Sampler>) -> Result<Self> {
        let config = Config { placeholder_namespace: HOME.to_owned(), ..Config::default() };
        let mut world = Self {
            brain: Driver::new(config).traced(sampler),
            objects: HashMap::new(),
            dirty: BTreeSet::new(),
            version: 0,
            spent: Spent::default(),
            spans: 0,
        };
        let range = format!("{}-{}", ip(0), ip(held + 32));
        world.put(json!({
            "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
            "metadata": { "namespace": "metallb-system", "name": "bench" },
            "spec": { "addresses": [range], "autoAssign": false },
        }))?;
        world.put(json!({
            "apiVersion": VERSION, "kind": "IPAddressClass", "metadata": { "name": "bench" },
            "spec": { "provisioner": driver::PROVISIONER, "parameters": { "pool": "bench" } },
        }))?;
        for number in 0..held {
            let (claim, name) = (tenant(number).name, ip(number).object_name());
            let uid = format!("uid-of-{claim}");
            world.put(json!({
                "apiVersion": VERSION, "kind": "IPAddressClaim",
                "metadata": {
                    "namespace": "tenant", "name": claim, "uid": uid,
                    "annotations": { PROVISIONER: driver::PROVISIONER },
                },
                "spec": { "className": "bench" },
                "status": {
                    "phase": "Bound", "className": "bench",
                    "addresses": [{ "name": name.as_str(), "address": ip(number).to_string() }],
                },
            }))?;
            world.put(json!({
                "apiVersion": VERSION, "kind": "IPAddress",
                "metadata": { "name": name.as_str(), "finalizers": [driver::TEARDOWN] },
                "spec": {
                    "className": "bench", "address": ip(number).to_string(), "source": { "fromClass": {} },
                    "claimRef": { "namespace": "tenant", "name": claim, "uid": uid },
                },
                "status": { "phase": "Bound" },
            }))?;
            world.settle(number)?;
        }
        Ok(world)
    }

    /// To a Service and back.
    fn hand_over(&mut self, number: u32) -> Result<()> {
        let key = tenant(number);
        let reference = Ref::service(&key);
        self.put(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "namespace": key.namespace, "name": key.name, "annotations": { CLAIM: key.name },
            },
            "spec": {
                "type": "LoadBalancer", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{ "port": 80 }],
            },
        }))?;
        self.settle(number)?;
        ensure!(self.shows(&reference) && !self.objects.contains_key(&hold(number)), "{key} has no address");
        self.delete(&reference)?;
        self.settle(number)?;
        ensure!(self.shows(&hold(number)) && !self.objects.contains_key(&reference), "{key} is still there");
        Ok(())
    }

    /// The brain and MetalLB act until both are at rest.
    fn settle(&mut self, number: u32) -> Result<()> {
        loop {
            while let Some(key) = self.dirty.pop_first() {
                let moment = Moment { now: jiff::Timestamp::UNIX_EPOCH, entropy: u128::from(self.version) };
                let begun = Instant::now();
                let plan = self.brain.decide(&key, &moment);
                self.thought(begun);
                self.spent.decisions += 1;
                for action in plan.actions {
                    self.carry_out(action)?;
                }
            }
            if !self.assign(number)? {
                return Ok(());
            }
        }
    }

    fn thought(&mut self, begun: Instant) {
        let took = begun.elapsed();
        self.spent.brain += took;
        self.spent.slowest = self.spent.slowest.max(took);
    }

    fn tell(&mut self, change: Change) {
        let begun = Instant::now();
        let dirty = self.brain.apply(change);
        self.thought(begun);
        self.spent.changes += 1;
        self.dirty.extend(dirty);
    }

    /// MetalLB: a pinned Service has the address, a placeholder has it alone or under the Service's key.
    fn assign(&mut self, number: u32) -> Result<bool> {
        let (service, hold) = (Ref::service(&tenant(number)), hold(number));
        let annotation = |reference: &Ref, name: &str| {
            self.objects.get(reference).and_then(|object| object["metadata"]["annotations"][name].as_str())
        };
        let served = annotation(&service, names::PIN).is_some();
        let shared = annotation(&service, names::SHARE) == annotation(&hold, names::SHARE);
        let mut changed = false;
        for (reference, has) in [(service, served), (hold, !served || shared)] {
            let Some(mut object) = self.objects.get(&reference).cloned() else { continue };
            if self.shows(&reference) != has {
                let ingress = if has { json!([{ "ip": ip(number).to_string() }]) } else { json!([]) };
                object["status"] = json!({ "loadBalancer": { "ingress": ingress } });
                self.put(object)?;
                changed = true;
            }
        }
        Ok(changed)
    }

    fn shows(&self, service: &Ref) -> bool {
        let ingress = |object: &Value| object["status"]["loadBalancer"]["ingress"].as_array().cloned();
        self.objects.get(service).and_then(ingress).is_some_and(|ingress| !ingress.is_empty())
    }

    fn put(&mut self, mut value: Value) -> Result<()> {
        self.version += 1;
        let meta = &mut value["metadata"];
        meta["resourceVersion"] = json!(self.version.to_string());
        if meta["uid"].is_null() {
            meta["uid"] = json!(format!("uid-{}", self.version));
        }
        let object = object(&value)?;
        self.objects.insert(object.reference(), value);
        self.tell(Change::Applied(object));
        Ok(())
    }

    /// A merge patch; with the last finalizer of a deletion the object goes.
    fn patch(&mut self, reference: &Ref, body: &Value) -> Result<()> {
        let mut value = self.objects.get(reference).cloned().with_context(|| format!("no {reference}"))?;
        merge(&mut value, body);
        let meta = &value["metadata"];
        let finalizers = meta["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
        if meta["deletionTimestamp"].is_null() || finalizers {
            return self.put(value);
        }
        let uid = meta["uid"].as_str().unwrap_or_default().to_owned();
        self.objects.remove(reference);
        self.tell(Change::Gone { reference: reference.clone(), uid });
        Ok(())
    }

    fn delete(&mut self, reference: &Ref) -> Result<()> {
        self.patch(reference, &json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }))
    }

    fn carry_out(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Create { object, .. } => self.put(text(&object)?),
            Action::Patch { target, body, .. } => self.patch(&target.reference, &body),
            Action::Delete { target } => self.delete(&target.reference),
            Action::Trace(_) => {
                self.spans += 1;
                Ok(())
            }
            Action::ConfirmAbsent { .. } | Action::Emit(_) => Ok(()),
        }
    }
}

/// An object as the watch would bring it.
fn object(value: &Value) -> Result<Object> {
    fn read<K: serde::de::DeserializeOwned>(value: &Value) -> Result<Object>
    where
        Object: From<K>,
    {
        Ok(serde_json::from_value::<K>(value.clone())?.into())
    }
    match value["kind"].as_str() {
        Some("IPAddress") => read::<api::IPAddress>(value),
        Some("IPAddressClaim") => read::<api::IPAddressClaim>(value),
        Some("IPAddressClass") => read::<api::IPAddressClass>(value),
        Some("IPAddressPool") => read::<kube::core::DynamicObject>(value),
        _ => read::<k8s_openapi::api::core::v1::Service>(value),
    }
}

fn text(object: &Object) -> Result<Value> {
    Ok(match object {
        Object::Address(object) => serde_json::to_value(&**object)?,
        Object::Claim(object) => serde_json::to_value(&**object)?,
        Object::Class(object) => serde_json::to_value(&**object)?,
        Object::Service(object) => serde_json::to_value(&**object)?,
        Object::Namespace(object) => serde_json::to_value(&**object)?,
        Object::Event(object) => serde_json::to_value(&**object)?,
        Object::Pool(object) => serde_json::to_value(&**object)?,
    })
}

/// RFC 7396.
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        value.clone_from(patch);
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    for (name, change) in patch {
        if change.is_null() {
            value.as_object_mut().map(|fields| fields.remove(name));
        } else {
            merge(&mut value[name], change);
        }
    }
}
