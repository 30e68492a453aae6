//! The Lease of a controller, and a candidate for it, by the rules of the runtime's elector.

use super::env::{Env, Side};
use super::schedule::Millis;

const LEASE: Millis = 15_000;
const RENEW_DEADLINE: Millis = 10_000;
const RENEW_EVERY: Millis = 2_000;
const LOOK_EVERY: Millis = 1_000;

/// The object at the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lease {
    pub holder: Option<u64>,
    version: u64,
}

/// A write of the Lease on its way.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    at: Millis,
    version: u64,
    /// Whether it was done; none before it arrived.
    done: Option<bool>,
}

/// One candidate for one lease.
#[derive(Clone, Debug, Default)]
pub struct Elector {
    due: Millis,
    renewed: Option<Millis>,
    ours: Option<u64>,
    /// The version of another's lease, and since when it is seen unchanged.
    theirs: Option<(u64, Millis)>,
    attempt: Option<Attempt>,
}

impl Elector {
    /// How long a write that starts now may take; none if it must not start.
    pub fn allows(&self, env: &Env) -> Option<Millis> {
        let since = env.now() - self.renewed?;
        if env.elections_over {
            return Some(LEASE);
        }
        (since < RENEW_DEADLINE).then(|| LEASE - since)
    }

    pub fn leads(&self) -> bool {
        self.renewed.is_some()
    }

    pub fn is_answered(&self) -> bool {
        self.attempt.is_some_and(|attempt| attempt.done.is_some())
    }

    pub fn is_due(&self, now: Millis) -> bool {
        self.attempt.is_none() && self.due <= now
    }

    pub fn due(&self) -> Option<Millis> {
        self.attempt.is_none().then_some(self.due)
    }

    /// Whether a write of the Lease is on its way.
    pub fn is_sent(&self) -> bool {
        self.attempt.is_some_and(|attempt| attempt.done.is_none())
    }

    /// Looks at the lease, or renews it. Says whether it is lost.
    pub fn elect(&mut self, env: &mut Env, side: Side, identity: u64) -> bool {
        let now = env.now();
        if self.renewed.is_some_and(|renewed| now - renewed >= RENEW_DEADLINE) {
            return true;
        }
        let lease = *env.lease(side);
        let version = if let Some(version) = self.ours.take() {
            version
        } else {
            if lease.holder.is_some_and(|holder| holder != identity) {
                let since = match self.theirs {
                    Some((version, since)) if version == lease.version => since,
                    _ => now,
                };
                self.theirs = Some((lease.version, since));
                if now - since < LEASE {
                    self.due = now + LOOK_EVERY;
                    return self.renewed.is_some();
                }
            }
            lease.version
        };
        self.attempt = Some(Attempt { at: now, version, done: None });
        false
    }

    /// The write arrives at the server.
    pub fn arrive(&mut self, env: &mut Env, side: Side, identity: u64) {
        let Some(attempt) = &mut self.attempt else { return };
        let lease = env.lease(side);
        let fresh = lease.version == attempt.version;
        if fresh {
            *lease = Lease { holder: Some(identity), version: lease.version + 1 };
        }
        attempt.done = Some(fresh);
    }

    /// The answer arrives. Says whether leadership begins.
    pub fn elected(&mut self, env: &mut Env) -> bool {
        let Some(attempt) = self.attempt.take() else { return false };
        if attempt.done != Some(true) {
            self.due = env.now() + if self.leads() { RENEW_EVERY } else { LOOK_EVERY };
            return false;
        }
        let begins = self.renewed.is_none();
        self.renewed = Some(attempt.at);
        self.ours = Some(attempt.version + 1);
        self.due = env.now() + RENEW_EVERY;
        begins
    }
}
