//! Taking changes into an index: the same for every kind that it keeps.

use std::hash::Hash;
use std::sync::Arc;

use api::{AddressName, ClaimKey, IPAddress, IPAddressClaim, IPAddressClass, ServiceKey};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::core::DynamicObject;

use crate::store::Packable;
use crate::{Change, Object, Ref, Store};

/// A kind of object that an index may keep, and by what it finds one.
pub trait Kept: Packable {
    /// What an object is found by.
    type Key: Eq + Hash + Clone;
    /// The key of the object of that name.
    fn key_of(reference: &Ref) -> Self::Key;
    /// The object as it came, if it is of this kind.
    fn of(object: Object) -> Option<Arc<Self>>;
}

/// How an index keeps the objects of one kind: where, and what follows when one of them came, changed or went (from the old
/// one to the new one; the secondary keys follow, and the keys that became dirty are collected).
#[derive(Clone, Copy)]
pub struct Keep<T: Kept, I, D> {
    /// Where they are kept.
    pub store: fn(&mut I) -> &mut Store<T::Key, T>,
    /// What follows a change.
    pub changed: fn(&mut I, Option<&T>, Option<&T>, &mut D),
}

/// How a store takes in an object; what was there before, if it tells anything new now.
type Put<T> = fn(&mut Store<<T as Kept>::Key, T>, <T as Kept>::Key, Arc<T>) -> Option<Option<Arc<T>>>;

impl<T: Kept, I, D> Keep<T, I, D> {
    /// Takes in a change of the objects of this kind; what tells nothing new changes nothing.
    pub fn take_in(&self, index: &mut I, change: Change, dirty: &mut D) {
        match change {
            Change::Applied(object) => self.put(index, object, Store::put, dirty),
            Change::Deleted(object) => {
                let key = T::key_of(&object.reference());
                let Some(object) = T::of(object) else { return };
                let old = (self.store)(index).deleted(&key, &object);
                (self.changed)(index, old.as_deref(), None, dirty);
            }
            Change::Gone { reference, uid } => {
                let old = (self.store)(index).gone(&T::key_of(&reference), &uid);
                (self.changed)(index, old.as_deref(), None, dirty);
            }
            // Nothing came of it.
            Change::Refused { .. } => {}
            Change::ListBegins(_) => (self.store)(index).list_begins(),
            Change::InList(object) => self.put(index, object, Store::in_list, dirty),
            Change::Listed(_) => {
                for (key, object) in (self.store)(index).missing() {
                    let old = (self.store)(index).dropped(&key, &object);
                    (self.changed)(index, old.as_deref(), None, dirty);
                }
                for (key, new) in (self.store)(index).list_ends() {
                    if let Some(old) = (self.store)(index).put_listed(key, Arc::clone(&new)) {
                        (self.changed)(index, old.as_deref(), Some(&new), dirty);
                    }
                }
            }
        }
    }

    fn put(&self, index: &mut I, object: Object, put: Put<T>, dirty: &mut D) {
        let key = T::key_of(&object.reference());
        let Some(new) = T::of(object) else { return };
        if let Some(old) = put((self.store)(index), key, Arc::clone(&new)) {
            (self.changed)(index, old.as_deref(), Some(&new), dirty);
        }
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
