//! What befalls a process, or the world, in the middle of a write.

use std::time::{Duration, Instant};

use devcluster::Process;
use devcluster::proxy::{Proxy, Rule};
use tokio::sync::watch;

use super::wait::WITHIN;

/// Something that is to happen.
pub struct Struck(watch::Receiver<Option<Instant>>);

impl Struck {
    /// Waits until it has happened, and says when that was.
    pub async fn came(&mut self) -> Instant {
        self.came_within(WITHIN).await
    }

    /// The same, for whoever is slower.
    pub async fn came_within(&mut self, within: Duration) -> Instant {
        let seen = tokio::time::timeout(within, self.0.wait_for(Option::is_some)).await;
        seen.unwrap().unwrap().unwrap()
    }
}

/// Does something once the writes from now on have been answered so many times, before whoever wrote hears the last answer.
pub fn amid<F>(proxy: &Proxy, writes: u64, fault: impl Fn() -> F + Send + Sync + 'static) -> Struck
where
    F: Future<Output = ()> + Send + 'static,
{
    let (tell, struck) = watch::channel(None);
    let rule = Rule::write(writes).after(move |_| {
        let (fault, tell) = (fault(), tell.clone());
        async move {
            fault.await;
            tell.send_replace(Some(Instant::now()));
        }
    });
    proxy.begin_with([rule]);
    Struck(struck)
}

/// Freezes a process at such a moment.
pub fn frozen_amid(proxy: &Proxy, writes: u64, victim: &Process) -> Struck {
    let victim = victim.clone();
    amid(proxy, writes, move || {
        let victim = victim.clone();
        async move { victim.pause().unwrap() }
    })
}
