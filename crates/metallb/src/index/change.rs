//! Taking in changes: the stores, the secondary keys, and which keys become dirty.

use api::{AddressName, ClaimKey, IPAddress, IPAddressClaim, IPAddressClass, ServiceKey};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::ResourceExt;
use kube::core::DynamicObject;
use plan::{Change, Keep, Kind, Object, Store, take_in};

use super::Index;
use super::secondary::Dirty;
use crate::Key;

impl Index {
    /// Takes in a change and tells which keys it made dirty.
    pub fn apply(&mut self, change: Change) -> Vec<Key> {
        let mut dirty = Dirty::new();
        match change.kind() {
            Kind::Class => take_in::<IPAddressClass, _>(self, change, &mut dirty),
            Kind::Address => take_in::<IPAddress, _>(self, change, &mut dirty),
            Kind::Claim => take_in::<IPAddressClaim, _>(self, change, &mut dirty),
            Kind::Service => {
                let listed = matches!(change, Change::Replaced(..));
                take_in::<Service, _>(self, change, &mut dirty);
                if listed {
                    self.services_were_listed();
                }
            }
            Kind::Namespace => take_in::<Namespace, _>(self, change, &mut dirty),
            Kind::Pool => take_in::<DynamicObject, _>(self, change, &mut dirty),
            Kind::Event => self.heard(change, &mut dirty),
        }
        dirty.into_iter().collect()
    }

    /// Events are not kept: what they say is.
    fn heard(&mut self, change: Change, dirty: &mut Dirty) {
        let told = match change {
            Change::Applied(object) => vec![object],
            Change::Replaced(_, objects) => objects,
            Change::Deleted(Object::Event(event)) => return self.failure_expired(&event),
            Change::Deleted(_) | Change::Gone { .. } => return,
        };
        for object in told {
            if let Object::Event(event) = object {
                self.failed(&event, dirty);
            }
        }
    }
}

impl Keep<IPAddressClass> for Index {
    type Dirty = Dirty;

    fn store(&mut self) -> &mut Store<String, IPAddressClass> {
        &mut self.classes
    }

    fn changed(&mut self, old: Option<&IPAddressClass>, new: Option<&IPAddressClass>, dirty: &mut Dirty) {
        self.class_changed(old, new, dirty);
    }
}

impl Keep<IPAddress> for Index {
    type Dirty = Dirty;

    fn store(&mut self) -> &mut Store<AddressName, IPAddress> {
        &mut self.addresses
    }

    fn changed(&mut self, old: Option<&IPAddress>, new: Option<&IPAddress>, dirty: &mut Dirty) {
        self.address_changed(old, new, dirty);
    }
}

impl Keep<IPAddressClaim> for Index {
    type Dirty = Dirty;

    fn store(&mut self) -> &mut Store<ClaimKey, IPAddressClaim> {
        &mut self.claims
    }

    fn changed(&mut self, old: Option<&IPAddressClaim>, new: Option<&IPAddressClaim>, dirty: &mut Dirty) {
        self.claim_changed(old, new, dirty);
    }
}

impl Keep<Service> for Index {
    type Dirty = Dirty;

    fn store(&mut self) -> &mut Store<ServiceKey, Service> {
        &mut self.services
    }

    fn changed(&mut self, old: Option<&Service>, new: Option<&Service>, dirty: &mut Dirty) {
        self.service_changed(old, new, dirty);
    }
}

impl Keep<Namespace> for Index {
    type Dirty = Dirty;

    fn store(&mut self) -> &mut Store<String, Namespace> {
        &mut self.namespaces
    }

    fn changed(&mut self, old: Option<&Namespace>, new: Option<&Namespace>, dirty: &mut Dirty) {
        self.namespace_changed(old, new, dirty);
    }
}

impl Keep<DynamicObject> for Index {
    type Dirty = Dirty;

    fn store(&mut self) -> &mut Store<String, DynamicObject> {
        &mut self.raw_pools
    }

    fn changed(&mut self, old: Option<&DynamicObject>, new: Option<&DynamicObject>, dirty: &mut Dirty) {
        let Some(name) = old.or(new).map(ResourceExt::name_any) else { return };
        let pool = new.map(|new| self.pool_among_namespaces(new));
        self.pool_changed(&name, pool.as_ref(), dirty);
    }
}
