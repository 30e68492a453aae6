//! The ids of traces and spans, and how they are written on objects (W3C Trace Context).

use std::fmt;

use sha2::{Digest, Sha256};

/// The id of a trace; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(u128);

/// The id of a span; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(u64);

impl TraceId {
    /// The id as bits.
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// Reads 32 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let id = hex(text, 32)?;
        (id != 0).then_some(Self(id))
    }

    /// The id that these words always make.
    pub(crate) fn of(words: &[&str]) -> Self {
        let digest = digest(words);
        Self(digest.max(1))
    }
}

impl SpanId {
    /// The id as bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The id that these words always make.
    pub(crate) fn of(words: &[&str]) -> Self {
        let [bits, _] = halves(digest(words));
        Self(bits.max(1))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One span of one trace, and whether anybody records it: the value of a `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Context {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// Whether the trace is recorded.
    pub sampled: bool,
}

impl Context {
    /// Reads a `traceparent`. Anything that is none is nothing: what stands on an object may be anybody's.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let version = parts.next()?;
        let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
        let known = version == "00";
        // Later versions may have more behind it, and never are `ff`.
        if hex(version, 2)? == 0xff || (known && parts.next().is_some()) {
            return None;
        }
        let span = u64::try_from(hex(span, 16)?).ok().filter(|span| *span != 0)?;
        let sampled = hex(flags, 2)? & 1 == 1;
        Some(Self { trace: TraceId::parse(trace)?, span: SpanId(span), sampled })
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

/// Exactly so many lower-case hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let right = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    right.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

fn digest(words: &[&str]) -> u128 {
    let mut hash = Sha256::new();
    for word in words {
        hash.update(word.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte))
}

fn halves(bits: u128) -> [u64; 2] {
    [bits >> 64, bits & u128::from(u64::MAX)].map(|half| u64::try_from(half).unwrap_or(u64::MAX))
}
