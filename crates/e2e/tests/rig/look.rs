//! Looking at what objects have become, and waiting for it.

use std::collections::BTreeSet;

use api::address::{AddressPhase, HandoffDirection};
use api::claim::ClaimPhase;
use api::wellknown::driver;
use api::{IPAddress, IPAddressClaim, IPAddressClass, conditions};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use super::make::address_name;
use super::stage::Stage;
use super::wait::{eventually, until};

/// The IPs that a Service's status shows.
pub fn ingress(service: &Service) -> BTreeSet<String> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref());
    ingress.into_iter().flatten().filter_map(|entry| entry.ip.clone()).collect()
}

/// The condition `kind` of a list, as `status/reason`.
pub fn said(conditions: &[Condition], kind: &str) -> String {
    conditions::find(conditions, kind)
        .map(|condition| format!("{}/{}", condition.status, condition.reason))
        .unwrap_or_default()
}

/// The conditions of an address.
pub fn address_conditions(address: &IPAddress) -> &[Condition] {
    address.status.as_ref().map_or(&[], |status| &status.conditions)
}

/// The conditions of a claim.
pub fn claim_conditions(claim: &IPAddressClaim) -> &[Condition] {
    claim.status.as_ref().map_or(&[], |status| &status.conditions)
}

/// The conditions of a class.
pub fn class_conditions(class: &IPAddressClass) -> &[Condition] {
    class.status.as_ref().map_or(&[], |status| &status.conditions)
}

/// Whether the last handoff went this way and is over.
pub fn handed(address: &IPAddress, direction: HandoffDirection) -> bool {
    let handoff = address.status.as_ref().and_then(|status| status.last_handoff.as_ref());
    handoff.is_some_and(|handoff| handoff.direction == direction && handoff.finished_at.is_some())
}

/// `namespace/name` of the Service that the ledger says has the address.
pub fn associated(address: &IPAddress) -> Option<String> {
    address.associated_to().map(|to| format!("{}/{}", to.namespace, to.name))
}

impl Stage {
    /// Waits until a claim is bound, and returns its first IP.
    pub async fn bound(&self, claim: &str) -> String {
        self.bound_all(claim).await.into_iter().next().unwrap()
    }

    /// Waits until a claim is bound, and returns its IPs in the order of its status.
    pub async fn bound_all(&self, claim: &str) -> Vec<String> {
        let claim = self.claim_is(claim, ClaimPhase::Bound).await;
        let addresses = claim.status.unwrap_or_default().addresses;
        addresses.into_iter().map(|address| address.address).collect()
    }

    /// Waits until a claim is in a phase.
    pub async fn claim_is(&self, claim: &str, phase: ClaimPhase) -> IPAddressClaim {
        let what = format!("to be {phase:?}");
        until(&self.claims(), claim, &what, |claim| {
            claim.status.as_ref().and_then(|status| status.phase) == Some(phase)
        })
        .await
    }

    /// Waits until a condition of a claim reads `status/reason`, and returns its message.
    pub async fn claim_says(&self, claim: &str, kind: &str, verdict: &str) -> String {
        let what = format!("to say {kind}={verdict}");
        let claim =
            until(&self.claims(), claim, &what, |claim| said(claim_conditions(claim), kind) == verdict).await;
        conditions::find(claim_conditions(&claim), kind).unwrap().message.clone()
    }

    /// Waits until the `Accepted` of a class reads `status/reason`, and returns its message.
    pub async fn class_says(&self, class: &str, verdict: &str) -> String {
        self.class_says_of(class, conditions::types::ACCEPTED, verdict).await
    }

    /// Waits until a condition of a class reads `status/reason`, and returns its message.
    pub async fn class_says_of(&self, class: &str, kind: &str, verdict: &str) -> String {
        let what = format!("to say {kind}={verdict}");
        let class =
            until(&self.classes(), class, &what, |class| said(class_conditions(class), kind) == verdict)
                .await;
        conditions::find(class_conditions(&class), kind).unwrap().message.clone()
    }

    /// Waits until the ledger's object of an IP is as described.
    pub async fn ledger(&self, ip: &str, what: &str, is: impl Fn(&IPAddress) -> bool) -> IPAddress {
        until(&self.addresses(), &address_name(ip), what, is).await
    }

    /// Waits until an address is in a phase.
    pub async fn address_is(&self, ip: &str, phase: AddressPhase) -> IPAddress {
        self.ledger(ip, &format!("to be {phase:?}"), |address| address.phase() == phase).await
    }

    /// Waits until a placeholder alone has the IP and the ledger says so.
    pub async fn held(&self, ip: &str) -> IPAddress {
        let held = |address: &IPAddress| {
            address.associated_to().is_none() && said(address_conditions(address), "Held") == "True/Held"
        };
        let address = self.ledger(ip, "to be held", held).await;
        let home = format!("{}/", self.home);
        eventually(&format!("a placeholder alone to have {ip}"), async || {
            let holders = self.holders(ip).await;
            (holders.len() == 1 && holders.iter().all(|holder| holder.starts_with(&home))).then_some(())
        })
        .await;
        address
    }

    /// Waits until an address that thieves may have got says who has it, or that it is held by another placeholder than
    /// before; says whether it was stolen.
    pub async fn held_or_stolen(&self, ip: &str, before: Option<String>) -> bool {
        let what = format!("{ip} to be held again, or to say who has it");
        eventually(&what, async || {
            let holder = self.holders(ip).await.into_iter().next()?;
            let address = self.addresses().get(&address_name(ip)).await.unwrap();
            let held = conditions::find(address_conditions(&address), "Held")?;
            if holder.starts_with(&format!("{}/", self.thief)) {
                return (held.status == "False" && held.message.contains(&holder)).then_some(true);
            }
            let back = self.placeholders_of(ip).await.pop().is_some_and(|now| now.uid() != before);
            (back && held.status == "True" && held.reason == "Held").then_some(false)
        })
        .await
    }

    /// Waits until the status of a Service shows exactly these IPs and the handoff is over: nobody else has them,
    /// the ledger names the Service, no key is left on it.
    pub async fn served(&self, name: &str, ips: &[&str]) -> Service {
        self.served_under(name, ips, None).await
    }

    /// The same for one whose tenant gave it a sharing key: no other is left on it.
    pub async fn served_under(&self, name: &str, ips: &[&str], key: Option<&str>) -> Service {
        let wanted: BTreeSet<String> = ips.iter().map(ToString::to_string).collect();
        until(&self.services(), name, &format!("to have {wanted:?}"), |service| ingress(service) == wanted)
            .await;
        let holder = format!("{}/{name}", self.name);
        for ip in ips {
            self.ledger(ip, &format!("to be handed to {holder}"), |address| {
                associated(address).as_ref() == Some(&holder) && handed(address, HandoffDirection::Associate)
            })
            .await;
            let only = BTreeSet::from([holder.clone()]);
            eventually(&format!("{holder} alone to have {ip}"), async || {
                (self.holders(ip).await == only).then_some(())
            })
            .await;
        }
        let service = until(&self.services(), name, "to be without a sharing key of ours", |service| {
            service.annotations().get(api::wellknown::metallb::SHARE).map(String::as_str) == key
        })
        .await;
        assert_eq!(ingress(&service), wanted);
        service
    }

    /// Waits until a Service has no IP.
    pub async fn unserved(&self, name: &str) -> Service {
        until(&self.services(), name, "to have no IP", |service| ingress(service).is_empty()).await
    }

    /// Who has the IP at this moment, as `namespace/name` of Services.
    pub async fn holders(&self, ip: &str) -> BTreeSet<String> {
        let timeline = self.witness.lock().await.timeline(ip).await.unwrap();
        timeline.last().map(|last| last.services.clone()).unwrap_or_default()
    }

    /// The placeholders that hold, or are to hold, an IP.
    pub async fn placeholders_of(&self, ip: &str) -> Vec<Service> {
        let labels = format!("{}={}", driver::IP_ADDRESS, address_name(ip));
        self.placeholders().list(&ListParams::default().labels(&labels)).await.unwrap().items
    }

    /// Waits for an event about an object of the stage's namespace, and returns its words.
    pub async fn event(&self, about: &str, reason: &str) -> String {
        self.event_in(&self.name, about, reason).await
    }

    /// Waits for an event about a class or an address, and returns its words.
    pub async fn cluster_event(&self, about: &str, reason: &str) -> String {
        self.event_in("default", about, reason).await
    }

    /// Waits for an event about an object of any namespace, and returns its words: those of the newest.
    pub async fn event_in(&self, namespace: &str, about: &str, reason: &str) -> String {
        eventually(&format!("an event {reason} about {about} in {namespace}"), async || {
            self.events(namespace, about, reason).await.pop()
        })
        .await
    }

    /// Waits for an event about an object of the stage's namespace whose words have this in it.
    pub async fn event_with(&self, about: &str, reason: &str, words: &str) -> String {
        eventually(&format!("an event {reason} about {about} with {words:?}"), async || {
            let told = self.events(&self.name, about, reason).await;
            told.into_iter().find(|note| note.contains(words))
        })
        .await
    }

    /// The words of every event about an object, oldest first; one that was repeated stands there as often.
    pub async fn events(&self, namespace: &str, about: &str, reason: &str) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client(), namespace);
        let fields = format!("reason={reason}");
        let mut events = api.list(&ListParams::default().fields(&fields)).await.unwrap().items;
        events.retain(|event| {
            event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref()) == Some(about)
        });
        events.sort_by_key(ResourceExt::creation_timestamp);
        let told = |event: &Event| {
            let times = event.series.as_ref().map_or(1, |series| series.count.max(1));
            vec![event.note.clone().unwrap_or_default(); usize::try_from(times).unwrap()]
        };
        events.iter().flat_map(told).collect()
    }
}
