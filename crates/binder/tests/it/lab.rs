//! A binder at work on the tiny cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::IPAddress;
use binder::{Binder, Key};
use plan::{Brain, Change, Kind, Moment, Object, Plan, Ref};
use serde_json::{Value, json};

use crate::world::{Did, P, World, address_ref, claim_ref, class_ref, merge, now, object};

/// A lab with one class, the default one.
pub fn lab() -> Lab {
    let mut lab = Lab::new();
    lab.class("pub", true);
    lab
}

/// The spec of an address that was bound beforehand to the claim `web`.
pub fn pre_bound(uid: Option<&str>) -> Value {
    json!({"claimRef": {"namespace": "a", "name": "web", "uid": uid}})
}

/// A cluster with a binder.
pub struct Lab {
    pub world: World,
    pub binder: Binder,
    pub dirty: BTreeSet<(u8, Key)>,
    pub standing: BTreeMap<Key, Vec<String>>,
    /// The watch tells of a write before its answer is there.
    pub watch_is_faster: bool,
}

impl Lab {
    pub fn new() -> Self {
        Self {
            world: World::default(),
            binder: Binder::new(),
            dirty: BTreeSet::new(),
            standing: BTreeMap::new(),
            watch_is_faster: false,
        }
    }

    pub fn class(&mut self, name: &str, default: bool) -> &mut Self {
        let key = api::wellknown::DEFAULT_CLASS;
        let value = json!({
            "metadata": {"annotations": {key: default.to_string()}},
            "spec": {"provisioner": P, "parameters": {"pool": "reserved"}},
        });
        self.world.create(&class_ref(name), value);
        self
    }

    /// A claim in namespace `a`.
    pub fn claim(&mut self, name: &str, spec: Value) -> &mut Self {
        self.world.create(&claim_ref(name), json!({"spec": spec}));
        self
    }

    /// An address of class `pub`, named after its IP.
    pub fn address(&mut self, ip: &str, spec: Value) -> &mut Self {
        let name = api::Ip::lenient(ip).unwrap().object_name();
        self.address_named(name.as_str(), ip, spec)
    }

    pub fn address_named(&mut self, name: &str, ip: &str, spec: Value) -> &mut Self {
        let mut all = json!({"className": "pub", "address": ip, "source": {"fromClass": {}}});
        merge(&mut all, &spec);
        self.world.create(&address_ref(name), json!({"spec": all}));
        self
    }

    pub fn edit(&mut self, reference: &Ref, patch: &Value) -> &mut Self {
        assert!(self.world.edit(reference, patch), "{reference} is missing");
        self
    }

    pub fn delete(&mut self, reference: &Ref) -> &mut Self {
        assert!(self.world.delete(reference), "{reference} is missing");
        self
    }

    pub fn apply(&mut self, change: Change) {
        let dirty = self.binder.apply(change);
        self.mark(dirty);
    }

    fn mark(&mut self, keys: Vec<Key>) {
        self.dirty.extend(keys.into_iter().map(|key| (Binder::lane(&key), key)));
    }

    pub fn deliver(&mut self) {
        while let Some(change) = self.world.watch.pop_front() {
            self.apply(change);
        }
    }

    pub fn decide(&mut self, key: &Key) -> Plan {
        self.binder.decide(key, &Moment { now: now(), entropy: 0 })
    }

    /// Decides about one key and does it; false when the process died.
    pub fn pass(&mut self, key: &Key) -> bool {
        let plan = self.decide(key);
        let did = self.carry_out(key, &plan);
        did != Did::Died
    }

    pub fn carry_out(&mut self, key: &Key, plan: &Plan) -> Did {
        let mut written = BTreeMap::new();
        let mut did = Did::Fine;
        for action in &plan.actions {
            let (outcome, change) = self.world.act(action, &mut written);
            if self.watch_is_faster {
                self.deliver();
            }
            if let Some(change) = change {
                self.apply(change);
            }
            did = outcome;
            if did != Did::Fine {
                break;
            }
        }
        self.binder.settle(key);
        let freed = self.binder.freed();
        self.mark(freed);
        match did {
            Did::Fine => {
                let texts = plan.standing.iter().map(|event| format!("{}: {}", event.reason, event.note));
                self.standing.insert(key.clone(), texts.collect());
            }
            Did::Stale => self.mark(vec![key.clone()]),
            Did::Refused | Did::Died => {}
        }
        did
    }

    /// Works until nothing is left to do; false when the process died.
    pub fn work(&mut self) -> bool {
        for _ in 0..20_000 {
            self.deliver();
            let Some((_, key)) = self.dirty.pop_first() else { return true };
            if !self.pass(&key) {
                return false;
            }
        }
        panic!("no rest: {:#?}", &self.world.writes[self.world.writes.len() - 12..]);
    }

    /// Works until nothing is left to do, and sees that this is so.
    pub fn rest(&mut self) -> &mut Self {
        assert!(self.work());
        self.see_rest();
        self
    }

    pub fn see_rest(&mut self) {
        assert!(self.binder.index().is_settled());
        for key in self.binder.keys() {
            let plan = self.decide(&key);
            assert!(plan.is_empty(), "{key} is not at rest: {plan:#?}");
            assert_eq!(plan.again_after, None, "{key}");
            self.binder.settle(&key);
        }
        assert_eq!(self.binder.freed(), []);
    }

    /// The process starts again: all that is known is what the cluster shows.
    pub fn restart(&mut self) -> &mut Self {
        self.world.watch.clear();
        self.dirty.clear();
        self.standing.clear();
        self.binder = Binder::new();
        for kind in [Kind::Address, Kind::Claim, Kind::Class] {
            let all = self.world.objects.iter().filter(|(reference, _)| reference.kind == kind);
            let all = all.map(|(reference, value)| object(reference, value));
            for change in Change::list(kind, all) {
                self.binder.apply(change);
            }
        }
        let keys = self.binder.keys();
        self.mark(keys);
        self
    }

    pub fn get(&self, reference: &Ref) -> &Value {
        self.world.objects.get(reference).unwrap_or_else(|| panic!("{reference} is missing"))
    }

    pub fn uid(&self, reference: &Ref) -> String {
        self.get(reference)["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// `Bound v=192.0.2.1 (Bound)`: phase, addresses, reason of the condition `Bound`.
    pub fn see_claim(&self, name: &str) -> String {
        let value = self.get(&claim_ref(name));
        let Object::Claim(claim) = object(&claim_ref(name), value) else { panic!() };
        let Some(status) = &claim.status else { return "-".to_owned() };
        let reason = |kind| api::conditions::find(&status.conditions, kind).map_or("-", |c| &c.reason);
        assert_eq!(reason("Bound"), reason("Ready"));
        let addresses: Vec<_> = status.addresses.iter().map(|address| address.address.as_str()).collect();
        let (class, bound) = (reason("ClassResolved"), reason("Bound"));
        format!("{:?} [{}] {bound} {class}", claim.phase(), addresses.join(" "))
    }

    pub fn claim_message(&self, name: &str, kind: &str) -> String {
        let Object::Claim(claim) = object(&claim_ref(name), self.get(&claim_ref(name))) else { panic!() };
        let status = claim.status.clone().unwrap();
        api::conditions::find(&status.conditions, kind).map(|c| c.message.clone()).unwrap_or_default()
    }

    /// `Bound a/web`: phase, claim.
    pub fn see_address(&self, name: &str) -> String {
        let address = self.the_address(name);
        let claim = address.spec.claim_ref.as_ref().map_or("-".to_owned(), |claim| claim.key().to_string());
        format!("{:?} {claim}", address.phase())
    }

    pub fn the_address(&self, name: &str) -> Arc<IPAddress> {
        let Object::Address(address) = object(&address_ref(name), self.get(&address_ref(name))) else {
            panic!()
        };
        address
    }
}
