//! What MetalLB says when it cannot give a Service an address: remembered for placeholders and for Services that wear
//! our marks. What strangers are told is not kept. It is asked for only of who has no IP: it stays when a Service is served, since
//! a Service and what is said of it are heard of in any order, and every process must come to the same words.

use api::ServiceKey;
use api::wellknown::driver;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Service};

use super::secondary::Dirty;
use super::{Failure, Index};
use crate::parse::service::View;

impl Index {
    /// MetalLB could not serve a Service.
    pub(super) fn failed(&mut self, event: &Event, dirty: &mut Dirty) {
        let (key, uid) = subject(event);
        // The event may come before its Service: the lists of a driver that starts come in any order.
        match self.services.get(&key) {
            Some(service) => {
                // One that shows an IP may have lost it, and that is just not heard of yet.
                if service.object_uid() != uid || !self.is_heeded(&service) {
                    return;
                }
                dirty.extend(self.keys_of_service(&service));
            }
            None if self.services_listed && key.namespace != self.config.placeholder_namespace => return,
            None => {}
        }
        let failure = Failure {
            service: key,
            at: event.last_timestamp.as_ref().map(|time| time.0),
            version: event.metadata.resource_version.as_ref().and_then(|version| version.parse().ok()),
            message: event.message.clone().unwrap_or_default(),
        };
        // A list is in no order of time.
        let known = self.failures.get(&uid);
        if known.is_none_or(|known| (known.at, known.version) <= (failure.at, failure.version)) {
            self.failures.insert(uid, failure);
        }
    }

    /// MetalLB took the IP off a placeholder that asks for any, or whose address was pinned and not recorded yet. It says why
    /// by an Event, which may have been heard, and forgotten, before this version: whoever waited for another would queue in
    /// MetalLB, where nobody of ours may.
    pub(super) fn note_lost_reservation(&mut self, old: Option<&Service>, new: Option<&Service>) {
        let Some((old, new)) = old.zip(new) else { return };
        let lost = !old.ingress().is_empty() && new.ingress().is_empty();
        let same = old.object_uid() == new.object_uid();
        let unrecorded =
            || new.pin().is_ok_and(|pins| pins.is_empty()) || self.address_held_by(new).is_none();
        if lost && same && self.is_placeholder(new) && unrecorded() {
            let message = "MetalLB took the address back".to_owned();
            let failure = Failure { service: new.key(), at: None, version: None, message };
            self.failures.entry(new.object_uid().to_owned()).or_insert(failure);
        }
    }

    /// An event that expires takes nothing back: the failure is forgotten when the Service gets another key, or is gone.
    pub(super) fn failure_expired(&mut self, event: &Event) {
        let (key, uid) = subject(event);
        if self.services.get(&key).is_none_or(|service| service.object_uid() != uid) {
            self.failures.remove(&uid);
        }
    }

    /// What MetalLB said about this Service after that moment. A driver that starts is also told what was said before.
    pub fn failure_after(&self, service: &Service, moment: Timestamp) -> Option<&Failure> {
        self.failure(service).filter(|failure| failure.at.is_none_or(|at| at > moment))
    }

    /// Every Service is known: what was said of others is of no use.
    pub(super) fn services_were_listed(&mut self) {
        self.services_listed = true;
        let mut failures = std::mem::take(&mut self.failures);
        failures.retain(|uid, failure| match self.services.get(&failure.service) {
            Some(service) => service.object_uid() == uid && self.is_heeded(&service),
            None => failure.service.namespace == self.config.placeholder_namespace,
        });
        self.failures = failures;
    }

    /// Whether it matters to us that MetalLB does not serve this Service.
    pub(super) fn is_heeded(&self, service: &Service) -> bool {
        self.is_placeholder(service)
            || service.is_pinned_by_us()
            || service.labelled(driver::ASSOCIATED)
            || service.has_finalizer(driver::HANDOFF)
    }
}

fn subject(event: &Event) -> (ServiceKey, String) {
    let about = &event.involved_object;
    let key =
        ServiceKey::new(about.namespace.clone().unwrap_or_default(), about.name.clone().unwrap_or_default());
    (key, about.uid.clone().unwrap_or_default())
}
