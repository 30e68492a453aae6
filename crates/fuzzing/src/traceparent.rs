//! The `traceparent` that anybody may put on an object (contract §14; W3C Trace Context).

use plan::trace::Context;

/// The bytes as the text of the annotation.
pub fn hold(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Some(context) = Context::parse(text) else { return };
    assert_ne!(context.trace.bits(), 0, "{text:?}: a trace of no id");
    assert_ne!(context.span.bits(), 0, "{text:?}: a span of no id");
    let written = context.to_string();
    assert_eq!(Context::parse(&written), Some(context), "{text:?} is written as {written:?}");
    // What a later version has behind it, and flags that nobody knows yet, say nothing else.
    let same = text.trim().get(3..written.len() - 3);
    assert_eq!(same, written.get(3..written.len() - 3), "{text:?} is written as {written:?}");
}
