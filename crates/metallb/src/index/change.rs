//! Taking in changes: the stores, the secondary keys, and which keys become dirty.

use std::collections::HashSet;
use std::sync::Arc;

use api::{AddressName, ClaimKey, IPAddress, IPAddressClaim, IPAddressClass, ServiceKey};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::ResourceExt;
use kube::core::DynamicObject;
use plan::{Change, Kind, Object, Ref};

use super::Index;
use super::secondary::Dirty;
use crate::Key;
use crate::parse::service::View;

impl Index {
    /// Takes in a change and tells which keys it made dirty.
    pub fn apply(&mut self, change: Change) -> Vec<Key> {
        let mut dirty = Dirty::new();
        match change {
            Change::Applied(object) => self.applied(object, &mut dirty),
            Change::Deleted(object) => self.deleted(&object, &mut dirty),
            Change::Gone { reference, uid } => self.gone(&reference, &uid, &mut dirty),
            Change::Replaced(kind, objects) => self.replaced(kind, objects, &mut dirty),
        }
        dirty.into_iter().collect()
    }

    fn applied(&mut self, object: Object, dirty: &mut Dirty) {
        match object {
            Object::Class(new) => {
                let key = new.name_any();
                if let Some(old) = self.classes.put(key, Arc::clone(&new)) {
                    self.class_changed(old.as_deref(), Some(&new), dirty);
                }
            }
            Object::Address(new) => {
                if let Some(old) = self.addresses.put(new.key(), Arc::clone(&new)) {
                    self.address_changed(old.as_deref(), Some(&new), dirty);
                }
            }
            Object::Claim(new) => {
                if let Some(old) = self.claims.put(new.key(), Arc::clone(&new)) {
                    self.claim_changed(old.as_deref(), Some(&new), dirty);
                }
            }
            Object::Service(new) => {
                if let Some(old) = self.services.put(View::key(&*new), Arc::clone(&new)) {
                    self.service_changed(old.as_deref(), Some(&new), dirty);
                }
            }
            Object::Namespace(new) => {
                if let Some(old) = self.namespaces.put(new.name_any(), Arc::clone(&new)) {
                    self.namespace_changed(old.as_deref(), Some(&new), dirty);
                }
            }
            Object::Pool(new) => {
                if self.raw_pools.put(new.name_any(), Arc::clone(&new)).is_some() {
                    let pool = self.pool_among_namespaces(&new);
                    self.pool_changed(&new.name_any(), Some(&pool), dirty);
                }
            }
            Object::Event(new) => self.failed(&new, dirty),
        }
    }

    fn deleted(&mut self, object: &Object, dirty: &mut Dirty) {
        match object {
            Object::Class(object) => {
                let old = self.classes.deleted(&object.name_any(), object);
                self.class_changed(old.as_deref(), None, dirty);
            }
            Object::Address(object) => {
                let old = self.addresses.deleted(&object.key(), object);
                self.address_changed(old.as_deref(), None, dirty);
            }
            Object::Claim(object) => {
                let old = self.claims.deleted(&object.key(), object);
                self.claim_changed(old.as_deref(), None, dirty);
            }
            Object::Service(object) => {
                let old = self.services.deleted(&View::key(&**object), object);
                self.service_changed(old.as_deref(), None, dirty);
            }
            Object::Namespace(object) => {
                let old = self.namespaces.deleted(&object.name_any(), object);
                self.namespace_changed(old.as_deref(), None, dirty);
            }
            Object::Pool(object) => {
                if self.raw_pools.deleted(&object.name_any(), object).is_some() {
                    self.pool_changed(&object.name_any(), None, dirty);
                }
            }
            Object::Event(object) => self.failure_expired(object),
        }
    }

    fn gone(&mut self, reference: &Ref, uid: &str, dirty: &mut Dirty) {
        let namespace = reference.namespace.clone().unwrap_or_default();
        match reference.kind {
            Kind::Address => {
                let old = self.addresses.gone(&AddressName::new(&reference.name), uid);
                self.address_changed(old.as_deref(), None, dirty);
            }
            Kind::Service => {
                let old = self.services.gone(&ServiceKey::new(namespace, &reference.name), uid);
                self.service_changed(old.as_deref(), None, dirty);
            }
            Kind::Claim => {
                let old = self.claims.gone(&ClaimKey::new(namespace, &reference.name), uid);
                self.claim_changed(old.as_deref(), None, dirty);
            }
            Kind::Class => {
                let old = self.classes.gone(&reference.name, uid);
                self.class_changed(old.as_deref(), None, dirty);
            }
            // Never deleted by us.
            Kind::Namespace | Kind::Event | Kind::Pool => {}
        }
    }

    fn replaced(&mut self, kind: Kind, objects: Vec<Object>, dirty: &mut Dirty) {
        macro_rules! sweep {
            ($store:ident, $variant:ident, $key:expr) => {{
                let key = $key;
                let listed: HashSet<_> = objects
                    .iter()
                    .filter_map(|object| match object {
                        Object::$variant(object) => Some(key(&**object)),
                        _ => None,
                    })
                    .collect();
                for (_, object) in self.$store.missing_from(&listed) {
                    self.deleted(&Object::$variant(object), dirty);
                }
            }};
        }
        match kind {
            Kind::Class => sweep!(classes, Class, |object: &IPAddressClass| object.name_any()),
            Kind::Address => sweep!(addresses, Address, IPAddress::key),
            Kind::Claim => sweep!(claims, Claim, IPAddressClaim::key),
            Kind::Service => sweep!(services, Service, |object: &Service| View::key(object)),
            Kind::Pool => sweep!(raw_pools, Pool, |object: &DynamicObject| object.name_any()),
            Kind::Namespace => sweep!(namespaces, Namespace, |object: &Namespace| object.name_any()),
            Kind::Event => {}
        }
        for object in objects {
            self.applied(object, dirty);
        }
        if kind == Kind::Service {
            self.services_were_listed();
        }
    }
}
