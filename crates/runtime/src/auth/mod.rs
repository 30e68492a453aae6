//! Whose a token of the cluster is and what they may, by the word of the API server, which is kept for a short time.

mod memory;
mod review;

use http::{HeaderMap, header};

pub use memory::{Digested, Memory, Slot, digest};
pub use review::{Access, Denied, may, owner};

/// A token longer than this is none.
const LONGEST: usize = 16 * 1024;

/// The token that a request brings in its header `Authorization`.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether a text may be a token: nobody is asked about what cannot.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic())
}
