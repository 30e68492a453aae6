//! Taking in changes: the stores, the secondary keys, and which keys become dirty.

use api::{IPAddress, IPAddressClaim, IPAddressClass};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::ResourceExt;
use kube::core::DynamicObject;
use plan::{Change, Keep, Kind, Object};

use super::Index;
use super::secondary::Dirty;
use crate::Key;

const CLASSES: Keep<IPAddressClass, Index, Dirty> =
    Keep { store: |index| &mut index.classes, changed: Index::class_changed };
const ADDRESSES: Keep<IPAddress, Index, Dirty> =
    Keep { store: |index| &mut index.addresses, changed: Index::address_changed };
const CLAIMS: Keep<IPAddressClaim, Index, Dirty> =
    Keep { store: |index| &mut index.claims, changed: Index::claim_changed };
const SERVICES: Keep<Service, Index, Dirty> =
    Keep { store: |index| &mut index.services, changed: Index::service_changed };
const NAMESPACES: Keep<Namespace, Index, Dirty> =
    Keep { store: |index| &mut index.namespaces, changed: Index::namespace_changed };
const POOLS: Keep<DynamicObject, Index, Dirty> =
    Keep { store: |index| &mut index.raw_pools, changed: Index::raw_pool_changed };

impl Index {
    /// Takes in a change and tells which keys it made dirty.
    pub fn apply(&mut self, change: Change) -> Vec<Key> {
        let mut dirty = Dirty::new();
        match change.kind() {
            Kind::Class => CLASSES.take_in(self, change, &mut dirty),
            Kind::Address => ADDRESSES.take_in(self, change, &mut dirty),
            Kind::Claim => CLAIMS.take_in(self, change, &mut dirty),
            Kind::Service => {
                let listed = matches!(change, Change::Listed(_));
                if let Change::Refused { object, words } = &change {
                    self.placeholder_refused(object, words, &mut dirty);
                }
                SERVICES.take_in(self, change, &mut dirty);
                if listed {
                    self.services_were_listed();
                }
            }
            Kind::Namespace => NAMESPACES.take_in(self, change, &mut dirty),
            Kind::Pool => POOLS.take_in(self, change, &mut dirty),
            Kind::Event => self.heard(change, &mut dirty),
        }
        dirty.into_iter().collect()
    }

    /// Events are not kept: what they say is.
    fn heard(&mut self, change: Change, dirty: &mut Dirty) {
        match change {
            Change::Applied(Object::Event(event)) | Change::InList(Object::Event(event)) => {
                self.failed(&event, dirty);
            }
            Change::Deleted(Object::Event(event)) => self.failure_expired(&event),
            _ => {}
        }
    }

    fn raw_pool_changed(
        &mut self,
        old: Option<&DynamicObject>,
        new: Option<&DynamicObject>,
        dirty: &mut Dirty,
    ) {
        let Some(name) = old.or(new).map(ResourceExt::name_any) else { return };
        let pool = new.map(|new| self.pool_among_namespaces(new));
        self.pool_changed(&name, pool.as_ref(), dirty);
    }
}
