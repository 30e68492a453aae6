//! Objects at rest: as JSON, compressed against the texts that all of them have in common.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What can be packed and comes back as it was.
pub trait Packable: Serialize + DeserializeOwned + PartialEq {}

impl<T: Serialize + DeserializeOwned + PartialEq> Packable for T {}

/// What most objects say, in the order in which they say it. A text that is not here costs memory and nothing else.
const TEXTS: &[u8] = include_bytes!("texts.json");

/// An object at rest; `None` if it would not come back as it is.
pub(super) fn packed<T: Packable>(object: &T) -> Option<Box<[u8]>> {
    let text = serde_json::to_vec(object).ok()?;
    let packed = lz4_flex::block::compress_prepend_size_with_dict(&text, TEXTS).into_boxed_slice();
    // An address must not be lost by this: looked at once, when nobody waits for it, and never again.
    (unpack::<T>(&packed).as_ref() == Some(object)).then_some(packed)
}

/// The object as it was.
pub(super) fn unpacked<T: Packable>(packed: &[u8]) -> T {
    unpack(packed).unwrap_or_else(|| damaged())
}

fn unpack<T: Packable>(packed: &[u8]) -> Option<T> {
    let text = lz4_flex::block::decompress_size_prepended_with_dict(packed, TEXTS).ok()?;
    serde_json::from_slice(&text).ok()
}

/// What was packed was unpacked once to see that it can be. If it cannot any more, the memory of this process is
/// damaged, and nothing that it would decide is to be trusted: least of all that an address is not there.
pub(super) fn damaged() -> ! {
    std::process::abort()
}
