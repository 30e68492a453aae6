//! Contention: a full pool, a claim that waits for an address of it, and thieves; and what must hold at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use api::claim::ClaimPhase;
use api::wellknown::metallb;
use api::{ClaimKey, IPAddress};
use devcluster::Holders;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use super::Rig;
use super::audit::Request;
use super::look::ingress;
use super::make::{create, delete};
use super::stage::Stage;
use super::wait::gone;

/// How long nothing may be written, to be taken for rest.
const REST: Duration = Duration::from_secs(2);
/// How soon there must be rest.
const REST_WITHIN: Duration = Duration::from_secs(20);
/// What a test says that saw a promise broken. `cargo verify` gives it no second chance.
pub const BROKEN: &str = "a hold was broken: ";
/// The claim that waits.
pub const LATE: &str = "late";

impl Rig {
    /// A stage whose one address is claimed by `web-ip`, held, and contended.
    pub async fn contended(&self, name: &str) -> (Stage, String) {
        let stage = self.stage(name, 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.contend(&[&ip]).await;
        (stage, ip)
    }
}

impl Stage {
    /// Makes the addresses contended: the pool is filled with claims until only these are left, or none; one more
    /// claim waits, one thief is pinned to each of the addresses, and one asks for any of the pool.
    ///
    /// The addresses have to be taken, or to be static ones: what is free in the pool is filled up.
    pub async fn contend(&self, ips: &[&str]) {
        self.wait_in_line().await;
        let thieves = ips.iter().enumerate().map(|(number, ip)| {
            let mut grab = self.load_balancer(&format!("grab-{number}"), json!({ metallb::PIN: ip }));
            grab["spec"]["ipFamilies"] = json!([family(ip)]);
            grab
        });
        for thief in thieves.chain(self.lurkers()) {
            let name = thief["metadata"]["name"].as_str().unwrap().to_owned();
            self.thief_service(thief).await;
            self.event_in(&self.thief, &name, "AllocationFailed").await;
        }
        self.contested.lock().unwrap().extend(ips.iter().map(ToString::to_string));
    }

    /// Fills the pool with claims, and lets one more wait for an address of it, or one of each family.
    pub async fn wait_in_line(&self) {
        self.fill().await;
        for (name, family) in self.lates() {
            self.claim_with(name, json!({ "family": family })).await;
        }
        for (name, _) in self.lates() {
            self.event(name, "PoolExhausted").await;
        }
    }

    /// Takes the thieves away.
    pub async fn clear_thieves(&self) {
        for service in self.thief_services().list(&ListParams::default()).await.unwrap() {
            delete(&self.thief_services(), &service.name_any()).await;
            gone(&self.thief_services(), &service.name_any()).await;
        }
    }

    /// The placeholders made for claims of this stage that have no IP: ours that queue in MetalLB.
    pub async fn queued(&self) -> Vec<String> {
        let claims = self.claims().list(&ListParams::default()).await.unwrap();
        let uids: Vec<_> = claims.iter().filter_map(ResourceExt::uid).collect();
        let mut placeholders = self.placeholders().list(&ListParams::default()).await.unwrap().items;
        placeholders.retain(|service| {
            ingress(service).is_empty() && uids.iter().any(|uid| service.name_any().contains(uid))
        });
        placeholders.iter().map(ResourceExt::name_any).collect()
    }

    /// Who had an IP, change by change.
    pub async fn timeline(&self, ip: &str) -> Vec<Holders> {
        self.witness.lock().await.timeline(ip).await.unwrap()
    }

    /// The waiting claims, one of each family that the pool has.
    fn lates(&self) -> Vec<(&'static str, &'static str)> {
        let v4 = (!self.v4.is_empty()).then_some((LATE, "IPv4"));
        let v6 = (!self.v6.is_empty()).then_some(("late-v6", "IPv6"));
        v4.into_iter().chain(v6).collect()
    }

    /// Services that ask for any address of the pool.
    fn lurkers(&self) -> Vec<serde_json::Value> {
        let lurk = |(name, family): (&'static str, &'static str)| {
            let name = name.replace(LATE, "lurk");
            let mut service = self.load_balancer(&name, json!({ metallb::POOL: self.name }));
            service["spec"]["ipFamilies"] = json!([family]);
            service
        };
        self.lates().into_iter().map(lurk).collect()
    }

    /// Claims what is free in the pool.
    async fn fill(&self) {
        let addresses = self.own_addresses().await;
        let taken: BTreeSet<_> = addresses.iter().map(|address| address.spec.address.clone()).collect();
        let mut fillers = Vec::new();
        for ip in self.v4.iter().chain(&self.v6).filter(|ip| !taken.contains(*ip)) {
            let name = format!("filler-{}", fillers.len());
            self.claim_with(&name, json!({ "family": family(ip) })).await;
            fillers.push(name);
        }
        for name in fillers {
            self.bound(&name).await;
        }
    }

    /// The ledger's objects of the stage's pool or namespace.
    pub async fn own_addresses(&self) -> Vec<IPAddress> {
        let mut addresses = self.addresses().list(&ListParams::default()).await.unwrap().items;
        addresses.retain(|address| {
            let claim = address.spec.claim_ref.as_ref().map(|claim| claim.namespace.as_str());
            let ours = |ips: &[String]| ips.contains(&address.spec.address);
            address.spec.class_name == self.name
                || claim == Some(&self.name)
                || ours(&self.v4)
                || ours(&self.v6)
        });
        addresses
    }

    /// What must hold at the end of a contended test: the thieves and the waiting claims got nothing, at no version
    /// nobody had a contested address, and nothing is written any more.
    pub async fn finish(&self) {
        self.assert_nothing_stolen().await;
        let seen = self.witness.lock().await.timelines().await.unwrap();
        self.assert_held_throughout(&seen);
        self.assert_at_rest().await;
    }

    /// Makes further addresses count as contested, without a thief each: at no version may nobody have them.
    pub fn guard(&self, ips: &[String]) {
        self.contested.lock().unwrap().extend(ips.iter().cloned());
    }

    /// Nobody lost a contested address, by what a witness saw.
    pub(super) fn assert_held_throughout(&self, seen: &BTreeMap<String, Vec<Holders>>) {
        for ip in self.contested.lock().unwrap().iter() {
            self.assert_line(ip, seen.get(ip).map_or(&[], Vec::as_slice));
        }
    }

    /// The thieves and the waiting claims have got nothing.
    pub async fn assert_nothing_stolen(&self) {
        for service in self.thief_services().list(&ListParams::default()).await.unwrap() {
            let has = ingress(&service);
            assert!(has.is_empty(), "{BROKEN}thief {} has {has:?}", service.name_any());
        }
        for (name, _) in self.lates() {
            if let Some(late) = self.claims().get_opt(name).await.unwrap() {
                assert_eq!(late.phase(), ClaimPhase::Pending, "{BROKEN}{name} was served");
            }
        }
    }

    /// From the first version at which somebody had the IP on, there was none at which nobody had it; and no thief
    /// ever did.
    pub async fn assert_never_unheld(&self, ip: &str) {
        self.assert_line(ip, &self.timeline(ip).await);
    }

    fn assert_line(&self, ip: &str, timeline: &[Holders]) {
        assert!(!timeline.is_empty(), "{BROKEN}nobody ever had {ip}");
        let thief = format!("{}/", self.thief);
        for holders in timeline {
            assert!(
                !holders.services.is_empty(),
                "{BROKEN}nobody had {ip} at {}: {timeline:#?}",
                holders.version
            );
            let stolen = holders.services.iter().any(|holder| holder.starts_with(&thief));
            assert!(!stolen, "{BROKEN}{ip} was stolen at {}: {timeline:#?}", holders.version);
        }
    }

    /// Our controllers come to write nothing about the objects of this stage, not even what changes nothing.
    pub async fn assert_at_rest(&self) {
        let own = self.own().await;
        let deadline = Instant::now() + REST_WITHIN;
        loop {
            let mark = self.audit.mark();
            tokio::time::sleep(REST).await;
            let writes: Vec<Request> = self
                .audit
                .since(mark)
                .into_iter()
                .filter(|request| request.writes() && own.has(request))
                .collect();
            if writes.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "still written at rest: {writes:#?}");
        }
    }

    async fn own(&self) -> Own {
        let addresses = self.own_addresses().await.iter().map(ResourceExt::name_any).collect();
        let mut claims: BTreeSet<String> = BTreeSet::new();
        let mut placeholders = BTreeSet::new();
        for claim in self.claims().list(&ListParams::default()).await.unwrap() {
            let uid = claim.uid().unwrap_or_default();
            placeholders.extend(["v4", "v6"].map(|family| format!("iad-{uid}-{family}")));
            claims.insert(ClaimKey::new(&self.name, claim.name_any()).to_string());
        }
        for ip in self.v4.iter().chain(&self.v6) {
            placeholders.extend(self.placeholders_of(ip).await.iter().map(ResourceExt::name_any));
            placeholders.insert(format!("iad-{}", super::make::address_name(ip)));
        }
        Own {
            namespaces: [self.name.clone(), self.thief.clone()].into(),
            addresses,
            placeholders,
            class: self.name.clone(),
        }
    }

    /// Makes an object of the thief's namespace's claims, as the other tenant would.
    pub async fn thief_claim(&self, name: &str, spec: serde_json::Value) -> api::IPAddressClaim {
        let claims = kube::Api::namespaced(self.client(), &self.thief);
        create(&claims, super::make::claim_object(name, spec)).await
    }
}

/// What belongs to a stage.
struct Own {
    namespaces: BTreeSet<String>,
    addresses: BTreeSet<String>,
    placeholders: BTreeSet<String>,
    class: String,
}

impl Own {
    fn has(&self, request: &Request) -> bool {
        // The name of an event begins with that of the object it is about.
        let name = match request.resource.as_str() {
            "events" => request.name.split('.').next().unwrap_or_default(),
            _ => request.name.as_str(),
        };
        self.namespaces.contains(&request.namespace)
            || self.addresses.contains(name)
            || self.placeholders.contains(name)
            || name == self.class
    }
}

fn family(ip: &str) -> &'static str {
    if ip.contains(':') { "IPv6" } else { "IPv4" }
}
