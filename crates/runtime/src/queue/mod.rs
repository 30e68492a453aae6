//! The queue: keys that wait to be decided about, with metrics, for tasks to take from.

mod schedule;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plan::Brain;
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) use schedule::After;
use schedule::Schedule;

use crate::metrics::Metrics;

/// The keys of one brain.
pub(crate) struct Queue<B: Brain> {
    schedule: Mutex<Schedule<B::Key>>,
    news: Notify,
    metrics: Arc<Metrics>,
}

impl<B: Brain> Queue<B> {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { schedule: Mutex::new(Schedule::new(B::lane)), news: Notify::new(), metrics }
    }

    /// Asks for work on keys.
    pub(crate) fn add(&self, keys: Vec<B::Key>) {
        if keys.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut schedule = self.lock();
        let mut news = false;
        for key in keys {
            let controller = B::controller(&key);
            if schedule.add(key, now) {
                self.metrics.queued(controller);
                news = true;
            }
        }
        drop(schedule);
        if news {
            self.news.notify_one();
        }
    }

    /// The next key to work on.
    pub(crate) fn take(&self) -> Option<B::Key> {
        let now = Instant::now();
        let mut schedule = self.lock();
        for key in schedule.promote(now) {
            self.metrics.queued(B::controller(&key));
        }
        let (key, since) = schedule.take()?;
        self.metrics.taken(B::controller(&key), now.duration_since(since));
        Some(key)
    }

    /// The work on a key ended.
    pub(crate) fn done(&self, key: &B::Key, after: After) {
        let controller = B::controller(key);
        let mut schedule = self.lock();
        if schedule.done(key, after, Instant::now()) {
            self.metrics.queued(controller);
        }
        drop(schedule);
        if matches!(after, After::Stale | After::Error(_)) {
            self.metrics.retried(controller);
        }
        // A shorter delay than the one slept on may have come, or a key that waits already.
        self.news.notify_one();
    }

    /// How often work on this key went wrong since it last went well.
    pub(crate) fn errors(&self, key: &B::Key) -> u32 {
        self.lock().errors(key)
    }

    /// Waits until there may be a key to take: something was added, or a delay is over.
    pub(crate) async fn changed(&self) {
        let due = self.lock().next_due();
        match due {
            Some(at) => {
                tokio::select! {
                    () = self.news.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                }
            }
            None => self.news.notified().await,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Schedule<B::Key>> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
