//! Taking in changes.

use api::{IPAddress, IPAddressClaim, IPAddressClass};
use plan::{Change, Keep, Kind};

use super::{Dirty, Index};
use crate::Key;

const CLASSES: Keep<IPAddressClass, Index, Dirty> =
    Keep { store: |index| &mut index.classes, changed: Index::class_changed };
const ADDRESSES: Keep<IPAddress, Index, Dirty> =
    Keep { store: |index| &mut index.addresses, changed: Index::address_changed };
const CLAIMS: Keep<IPAddressClaim, Index, Dirty> =
    Keep { store: |index| &mut index.claims, changed: Index::claim_changed };

impl Index {
    /// Takes in a change and tells which keys it made dirty.
    pub fn apply(&mut self, change: Change) -> Vec<Key> {
        let mut dirty = std::mem::take(&mut self.freed);
        match change.kind() {
            Kind::Class => CLASSES.take_in(self, change, &mut dirty),
            Kind::Address => ADDRESSES.take_in(self, change, &mut dirty),
            Kind::Claim => CLAIMS.take_in(self, change, &mut dirty),
            // The core reads no other kinds.
            Kind::Service | Kind::Namespace | Kind::Event | Kind::Pool => {}
        }
        dirty.into_iter().collect()
    }
}
