//! The index that the feeds write and the pages read, and the clock by which pages are told of changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use crate::Scope;
use crate::world::{Digest, World};

/// Pages are told of changes at most so often.
const BEAT: Duration = Duration::from_secs(1);
/// The counts of so many scopes are kept.
const SCOPES: usize = 256;

/// The index, shared.
pub struct Live {
    world: RwLock<World>,
    /// The version that pages were told of last.
    told: watch::Sender<u64>,
    /// The counts that a scope sees: right for as long as nothing changes for it.
    digests: Mutex<HashMap<Scope, Arc<Digest>>>,
    /// Since when the API server does not answer.
    silent: RwLock<Option<Timestamp>>,
}

impl Live {
    /// Shares an index.
    pub fn new(world: World) -> Arc<Self> {
        let told = watch::Sender::new(world.version());
        Arc::new(Self {
            world: RwLock::new(world),
            told,
            digests: Mutex::default(),
            silent: RwLock::new(None),
        })
    }

    /// The index, to read. Never held across a wait.
    pub fn world(&self) -> RwLockReadGuard<'_, World> {
        self.world.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index, to write.
    pub fn edit(&self) -> RwLockWriteGuard<'_, World> {
        self.world.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counts for a scope, shared by all requests for as long as nothing changes for it.
    pub fn digest(&self, world: &World, scope: &Scope) -> Arc<Digest> {
        let kept = || self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = kept().get(scope).filter(|digest| digest.version == world.version_for(scope)) {
            return Arc::clone(digest);
        }
        let digest = Arc::new(Digest::of(world, scope));
        let mut kept = kept();
        if kept.len() >= SCOPES {
            kept.clear();
        }
        kept.insert(scope.clone(), Arc::clone(&digest));
        digest
    }

    /// Hears of each version that pages are to show.
    pub fn versions(&self) -> watch::Receiver<u64> {
        self.told.subscribe()
    }

    /// Tells the pages of changes, at most once a second, for ever.
    pub async fn beat(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(BEAT).await;
            let live = Arc::clone(self);
            // After a class or a pool changed, everything is counted anew, which takes a while. It cannot fail but by a
            // panic, which the next request would meet, too.
            let _counted = tokio::task::spawn_blocking(move || live.tell()).await;
        }
    }

    /// Tells the pages of what changed since they were told last.
    pub fn tell(&self) {
        let version = {
            let world = self.world();
            if world.version() == *self.told.borrow() {
                return;
            }
            // Made before anybody asks.
            self.digest(&world, &Scope::All);
            world.version()
        };
        self.told.send_if_modified(|told| std::mem::replace(told, version) != version);
    }

    /// The API server answers, or does not since that time.
    pub fn hear(&self, silent: Option<Timestamp>) {
        *self.silent.write().unwrap_or_else(PoisonError::into_inner) = silent;
    }

    /// Since when the API server does not answer.
    pub fn silent(&self) -> Option<Timestamp> {
        *self.silent.read().unwrap_or_else(PoisonError::into_inner)
    }
}
