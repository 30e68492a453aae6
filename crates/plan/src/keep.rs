//! Taking changes into an index: the same for every kind that it keeps.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use api::{AddressName, ClaimKey, IPAddress, IPAddressClaim, IPAddressClass, ServiceKey};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::core::DynamicObject;

use crate::{Change, Object, Ref, Store};

/// A kind of object that an index may keep, and by what it finds one.
pub trait Kept: Sized {
    /// What an object is found by.
    type Key: Eq + Hash + Clone;
    /// The key of the object of that name.
    fn key_of(reference: &Ref) -> Self::Key;
    /// The object as it came, if it is of this kind.
    fn of(object: Object) -> Option<Arc<Self>>;
}

/// An index that keeps the objects of one kind.
pub trait Keep<T: Kept> {
    /// What collects the keys that a change makes dirty.
    type Dirty;
    /// Where they are kept.
    fn store(&mut self) -> &mut Store<T::Key, T>;
    /// One of them came, changed or went: the secondary keys are to follow.
    fn changed(&mut self, old: Option<&T>, new: Option<&T>, dirty: &mut Self::Dirty);
}

/// Takes in a change of the objects of one kind; what tells nothing new changes nothing.
pub fn take_in<T: Kept, I: Keep<T>>(index: &mut I, change: Change, dirty: &mut I::Dirty) {
    match change {
        Change::Applied(object) => applied(index, object, dirty),
        Change::Deleted(object) => {
            let key = T::key_of(&object.reference());
            let Some(object) = T::of(object) else { return };
            let old = index.store().deleted(&key, &object);
            index.changed(old.as_deref(), None, dirty);
        }
        Change::Gone { reference, uid } => {
            let old = index.store().gone(&T::key_of(&reference), &uid);
            index.changed(old.as_deref(), None, dirty);
        }
        Change::Replaced(_, objects) => {
            let listed: HashSet<_> = objects.iter().map(|object| T::key_of(&object.reference())).collect();
            for (key, object) in index.store().missing_from(&listed) {
                let old = index.store().dropped(&key, &object);
                index.changed(old.as_deref(), None, dirty);
            }
            for object in &objects {
                applied(index, object.clone(), dirty);
            }
            index.store().listed(objects.iter().map(Object::meta));
        }
    }
}

fn applied<T: Kept, I: Keep<T>>(index: &mut I, object: Object, dirty: &mut I::Dirty) {
    let key = T::key_of(&object.reference());
    let Some(new) = T::of(object) else { return };
    if let Some(old) = index.store().put(key, Arc::clone(&new)) {
        index.changed(old.as_deref(), Some(&new), dirty);
    }
}

macro_rules! kept {
    ($($kind:ty, $variant:ident, $key:ty, $key_of:expr;)*) => {$(
        impl Kept for $kind {
            type Key = $key;
            fn key_of(reference: &Ref) -> $key {
                ($key_of)(reference)
            }
            fn of(object: Object) -> Option<Arc<Self>> {
                match object {
                    Object::$variant(object) => Some(object),
                    _ => None,
                }
            }
        }
    )*};
}
kept! {
    IPAddressClass, Class, String, |reference: &Ref| reference.name.clone();
    IPAddress, Address, AddressName, |reference: &Ref| AddressName::new(&reference.name);
    IPAddressClaim, Claim, ClaimKey, |reference: &Ref| ClaimKey::new(namespace(reference), &reference.name);
    Service, Service, ServiceKey, |reference: &Ref| ServiceKey::new(namespace(reference), &reference.name);
    Namespace, Namespace, String, |reference: &Ref| reference.name.clone();
    DynamicObject, Pool, String, |reference: &Ref| reference.name.clone();
}

fn namespace(reference: &Ref) -> String {
    reference.namespace.clone().unwrap_or_default()
}
