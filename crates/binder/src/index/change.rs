//! Taking in changes.

use api::{AddressName, ClaimKey, IPAddress, IPAddressClaim, IPAddressClass};
use plan::{Change, Keep, Kind, Store, take_in};

use super::{Dirty, Index};
use crate::Key;

impl Index {
    /// Takes in a change and tells which keys it made dirty.
    pub fn apply(&mut self, change: Change) -> Vec<Key> {
        let mut dirty = std::mem::take(&mut self.freed);
        match change.kind() {
            Kind::Class => take_in::<IPAddressClass, _>(self, change, &mut dirty),
            Kind::Address => take_in::<IPAddress, _>(self, change, &mut dirty),
            Kind::Claim => take_in::<IPAddressClaim, _>(self, change, &mut dirty),
            // The core reads no other kinds.
            Kind::Service | Kind::Namespace | Kind::Event | Kind::Pool => {}
        }
        dirty.into_iter().collect()
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
