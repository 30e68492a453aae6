//! Taking in changes.

use std::collections::HashSet;
use std::sync::Arc;

use api::{AddressName, ClaimKey, IPAddress, IPAddressClaim};
use kube::ResourceExt;
use plan::{Change, Kind, Object, Ref};

use super::{Dirty, Index};
use crate::Key;

impl Index {
    /// Takes in a change and tells which keys it made dirty.
    pub fn apply(&mut self, change: Change) -> Vec<Key> {
        let mut dirty = std::mem::take(&mut self.freed);
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
                if let Some(old) = self.classes.put(new.name_any(), Arc::clone(&new)) {
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
            // The core reads no other kinds.
            Object::Service(_) | Object::Namespace(_) | Object::Event(_) | Object::Pool(_) => {}
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
            Object::Service(_) | Object::Namespace(_) | Object::Event(_) | Object::Pool(_) => {}
        }
    }

    fn gone(&mut self, reference: &Ref, uid: &str, dirty: &mut Dirty) {
        match reference.kind {
            Kind::Address => {
                let old = self.addresses.gone(&AddressName::new(&reference.name), uid);
                self.address_changed(old.as_deref(), None, dirty);
            }
            Kind::Claim => {
                let namespace = reference.namespace.clone().unwrap_or_default();
                let old = self.claims.gone(&ClaimKey::new(namespace, &reference.name), uid);
                self.claim_changed(old.as_deref(), None, dirty);
            }
            Kind::Class => {
                let old = self.classes.gone(&reference.name, uid);
                self.class_changed(old.as_deref(), None, dirty);
            }
            Kind::Service | Kind::Namespace | Kind::Event | Kind::Pool => {}
        }
    }

    fn replaced(&mut self, kind: Kind, objects: Vec<Object>, dirty: &mut Dirty) {
        macro_rules! sweep {
            ($store:ident, $variant:ident, $key:expr) => {{
                let listed: HashSet<_> = objects
                    .iter()
                    .filter_map(|object| match object {
                        Object::$variant(object) => Some($key(&**object)),
                        _ => None,
                    })
                    .collect();
                for (_, object) in self.$store.missing_from(&listed) {
                    self.deleted(&Object::$variant(object), dirty);
                }
            }};
        }
        match kind {
            Kind::Class => sweep!(classes, Class, ResourceExt::name_any),
            Kind::Address => sweep!(addresses, Address, IPAddress::key),
            Kind::Claim => sweep!(claims, Claim, IPAddressClaim::key),
            Kind::Service | Kind::Namespace | Kind::Event | Kind::Pool => {}
        }
        for object in objects {
            self.applied(object, dirty);
        }
    }
}
