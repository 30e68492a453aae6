//! Leader election by a Lease, as client-go does it.
//!
//! Two rules make it safe, and are why this is written here: another's lease is taken only after it was
//! *seen unchanged* for its whole duration by our own monotonic clock (clocks of two nodes are never
//! compared), and every write of the Lease carries the resourceVersion it was decided on. And one makes it
//! honest: [`Leadership`] is asked before each write, so that a process that was stopped, and wakes when its
//! lease is long another's, writes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::explain::with_causes;
use crate::metrics::Metrics;

/// A lease that was not renewed for so long may be taken.
const LEASE_SECONDS: i32 = 15;
const LEASE: Duration = Duration::from_secs(15);
/// Who could not renew for so long leads no more.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// Shorter than the renewal: a lease that was let go is taken at once.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const CALL: Duration = Duration::from_secs(5);

/// Whether this process may write, at this moment.
#[derive(Clone, Debug)]
pub struct Leadership(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    born: Instant,
    /// Milliseconds from `born` to the last renewal; `NEVER` or `ALWAYS`.
    renewed: AtomicU64,
}

const NEVER: u64 = u64::MAX;
const ALWAYS: u64 = u64::MAX - 1;

impl Leadership {
    /// For a process that takes part in no election.
    pub fn always() -> Self {
        Self::with(ALWAYS)
    }

    /// For a process that has yet to win one.
    pub fn none() -> Self {
        Self::with(NEVER)
    }

    fn with(renewed: u64) -> Self {
        Self(Arc::new(Inner { born: Instant::now(), renewed: AtomicU64::new(renewed) }))
    }

    /// How long a write that starts now may take; `None` if it must not start.
    pub fn allows(&self) -> Option<Duration> {
        match self.0.renewed.load(Ordering::Acquire) {
            NEVER => None,
            ALWAYS => Some(Duration::MAX),
            millis => {
                let since = (self.0.born + Duration::from_millis(millis)).elapsed();
                (since < RENEW_DEADLINE).then(|| LEASE.saturating_sub(since))
            }
        }
    }

    /// How long a renewal may still take, before no write starts any more.
    fn left(&self) -> Duration {
        self.allows().map_or(Duration::ZERO, |left| left.saturating_sub(LEASE.abs_diff(RENEW_DEADLINE)))
    }

    fn renewed(&self, at: Instant) {
        let millis = at.saturating_duration_since(self.0.born).as_millis();
        self.0.renewed.store(u64::try_from(millis).unwrap_or(NEVER), Ordering::Release);
    }

    fn over(&self) {
        self.0.renewed.store(NEVER, Ordering::Release);
    }
}

/// Whether somebody has this lease and renews it: who. Waits until it is renewed, let go, or has run out before our eyes
/// (clocks are not compared).
pub(crate) async fn renewed_by(api: &Api<Lease>, lease: Lease) -> kube::Result<Option<String>> {
    let began = Instant::now();
    let name = lease.metadata.name.clone().unwrap_or_default();
    let mut now = Some(lease.clone());
    loop {
        let Some(spec) = now.as_ref().and_then(|lease| lease.spec.as_ref()) else { return Ok(None) };
        let Some(holder) = spec.holder_identity.clone().filter(|holder| !holder.is_empty()) else {
            return Ok(None);
        };
        if now.as_ref().and_then(|lease| lease.metadata.resource_version.as_ref())
            != lease.metadata.resource_version.as_ref()
        {
            return Ok(Some(holder));
        }
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(LEASE_SECONDS)).unwrap_or(0);
        if began.elapsed() >= Duration::from_secs(seconds) {
            return Ok(None);
        }
        sleep(LOOK_EVERY / 2).await;
        now = api.get_opt(&name).await?;
    }
}

/// How an election ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// We were asked to stop; the lease, if it was ours, is free.
    Stopped,
    /// The lease is lost, and why.
    Lost(String),
}

/// What one look at the lease, or one renewal, showed.
enum Seen {
    Ours,
    Theirs(String),
    Raced,
}

/// One candidate for one lease.
pub(crate) struct Elector {
    api: Api<Lease>,
    name: String,
    identity: String,
    leadership: Leadership,
    metrics: Arc<Metrics>,
    /// The lease as we wrote it last; kept only while it is ours.
    ours: Option<Lease>,
    /// The version of another's lease, and since when we see it unchanged.
    theirs: Option<(String, Instant)>,
}

impl Elector {
    pub(crate) fn new(
        client: Client,
        namespace: &str,
        name: &str,
        instance: &str,
        leadership: Leadership,
        metrics: Arc<Metrics>,
    ) -> Self {
        metrics.leads(name, false);
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: format!("{instance}_{:016x}", rand::random::<u64>()),
            leadership,
            metrics,
            ours: None,
            theirs: None,
        }
    }

    /// Takes part until the lease is lost or `stop` is cancelled. Says in `leading` when it is won.
    pub(crate) async fn run(mut self, leading: watch::Sender<bool>, stop: CancellationToken) -> Ended {
        if !self.acquire(&stop).await {
            return Ended::Stopped;
        }
        tracing::info!(lease = self.name, identity = self.identity, "leading");
        self.metrics.leads(&self.name, true);
        leading.send_replace(true);
        let ended = self.hold(&stop).await;
        self.leadership.over();
        self.metrics.leads(&self.name, false);
        if ended == Ended::Stopped {
            self.release().await;
        }
        ended
    }

    /// Whether the lease is ours; not if `stop` came first.
    async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        let mut told = String::new();
        loop {
            let sent = Instant::now();
            let news = match timeout(CALL, self.attempt()).await {
                Ok(Ok(Seen::Ours)) => {
                    self.leadership.renewed(sent);
                    self.tell_takeover();
                    return true;
                }
                Ok(Ok(Seen::Theirs(holder))) => format!("standing by: lease {} is {holder}'s", self.name),
                Ok(Ok(Seen::Raced)) => String::new(),
                Ok(Err(error)) => {
                    format!("cannot take lease {} (trying again): {}", self.name, with_causes(&error))
                }
                Err(_) => format!(
                    "cannot take lease {} (trying again): no answer in {} s",
                    self.name,
                    CALL.as_secs()
                ),
            };
            if !news.is_empty() && news != told {
                tracing::info!(lease = self.name, "{news}");
                told = news;
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Who let go of the lease left it without a holder. Another's that ran out was lost: whoever had it died, or could not
    /// renew it. The one that lost it cannot tell any more, so its successor does.
    fn tell_takeover(&self) {
        if self.theirs.is_some() {
            self.metrics.took_over(&self.name, jiff::Timestamp::now());
        }
    }

    async fn hold(&mut self, stop: &CancellationToken) -> Ended {
        let mut trouble = String::from("this process was stopped, or too busy");
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ended::Stopped,
                () = sleep(RENEW_EVERY.min(self.leadership.left())) => {}
            }
            let sent = Instant::now();
            let left = self.leadership.left();
            if left.is_zero() {
                return Ended::Lost(format!("not renewed for {} s: {trouble}", RENEW_DEADLINE.as_secs()));
            }
            match timeout(CALL.min(left), self.attempt()).await {
                Ok(Ok(Seen::Ours)) => self.leadership.renewed(sent),
                Ok(Ok(Seen::Theirs(holder))) => return Ended::Lost(format!("{holder} has taken it")),
                Ok(Ok(Seen::Raced)) => "somebody else wrote it".clone_into(&mut trouble),
                Ok(Err(error)) => trouble = with_causes(&error),
                Err(_) => "the API server does not answer".clone_into(&mut trouble),
            }
        }
    }

    /// Takes or renews the lease, if nobody else has it.
    async fn attempt(&mut self) -> kube::Result<Seen> {
        let known = match self.ours.take() {
            Some(lease) => Some(lease),
            None => self.api.get_opt(&self.name).await?,
        };
        let written = match known {
            None => self.api.create(&PostParams::default(), &self.wanted(None)).await,
            Some(lease) => {
                if let Some(holder) = self.holder_in_force(&lease) {
                    return Ok(Seen::Theirs(holder));
                }
                self.patch(&self.wanted(Some(&lease))).await
            }
        };
        match written {
            Ok(lease) => {
                self.ours = Some(lease);
                Ok(Seen::Ours)
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                tracing::debug!(lease = self.name, "raced: {}", status.message);
                if status.code == 404 && status.message.contains("namespaces") {
                    return Err(kube::Error::Api(status));
                }
                Ok(Seen::Raced)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the spec, if the Lease still has the resourceVersion it was decided on.
    async fn patch(&self, lease: &Lease) -> kube::Result<Lease> {
        let body = serde_json::json!({
            "metadata": { "resourceVersion": lease.metadata.resource_version },
            "spec": lease.spec,
        });
        self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(body)).await
    }

    /// Who else has the lease, unless it ran out before our eyes.
    fn holder_in_force(&mut self, lease: &Lease) -> Option<String> {
        let spec = lease.spec.as_ref()?;
        let holder =
            spec.holder_identity.clone().filter(|holder| !holder.is_empty() && *holder != self.identity);
        let Some(holder) = holder else {
            self.theirs = None;
            return None;
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let now = Instant::now();
        let since = match &self.theirs {
            Some((known, since)) if *known == version => *since,
            _ => {
                self.theirs = Some((version, now));
                now
            }
        };
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(LEASE_SECONDS)).unwrap_or(0);
        (now.duration_since(since) < Duration::from_secs(seconds)).then_some(holder)
    }

    fn wanted(&self, known: Option<&Lease>) -> Lease {
        let now = MicroTime(jiff::Timestamp::now());
        let old = known.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let renews = old.holder_identity.as_ref() == Some(&self.identity);
        let transitions = old.lease_transitions.unwrap_or(0);
        Lease {
            metadata: known.map_or_else(
                || ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                |lease| lease.metadata.clone(),
            ),
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: Some(LEASE_SECONDS),
                acquire_time: old.acquire_time.filter(|_| renews).or_else(|| Some(now.clone())),
                renew_time: Some(now),
                lease_transitions: Some(transitions + i32::from(known.is_some() && !renews)),
                ..LeaseSpec::default()
            }),
        }
    }

    /// Lets go of the lease, so that the successor need not wait for it to run out.
    async fn release(&mut self) {
        let Some(mut lease) = self.ours.take() else { return };
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(jiff::Timestamp::now()));
        }
        match timeout(CALL, self.patch(&lease)).await {
            Ok(Ok(_)) => tracing::info!(lease = self.name, "released"),
            Ok(Err(error)) => tracing::warn!(lease = self.name, "not released: {}", with_causes(&error)),
            Err(_) => tracing::warn!(lease = self.name, "not released: no answer in {} s", CALL.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests;
