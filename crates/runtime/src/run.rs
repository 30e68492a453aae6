//! Everything together: feeds -> index -> queue -> decisions -> writes.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plan::{Brain, Change, Moment, Outcome, Plan};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, ListenError};
use crate::apply::{Absorb, Applier};
use crate::caches::Caches;
use crate::events::{Standing, Writer};
use crate::leader::{Elector, Ended, Leadership};
use crate::metrics::Metrics;
use crate::queue::{After, Queue};
use crate::secure::{CertificateError, Door};
use crate::{Feed, Settings};

/// How long plans in flight may take to end when the process is to stop.
const GRACE: Duration = Duration::from_secs(10);

/// The shortest wait before what the server refused is tried again.
const REFUSED: Duration = Duration::from_secs(1);

/// Why a controller ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An address for metrics or probes is taken.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The certificate of the metrics cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Another process leads now, or may.
    #[error(
        "lost lease {namespace}/{lease}: {why}; the process ends, and stands by when it is started again"
    )]
    LeaseLost {
        /// The lease's namespace.
        namespace: String,
        /// The lease's name.
        lease: String,
        /// What happened.
        why: String,
    },
    /// A task panicked: the index may be half written.
    #[error(
        "a task ended by itself: {0}; this is a bug, please report it with the log lines before this one"
    )]
    Bug(#[from] JoinError),
}

/// Runs a brain on a cluster until `settings.stop` is cancelled.
///
/// The feeds run from the start, so that a process that stands by has its caches warm; decisions begin when
/// every cache is complete and this process leads.
///
/// # Errors
/// When an address is taken, the lease is lost, or a task panics. Then the process must end.
pub async fn run<B: Brain>(brain: B, feeds: Vec<Feed>, settings: Settings) -> Result<(), RunError> {
    let metrics = Arc::new(Metrics::with(B::timers(), &settings.requests));
    metrics.may_work(settings.controller, settings.workers);
    let caches = Arc::new(Caches::new(feeds.iter().map(Feed::kind)));
    let probes = admin::probes(&settings.probe_address, Arc::clone(&caches)).await?;
    let leadership = if settings.leader_elect { Leadership::none() } else { Leadership::always() };
    let engine = Arc::new(Engine::new(brain, &settings, &leadership, &metrics, Arc::clone(&caches)));
    let scraped = Arc::clone(&engine);
    let door = Door::of(&settings.metrics_security, &settings.client).await?;
    let pages = admin::metrics(&settings.metrics_address, door, Arc::new(move || scraped.page())).await?;
    if !settings.leader_elect {
        metrics.leads(settings.controller, true);
    }

    // Ends with this function: what is left in it is aborted.
    let mut background: JoinSet<Infallible> = JoinSet::new();
    background.spawn(never(probes));
    background.spawn(never(pages));
    for feed in feeds {
        let (engine, client) = (Arc::clone(&engine), settings.client.clone());
        background.spawn(never(async move {
            feed.follow(client, move |change| engine.absorb(change)).await;
        }));
    }

    let leading = watch::Sender::new(!settings.leader_elect);
    let mut led = leading.subscribe();
    let give_up = CancellationToken::new();
    let elector = settings.leader_elect.then(|| {
        Elector::new(
            settings.client.clone(),
            &settings.namespace,
            settings.controller,
            &settings.instance,
            leadership,
            Arc::clone(&metrics),
        )
    });
    let mut election = tokio::spawn({
        let give_up = give_up.clone();
        async move {
            if let Some(elector) = elector {
                return elector.run(leading, give_up).await;
            }
            give_up.cancelled().await;
            Ended::Stopped
        }
    });

    let lost = |ended: Result<Ended, JoinError>| match ended {
        Ok(Ended::Lost(why)) => Err(RunError::LeaseLost {
            namespace: settings.namespace.clone(),
            lease: settings.controller.to_owned(),
            why,
        }),
        Ok(Ended::Stopped) => Ok(()),
        Err(error) => Err(RunError::Bug(error)),
    };
    let mut passes = JoinSet::new();
    let work = async {
        if led.wait_for(|leading| *leading).await.is_err() {
            // The election is over: the select below hears why.
            std::future::pending::<()>().await;
        }
        engine.caches.complete().await;
        engine.begin();
        engine.work(settings.workers, &mut passes).await
    };
    tokio::select! {
        biased;
        () = settings.stop.cancelled() => {}
        ended = &mut election => return lost(ended),
        Err(error) = work => return Err(error.into()),
        Some(Err(error)) = background.join_next() => return Err(error.into()),
    }

    tracing::info!(in_flight = passes.len(), "stopping");
    let finished = tokio::time::timeout(GRACE, async {
        tokio::select! {
            biased;
            ended = &mut election => Some(ended),
            () = async { while passes.join_next().await.is_some() {} } => None,
        }
    });
    match finished.await {
        Ok(Some(ended)) => return lost(ended),
        Ok(None) => {}
        Err(_) => {
            tracing::warn!(in_flight = passes.len(), "plans cut short after {} s", GRACE.as_secs());
            passes.shutdown().await;
        }
    }
    give_up.cancel();
    lost(election.await)
}

async fn never(future: impl Future<Output = ()>) -> Infallible {
    future.await;
    std::future::pending().await
}

/// A brain at work.
struct Engine<B: Brain> {
    controller: &'static str,
    brain: Mutex<B>,
    /// Whether what becomes dirty is queued; before that, all keys will be.
    deciding: AtomicBool,
    caches: Arc<Caches>,
    queue: Queue<B>,
    applier: Applier,
    standing: Standing<B::Key>,
    leadership: Leadership,
    metrics: Arc<Metrics>,
}

impl<B: Brain> Engine<B> {
    fn new(
        brain: B,
        settings: &Settings,
        leadership: &Leadership,
        metrics: &Arc<Metrics>,
        caches: Arc<Caches>,
    ) -> Self {
        let client = || settings.client.clone();
        let writer = Arc::new(Writer::new(
            client(),
            settings.controller,
            &settings.instance,
            leadership.clone(),
            Arc::clone(metrics),
        ));
        Self {
            controller: settings.controller,
            brain: Mutex::new(brain),
            deciding: AtomicBool::new(false),
            caches,
            queue: Queue::new(Arc::clone(metrics)),
            applier: Applier::new(
                client(),
                settings.controller,
                leadership.clone(),
                Arc::clone(metrics),
                Arc::clone(&writer),
            )
            .traced(settings.traces.clone()),
            standing: Standing::new(writer),
            leadership: leadership.clone(),
            metrics: Arc::clone(metrics),
        }
    }

    /// A panic while the brain was locked ends the process anyway.
    fn brain(&self) -> MutexGuard<'_, B> {
        self.brain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every cache is complete and this process leads: everything is looked at once, then what changes.
    fn begin(&self) {
        let keys = {
            let brain = self.brain();
            self.deciding.store(true, Ordering::Release);
            brain.keys()
        };
        tracing::info!(controller = self.controller, keys = keys.len(), "deciding");
        self.metrics.begin();
        self.standing.inherit(&keys);
        self.queue.add(keys);
    }

    /// The metrics, as of now. Two processes must not tell the same: only the one that leads says what there is.
    fn page(&self) -> String {
        let leads = self.deciding.load(Ordering::Acquire) && self.leadership.allows().is_some();
        let gauges = if leads { self.brain().gauges() } else { Vec::new() };
        self.metrics.text(gauges)
    }

    /// Works on keys until a pass panics.
    async fn work(
        self: &Arc<Self>,
        workers: usize,
        passes: &mut JoinSet<()>,
    ) -> Result<Infallible, JoinError> {
        loop {
            while passes.len() < workers
                && let Some(key) = self.queue.take()
            {
                let engine = Arc::clone(self);
                passes.spawn(async move { engine.pass(&key).await });
            }
            tokio::select! {
                Some(ended) = passes.join_next() => {
                    ended?;
                    while let Some(ended) = passes.try_join_next() {
                        ended?;
                    }
                }
                () = self.queue.changed(), if passes.len() < workers => {}
            }
        }
    }

    /// Decides about one key, and does it.
    async fn pass(&self, key: &B::Key) {
        let controller = B::controller(key);
        let started = Instant::now();
        let moment = Moment { now: jiff::Timestamp::now(), entropy: rand::random() };
        let Plan { actions, mut standing, again_after } = self.brain().decide(key, &moment);
        let outcome = self.applier.carry_out(actions, self).await;
        let freed = {
            let mut brain = self.brain();
            brain.settle(key);
            brain.freed()
        };
        self.queue.add(freed);
        let (after, result) = match outcome {
            Outcome::Done => {
                self.standing.tell(key, &standing).await;
                again_after.map_or((After::Rest, "success"), |delay| (After::In(delay), "requeue_after"))
            }
            Outcome::Stale(words) => {
                tracing::debug!(controller, %key, "decided anew: {words}");
                (After::Stale, "requeue")
            }
            Outcome::Refused { words, tell } => {
                self.complain(key, "refused", &words);
                standing.extend(tell);
                self.standing.tell(key, &standing).await;
                // It is refused for as long as nothing changes, and what changes wakes the key.
                (After::Error(REFUSED), "error")
            }
            Outcome::Failed { words, wait } => {
                self.complain(key, "failed", &words);
                (After::Error(wait), "error")
            }
        };
        self.metrics.ended(controller, result, started.elapsed());
        self.queue.done(key, after);
    }

    /// Says what went wrong: at first, and when it has gone wrong for a while.
    fn complain(&self, key: &B::Key, how: &str, words: &str) {
        let controller = B::controller(key);
        let errors = self.queue.errors(key);
        if errors == 0 || errors >= 10 {
            tracing::warn!(controller, %key, errors, "{how} (trying again): {words}");
        } else {
            tracing::debug!(controller, %key, errors, "{how} (trying again): {words}");
        }
    }
}

impl<B: Brain> Absorb for Engine<B> {
    fn absorb(&self, change: Change) {
        let listed = match &change {
            Change::Listed(kind) => Some(*kind),
            _ => None,
        };
        let (dirty, ended, deciding) = {
            let mut brain = self.brain();
            (brain.apply(change), brain.ended(), self.deciding.load(Ordering::Acquire))
        };
        if deciding {
            self.queue.add(dirty);
            self.metrics.measured(ended, jiff::Timestamp::now());
        }
        if let Some(kind) = listed {
            self.caches.listed(kind);
        }
    }
}

#[cfg(test)]
mod tests;
