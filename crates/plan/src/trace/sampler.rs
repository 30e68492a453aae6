//! Which operations are traced: the samplers of `OTEL_TRACES_SAMPLER`.

use super::TraceId;

/// Decides whether a trace is recorded. By the trace's id alone, so that every process that is told the same decides
/// the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampler {
    /// All of them.
    Always,
    /// None.
    Never,
    /// This share of them.
    Ratio(f64),
    /// As the parent says; without one, by the share.
    ParentBased(f64),
}

impl Sampler {
    /// Whether the trace is recorded; `parent` is what the span above it says, if there is one.
    pub fn admits(self, trace: TraceId, parent: Option<bool>) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Ratio(share) => is_in_share(trace, share),
            Self::ParentBased(share) => parent.unwrap_or_else(|| is_in_share(trace, share)),
        }
    }
}

/// As the SDKs of OpenTelemetry count: by the lower 63 bits.
fn is_in_share(trace: TraceId, share: f64) -> bool {
    const ALL: u64 = 1 << 63;
    let low = u64::try_from(trace.bits() & u128::from(u64::MAX)).unwrap_or(u64::MAX) >> 1;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of 2^63 in whole numbers; the share is neither negative nor above 1 here"
    )]
    let bound = (share.clamp(0.0, 1.0) * ALL as f64) as u64;
    low < bound
}
