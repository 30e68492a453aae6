//! Random histories: tenants, admins, a driver and a binder with slow watches, all in any order. In the end there
//! is rest, and what the contract says of it is true. What must never be written is asserted in `world`.

use std::collections::BTreeMap;

use api::claim::ClaimPhase;
use api::{ClaimKey, Family, IPAddress, IPAddressClaim, IPAddressClass};
use binder::Key;
use plan::{Kind, Object, Plan, Ref};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::world::{address_ref, claim_ref, class_ref, object};

#[derive(Clone, Debug)]
enum Step {
    NewClass(&'static str, bool),
    NewClaim(&'static str, Value),
    NewAddress(&'static str, &'static str, Value),
    Edit(Ref, Value),
    Delete(Ref),
    Vanish(Ref),
    /// A watch of one kind tells of its next changes.
    Watch(Kind, usize),
    /// The next key is decided, and the plan carried out at once.
    Pass,
    /// The next key is decided; its plan waits.
    Begin,
    /// A plan that waits is carried out.
    End(usize),
    WatchIsFaster(bool),
    Restart,
}

const CLAIMS: [&str; 3] = ["x", "y", "z"];
/// Two objects for one IP; an IPv6; one that is no canonical text.
const ADDRESSES: [(&str, &str); 5] = [
    ("one", "192.0.2.1"),
    ("two", "192.0.2.2"),
    ("twin", "192.0.2.1"),
    ("six", "2001:db8::1"),
    ("odd", "192.0.2.03"),
];

fn claims() -> impl Strategy<Value = Ref> {
    select(&CLAIMS[..]).prop_map(claim_ref)
}

fn addresses() -> impl Strategy<Value = Ref> {
    select(&ADDRESSES[..]).prop_map(|(name, _)| address_ref(name))
}

fn claim_refs() -> impl Strategy<Value = Value> {
    let uid =
        prop_oneof![2 => Just(Value::Null), 1 => Just(json!("uid-of-nobody")), 1 => Just(json!("uid-4"))];
    prop_oneof![
        2 => Just(Value::Null),
        1 => (select(&CLAIMS[..]), uid)
            .prop_map(|(name, uid)| json!({"namespace": "a", "name": name, "uid": uid})),
    ]
}

fn claim_specs() -> impl Strategy<Value = Value> {
    let class = select(vec![Value::Null, json!("pub"), json!("other")]);
    let family = select(vec!["IPv4", "IPv6", "Dual"]);
    let name =
        prop_oneof![3 => Just(Value::Null), 1 => select(vec![json!("one"), json!("twin"), json!("odd")])];
    (class, family, name).prop_map(|(class, family, name)| {
        let name = if family == "Dual" { Value::Null } else { name };
        json!({"className": class, "family": family, "addressName": name})
    })
}

fn address_edits() -> impl Strategy<Value = Value> {
    let phases = select(vec!["Conflict", "Lost", "Bound", "Available", "Pending", "Released"]);
    let service = json!({"kind": "Service", "namespace": "a", "name": "s"});
    prop_oneof![
        claim_refs().prop_map(|claim| json!({"spec": {"claimRef": claim}})),
        Just(json!({"spec": {"claimRef": {"uid": null}}})),
        select(vec!["Retain", "Delete"]).prop_map(|policy| json!({"spec": {"reclaimPolicy": policy}})),
        select(vec!["pub", "other"]).prop_map(|class| json!({"spec": {"className": class}})),
        phases.prop_map(|phase| json!({"status": {"phase": phase}})),
        select(vec![Value::Null, service]).prop_map(|to| json!({"status": {"associatedTo": to}})),
        Just(json!({"metadata": {"labels": {"k": "v"}}})),
        select(vec![json!(["P/teardown"]), Value::Null])
            .prop_map(|finalizers| json!({"metadata": {"finalizers": finalizers}})),
    ]
}

fn claim_edits() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"spec": {"family": "Dual", "addressName": null}})),
        select(vec!["pub", "other"]).prop_map(|class| json!({"spec": {"className": class}})),
        Just(json!({"metadata": {"annotations": {"local.sdn.cozystack.io/provisioner": "forged"}}})),
        Just(json!({"status": null})),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let policy = select(vec!["Retain", "Delete"]);
    let new_address = (select(&ADDRESSES[..]), select(vec!["pub", "pub", "other"]), policy, claim_refs());
    let kinds = select(vec![Kind::Claim, Kind::Address, Kind::Class]);
    let classes = || select(vec!["pub", "other"]);
    prop_oneof![
        2 => (classes(), any::<bool>()).prop_map(|(name, default)| Step::NewClass(name, default)),
        4 => (select(&CLAIMS[..]), claim_specs()).prop_map(|(name, spec)| Step::NewClaim(name, spec)),
        5 => new_address.prop_map(|((name, ip), class, policy, claim)| {
            Step::NewAddress(name, ip, json!({"className": class, "reclaimPolicy": policy, "claimRef": claim}))
        }),
        4 => (addresses(), address_edits()).prop_map(|(reference, edit)| Step::Edit(reference, edit)),
        2 => (claims(), claim_edits()).prop_map(|(reference, edit)| Step::Edit(reference, edit)),
        2 => prop_oneof![claims(), addresses(), classes().prop_map(class_ref)].prop_map(Step::Delete),
        1 => prop_oneof![claims(), addresses()].prop_map(Step::Vanish),
        8 => (kinds, 1..4_usize).prop_map(|(kind, count)| Step::Watch(kind, count)),
        12 => Just(Step::Pass),
        4 => Just(Step::Begin),
        3 => (0..4_usize).prop_map(Step::End),
        1 => any::<bool>().prop_map(Step::WatchIsFaster),
        1 => Just(Step::Restart),
    ]
}

#[derive(Default)]
struct InFlight(Vec<(Key, Plan)>);

fn take(lab: &mut Lab, in_flight: &InFlight) -> Option<Key> {
    let free = |key: &Key| !in_flight.0.iter().any(|(busy, _)| busy == key);
    let next = lab.dirty.iter().find(|(_, key)| free(key)).cloned()?;
    lab.dirty.remove(&next);
    Some(next.1)
}

fn step(lab: &mut Lab, in_flight: &mut InFlight, step: Step) {
    let there = |lab: &Lab, reference: &Ref| lab.world.objects.contains_key(reference);
    match step {
        Step::NewClass(name, default) if !there(lab, &class_ref(name)) => _ = lab.class(name, default),
        Step::NewClaim(name, spec) if !there(lab, &claim_ref(name)) => _ = lab.claim(name, spec),
        Step::NewAddress(name, ip, spec) if !there(lab, &address_ref(name)) => {
            lab.address_named(name, ip, spec);
        }
        Step::Edit(reference, patch) if there(lab, &reference) => {
            let deleting = !lab.get(&reference)["metadata"]["deletionTimestamp"].is_null();
            // The API server takes no new finalizers on what is being deleted, and no claimRef of a uid alone.
            let no_ref = lab.get(&reference)["spec"]["claimRef"].is_null();
            if no_ref && patch["spec"]["claimRef"] == json!({"uid": null}) {
                return;
            }
            if !(deleting && patch["metadata"]["finalizers"].is_array()) {
                lab.edit(&reference, &patch);
            }
        }
        Step::Delete(reference) => _ = lab.world.delete(&reference),
        Step::Vanish(reference) if there(lab, &reference) => lab.world.vanish(&reference),
        Step::Watch(kind, count) => {
            for _ in 0..count {
                let of_kind = |change: &plan::Change| match change {
                    plan::Change::Applied(object) | plan::Change::Deleted(object) => object.kind() == kind,
                    _ => false,
                };
                let Some(at) = lab.world.watch.iter().position(of_kind) else { break };
                if let Some(change) = lab.world.watch.remove(at) {
                    lab.apply(change);
                }
            }
        }
        Step::Pass => {
            if let Some(key) = take(lab, in_flight) {
                lab.pass(&key);
            }
        }
        Step::Begin => {
            if let Some(key) = take(lab, in_flight) {
                let plan = lab.decide(&key);
                in_flight.0.push((key, plan));
            }
        }
        Step::End(at) if at < in_flight.0.len() => {
            let (key, plan) = in_flight.0.remove(at);
            lab.carry_out(&key, &plan);
        }
        Step::WatchIsFaster(faster) => lab.watch_is_faster = faster,
        Step::Restart => {
            in_flight.0.clear();
            lab.restart();
        }
        _ => {}
    }
}

struct Cluster {
    classes: Vec<IPAddressClass>,
    addresses: Vec<IPAddress>,
    claims: Vec<IPAddressClaim>,
}

fn cluster(lab: &Lab) -> Cluster {
    let mut cluster = Cluster { classes: Vec::new(), addresses: Vec::new(), claims: Vec::new() };
    for (reference, value) in &lab.world.objects {
        match object(reference, value) {
            Object::Class(class) => cluster.classes.push((*class).clone()),
            Object::Address(address) => cluster.addresses.push((*address).clone()),
            Object::Claim(claim) => cluster.claims.push((*claim).clone()),
            _ => {}
        }
    }
    cluster
}

impl Cluster {
    fn family(&self, address: &IPAddress) -> Option<Family> {
        let age = |address: &IPAddress| (address.metadata.creation_timestamp.clone(), address.key());
        let ip = address.ip().ok()?;
        let older = |other: &&IPAddress| other.ip() == Ok(ip) && age(other) < age(address);
        self.addresses.iter().find(older).is_none().then(|| ip.family())
    }

    /// The rest, as the contract describes it: written down a second time, by scanning.
    fn see_contract(&self) {
        let mut shown: BTreeMap<&str, ClaimKey> = BTreeMap::new();
        for claim in self.claims.iter().filter(|claim| !claim.is_deleting()) {
            let status = claim.status.as_ref().expect("a claim at rest has a status");
            assert_eq!(status.observed_generation, claim.metadata.generation);
            for entry in &status.addresses {
                let other = shown.insert(&entry.name, claim.key());
                assert_eq!(other, None, "{} is shown twice", entry.name);
                let address = self.addresses.iter().find(|address| address.key().as_str() == entry.name);
                let address = address.expect("what is shown exists");
                let claim_ref = address.spec.claim_ref.clone().expect("what is shown is bound");
                assert_eq!((claim_ref.key(), claim_ref.uid()), (claim.key(), claim.metadata.uid.as_deref()));
                assert_eq!(address.spec.address, entry.address);
            }
            let own = |address: &&IPAddress| {
                let claim_ref = address.spec.claim_ref.as_ref();
                claim_ref
                    .is_some_and(|to| to.key() == claim.key() && to.uid() == claim.metadata.uid.as_deref())
            };
            let lost = |address: &IPAddress| address.phase() == api::address::AddressPhase::Lost;
            let met = |family: Family| {
                let mut own = self.addresses.iter().filter(own);
                own.any(|it| self.family(it) == Some(family) && !it.is_deleting() && !lost(it))
            };
            let families = claim.spec.family.expand();
            assert_eq!(claim.phase() == ClaimPhase::Bound, families.iter().all(|family| met(*family)));
            if claim.phase() == ClaimPhase::Pending {
                self.see_nothing_forgotten(claim, families.iter().copied().filter(|family| !met(*family)));
            }
        }
        for address in &self.addresses {
            self.see_address(address);
        }
    }

    /// No claim waits while an address that it could have lies free.
    fn see_nothing_forgotten(&self, claim: &IPAddressClaim, missing: impl Iterator<Item = Family>) {
        let status = claim.status.clone().unwrap_or_default();
        let bound = api::conditions::find(&status.conditions, "Bound").expect("a claim at rest has it");
        let resolved = api::conditions::find(&status.conditions, "ClassResolved").map(|it| &*it.reason);
        if bound.reason != "WaitingForProvisioning" || resolved != Some("Resolved") {
            return;
        }
        let class = status.class_name.expect("a resolved claim has a class");
        assert!(self.classes.iter().any(|it| it.metadata.name.as_ref() == Some(&class)));
        for family in missing {
            let free = self.addresses.iter().find(|it| {
                it.spec.claim_ref.is_none()
                    && it.spec.class_name == class
                    && self.family(it) == Some(family)
                    && !it.is_deleting()
                    && !it.phase().is_drivers()
                    && it.associated_to().is_none()
            });
            assert!(free.is_none(), "{} waits while {:?} lies free", claim.key(), free.map(IPAddress::key));
        }
    }

    fn see_address(&self, address: &IPAddress) {
        use api::address::AddressPhase::{Available, Bound, Pending, Released};
        let ours = api::wellknown::ADDRESS_PROTECTION.to_owned();
        let protected = address.metadata.finalizers.as_ref().is_some_and(|all| all.contains(&ours));
        let live = address.spec.claim_ref.as_ref().and_then(|to| {
            let same = |claim: &&IPAddressClaim| {
                claim.key() == to.key() && claim.metadata.uid.as_deref() == to.uid()
            };
            self.claims.iter().find(same)
        });
        if address.is_deleting() {
            assert!(!protected || live.is_some(), "{} is held back by nobody", address.key());
            return;
        }
        assert!(protected, "{} has no finalizer", address.key());
        if address.phase().is_drivers() {
            return;
        }
        let expected = match (&address.spec.claim_ref, live) {
            _ if self.family(address).is_none() => Pending,
            (None, _) => Available,
            // A claim that is being deleted and not reclaimed by us: nothing moves.
            (Some(_), Some(claim)) if claim.is_deleting() => return,
            (Some(_), Some(_)) => Bound,
            (Some(to), None) if to.uid().is_none() => Pending,
            (Some(_), None) => Released,
        };
        assert_eq!(address.phase(), expected, "{}", address.key());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_ends_at_rest_as_the_contract_says(history in prop::collection::vec(steps(), 0..60)) {
        let mut lab = Lab::new();
        let mut in_flight = InFlight::default();
        lab.class("pub", true);
        for next in history {
            step(&mut lab, &mut in_flight, next);
        }
        for (key, plan) in in_flight.0 {
            lab.carry_out(&key, &plan);
        }
        lab.rest();
        cluster(&lab).see_contract();
        let writes = lab.world.writes.len();
        lab.restart().rest();
        prop_assert_eq!(lab.world.writes.len(), writes, "a new process finds nothing to do");
    }
}
