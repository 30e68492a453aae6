//! When MetalLB has nothing to do.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// So long MetalLB writes no line of log before it counts as at rest; throttled, it writes about 20 a second.
const QUIET: Duration = Duration::from_secs(3);
/// How often its log is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long it may be at work: throttled, 1,000 holds keep it so for minutes.
const WITHIN: Duration = Duration::from_secs(1800);

/// Tells by MetalLB's log whether it is at work: it has a line for each Service it looks at, and no metric for it.
pub(super) struct Rest {
    log: PathBuf,
}

impl Rest {
    /// By this log of MetalLB.
    pub(super) fn of(log: PathBuf) -> Self {
        Self { log }
    }

    /// Waits until it is at rest; returns for how long from `begun` it was at work.
    pub(super) async fn wait(&self, begun: Instant) -> Result<Duration> {
        let (mut length, mut last, mut busy) = (self.length()?, Instant::now(), Duration::ZERO);
        while last.elapsed() < QUIET {
            if begun.elapsed() > WITHIN {
                bail!("MetalLB was still at work after {} s", WITHIN.as_secs());
            }
            tokio::time::sleep(LOOK).await;
            let now = self.length()?;
            if now != length {
                (length, last, busy) = (now, Instant::now(), begun.elapsed());
            }
        }
        Ok(busy)
    }

    fn length(&self) -> Result<u64> {
        let metadata = std::fs::metadata(&self.log).context("looking at MetalLB's log")?;
        Ok(metadata.len())
    }
}
